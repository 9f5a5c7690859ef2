"""The processes that have a terminal session's conversation open, and what each has reported about itself.

``claude --continue`` in a second terminal opens the same conversation: then there are several, each with a mode of its own.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from drawbridge.core.private_files import process_alive
from drawbridge.server.sessions.processes import is_same_process, started_at
from drawbridge.server.terminal_sessions.prompts import Sent


class Process(Struct, frozen=True):
    """An agent's process, as its hook reports it. ``config``: the agent's directory for its own files, if its environment
    names one. ``background``: its daemon hosts it."""

    pid: int
    config: str = ""
    background: bool = False


class ProcessFacts(Struct):
    """What an agent's process has reported about itself. ``pid``: None if no process is known."""

    pid: int | None = None
    began: float | None = None
    """When the process ``pid`` was started (seconds since 1970): the number may be another program's later."""
    transcript: str = ""
    permission_mode: str | None = None
    background: bool = False
    config: str = ""

    @property
    def is_alive(self) -> bool:
        return self.pid is not None and process_alive(self.pid) and is_same_process(self.pid, self.began)

    @property
    def is_replaced(self) -> bool:
        """Whether another process has the number now."""
        return self.pid is not None and process_alive(self.pid) and not is_same_process(self.pid, self.began)


class Facts(ProcessFacts):
    """The state of a session that is stored for a restart, beside its metadata. Its own fields are about the process that has
    reported last; ``others``: the other processes that have the conversation open."""

    sent: Sent | None = None
    others: tuple[ProcessFacts, ...] = ()


class Processes:
    """One of them may be without an id: no process is known."""

    def __init__(self, facts: Facts) -> None:
        self.latest = msgspec.convert(facts, ProcessFacts, from_attributes=True)
        """The one that has reported last."""
        self._others = list(facts.others)
        """The other ones, the latest last."""

    @property
    def all(self) -> list[ProcessFacts]:
        return [*self._others, self.latest]

    @property
    def alive(self) -> list[ProcessFacts]:
        return [one for one in self.all if one.is_alive]

    @property
    def has_others(self) -> bool:
        return bool(self._others)

    def beside(self, pid: int | None) -> list[int]:
        """Those that are alive, except for ``pid``."""
        return [one.pid for one in self.alive if one.pid is not None and one.pid != pid]

    def facts(self, sent: Sent | None) -> Facts:
        return Facts(**msgspec.structs.asdict(self.latest), sent=sent, others=tuple(self._others))

    # Each of these returns whether something has changed.

    def reports(self, process: Process, path: str, *, is_ended: bool) -> bool:
        """A hook of this process has reported, with the path of the conversation's file. ``is_ended``: the one before it has
        closed the conversation."""
        former, known = self.latest, next((one for one in self.all if one.pid == process.pid), None)
        if known is None or known.is_replaced:
            # It may have been started in another mode, which it has yet to report.
            known = ProcessFacts(process.pid, started_at(process.pid))
        now = (path, process.config, process.background)
        is_new = known is not former or now != (known.transcript, known.config, known.background)
        known.transcript, known.config, known.background = now
        open_before = [] if is_ended or former.pid is None else [former]
        self._others = [one for one in (*self._others, *open_before) if one.pid != process.pid]
        self.latest = known
        return is_new

    def set_mode(self, pid: int | None, mode: str | None) -> bool:
        """``mode``: as the process reports it; without one the mode has not changed."""
        changed = [one for one in self.all if one.pid == pid and mode and mode != one.permission_mode]
        for one in changed:
            one.permission_mode = mode
        return bool(changed)

    def forget_mode(self, pid: int | None) -> bool:
        known = [one for one in self.all if one.pid == pid and one.permission_mode is not None]
        for one in known:
            one.permission_mode = None
        return bool(known)

    def needs_mode(self, pid: int) -> bool:
        """Whether this process is known, and its mode is not."""
        return any(one.pid == pid and one.permission_mode is None for one in self.all)

    def remove(self, pid: int) -> None:
        """It has closed the conversation; others that are alive have it open."""
        *self._others, self.latest = [one for one in self.alive if one.pid != pid]

    def only_alive(self) -> None:
        """Forgets those that have ended, except for the latest if no other one is left."""
        *self._others, self.latest = self.alive or [self.latest]

    def only_latest(self) -> None:
        self._others.clear()
