"""Waits for a limited time until no other program keeps the processors busy, because the programs under test would
otherwise respond too late.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from bootstrap import log

PATIENCE = 300.0
SAMPLE = 2.0
"""The maximum wait, and the time during which the use of the processors is measured, in seconds."""

BUSY = 0.2
"""The fraction of one processor that a process may use without being reported."""

PROC = Path("/proc")


def wait(patience: float = PATIENCE, sample: float = SAMPLE) -> list[str]:
    """Waits until no other process is busy, or for ``patience`` seconds. Returns the busy ones, as lines for the log."""
    end = time.monotonic() + patience
    reported: set[str] = set()
    while (busy := others(sample)) and time.monotonic() < end:
        if fresh := [line for line in busy if line.partition(" ")[0] not in reported]:
            log(f"waiting for other programs that use the processors: {'; '.join(fresh)}")
            reported |= {line.partition(" ")[0] for line in fresh}
        time.sleep(sample)
    if busy:
        log(f"continuing alongside other programs that use the processors: {'; '.join(busy)}")
    return busy


def others(sample: float) -> list[str]:
    """The busy processes except this one and its ancestors, each as "1234 python3 -c …, 0.98 of a processor"."""
    before = _seconds()
    time.sleep(sample)
    used = {pid: seconds - before[pid] for pid, seconds in _seconds().items() if pid in before}
    own = _own()
    return [
        f"{pid} {_command(pid)}, {seconds / sample:.2f} of a processor"
        for pid, seconds in sorted(used.items())
        if seconds / sample > BUSY and pid not in own and _command(pid)
    ]


def _seconds() -> dict[int, float]:
    """The processor time of each process, in seconds, not including its children."""
    ticks = os.sysconf("SC_CLK_TCK")
    return {pid: (int(fields[11]) + int(fields[12])) / ticks for pid, fields in _stats().items()}


def _own() -> set[int]:
    """The process IDs of this process and of its ancestors."""
    parents = {pid: int(fields[1]) for pid, fields in _stats().items()}
    found, pid = set(), os.getpid()
    while pid in parents:
        found.add(pid)
        pid = parents[pid]
    return found


def _stats() -> dict[int, list[str]]:
    """The fields of ``/proc/PID/stat`` after the name (proc(5)), by pid. Empty on a system without these files."""
    found = {}
    for file in PROC.glob("[0-9]*/stat"):
        try:
            found[int(file.parent.name)] = file.read_text(errors="replace").rpartition(")")[2].split()
        except OSError:  # the process has ended
            continue
    return found


def _command(pid: int) -> str:
    """The beginning of a process's command line. Empty for a kernel thread."""
    try:
        words = (PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    return b" ".join(words).decode(errors="replace").strip()[:60]
