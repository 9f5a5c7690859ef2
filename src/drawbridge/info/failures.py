"""Counts the recent failures of the guard in its log, because an agent's terminal does not show failures."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Final

from drawbridge.agents.catalog import title

SECONDS: Final = 24 * 60 * 60

LATEST: Final = 65_536
"""The number of bytes at the end of the log that are read."""

FAILED: Final = re.compile(
    r"(?m)^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (\w+): failed \((open|closed)\): (.*?)(?:; input begins .*)?$"
)
"""Matches a line that was logged by ``guard.failure``, or by a stub with a damaged copy of the guard."""


def problems(named: str | None) -> list[str]:
    """A list with one text if the guard failed within the last day, otherwise an empty list. ``named``: the log file in
    the settings; None for the default one."""
    path = named or log_file()
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - LATEST))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time.time() - SECONDS))
    found = [failure for failure in FAILED.findall(text) if failure[0] >= since]
    if not found:
        return []
    when, agent, how, what = found[-1]
    often = "once in the last day," if len(found) == 1 else f"{len(found)} times in the last day, most recently"
    then = "It let the call through." if how == "open" else "It denied the call, if that was still possible."
    return [
        f"The guard failed {often} at {when[11:16]} for {title(agent)}: {what.removesuffix('.')}. {then} "
        f"{path} has the details."
    ]


def log_file() -> str:
    """The guard's default log file, which may not exist."""
    base = os.environ.get("XDG_STATE_HOME", "")
    return os.path.join(base if base.startswith("/") else Path.home() / ".local" / "state", "drawbridge", "guard.log")
