"""``answer = "wait"`` and ``"save"``: the unsaved changes reach the disk first, then the agent's call goes on. Off
the hot path.
"""

from __future__ import annotations

import os
import time

from drawbridge.agents.catalog import title
from drawbridge.guard import ask, rule
from drawbridge.guard.kept import base_names, kept_by, notify

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drawbridge.guard.calls import Call
    from drawbridge.guard.kept import Kept
    from drawbridge.guard.settings import Settings

LOOK_EVERY = 0.1
"""Seconds."""

SAVE_DEADLINE = 2_500
"""Milliseconds for all files together, since the agent does not wait for ever; a save may format the file first."""


def first(call: Call, kept: list[Kept], settings: Settings) -> tuple[str, str]:
    """What the agent should know now that it is saved, else "" and why it is not."""
    if settings["answer"] == "save":
        return _save(kept)
    return _wait(call, kept, settings)


def _save(kept: list[Kept]) -> tuple[str, str]:
    until = time.monotonic() + SAVE_DEADLINE / 1000
    for one in kept:
        left = max(int((until - time.monotonic()) * 1000), 0)
        answers = ask.ask([one.socket], "save_buffer", {"file_path": one.name}, left)
        result = answers[0].result if answers else None
        if not isinstance(result, dict) or result.get("saved") is not True:
            why = (result.get("reason") if isinstance(result, dict) else None) or "no answer"
            return "", f"{one.editor} could not save {base_names([one.name])}: {why}."
    return _news(kept), ""


def _wait(call: Call, kept: list[Kept], settings: Settings) -> tuple[str, str]:
    seconds = settings["wait"]
    notice = f"{title(call.agent)} waits {seconds} s for you to save {base_names(one.name for one in kept)}"
    sockets, names = list(dict.fromkeys(one.socket for one in kept)), list(dict.fromkeys(one.name for one in kept))
    before = {name: _stamp(name) for name in names}
    notify(sockets, notice)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(LOOK_EVERY)
        # Saved, not only left for another window, whatever the policy says.
        answers = rule.snapshot(sockets, names, settings)
        if not kept_by(answers, "any") and all(found.result is not None for found in answers):
            there = {found.path for found in answers}
            for one in kept:
                # Where it has crashed its swap file needs the file as it is.
                if one.found.path not in there and _stamp(one.name) == before[one.name]:
                    return "", f"{one.editor} was closed without saving."
            return _news(kept), ""
    return "", f"It was not saved within {seconds} s."


def _stamp(path: str) -> tuple[int, int, int] | None:
    """What a save changes; None where there is no file."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _news(kept: list[Kept]) -> str:
    return (
        f"The person's unsaved changes to {base_names(one.name for one in kept)} were saved just before this call: "
        "what was read earlier may be older than what is on disk now."
    )
