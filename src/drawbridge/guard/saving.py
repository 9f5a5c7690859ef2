"""``answer = "wait"`` and ``"save"``: the unsaved changes are saved first, then the agent's call continues. This module
is not on the hot path."""

from __future__ import annotations

import os
import time

from drawbridge.agents.catalog import title
from drawbridge.guard import ask, rule
from drawbridge.guard.unsaved import base_names, notify, protected_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drawbridge.guard.calls import Call
    from drawbridge.guard.settings import Settings
    from drawbridge.guard.unsaved import UnsavedFile

POLL_INTERVAL = 0.1
"""Seconds between two checks of whether the files have been saved."""

SAVE_DEADLINE = 2_500
"""Milliseconds for all files together. A save may format the file first."""


def wait_or_save(call: Call, protected: list[UnsavedFile], settings: Settings) -> tuple[str, str]:
    """Returns context for the agent and "" once no file has unsaved changes; otherwise "" and the reason."""
    if settings["answer"] == "save":
        return _save(protected)
    return _wait(call, protected, settings)


def _save(protected: list[UnsavedFile]) -> tuple[str, str]:
    until = time.monotonic() + SAVE_DEADLINE / 1000
    for one in protected:
        left = max(int((until - time.monotonic()) * 1000), 0)
        answers = ask.ask([one.socket], "save_buffer", {"file_path": one.name}, left)
        result = answers[0].result if answers else None
        if not isinstance(result, dict) or result.get("saved") is not True:
            why = (result.get("reason") if isinstance(result, dict) else None) or "the editor gave no reason"
            if not answers:
                why = "it is no longer running"
            elif result is None:
                why = f"it {answers[0].problem or 'did not answer in time'}"
            return "", f"{one.editor} could not save {base_names([one.name])}: {why}."
    return _news(protected, "saved"), ""


def _wait(call: Call, protected: list[UnsavedFile], settings: Settings) -> tuple[str, str]:
    seconds = settings["wait"]
    notice = (
        f"{title(call.agent)} is waiting up to {seconds} s for you to save {base_names(one.name for one in protected)}"
    )
    sockets, names = (
        list(dict.fromkeys(one.socket for one in protected)),
        list(dict.fromkeys(one.name for one in protected)),
    )
    before = {name: _stamp(name) for name in names}
    notify(sockets, notice)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(POLL_INTERVAL)
        # The file has to be saved. It is not enough that it is no longer current or visible, whatever the policy is.
        answers = rule.snapshot(sockets, names, settings)
        if not protected_in(answers, "any") and all(found.result is not None for found in answers):
            there = {found.path for found in answers}
            for one in protected:
                # After a crash the swap file can be recovered only if the file is unchanged.
                if one.found.path not in there and _stamp(one.name) == before[one.name]:
                    return "", f"{one.editor} was closed without saving."
            # With `:edit!`, for example, the user discards the changes.
            return _news(protected, "saved or discarded"), ""
    return "", f"The changes were not saved within {seconds} s."


def _stamp(path: str) -> tuple[int, int, int] | None:
    """Properties of the file that a save changes; None if it does not exist or can't be examined."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _news(protected: list[UnsavedFile], what: str) -> str:
    return (
        f"The user's unsaved changes to {base_names(one.name for one in protected)} were {what} just before this call: "
        "what was read earlier may be older than what is on disk now."
    )
