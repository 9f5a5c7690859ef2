"""One session: a conversation of an agent, managed by the server or started by a person in a terminal.

``Session`` contains what both kinds share: identity, history, store, approvals, and what clients see. Its two kinds,
``ManagedSession`` and ``terminal_sessions.session.TerminalSession``, drive the agent. ``Sessions`` is the list of all sessions.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, final

import msgspec

from drawbridge.agents.base import Decision
from drawbridge.core.errors import DrawbridgeError, HistoryUnreadable
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.server import events
from drawbridge.server.approvals.pending import PendingApproval, Surface
from drawbridge.server.approvals.service import Approvals
from drawbridge.server.events import AgentLine, Announced, Event, Recorded, StateChanged, Stored
from drawbridge.server.protocol import messages
from drawbridge.server.protocol.client_errors import ClientError, no_project
from drawbridge.server.protocol.messages import Answer, PermissionWithdrawn, RunFinished, Subscriber
from drawbridge.server.sessions import metadata, records
from drawbridge.server.sessions.context import Context
from drawbridge.server.sessions.metadata import instant
from drawbridge.server.store.lines import timestamp
from drawbridge.server.store.log import History, Page, rebuild

logger = logging.getLogger("drawbridge.server")

SHOWN_PROMPT: Final = 500
"""Characters of a waiting prompt that lists show; the history has all of it."""

TERMINAL_PREFIX: Final = "desk_"
"""What the id of a terminal session begins with."""


class Session(ABC):
    """A session of either kind. Its methods are called on the event loop's thread."""

    def __init__(self, directory: Path, data: metadata.Metadata, history: History, context: Context) -> None:
        """``directory`` contains its metadata and its logs."""
        self.id = data.id
        self.path = Path(data.path)
        self.data = data
        self.history = history
        self.store = SessionStore(directory, data, history, context)
        self.approvals = Approvals(
            self.id, self.store.write, self.store.record, data.memory.verdicts, context.editors, self.decide
        )
        self._context = context

    @property
    def memory(self) -> records.Memory:
        return self.data.memory

    # What differs between the kinds.

    @property
    @abstractmethod
    def state(self) -> messages.State:
        """The state, in the words of the protocol."""

    @abstractmethod
    def is_using(self, session_id: str) -> bool:
        """Whether a process of its agent has the agent's conversation ``session_id`` open now."""

    @abstractmethod
    def _details(self) -> dict[str, Any]:
        """The fields of ``ProjectInfo`` that only this kind of session has."""

    @abstractmethod
    def _current_run(self) -> messages.RunInfo | None:
        """The active run; None if there is none."""

    def _waiting_runs(self) -> list[messages.RunInfo]:
        """The runs in the queue, the next one first."""
        return []

    @abstractmethod
    def _approval_closed(self, approval: PendingApproval, asked_by: Surface | None = None) -> None:
        """An approval is not open any more. ``asked_by``: the surface that delivers its decision to the agent; None: it was
        withdrawn.
        """

    # What clients see.

    @final
    def info(self) -> messages.ProjectInfo:
        return messages.ProjectInfo(**self._fields())

    @final
    def shown(self) -> messages.ProjectState:
        run = self._current_run()
        queued = len(self._waiting_runs())
        return messages.ProjectState(**self._fields(), run_id=run.run_id if run else None, queued=queued)

    @final
    def snapshot(self) -> messages.ProjectJoined:
        """The whole state at this moment. A client that has it and the records after ``last_seq`` is up to date. Approvals that
        do not fit into one message together are previews.
        """
        run, queue = self._current_run(), self._waiting_runs()
        without = messages.ProjectJoined(**self._fields(), run=run, queue=queue, open_approvals=[])
        room = messages.FRAME_BYTES - messages.ROOM - len(msgspec.json.encode(without))
        return msgspec.structs.replace(without, open_approvals=self.approvals.shown(room))

    @final
    def publish_state(self) -> None:
        """``update/project_state`` for its clients and those that follow all projects. Not recorded."""
        self.store.announce(StateChanged(self.shown()))

    def _fields(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "path": self.data.path,
            "session_id": self.memory.session_id,
            "agent": self.data.agent,
            "created_at": self.data.created_at,
            "last_active": self.data.last_active,
            "message_count": self.history.count,
            "last_seq": self.history.last_seq,
            "approvals": self.approvals.waiting(),
            "first_message_time": instant(self.history.first_time),
            "last_message_time": instant(self.history.last_time),
            "state": self.state,
            **self._details(),
        }

    # How approvals end.

    @final
    def decide(
        self, approval_id: str, decision: Decision, by: Subscriber, at: Surface | None = None
    ) -> Answer[messages.PermissionResolved]:
        """The first decision is recorded, reported to the other clients and sent to the agent, once. ``at``: the surface on
        which it was decided, which delivers it by itself. Raises ``ClientError``.
        """
        approval, answer, asked_by = self.approvals.decide(approval_id, decision, by, at)
        self._approval_closed(approval, asked_by)
        return answer

    @final
    def withdraw(self, approval: PendingApproval, reason: str) -> None:
        """Withdraws the approval for ``reason``, which clients see. An approval that is not open stays as it is."""
        if self.approvals.withdraw(approval, reason):
            self._approval_closed(approval)

    def withdraw_all(self, reason: str) -> None:
        """Withdraws all open approvals."""
        for approval in self.approvals:
            self.withdraw(approval, reason)


