"""The process tree of an agent, found and ended without its supervisor. Blocking.

The processes of the tree are recognized by the agent's process group and session, by their parents, and by the mark in
their environment. Even a process that has its own session and has lost its parent, such as a background command of
Claude Code, has the mark.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from typing import Final

import psutil

END_SECONDS: Final = 3.0
"""The maximum number of seconds to wait for killed processes. Only a process that hangs in the kernel, or that belongs
to another user, takes longer."""

SWEEP_SECONDS: Final = 0.01


def members(leader: int, mark: str) -> list[psutil.Process]:
    """The living processes of the tree, except this process. ``leader``: the agent's process id. ``mark``: the mark as
    ``NAME=value``."""
    found = []
    for pid in psutil.pids():
        with contextlib.suppress(psutil.Error, OSError):
            if pid != os.getpid() and _belongs(pid, leader, mark):
                found.append(psutil.Process(pid))
    return with_descendants(found)


def with_descendants(found: list[psutil.Process]) -> list[psutil.Process]:
    """The processes in ``found`` that are still alive, and the living descendants of ``found``."""
    known = {process.pid: process for process in found}
    for process in found:
        with contextlib.suppress(psutil.Error):
            known |= {child.pid: child for child in process.children(recursive=True)}
    return [process for process in known.values() if _lives(process)]


def end(leader: int, mark: str) -> list[int]:
    """Kills all processes of the tree, and returns the ids of any that are left (usually none). Never calls ``wait``,
    because the event loop collects the leader's exit code."""
    return end_all(lambda: members(leader, mark))


def end_all(find: Callable[[], list[psutil.Process]]) -> list[int]:
    """Kills everything that ``find`` returns, including processes that are started in the meantime. All are stopped
    first, so that none can start another one between the search and the kill. Returns the ids of any that are left.
    """
    deadline = time.monotonic() + END_SECONDS
    while (alive := find()) and time.monotonic() < deadline:
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for process in alive:
                with contextlib.suppress(psutil.Error):
                    process.send_signal(number)
        time.sleep(SWEEP_SECONDS)
    return [process.pid for process in alive]


def _belongs(pid: int, leader: int, mark: str) -> bool:
    if leader in (os.getpgid(pid), os.getsid(pid)):
        return True
    name, _, value = mark.partition("=")
    return psutil.Process(pid).environ().get(name) == value


def _lives(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False
