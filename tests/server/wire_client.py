"""A client of the agent server. It checks each message against the schema, and the order of each project's records."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Callable
from itertools import count
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.server.schema import check_answer, check_request, check_sent
from tests.waiting import PATIENCE

Message = dict[str, Any]


class WireClient:
    """A connected client. ``received`` contains every message in order. ``receive`` continues where it last stopped."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.received: list[Message] = []
        self._at = 0
        self._numbers = count(1)
        self._news = asyncio.Event()
        self._cursors: dict[str, int] = {}
        self._joined: set[str] = set()
        self._reader = asyncio.create_task(self._read())

    async def send(
        self, type: str, data: Message | None = None, project_id: str | None = None, request_id: str | None = None
    ) -> None:
        message: Message = {"type": type}
        parts = {"project_id": project_id, "data": data, "request_id": request_id}
        message |= {name: part for name, part in parts.items() if part is not None}
        check_request(message)
        if type == "project_leave":
            self._joined.discard(project_id or (data or {})["project_id"])
        await self.connection.send(json.dumps(message))

    async def ask(self, type: str, data: Message | None = None, project_id: str | None = None) -> Message:
        """Sends a request. Returns the answer, which may be an error. ``receive`` and ``next`` still return this answer
        and the other messages that arrive in the meantime.
        """
        request_id = f"request-{next(self._numbers)}"
        await self.send(type, data, project_id, request_id)
        answer = await self._find(lambda message: message.get("request_id") == request_id, type, 0)
        check_answer(type, answer)
        return answer

    async def receive(
        self, type: str, update_type: str | None = None, *, patience: float = PATIENCE, **fields: Any
    ) -> Message:
        """Waits for the next message of this kind whose data has these fields. Messages before it are skipped."""

        def wanted(message: Message) -> bool:
            data = message["data"]
            if not isinstance(data, dict):  # a history is a plain list
                return bool(message["type"] == type)
            if update_type is not None and data.get("update_type") != update_type:
                return False
            inner = data["data"] if type == "update" else data
            return message["type"] == type and all(inner.get(name) == value for name, value in fields.items())

        found = await self._find(wanted, f"{type} {update_type or ''} {fields or ''}", self._at, patience)
        self._at = self.received.index(found, self._at) + 1
        return found

    async def next(self, patience: float = PATIENCE) -> Message:
        """Waits for the next message of any kind."""
        found = await self._find(lambda message: True, "anything", self._at, patience)
        self._at += 1
        return found

    def passed(self) -> list[Message]:
        """The messages after the last one that ``receive``, ``next`` or ``passed`` has returned."""
        new = self.received[self._at :]
        self._at = len(self.received)
        return new

    async def close_code(self) -> int:
        """The close code, once the server has closed the connection."""
        async with asyncio.timeout(PATIENCE):
            await self.connection.wait_closed()
        assert self.connection.close_code is not None
        return self.connection.close_code

    async def leave(self) -> None:
        await self.connection.close()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reader

    async def _find(
        self, wanted: Callable[[Message], bool], what: str, start: int, patience: float = PATIENCE
    ) -> Message:
        async with asyncio.timeout(patience):
            while True:
                for message in self.received[start:]:
                    if wanted(message):
                        return message
                start = len(self.received)
                assert not self._reader.done() or self._reader.exception() is None, self._reader.exception()
                assert not self._reader.done(), f"the connection ended before {what}: {self.connection.close_code}"
                self._news.clear()
                await self._news.wait()

    def _check_order(self, message: Message) -> None:
        """Checks that no record arrives twice or out of order, and that a client that has joined misses none."""
        project, seq = message.get("project_id", ""), message.get("seq")
        if message["type"] == "update" and message["data"]["update_type"] == "project_joined":
            self._joined.add(project)
            self._cursors.pop(project, None)
        elif seq is not None:
            before = self._cursors.get(project)
            assert before is None or seq > before, f"record {seq} of {project} after {before}: {message}"
            assert before is None or project not in self._joined or seq == before + 1, f"{before}, and then {seq}"
            self._cursors[project] = seq

    async def _read(self) -> None:
        try:
            with contextlib.suppress(ConnectionClosed):
                while True:
                    message = json.loads(await self.connection.recv())
                    self.received.append(message)
                    check_sent(message)
                    self._check_order(message)
                    self._news.set()
        finally:
            self._news.set()


@contextlib.asynccontextmanager
async def connected(
    url: str, token: str | None = None, tls: ssl.SSLContext | None = None, **options: Any
) -> AsyncIterator[WireClient]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    headers |= options.pop("headers", {})
    async with connect(
        url, additional_headers=headers, ssl=tls, proxy=None, open_timeout=PATIENCE, **options
    ) as connection:
        client = WireClient(connection)
        try:
            yield client
        finally:
            await client.leave()
    if client._reader.done() and not client._reader.cancelled():
        failure = client._reader.exception()
        if failure is not None:
            raise failure


async def deleted(client: WireClient, project: str) -> None:
    """Deletes a project. Retries while the review is still being read for a client that left a moment ago."""
    async with asyncio.timeout(PATIENCE):
        while (gone := await client.ask("project_delete", project_id=project))["type"] != "project_deleted":
            assert gone["data"].get("retryable"), gone
            await asyncio.sleep(0.05)
