"""Executes the requests of one client in order. A client does not need to wait for a reply before it sends its next
request.

Slow requests run concurrently with the others. Until a client has signed in, it can only sign in. An unexpected error
affects only its own request. The error is logged under the request's correlation id, the client receives
INTERNAL_ERROR, and the next request is executed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any, Final

from drawbridge.core.tasks import BackgroundTasks
from drawbridge.server.app.clients import AUTH_BYTES, REFUSED_WITH, UNAUTHORIZED, Client, Clients
from drawbridge.server.app.dispatch import Dispatch
from drawbridge.server.protocol.answers import Answer
from drawbridge.server.protocol.client_errors import ClientError, internal_error
from drawbridge.server.protocol.commands import Command, request_id_of
from drawbridge.server.protocol.frames import Frame, encode, error
from drawbridge.server.protocol.messages import MESSAGE_BYTES
from drawbridge.transport.http_app import WebSocket

INBOX: Final = 64
"""The number of queued requests from one client above which nothing more is read from the client."""

INBOX_LENGTH: Final = 2 * MESSAGE_BYTES
"""The number of characters in the queued requests from one client above which nothing more is read from the client."""

ASIDE: Final = 16
"""The maximum number of slow requests from one client that run at the same time, in addition to its other requests."""

logger = logging.getLogger("drawbridge.server")


class Connection:
    """The server's side of one client's WebSocket, as a ``Peer`` of the HTTP transport."""

    def __init__(
        self,
        id: str,
        websocket: WebSocket,
        dispatch: Dispatch,
        clients: Clients,
        *,
        address: str,
        host: str,
        certificate: str | None,
    ) -> None:
        self.client = Client(
            id,
            websocket,
            clients.writers,
            self._ended,
            address=address,
            host=host,
            certificate=certificate,
            leads_to=clients.leads_to,
        )
        self._websocket = websocket
        self._dispatch = dispatch
        self._clients = clients
        self._silent = True
        self._inbox: deque[str] = deque()
        self._inbox_length = 0
        """The number of characters in ``_inbox``."""
        self._tasks = BackgroundTasks(logger)
        self._free = asyncio.Semaphore(ASIDE)
        self._working = False
        self._held = False

    # called by the transport

    def received(self, text: str) -> None:
        if self.client.is_closed:
            return
        if self._silent:  # a client receives no statistics before its first message
            self._silent = False
            self.client.topics.add("stats")
        self._inbox.append(text)
        self._inbox_length += len(text)
        is_full = len(self._inbox) > INBOX or self._inbox_length > INBOX_LENGTH
        # Before the client has signed in, reading pauses after each message until the message is handled. If it signs
        # the client in, longer messages are allowed from then on.
        if not self._held and (is_full or self.client.identity is None):
            self._held = True
            self._websocket.hold_reading(True)
        if not self._working:
            self._working = True
            self._begin(self._work(), "handling its requests")

    def drained(self) -> None:
        self.client.outbox.drained()

    def closed(self, code: int) -> None:
        self.client.end()

    async def done(self) -> None:
        """Returns when none of the client's requests is being executed."""
        await self._tasks.wait()

    # internal

    async def _work(self) -> None:
        while self._inbox:
            text = self._inbox.popleft()
            self._inbox_length -= len(text)
            correlation_id = self.client.next_correlation_id()
            with self._reported(correlation_id, partial(request_id_of, text)):
                if self.client.identity is None:
                    await self._sign_in(text, correlation_id)
                else:
                    self._read_on()
                    await self._execute(text, correlation_id)
            # Most requests are answered without waiting, so other clients need a turn between two of them.
            await asyncio.sleep(0)
        self._working = False
        self._read_on()

    def _read_on(self) -> None:
        if self._held and len(self._inbox) < INBOX // 2 and self._inbox_length < INBOX_LENGTH // 2:
            self._held = False
            self._websocket.hold_reading(False)

    async def _sign_in(self, text: str, correlation_id: str) -> None:
        short = text if len(text.encode()) <= AUTH_BYTES else ""
        try:
            command, answer = await self._dispatch.sign_in(short, self.client)
        except ClientError as failure:
            # This is logged only at the debug level, so that strangers can't fill the log. ``Entrance`` logs what
            # matters, within limits.
            logger.debug("%s: %s could not sign in: %s", self.client.id, self.client.address, failure.code)
            self.client.send(Frame(error(failure, correlation_id, request_id_of(short))))
            self.client.close_after(REFUSED_WITH.get(failure.code, UNAUTHORIZED), failure.text)
            self._inbox.clear()
            self._inbox_length = 0
            return
        self._send(answer, command)

    async def _execute(self, text: str, correlation_id: str) -> None:
        try:
            command = self._dispatch.parse(text)
        except ClientError as failure:
            self._dispatch.denied(failure, None, self.client)
            self.client.fail(failure, correlation_id, request_id_of(text), None)
            return
        if not self._dispatch.is_aside(command):
            await self._answer(command, correlation_id)
            return
        await self._free.acquire()
        task = self._begin(self._answer(command, correlation_id), f"request {correlation_id}")
        task.add_done_callback(lambda _: self._free.release())

    async def _answer(self, command: Command, correlation_id: str) -> None:
        if self.client.is_dismissed:
            return
        project_id = getattr(command, "project_id", None) or None
        # If the answer's ``then`` fails, the request has already been answered, so the error does not name it.
        with (
            self._reported(correlation_id, lambda: None, project_id),
            contextlib.ExitStack() as after_reply,
            self._reported(correlation_id, lambda: command.request_id, project_id),
        ):
            try:
                answer = await self._dispatch.answer(command, self.client, correlation_id, after_reply)
            except ClientError as failure:
                self.client.fail(failure, correlation_id, command.request_id, project_id)
                return
            if answer.type != "ok" or command.request_id is not None:
                self._send(answer, command)

    @contextlib.contextmanager
    def _reported(
        self, correlation_id: str, request_id: Callable[[], str | None], project_id: str | None = None
    ) -> Iterator[None]:
        """Logs an unexpected error under the correlation id, and reports it to the client."""
        try:
            yield
        except Exception:
            logger.exception("%s: internal error", correlation_id)
            self.client.fail(internal_error(), correlation_id, request_id(), project_id)

    def _send(self, answer: Answer[Any], command: Command) -> None:
        frame = Frame(encode(answer, command.request_id), project_id=answer.project_id, seq=answer.seq)
        self.client.send(frame)

    def _begin(self, work: Coroutine[Any, Any, None], what: str) -> asyncio.Task[None]:
        task = self._tasks.start(
            work, f"{self.client.id}: {what}", failed=lambda _: self.client.close(1011, "an internal server error")
        )
        task.add_done_callback(self._finished)
        return task

    def _finished(self, _: asyncio.Task[None]) -> None:
        if self.client.is_closed and not self._tasks:
            self._clients.remove(self.client)

    def _ended(self) -> None:
        if not self._tasks:
            self._clients.remove(self.client)