class SessionStore:
    """``directory`` contains the metadata and the logs."""

    def __init__(self, directory: Path, data: metadata.Metadata, history: History, context: Context) -> None:
        self.data = data
        self.history = history
        self._directory = directory
        self._path = Path(data.path)
        self._context = context

    @property
    def memory(self) -> records.Memory:
        return self.data.memory

    def has_room(self, more: int) -> bool:
        """Whether the owner's limits leave room for this many bytes of an agent."""
        return self._context.disk.refusal(self.data.id, more) is None

    def check_there(self) -> None:
        """Raises ``ClientError`` if the session was deleted meanwhile."""
        if self.history.closed:
            raise no_project()

    def append(self, event: Recorded, asker: str = "", *, quiet: bool = False) -> Stored:
        """Writes the event, without publishing it. Raises ``BadMessage`` or ``HistoryNotWritten``; nothing has changed then."""
        self.check_there()
        direction, message = events.written(event)
        is_line = isinstance(event, AgentLine)
        record = self.history.append(direction, message, is_json=is_line)
        self._context.disk.now(self.data.id, self.data.path, self.history.size)
        if is_line:  # most records are lines, and nothing but the number follows from them
            self.memory.seq = record.seq
        else:
            self.memory.apply(event, record.time, record.seq)
        return Stored(
            self.data.id,
            self._path,
            event,
            asker,
            quiet,
            seq=record.seq,
            timestamp=timestamp(record),
            message=message,
        )

    def write(self, event: Recorded, asker: Subscriber | None = None) -> int | None:
        """Appends and publishes the event. Returns the record's number for the answer to ``asker``, which reports the event;
        None if ``asker`` is catching up and is sent the record in its turn. Raises as ``append`` does.
        """
        return self._publish(self.append(event, asker.id if asker is not None else ""))

    def record(self, event: Recorded, asker: Subscriber | None = None, *, quiet: bool = False) -> int | None:
        """As ``write``; if the history can't be written the event is published without a number, and the run continues."""
        try:
            stored = self.append(event, asker.id if asker is not None else "", quiet=quiet)
        except DrawbridgeError as error:
            logger.error("%s: %s could not be written: %s", self.data.id, _name(event), error)
            moment = datetime.now(UTC)
            self.memory.apply(event, moment)
            self.announce(event, asker, quiet=quiet, moment=moment)
            return None
        return self._publish(stored)

    def _publish(self, stored: Stored) -> int | None:
        self._context.publish(stored)
        asker = stored.asker
        return None if asker and self._context.audience.is_catching_up(self.data.id, asker) else stored.seq

    def announce(
        self, event: Event, asker: Subscriber | None = None, *, quiet: bool = False, moment: datetime | None = None
    ) -> None:
        """Publishes an event that is not part of the history. A session that was closed announces nothing. ``moment``: when it
        happened, for one that could not be written."""
        if not self.history.closed:
            asked_by = asker.id if asker is not None else ""
            self._context.publish(Announced(self.data.id, self._path, event, asked_by, quiet, instant(moment)))

    async def read(self, **where: Any) -> Page:
        """As ``History.read``, in a thread. Raises ``ClientError`` if the session was deleted meanwhile."""
        try:
            return await asyncio.to_thread(self.history.read, **where)
        except HistoryUnreadable:
            self.check_there()
            raise

    def save(self) -> None:
        self.data.session_id = self.memory.session_id
        try:
            metadata.save(self._directory, self.data)
        except (DrawbridgeError, OSError) as error:
            logger.error("%s: its metadata can't be written: %s", self.data.id, error)

    def catch_up(self) -> None:
        """After a restart, updates the state with the records that the metadata does not contain yet."""
        for record in self.history.after(self.memory.seq):
            try:
                seq, moment, event = events.read(record.line)
            except events.NOT_OURS:
                logger.warning(
                    "%s: record %d of its history was not written by Drawbridge; it was skipped",
                    self.data.id,
                    record.seq,
                )
            else:
                self.memory.apply(event, moment, seq)

    def recover(self, still_open: Collection[str] = ()) -> None:
        """As ``catch_up``, and ends what was active, except for the approvals ``still_open`` and their runs. Nothing is
        published: no client has joined yet, and it may run in a thread.
        """
        self.catch_up()
        still_active = {self.memory.approvals.get(approval_id) for approval_id in still_open}
        over: list[Recorded] = [
            PermissionWithdrawn(approval_id, "the server was restarted")
            for approval_id in self.memory.approvals
            if approval_id not in still_open
        ]
        over += [
            RunFinished(run_id=run_id, outcome="interrupted", duration_ms=0)
            for run_id in self.memory.unfinished
            if run_id not in still_active
        ]
        for event in over:
            try:
                self.append(event)
            except DrawbridgeError as error:
                logger.error("%s: %s could not be written: %s", self.data.id, _name(event), error)
                self.memory.apply(event, datetime.now(UTC))
        self.memory.last_outcome = None
        if over:
            self.save()


