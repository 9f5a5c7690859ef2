"""One project's history and who hears of it: what happens is written first and told then; what follows from it is
remembered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from pathlib import Path
from typing import Any

from drawbridge.core.errors import DrawbridgeError, HistoryUnreadable
from drawbridge.server.protocol import messages
from drawbridge.server.protocol.client_errors import no_project
from drawbridge.server.protocol.subscriber import Frame, Subscriber
from drawbridge.server.sessions import metadata, records
from drawbridge.server.sessions.house import House
from drawbridge.server.store.log import Direction, History
from drawbridge.server.store.pages import Page

logger = logging.getLogger("drawbridge.server")


class Journal:
    """``directory`` holds the metadata and the logs. ``subscribers`` are the clients that have joined, by their id.

    ``behind`` are those that have joined and are still sent what was before: what happens meanwhile comes to them in its turn.
    """

    def __init__(self, directory: Path, data: metadata.Metadata, history: History, house: House) -> None:
        self.data = data
        self.history = history
        self.subscribers: dict[str, Subscriber] = {}
        self.behind: dict[str, Subscriber] = {}
        self._directory = directory
        self._house = house

    @property
    def joined(self) -> dict[str, Subscriber]:
        """Everybody who has joined."""
        return {**self.subscribers, **self.behind}

    @property
    def memory(self) -> records.Memory:
        return self.data.memory

    def has_room(self, more: int) -> bool:
        """Whether the owner's limits leave room for so many bytes of an agent's."""
        return self._house.disk.refusal(self.data.id, more) is None

    def check_there(self) -> None:
        """Raises ``ClientError`` where the project was deleted while somebody still had to do with it."""
        if self.history.closed:
            raise no_project()

    def write(
        self, direction: Direction, message: bytes, besides: Subscriber | None = None, topic: str = ""
    ) -> int | None:
        """The record's number, for the answer to ``besides``, which stands for it; None where that one is sent the record
        in its turn.
        """
        self.check_there()
        record = self.history.append(direction, message)
        self._house.disk.now(self.data.id, self.data.path, self.history.size)
        self.memory.take(record.line)
        self.publish(records.frame(self.data.id, record.line), besides, topic)
        return None if besides is not None and besides.id in self.behind else record.seq

    def event(self, what: str, fields: Any, besides: Subscriber | None = None, topic: str = "") -> int | None:
        """As ``write``; where the history can't be written the run goes on to its end, clients hear of it without a number."""
        message = records.event(what, fields)
        try:
            return self.write("server", message, besides, topic)
        except DrawbridgeError as error:
            logger.error("%s: %s could not be written: %s", self.data.id, what, error)
            self.memory.take_event(message)
            self.publish(records.unkept_frame(self.data.id, what, message), besides, topic)
            return None

    async def read(self, **where: Any) -> Page:
        """As ``History.read``, in a thread. Raises ``ClientError`` where the project was deleted meanwhile."""
        try:
            return await asyncio.to_thread(self.history.read, **where)
        except HistoryUnreadable:
            self.check_there()
            raise

    def publish(self, frame: Frame, besides: Subscriber | None = None, topic: str = "") -> None:
        if self.history.closed:
            return
        audience = [one for one in self.subscribers.values() if one is not besides]
        if audience:  # nobody has joined what is read again, in a thread that is not the sockets'
            self._house.broadcast(audience, frame)
        if topic:
            known = self.joined if besides is None else {**self.joined, besides.id: besides}
            self._house.tell(topic, frame, Path(self.data.path), known)

    def save(self) -> None:
        self.data.session_id = self.memory.session_id
        try:
            metadata.save(self._directory, self.data)
        except (DrawbridgeError, OSError) as error:
            logger.error("%s: its metadata can't be written: %s", self.data.id, error)

    def catch_up(self) -> None:
        """After a restart: what the history has beyond the metadata is taken in."""
        for record in self.history.after(self.memory.seq):
            try:
                self.memory.take(record.line)
            except records.NOT_OURS:
                logger.warning("%s: record %d of its history is none of ours; it was left", self.data.id, record.seq)

    def recover(self, carried_on: Collection[str] = ()) -> None:
        """The same, and what was at work is over, all is at rest; but for these approvals and the runs that they are of."""
        self.catch_up()
        going_on = {self.memory.approvals.get(approval_id) for approval_id in carried_on}
        approvals = [approval_id for approval_id in self.memory.approvals if approval_id not in carried_on]
        runs = [run_id for run_id in self.memory.unfinished if run_id not in going_on]
        for approval_id in approvals:
            self.event(records.WITHDRAWN, messages.PermissionWithdrawn(approval_id, "the server was restarted"))
        for run_id in runs:
            finished = messages.RunFinished(run_id=run_id, outcome="interrupted", duration_ms=0)
            self.event(records.FINISHED, finished)
        self.memory.last_outcome = None
        if approvals or runs:
            self.save()
