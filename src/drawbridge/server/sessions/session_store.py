"""The store of one session: an event is written into the history, the session's state is updated, and then the event is
published.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from drawbridge.core.errors import DrawbridgeError, HistoryUnreadable
from drawbridge.server import events
from drawbridge.server.events import AgentLine, Announced, Event, Recorded, Stored
from drawbridge.server.protocol.client_errors import no_project
from drawbridge.server.protocol.messages import PermissionWithdrawn, RunFinished, Subscriber
from drawbridge.server.sessions import metadata, records
from drawbridge.server.sessions.context import Context
from drawbridge.server.sessions.shown import instant
from drawbridge.server.store.lines import timestamp
from drawbridge.server.store.log import History, Page

logger = logging.getLogger("drawbridge.server")


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
        record = self.history.append(direction, message, is_json=isinstance(event, AgentLine))
        self._context.disk.now(self.data.id, self.data.path, self.history.size)
        self.memory.apply(event, record.time, record.seq)
        return Stored(
            self.data.id,
            self._path,
            event,
            asker,
            quiet,
            seq=record.seq,
            timestamp=timestamp(record),
            record=record.line,
        )

    def write(self, event: Recorded, asker: Subscriber | None = None) -> int | None:
        """Appends and publishes the event. Returns the record's number for the answer to ``asker``, which reports the event;
        None where ``asker`` is catching up and is sent the record in its turn. Raises as ``append`` does.
        """
        return self._publish(self.append(event, asker.id if asker is not None else ""))

    def record(self, event: Recorded, asker: Subscriber | None = None, *, quiet: bool = False) -> int | None:
        """As ``write``; where the history can't be written the event is published without a number, and the run continues."""
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
        return None if self._context.audience.is_catching_up(self.data.id, stored.asker) else stored.seq

    def announce(
        self, event: Event, asker: Subscriber | None = None, *, quiet: bool = False, moment: datetime | None = None
    ) -> None:
        """Publishes an event that is not part of the history. A session that was closed announces nothing. ``moment``: when it
        happened, for one that could not be written."""
        if not self.history.closed:
            asked_by = asker.id if asker is not None else ""
            self._context.publish(Announced(self.data.id, self._path, event, asked_by, quiet, instant(moment)))

    async def read(self, **where: Any) -> Page:
        """As ``History.read``, in a thread. Raises ``ClientError`` where the session was deleted meanwhile."""
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

    def recover(self, carried_on: Collection[str] = ()) -> None:
        """As ``catch_up``, and ends what was active, except for these approvals and their runs. Nothing is
        published: no client has joined yet, and it may run in a thread.
        """
        self.catch_up()
        going_on = {self.memory.approvals.get(approval_id) for approval_id in carried_on}
        over: list[Recorded] = [
            PermissionWithdrawn(approval_id, "the server was restarted")
            for approval_id in self.memory.approvals
            if approval_id not in carried_on
        ]
        over += [
            RunFinished(run_id=run_id, outcome="interrupted", duration_ms=0)
            for run_id in self.memory.unfinished
            if run_id not in going_on
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
    """The session's name in the log."""
    return events.KINDS.get(type(event), type(event).__name__)
