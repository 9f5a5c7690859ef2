"""A session with a running Neovim: calls, notifications and the end of the connection, on asyncio."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from drawbridge.core.errors import BadMessage, DrawbridgeError, EditorGone, EditorHung
from drawbridge.protocols.msgpack_rpc import Connection, Event, Notification, Request

CALL_SECONDS: Final = 5.0
"""The timeout of a call, in seconds. Neovim does not answer while it asks "Press ENTER" or runs a long command."""

CONNECT_SECONDS: Final = 5.0

HANDLE: Final = "return require('drawbridge.link').handle(...)"

GONE: Final = "Neovim has ended, or closed the connection."
HUNG: Final = (
    "Neovim did not answer within 5 seconds. If it is waiting for a key (Press ENTER), press one, then try again."
)

OnNotification: TypeAlias = Callable[[str, list[Any]], None]


class NeovimError(DrawbridgeError):
    """Neovim refused a call, or the Lua code in it failed. The text is Neovim's."""

    code = "EDITOR_ERROR"


class Session(asyncio.Protocol):
    """One connection."""

    def __init__(self) -> None:
        self._wire = Connection()
        self._writer: asyncio.WriteTransport | None = None
        self._reader: asyncio.BaseTransport | None = None
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._gone = False
        self.call_seconds: float | None = None
        """The timeout of this session's calls, in seconds; if None, ``CALL_SECONDS``."""
        self._on_notification: OnNotification = lambda method, params: None
        self._on_gone: Callable[[], None] = lambda: None

    @property
    def is_gone(self) -> bool:
        return self._gone

    def listen(self, on_notification: OnNotification, on_gone: Callable[[], None]) -> None:
        """Passes on what Neovim sends from now on. Both functions are called from the event loop, ``on_gone`` only once,
        when the connection has ended."""
        self._on_notification = on_notification
        self._on_gone = on_gone

    async def call(self, method: str, *params: Any) -> Any:
        """Calls an API function and returns its result. Raises ``NeovimError``, ``EditorHung`` or ``EditorGone``.

        An answer that arrives after ``EditorHung`` is dropped, but the call may still be executed.
        """
        if self._gone:
            raise EditorGone(GONE)
        id, data = self._wire.request(method, params)
        answer = self._pending[id] = asyncio.get_running_loop().create_future()
        try:
            self._send(data)
            async with asyncio.timeout(self.call_seconds or CALL_SECONDS):
                return await answer
        except TimeoutError:
            raise EditorHung(HUNG) from None
        finally:
            del self._pending[id]

    async def lua(self, method: str, params: dict[str, Any]) -> Any:
        """Calls ``lua/drawbridge/link.lua`` and returns its answer."""
        return await self.call("nvim_exec_lua", HANDLE, [method, params])

    def notify_lua(self, method: str, params: dict[str, Any]) -> None:
        """Like ``lua``, but without an answer. It is executed after all earlier calls."""
        self.notify("nvim_exec_lua", HANDLE, [method, params])

    def notify(self, method: str, *params: Any) -> None:
        if not self._gone:
            self._send(self._wire.notify(method, params))

    def close(self) -> None:
        """Closes the connection. Pending calls raise ``EditorGone``. Idempotent."""
        if self._reader is not None:
            self._reader.close()
        if self._writer is not None:
            self._writer.close()
        self._end()

    def use_writer(self, transport: asyncio.WriteTransport) -> None:
        """Makes the session write to ``transport`` instead of the pipe that it reads from."""
        self._writer = transport

    # Called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._reader = transport
        if isinstance(transport, asyncio.WriteTransport):
            self._writer = transport

    def data_received(self, data: bytes) -> None:
        try:
            events = self._wire.receive(data)
        except BadMessage:
            self.close()
            return
        for event in events:
            self._handle(event)

    def eof_received(self) -> None:
        self.close()

    def connection_lost(self, error: Exception | None) -> None:
        self.close()

    def _send(self, data: bytes) -> None:
        if self._writer is not None:
            self._writer.write(data)

    def _handle(self, event: Event) -> None:
        if isinstance(event, Notification):
            self._on_notification(event.method, event.params)
        elif isinstance(event, Request):
            self._send(self._wire.respond(event.id, error=f"Drawbridge has no function {event.method!r}."))
        elif (answer := self._pending.get(event.id)) is not None and not answer.done():
            if event.error is None:
                answer.set_result(event.result)
            else:
                answer.set_exception(NeovimError(_error_text(event.error)))

    def _end(self) -> None:
        if self._gone:
            return
        self._gone = True
        for answer in self._pending.values():
            if not answer.done():
                answer.set_exception(EditorGone(GONE))
        self._on_gone()


def _error_text(error: Any) -> str:
    """The message of an error. Neovim's errors are ``[type, message]``."""
    match error:
        case [_, str(message)]:
            return message
        case _:
            return str(error)


async def connect(address: str) -> Session:
    """A session with the Neovim that listens on ``address``: a socket's path, or ``host:port``. Raises
    ``EditorGone``."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            host, separator, port = address.rpartition(":")
            if separator and port.isdecimal() and "/" not in address:
                _, session = await loop.create_connection(Session, host, int(port))
            else:
                _, session = await loop.create_unix_connection(Session, address)
    except (OSError, ValueError) as error:
        # TimeoutError is an OSError. A path that is too long for a socket raises OSError, and one with NUL raises
        # ValueError.
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error) or "no answer"
        raise EditorGone(f"Can't connect to Neovim at {address}: {reason.lower()}.") from None
    return session


async def inherited() -> Session:
    """A session over this process's own stdin and stdout, as a child of ``jobstart(..., {'rpc': v:true})``. Raises
    ``EditorGone``."""
    loop = asyncio.get_running_loop()
    output = os.dup(sys.stdout.fileno())
    # From now on no printed text may be mixed with the messages.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        _, session = await loop.connect_read_pipe(Session, sys.stdin)
        writer, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(output, "wb", buffering=0))
    except (OSError, ValueError) as error:
        raise EditorGone(f"stdin and stdout are not a connection to Neovim: {error}.") from None
    session.use_writer(writer)
    return session
