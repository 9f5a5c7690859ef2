"""Tells a process from a later one that has the same process id."""

from __future__ import annotations

import functools
import sys
from typing import Final, TypeAlias

import psutil

StartTime: TypeAlias = str | float
"""When a process was started. On Linux, a text: the id of the machine's boot and the clock ticks from the boot to the
start (proc_pid_stat(5)). Elsewhere, and in files of earlier versions, seconds since 1970. On Linux, such a time is
computed from the time of the boot, so that it changes when the clock is set.
"""

TOLERANCE_SECONDS: Final = 1.0
"""The tolerance for start times in seconds since 1970."""


def started_at(pid: int) -> StartTime | None:
    """When the process was started; None if it does not exist."""
    try:
        return _ticks(pid) if sys.platform == "linux" else psutil.Process(pid).create_time()
    except (OSError, psutil.Error, ValueError, OverflowError):
        return None


def is_same_process(pid: int, began: StartTime | None) -> bool:
    """Whether the process ``pid`` is the one that was started at ``began``. If ``began`` is None, the time is not
    known, and any process will do."""
    if began is None or isinstance(began, str):
        return began in (None, started_at(pid))
    try:
        return abs(psutil.Process(pid).create_time() - began) < TOLERANCE_SECONDS
    except (psutil.Error, ValueError, OverflowError):
        return False


def _ticks(pid: int) -> str:
    with open(f"/proc/{pid}/stat", "rb") as file:
        # The second field is the program's name, in parentheses; it may contain spaces and parentheses itself.
        after_name = file.read().rpartition(b")")[2].split()
    return f"{_boot()} {int(after_name[19])}"


@functools.cache
def _boot() -> str:
    """The id of the machine's boot; empty if a container hides it."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
