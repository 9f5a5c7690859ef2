"""The process tree of an agent, found and ended without its supervisor. Blocking: not from the event loop's thread.

They are known by the agent's process group and session, by their parents, and by the mark in their environment, which
also those keep that have a session of their own and have lost their parents (as the CLI's background commands do).
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
"""How long the dead are waited for; only a process that hangs in the kernel takes longer."""

LOOK_SECONDS: Final = 0.01


def members(leader: int, mark: str) -> list[psutil.Process]:
    """Those that live. ``mark``: ``NAME=value``."""
    found = []
    for pid in psutil.pids():
        with contextlib.suppress(psutil.Error, OSError):
            if pid != os.getpid() and _belongs(pid, leader, mark):
                found.append(psutil.Process(pid))
    return with_descendants(found)


def with_descendants(found: list[psutil.Process]) -> list[psutil.Process]:
    """The same and all that they have started, as far as they live."""
    known = {process.pid: process for process in found}
    for process in found:
        with contextlib.suppress(psutil.Error):
            known |= {child.pid: child for child in process.children(recursive=True)}
    return [process for process in known.values() if _lives(process)]


def end(leader: int, mark: str) -> list[int]:
    """Kills them all, and returns those that are left (usually none). Does not wait for any: the leader's exit code is the
    event loop's to fetch."""
    return end_all(lambda: members(leader, mark))


def end_all(look: Callable[[], list[psutil.Process]]) -> list[int]:
    """Kills what ``look`` finds, those too that are born meanwhile: stopped first, so that none can start another one
    between the look and the blow. What is left is returned."""
    deadline = time.monotonic() + END_SECONDS
    while (alive := look()) and time.monotonic() < deadline:
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for process in alive:
                with contextlib.suppress(psutil.Error):
                    process.send_signal(number)
        time.sleep(LOOK_SECONDS)
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
