"""Finds what a test leaves behind: threads and, on Linux only, other processes and this process's open sockets, pipes
and event queues.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
PROC = Path("/proc")

GRACE = 20.0
"""Seconds that threads, processes and asyncio tasks may take to end after a test."""


class Snapshot:
    """The threads, open files and processes at the time of its creation. ``new`` returns those that were added since
    then and still exist.
    """

    def __init__(self) -> None:
        self._threads = set(threading.enumerate())
        self._files = _open_files()
        self._newest_pid = _newest_pid()
        self._pids = _pids()

    def new(self, places: Sequence[str]) -> list[str]:
        """Returns a line for each leftover. Kills leftover processes: new ones with one of the directories in
        ``places`` in their environment or command line.
        """
        lines = [f"process {name}" for name in self._processes(places)]
        lines += [f"thread {thread.name}" for thread in _what_stays(lambda: set(threading.enumerate()) - self._threads)]
        if _open_files() - self._files:
            gc.collect()
            lines += [f"open file {file}" for file in sorted(_open_files() - self._files)]
        return lines

    def _processes(self, places: Sequence[str]) -> list[str]:
        if _newest_pid() == self._newest_pid:  # no process was started in the meantime, not even by another program
            return []
        left = _what_stays(lambda: {pid for pid in _pids() - self._pids if _is_in(places, pid)})
        names = [f"{pid} ({_read(pid, 'cmdline').replace(chr(0), ' ')[:100].strip()})" for pid in sorted(left)]
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return names


def _what_stays(find: Callable[[], set[T]]) -> set[T]:
    """Calls ``find`` until it finds nothing, for up to ``GRACE`` seconds. Returns what it found last."""
    end = time.monotonic() + GRACE
    while (found := find()) and time.monotonic() < end:
        time.sleep(0.01)
    return found


def _pids() -> set[int]:
    """Returns the IDs of all processes, but nothing on a machine without ``/proc``."""
    try:
        return {int(name) for name in os.listdir(PROC) if name.isdigit()}
    except OSError:
        return set()


def _is_in(places: Sequence[str], pid: int) -> bool:
    """Returns whether the process has one of the directories in its environment or command line."""
    text = _read(pid, "environ") + _read(pid, "cmdline")
    return any(place in text for place in places)


def _read(pid: int, what: str) -> str:
    try:
        return (PROC / str(pid) / what).read_text(errors="replace")
    except OSError:  # the process has ended, or belongs to another user
        return ""


def _newest_pid() -> int:
    """Returns the most recently assigned process ID, or 0 if it is unknown."""
    try:
        return int((PROC / "loadavg").read_text().split()[-1])
    except OSError:
        return 0


def _open_files() -> set[str]:
    """Returns the open sockets, pipes and event queues of this process. Regular files are left out, because pytest and
    Hypothesis open some.
    """
    found = set()
    with contextlib.suppress(OSError):
        for entry in os.scandir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                target = os.readlink(entry.path)
                if target.startswith(("socket:", "pipe:", "anon_inode:")):
                    found.add(f"{entry.name} -> {target}")
    return found