def _name(event: Recorded) -> str:
    """The name of an event in the log of the server."""
    return events.KINDS.get(type(event), type(event).__name__)


class Sessions:
    """All sessions of the server by their ids. Iterates over the managed ones first, then over those in terminals; each kind in
    the order in which it was added.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._sessions: dict[str, Session] = {}
        self._tasks = BackgroundTasks(logger)

    def __iter__(self) -> Iterator[Session]:
        """Iterates over a copy: sessions may be added or removed meanwhile, also by another thread."""
        return iter(sorted(self._sessions.values(), key=lambda session: session.id.startswith(TERMINAL_PREFIX)))

    def find(self, id: str) -> Session | None:
        return self._sessions.get(id)

    def get(self, id: str) -> Session:
        """Raises ``ClientError`` if the session does not exist."""
        session = self._sessions.get(id)
        if session is None:
            raise in_terminal() if id.startswith(TERMINAL_PREFIX) else no_project()
        return session

    def add(self, session: Session) -> None:
        self._sessions[session.id] = session
        self._context.disk.now(session.id, str(session.path), session.history.size)

    def remove(self, session: Session) -> None:
        """Removes it from the list. Another session may get its id later."""
        del self._sessions[session.id]
        self._context.disk.gone(session.id)

    def rebuild(self) -> None:
        """Rebuilds the lost indexes of all histories in the background."""
        histories = [session.history for session in self]
        self._tasks.start(rebuild(histories), "building the indexes of histories")

    async def close(self) -> None:
        """Stops the rebuilding of indexes. The sessions are closed by those that have loaded them."""
        await self._tasks.close()


def in_terminal() -> ClientError:
    """The error for a command that only managed sessions have."""
    text = "This agent was started in a terminal and is controlled there. Only its approvals can be decided here."
    return ClientError("NOT_SUPPORTED", text)
