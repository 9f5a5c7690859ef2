"""Joins a client to a session: the client receives one snapshot, then the records after its cursor, then the stream,
without gaps or duplicates."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from drawbridge.core.errors import HistoryUnreadable
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.server.events import Announced, Event
from drawbridge.server.protocol import messages
from drawbridge.server.protocol.client_errors import ClientError, internal_error
from drawbridge.server.protocol.frames import Frame, Subscriber, error
from drawbridge.server.sessions.audience import Audience, frame, replayed
from drawbridge.server.sessions.session import Session
from drawbridge.server.store.records import NOT_OURS

logger = logging.getLogger("drawbridge.server")

PAGE: Final = 200
"""The maximum number of records that are sent at a time to a client that is catching up."""

PAGE_BYTES: Final = 512 * 1024


class Joining:
    """Joins clients to sessions, and sends them the records that they missed."""

    def __init__(self, audience: Audience) -> None:
        self._audience = audience
        self._tasks = BackgroundTasks(logger)
        self._reading: dict[tuple[str, str], asyncio.Task[None]] = {}

    def join(self, session: Session, client: Subscriber, after_seq: int | None) -> messages.ProjectJoined:
        """Joins a client to a session. Returns the snapshot. The client then receives all records after ``after_seq``
        or, if that is None, after the snapshot."""
        self.leave(session, client)
        snapshot = session.snapshot()
        if after_seq is None or after_seq >= snapshot.last_seq:
            self._audience.join(session.id, client)
        else:
            self._audience.catch_up(session.id, client)
            reading = self._read_on(session, client, after_seq, session.unrecorded())
            what = f"{session.id}: sending {client.id} the records that it missed"
            task = self._tasks.start(reading, what, failed=lambda error: self._give_up(session, client, error))
            self._reading[session.id, client.id] = task
            task.add_done_callback(lambda _: self._read(session, client, task))
        return snapshot

    def leave(self, session: Session, client: Subscriber) -> None:
        self._audience.leave(session.id, client)
        task = self._reading.pop((session.id, client.id), None)
        if task is not None:
            task.cancel()

    async def close(self) -> None:
        await self._tasks.close()

    async def _read_on(self, session: Session, client: Subscriber, seq: int, sent: tuple[Event, ...]) -> None:
        """Sends what the client has missed. If that fails, the client gets an error and can join again."""
        try:
            await self._catch_up(session, client, seq, sent)
        except HistoryUnreadable as error:
            if not session.history.closed:
                logger.error("%s: %s", session.id, error)
                self._report(session, client, _unreadable())

    async def _catch_up(self, session: Session, client: Subscriber, seq: int, sent: tuple[Event, ...]) -> None:
        """Sends the records on disk, as fast as the client reads. When none is left, the client joins the others in the
        same iteration of the event loop.

        ``sent``: the events that the snapshot contained in addition to the history. Those that have changed since are
        sent after the records.
        """
        while seq < (last_seq := session.history.last_seq):
            page = await asyncio.to_thread(session.history.read, after_seq=seq, limit=PAGE, max_bytes=PAGE_BYTES)
            for record in page.records:
                seq = record.seq
                try:
                    client.send(replayed(session.id, record.line))
                except NOT_OURS:
                    logger.warning(
                        "%s: record %d of its history is damaged, or was not written by Drawbridge; it was skipped",
                        session.id,
                        seq,
                    )
            if not page.records:  # the records up to ``last_seq`` are damaged, and more may have been written since
                seq = last_seq
            await client.room()
            if session.history.closed:  # the session was deleted, and the client has been notified
                return
        self._audience.join(session.id, client)
        for before, event in zip(sent, session.unrecorded(), strict=True):
            if event != before:
                client.send(frame(Announced(session.id, session.path, event)))

    def _give_up(self, session: Session, client: Subscriber, error: Exception) -> None:
        """Removes a client after an unexpected error, and reports the failure to it. By then, the client may have
        joined.
        """
        self._audience.leave(session.id, client)
        self._report(session, client, _unreadable() if isinstance(error, OSError) else internal_error())

    def _report(self, session: Session, client: Subscriber, failure: ClientError) -> None:
        client.send(Frame(error(failure, client.id, project_id=session.id)))

    def _read(self, session: Session, client: Subscriber, task: asyncio.Task[None]) -> None:
        if self._reading.get((session.id, client.id)) is task:
            del self._reading[session.id, client.id]
            self._audience.end_catching_up(session.id, client)


def _unreadable() -> ClientError:
    text = "The history can't be read right now, so not all of the records that you missed were sent. Join again later."
    return ClientError("FILE_OPERATION", text)
