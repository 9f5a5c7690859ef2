"""The one HTTP door of every job: the asyncio shell of ``wire.http``.

A job puts a ``Site`` behind it. Each request's head goes through the site's gate before anything else of it is read; heads
and handshakes are bounded in size, number and time.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from drawbridge.wire.gate import Head, Refusal
from drawbridge.wire.http import Asked, Body, Closed, Event, Fields, HttpConnection, HungUp, Message

HANDSHAKE_SECONDS: Final = 5.0
"""From the accepted connection to the end of the request's head."""

BODY_SECONDS: Final = 60.0
"""From the head to the end of the body, for a request that was let in."""

IDLE_SECONDS: Final = 60.0
"""How long an HTTP connection is kept for a next request."""

CLOSING_SECONDS: Final = 2.0
"""How long a peer may take for its half of a close."""

CONNECTION_LIMIT: Final = 64
"""Connections at once at one door, far above what one person's agents need. Idle ones give way, the oldest first."""

HIGH_WATER: Final = 1024 * 1024
"""Bytes waiting for a slow peer above which nothing is read from it and ``WebSocket.congested`` is true."""

logger = logging.getLogger("drawbridge.door")


class WebSocket(Protocol):
    """An open WebSocket, as a site sees it."""

    def send(self, data: bytes) -> None:
        """Send one text message (valid UTF-8). On a closed connection it goes nowhere."""
        ...

    def close(self, code: int = 1000, reason: str = "") -> None: ...

    @property
    def congested(self) -> bool:
        """The peer reads slower than we write: hold back what can be left out."""
        ...


class Peer(Protocol):
    """What a site does with one WebSocket. Called from the event loop's thread."""

    def received(self, text: str) -> None: ...

    def drained(self) -> None:
        """``congested`` became false."""
        ...

    def closed(self, code: int) -> None:
        """The last call."""
        ...


class Exchange(Protocol):
    """One HTTP request that was let in, to be answered once. After its peer has gone every answer goes nowhere."""

    def answer(self, status: int, body: bytes = b"", headers: Fields = ()) -> None: ...

    def begin_stream(self, headers: Fields, ended: Callable[[], None], drained: Callable[[], None]) -> None:
        """An answer of unknown length. ``ended`` is called once, when the peer goes or ``end_stream`` was called.

        ``drained`` is called when ``congested`` became false.
        """
        ...

    def stream(self, data: bytes) -> None: ...

    def end_stream(self) -> None: ...

    @property
    def congested(self) -> bool: ...


class Site(Protocol):
    """What stands behind a door."""

    def admit(self, head: Head, upgrade: bool) -> Refusal | None:
        """Whether this request may enter; the site's gate."""
        ...

    def subprotocol(self, head: Head) -> str | None:
        """The WebSocket subprotocol to confirm, out of those offered."""
        ...

    def opened(self, head: Head, websocket: WebSocket) -> Peer: ...

    def requested(self, head: Head, body: bytes, exchange: Exchange) -> None:
        """A plain HTTP request, whole."""
        ...


class Door:
    """Listens with an already listening socket. ``async with`` closes it and all its connections."""

    def __init__(self, site: Site, listener: socket.socket) -> None:
        self.site = site
        self._listener = listener
        self._server: asyncio.Server | None = None
        self.connections: dict[_Connection, None] = {}

    async def __aenter__(self) -> Door:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), sock=self._listener, backlog=128)
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._server is not None
        self._server.close()
        connections = list(self.connections)
        for connection in connections:
            connection.close(1001, "the editor is going away")
        if connections:
            await asyncio.wait([connection.lost for connection in connections], timeout=CLOSING_SECONDS)
        left = list(self.connections)
        for connection in left:
            connection.abort()
        if left:
            await asyncio.wait([connection.lost for connection in left])

    def make_room(self) -> bool:
        """For one connection more. False: all places are taken by peers that were let in and have something to say."""
        if len(self.connections) < CONNECTION_LIMIT:
            return True
        idle = next((connection for connection in self.connections if connection.is_idle), None)
        logger.warning("%d connections are open: %s", CONNECTION_LIMIT, "refused one" if idle is None else "cut one")
        if idle is not None:
            del self.connections[idle]
            idle.abort()
        return idle is not None


