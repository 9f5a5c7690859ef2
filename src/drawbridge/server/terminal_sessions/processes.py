"""The processes that have a terminal session's conversation open, and what each has reported about itself.

``claude --continue`` in a second terminal opens the same conversation. The session then has several processes, each
with its own mode.
"""

from __future__ import annotations

import msgspec
import psutil
from msgspec import Struct

from drawbridge.core.private_files import process_alive
from drawbridge.core.process_start import StartTime, is_same_process, started_at
from drawbridge.server.terminal_sessions.facts import Facts, ProcessFacts


class Process(Struct, frozen=True):
    """An agent's process, as its hook reports it. ``config``: the agent's directory for its own files, if its
    environment names one. ``background``: whether the agent's daemon hosts it."""

    pid: int
    config: str = ""
    background: bool = False


class Processes:
    """The processes of one session. If no process is known, the only entry has no PID."""

    def __init__(self, facts: Facts) -> None:
        self.latest = msgspec.convert(facts, ProcessFacts, from_attributes=True)
        """The process that reported last."""
        self._others = list(facts.others)
        """The other processes, in the order of their last reports."""
        self._running = {one.pid: _process(one.pid, one.began) for one in self.all if one.pid is not None}
        """The processes by PID; None if the process was gone, or another program had its PID, when it was looked up."""

    @property
    def all(self) -> list[ProcessFacts]:
        return [*self._others, self.latest]

    @property
    def alive(self) -> list[ProcessFacts]:
        return [one for one in self.all if self.is_alive(one.pid)]

    @property
    def exited(self) -> list[int]:
        return [one.pid for one in self.all if one.pid is not None and not self.is_alive(one.pid)]

    def is_alive(self, pid: int | None) -> bool:
        running = self._running.get(pid) if pid is not None else None
        return pid is not None and running is not None and process_alive(pid) and running.is_running()

    @property
    def only(self) -> int | None:
        """The PID of the only process that has the conversation open; None if there are several, or if it is not
        known."""
        return None if self._others else self.latest.pid

    @property
    def has_others(self) -> bool:
        return bool(self._others)

    def beside(self, pid: int | None) -> list[int]:
        """The PIDs of this session's processes that are alive, except ``pid``."""
        return [one.pid for one in self.alive if one.pid is not None and one.pid != pid]

    @property
    def facts(self) -> Facts:
        return Facts(**msgspec.structs.asdict(self.latest), others=tuple(self._others))

    def needs_mode(self, pid: int) -> bool:
        """Whether this process is known but its permission mode is not."""
        return any(one.pid == pid and one.permission_mode is None for one in self.all)

    # Each of the following methods returns whether something has changed.

    def reported(self, process: Process, path: str, *, is_ended: bool) -> bool:
        """Handles a report from one of the process's hooks: makes ``process`` the latest one. ``path``: the path of the
        conversation's file; empty if the hook has not reported it. ``is_ended``: whether the session has ended, so that
        the process that reported last no longer has the conversation open."""
        former, known = self.latest, next((one for one in self.all if one.pid == process.pid), None)
        if known is None or (process_alive(process.pid) and not self.is_alive(process.pid)):  # the PID was reused
            # It may have been started in another mode, which it has yet to report.
            known = ProcessFacts(process.pid, started_at(process.pid))
            self._running[process.pid] = _process(process.pid)
        now = (path or known.transcript or former.transcript, process.config, process.background)
        is_new = known is not former or now != (known.transcript, known.config, known.background)
        known.transcript, known.config, known.background = now
        open_before = [] if is_ended or former.pid is None else [former]
        self._others = [one for one in (*self._others, *open_before) if one.pid != process.pid]
        self.latest = known
        return is_new

    def set_mode(self, pid: int | None, mode: str | None) -> bool:
        """Sets the permission mode that the process reports. Changes nothing if ``mode`` is None or empty, or if the
        process is not known."""
        changed = [one for one in self.all if one.pid == pid and mode and mode != one.permission_mode]
        for one in changed:
            one.permission_mode = mode
        return bool(changed)

    def forget_mode(self, pid: int | None) -> bool:
        known = [one for one in self.all if one.pid == pid and one.permission_mode is not None]
        for one in known:
            one.permission_mode = None
        return bool(known)

    def doubt_modes(self, mode: str) -> bool:
        """Forgets modes other than ``mode``: one of the processes is in that mode now, but it is not known which
        one."""
        changed = [self.forget_mode(one.pid) for one in self.all if one.permission_mode != mode]
        return any(changed)

    # Processes that leave.

    def remove(self, pid: int) -> None:
        """Removes a process that has closed the conversation while other processes have it open."""
        *self._others, self.latest = [one for one in self.alive if one.pid != pid] or [self.latest]
        self._running.pop(pid, None)

    def only_alive(self) -> None:
        """Forgets the processes that have ended, except the latest one if all have ended."""
        *self._others, self.latest = self.alive or [self.latest]

    def only_latest(self) -> None:
        self._others.clear()


def _process(pid: int, began: StartTime | None = None) -> psutil.Process | None:
    """The process ``pid``; None if it has ended, or if another program has its PID. ``began``: when it was started, if
    that is known."""
    try:
        return psutil.Process(pid) if is_same_process(pid, began) else None
    except (psutil.Error, ValueError, OverflowError):
        return None
