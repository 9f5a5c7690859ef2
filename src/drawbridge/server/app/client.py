"""One connected client: who it is, what it asks one after the other, what it is told.

Its requests are worked on in their order, so that a page need not wait for one answer before the next question; those
that take long go on beside. Nothing is said before its first message, and that one says who it is.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final, Protocol

from drawbridge.server.app.outbox import Outbox, Writers
from drawbridge.server.auth.audited import refused
from drawbridge.server.auth.scopes import Identity
from drawbridge.server.protocol.commands import LOGINS, ClientError, Command, PermissionResponse, parse, request_id_of
from drawbridge.server.protocol.messages import Answer, encode, error
from drawbridge.server.protocol.subscriber import Frame
from drawbridge.transport.http_app import WebSocket

AUTH_SECONDS: Final = 5.0
"""From the open WebSocket to the token."""

SIGNING_SECONDS: Final = 60.0
"""From the challenge to its signature."""

AUTH_BYTES: Final = 4_096
"""Of the first message of who has not shown a token yet."""

UNFINISHED_BYTES: Final = 4 * AUTH_BYTES
"""The largest unfinished first message that is kept, in bytes."""

INBOX: Final = 64
"""Requests that wait for the ones before; above that nothing more is read from the client."""

ASIDE: Final = 16
"""Requests of one client that take long, at once."""

UNAUTHORIZED: Final = 4401
DISMISSED: Final = 4403
TOO_SLOW: Final = 4408
TOO_OFTEN: Final = 4429

logger = logging.getLogger("drawbridge.server")


class Serves(Protocol):
    """What a client needs of its server."""

    writers: Writers

    def log_in(self, command: Command, client: Client) -> Answer:
        """One of ``LOGINS``: lets the client in, or raises ``ClientError``."""
        ...

    def count_prompt(self, client: Client) -> None:
        """Raises ``ClientError``."""
        ...

    def note(self, event: str, client: Client, **fields: Any) -> None:
        """Into the audit."""
        ...

    def denied(self, client: Client, **fields: Any) -> None:
        """It has asked for what it may not: into the log and the audit."""
        ...

    def authenticated(self, client: Client) -> None: ...

    def takes_long(self, command: Command) -> bool:
        """Whether the requests behind this one need not wait for it."""
        ...

    async def answer(self, command: Command, client: Client, correlation_id: str) -> Answer:
        """Raises ``ClientError``, and nothing else."""
        ...

    def gone(self, client: Client) -> None:
        """The last call: it is connected no more, and all it has asked for is done."""
        ...


class Client:
    """A ``Peer`` of the door and a ``Subscriber`` of the core."""

    def __init__(
        self, id: str, websocket: WebSocket, server: Serves, identity: Identity | None, *, address: str, host: str
    ) -> None:
        """``host``: the name that it came by."""
        self.id = id
        self.address = address
        self.name = self.address or "unknown"
        self.topics: set[str] = set()
        self._silent = True
        self.identity: Identity | None = None
        self.host = host
        self.certificate: str | None = None
        """The SHA-256 of the certificate of this connection."""
        self.nonce: str | None = None
        """Of the challenge that waits for a signature."""
        self._websocket = websocket
        self._server = server
        self.outbox = Outbox(websocket, self._too_slow)
        self._myself = (self,)
        self._inbox: deque[str] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._working = False
        self._held = False
        self._closed = self._dismissed = False
        self._asked = 0
        self._timer: asyncio.TimerHandle | None = None
        if identity is not None:
            self.let_in(identity)
        else:
            late = "the token did not come in time"
            websocket.limit_unfinished(UNFINISHED_BYTES)
            self._timer = asyncio.get_running_loop().call_later(AUTH_SECONDS, self.close, UNAUTHORIZED, late)

    # what the core sees

    @property
    def decides(self) -> bool:
        return self.identity is not None and self.identity.may(PermissionResponse)

    def sees(self, path: Path) -> bool:
        return self.identity is not None and self.identity.sees(path)

    def send(self, frame: Frame) -> None:
        self._server.writers.tell(self._myself, frame)

    async def room(self) -> None:
        await self.outbox.room()

    # what the door sees

    def received(self, text: str) -> None:
        if self._closed:
            return
        if self._silent:  # it is told nothing before
            self._silent = False
            self.topics.add("stats")
        if self.identity is None:
            self._log_in(text)
            return
        self._inbox.append(text)
        if len(self._inbox) > INBOX and not self._held:
            self._held = True
            self._websocket.hold_reading(True)
        if not self._working:
            self._working = True
            self._begin(self._work())

    def drained(self) -> None:
        self.outbox.drained()

    def closed(self, code: int) -> None:
        self._end()

    # what the server sees

    @property
    def is_known(self) -> bool:
        return self.identity is not None

    def let_in(self, identity: Identity) -> None:
        """It is known from now on. A device goes by the name that its owner gave it."""
        if not identity.is_owner:
            self.name = identity.name
        self.identity = identity
        self._websocket.limit_unfinished(None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._server.authenticated(self)

    def log_in(self, command: Command) -> Answer:
        """Once more, by who is known already. Raises ``ClientError``."""
        return self._server.log_in(command, self)

    def note(self, event: tuple[str, dict[str, Any]] | None) -> None:
        """Into the audit, with who it was."""
        if event is not None:
            self._server.note(event[0], self, **event[1])

    def denied(self, error: ClientError, command: Command | None) -> None:
        """Into the log and the audit, where the owner should know. ``command`` None: it could not be read."""
        fields = refused(error, command)
        if fields is not None:
            self._server.denied(self, **fields)

    def wait_longer(self) -> None:
        """For somebody who has to type a passphrase, or to touch a key."""
        if self._timer is not None:
            self._timer.cancel()
            late = "the signature did not come in time"
            self._timer = asyncio.get_running_loop().call_later(SIGNING_SECONDS, self.close, UNAUTHORIZED, late)

    def count_prompt(self) -> None:
        """Raises ``ClientError`` where it gives too many."""
        self._server.count_prompt(self)

    def dismiss(self, why: ClientError, code: int = DISMISSED) -> None:
        """It may not stay, and is told why. What of its requests waits is not done any more."""
        self._dismissed = True
        self._fail(why, self._correlation_id(), None, None)
        self._server.writers.flush()
        self.close(code, why.text)

    def close(self, code: int, reason: str) -> None:
        """What waits to be sent goes nowhere; what it has asked for is still done."""
        if not self._closed:
            logger.info("%s: closing, %d %s", self.id, code, reason)
            self._end()
            self._websocket.close(code, reason)

    async def done(self) -> None:
        """Once nothing of it is being worked on."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    # inside

    def _end(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self.outbox.close()
        if not self._tasks:
            # Not in this turn: it may be in the midst of a broadcast that it was too slow for.
            asyncio.get_running_loop().call_soon(self._server.gone, self)

    def _log_in(self, text: str) -> None:
        short = text if len(text) <= AUTH_BYTES else ""
        try:
            command = parse(short)
        except ClientError:
            command = Command()
        try:
            if not isinstance(command, LOGINS):
                raise ClientError("UNAUTHORIZED", "The first message must be `auth` with the token. Nothing was done.")
            answer = self._server.log_in(command, self)
        except ClientError as failure:
            logger.info("%s: %s has not shown the token: %s", self.id, self.address, failure.code)
            self.send(Frame(error(failure, self._correlation_id(), request_id_of(short))))
            self._server.writers.flush()
            self.close(TOO_OFTEN if failure.code == "RATE_LIMITED" else UNAUTHORIZED, failure.text)
            return
        self.send(Frame(encode(answer, command.request_id)))

    async def _work(self) -> None:
        while self._inbox:
            text = self._inbox.popleft()
            if self._held and len(self._inbox) < INBOX // 2:
                self._held = False
                self._websocket.hold_reading(False)
            await self._take(text)
            await asyncio.sleep(0)  # others have their turn between two requests of one
        self._working = False

    async def _take(self, text: str) -> None:
        correlation_id = self._correlation_id()
        try:
            command = parse(text)
        except ClientError as failure:
            self.denied(failure, None)
            self._fail(failure, correlation_id, request_id_of(text), None)
            return
        if not self._server.takes_long(command):
            await self._answer(command, correlation_id)
            return
        while len(self._tasks) > ASIDE:
            others = {task for task in self._tasks if task is not asyncio.current_task()}
            await asyncio.wait(others, return_when=asyncio.FIRST_COMPLETED)
        self._begin(self._answer(command, correlation_id))

    async def _answer(self, command: Command, correlation_id: str) -> None:
        if self._dismissed:
            return
        project_id = getattr(command, "project_id", None) or None
        try:
            answer = await self._server.answer(command, self, correlation_id)
        except ClientError as failure:
            self._fail(failure, correlation_id, command.request_id, project_id)
            return
        if answer.type != "ok" or command.request_id is not None:
            self.send(Frame(encode(answer, command.request_id), project_id=answer.project_id, seq=answer.seq))

    def _fail(self, failure: ClientError, correlation_id: str, request_id: str | None, project_id: str | None) -> None:
        logger.info("%s: %s: %s", correlation_id, failure.code, failure.text)
        self.send(Frame(error(failure, correlation_id, request_id, project_id)))

    def _correlation_id(self) -> str:
        self._asked += 1
        return f"{self.id}-{self._asked}"

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._closed and not self._tasks:
            self._server.gone(self)
        if not task.cancelled() and task.exception() is not None:
            logger.error("%s: a fault of ours ends its connection", self.id, exc_info=task.exception())
            self.close(1011, "a fault of the server's")

    def _too_slow(self) -> None:
        self.close(TOO_SLOW, "too slow: connect again and join with after_seq")