class _Connection(asyncio.Protocol):
    def __init__(self, door: Door) -> None:
        self._door = door
        self._http = HttpConnection()
        self._peer: Peer | None = None
        self._ended: Callable[[], None] | None = None
        self._drained: Callable[[], None] = _nothing
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._events: deque[Event] = deque()
        self._handling = False
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.congested = False

    # asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if not self._door.make_room():
            transport.abort()
            return
        self._door.connections[self] = None
        transport.set_write_buffer_limits(HIGH_WATER)
        sock = transport.get_extra_info("socket")
        if sock is not None:
            # A dead peer is noticed by the kernel; a suspended one (Ctrl-Z) keeps its connection and its diffs.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._end_in(HANDSHAKE_SECONDS)

    def data_received(self, data: bytes) -> None:
        self._handle(self._http.receive(data))

    def eof_received(self) -> bool:
        self._handle(self._http.receive(b""))
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._door.connections.pop(self, None)
        self._stop_timer()
        self._handle(self._http.receive(b""))
        if not self.lost.done():
            self.lost.set_result(None)

    def pause_writing(self) -> None:
        self.congested = True
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self.congested = False
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
        self._drained()

    @property
    def is_idle(self) -> bool:
        """It was not let in yet, or all it asked for is answered."""
        return self._http.is_idle

    # WebSocket

    def send(self, data: bytes) -> None:
        self._http.send_text(data)
        self._flush()

    def close(self, code: int = 1000, reason: str = "") -> None:
        if self._http.is_websocket:
            self._http.close_websocket(code, reason)
            self._flush()
            self._end_in(CLOSING_SECONDS)
        elif self._transport is not None:
            self.end_stream()
            self._transport.close()
            self._end_in(CLOSING_SECONDS)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # Exchange

    def answer(self, status: int, body: bytes = b"", headers: Fields = ()) -> None:
        if not self._http.finished:
            self._end_in(IDLE_SECONDS)
            self._handle(self._http.answer(status, body, headers))

    def begin_stream(self, headers: Fields, ended: Callable[[], None], drained: Callable[[], None]) -> None:
        if self._http.finished:
            ended()
            return
        self._stop_timer()
        self._ended, self._drained = ended, drained
        self._http.begin_stream(headers)
        self._flush()

    def stream(self, data: bytes) -> None:
        self._http.stream(data)
        self._flush()

    def end_stream(self) -> None:
        if self._ended is not None:
            self._hang_up()
            self._end_in(IDLE_SECONDS)
            self._handle(self._http.end_stream())

    def _hang_up(self) -> None:
        ended, self._ended, self._drained = self._ended, None, _nothing
        if ended is not None:
            ended()

    # the one paragraph of the shell: hand up, flush

    def _handle(self, events: Sequence[Event]) -> None:
        """Those that an answer brings forth wait for their turn: a thousand requests behind each other are no recursion."""
        self._events += events
        if self._handling:
            return
        self._handling = True
        try:
            while self._events:
                self._handle_one(self._events.popleft())
        finally:
            self._handling = False
            self._events.clear()
        self._flush()

    def _handle_one(self, event: Event) -> None:
        match event:
            case Asked():
                self._decide(event)
            case Body(head, data):
                self._stop_timer()
                self._door.site.requested(head, data, self)
            case HungUp():
                self._hang_up()
            case Message(text):
                if self._peer is not None:
                    self._peer.received(text)
            case Closed(code):
                peer, self._peer = self._peer, None
                if peer is not None:
                    peer.closed(code)

    def _decide(self, asked: Asked) -> None:
        site, head = self._door.site, asked.head
        refusal = site.admit(head, asked.upgrade)
        if refusal is not None:
            logger.warning("refused a request: %s", refusal.reason)
            self._http.refuse(refusal)
        elif asked.upgrade:
            self._open_websocket(head)
        else:
            self._end_in(BODY_SECONDS)
            self._handle(self._http.read_body())

    def _open_websocket(self, head: Head) -> None:
        behind = self._http.accept_websocket(self._door.site.subprotocol(head))
        if self._http.is_websocket:
            self._stop_timer()
            self._flush()
            self._peer = self._door.site.opened(head, self)
            self._drained = self._peer.drained
            self._handle(behind)

    def _flush(self) -> None:
        transport = self._transport
        out = self._http.outgoing()
        if transport is None or transport.is_closing():
            return
        if out:
            transport.writelines(out)
        if self._http.finished:
            transport.close()
            self._end_in(CLOSING_SECONDS)

    def _end_in(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _nothing() -> None:
    pass
