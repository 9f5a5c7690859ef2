"""The HTTP server of the bridge, the agent server and its metrics: runs ``protocols.http`` on asyncio.

Each of them supplies an ``HttpApp``, which admits or refuses each request based on its head, before the rest of the
request is read. Heads and handshakes are limited in size, number and time.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter, deque
from collections.abc import Callable, Sequence
from ssl import SSLContext
from typing import Final, cast

from msgspec import structs

from drawbridge.core.addresses import network_of, unmapped
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.protocols.gate import Head, Refusal
from drawbridge.protocols.http import Body, Closed, Event, Fields, HttpConnection, HungUp, Message, RequestHead
from drawbridge.transport.http_app import Exchange as Exchange
from drawbridge.transport.http_app import HttpApp as HttpApp
from drawbridge.transport.http_app import Peer as Peer
from drawbridge.transport.http_app import ServerOptions as ServerOptions
from drawbridge.transport.http_app import WebSocket as WebSocket
from drawbridge.transport.tls_acceptor import TlsAcceptor

BACKLOG: Final = 512
"""The maximum number of connections that wait to be accepted. If the queue is full, the clients' operating systems
retry automatically within a few seconds."""

ACCEPTED_AT_ONCE: Final = 16
"""The maximum number of connections that the event loop accepts before it continues with other work. Without this
limit, a crowd that connects at the same moment delays every answer until the whole queue is accepted."""

HANDSHAKE_SECONDS: Final = 5.0
"""Seconds that the TLS handshake may take, and seconds after it within which the head of the first request must be
complete."""

GRACE_SECONDS: Final = 1.0
"""Seconds that the peer of a new connection gets for its first request even if there are too many connections. After
the server restarts, many clients reconnect at the same moment, some over a slow network.
"""

GRACE_NETWORKS: Final = 64
"""The maximum number of connections from one network (``core.addresses``) that have ``GRACE_SECONDS`` at the same time.
If there are more, the oldest may be closed earlier."""

BODY_SECONDS: Final = 60.0
"""Seconds that an accepted request may take from the end of its head to the end of its body."""

IDLE_SECONDS: Final = 60.0
"""Seconds for which an HTTP connection is kept open for the next request."""

CLOSING_SECONDS: Final = 2.0
"""Seconds that closing a connection may take, including its closing handshake."""

HIGH_WATER: Final = 1024 * 1024
"""The number of bytes waiting for a slow peer above which nothing more is read from it."""

REPORT_SECONDS: Final = 1.0
"""The minimum time between two log lines about too many connections, and between two about refused requests, in
seconds. Otherwise, a peer could fill the log."""

DEFAULT_OPTIONS: Final = ServerOptions()

logger = logging.getLogger("drawbridge.http_server")


class HttpServer:
    """Serves ``app`` on a socket that is already listening. Leaving ``async with`` closes it and all its
    connections."""

    def __init__(
        self,
        app: HttpApp,
        listener: socket.socket,
        options: ServerOptions = DEFAULT_OPTIONS,
        tls: SSLContext | None = None,
    ) -> None:
        self.app = app
        self.options = options
        self.connections: dict[_Connection, None] = {}
        self._listener = listener
        self._tls = tls
        self._server: asyncio.Server | TlsAcceptor | None = None
        self._tasks = BackgroundTasks(logger)
        self._reported_at = float("-inf")
        self._reported_refusal_at = float("-inf")

    async def __aenter__(self) -> HttpServer:
        def connect() -> _Connection:
            return _Connection(self)

        if self._tls is None:
            loop = asyncio.get_running_loop()
            # asyncio uses the same number for the queue and for the connections that it accepts at once.
            self._server = await loop.create_server(connect, sock=self._listener, backlog=ACCEPTED_AT_ONCE)
            self._listener.listen(BACKLOG)
        else:
            self._server = TlsAcceptor(
                self._listener, self._tls, connect, shaking=HANDSHAKE_SECONDS, closing=CLOSING_SECONDS
            )
        if self.options.ping_seconds is not None:
            self._tasks.repeat(self._ping_all, self.options.ping_seconds, "pinging the connections")
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._server is not None
        self._server.close()
        await self._tasks.close()
        connections = list(self.connections)
        for connection in connections:
            connection.close(1001, self.options.farewell)
        if connections:
            await asyncio.wait([connection.lost for connection in connections], timeout=CLOSING_SECONDS)
        left = list(self.connections)
        for connection in left:
            connection.abort()
        if left:
            await asyncio.wait([connection.lost for connection in left])
        if isinstance(self._server, TlsAcceptor):
            await self._server.wait_closed()

    def add(self, connection: _Connection) -> bool:
        """Adds a new connection. Returns False if the server is full."""
        has_room = self._make_room()
        if has_room:
            self.connections[connection] = None
        return has_room

    def _make_room(self) -> bool:
        """Makes room for one more connection. Returns False if the server is full and no connection may be closed,
        because all are open WebSockets, requests that are being answered, or new connections from many networks that
        may still send their first requests.
        """
        while True:
            waiting = [connection for connection in self.connections if connection.waits_for_peer]
            is_full = len(self.connections) >= self.options.connections
            if not is_full and len(waiting) < self.options.waiting:
                return True
            replaceable = _replaceable(waiting)
            if is_full:
                self._report("closed one that was waiting for its client" if replaceable else "refused a new one")
            if not replaceable:
                return not is_full
            self._cut_one_of(replaceable)

    def _cut_one_of(self, replaceable: list[_Connection]) -> None:
        """Closes the oldest connection from the network with the most connections, so that many clients at one address,
        or in one IPv6 network, cut off only each other.
        """
        crowds = Counter(connection.network for connection in replaceable)
        cut = max(replaceable, key=lambda connection: crowds[connection.network])
        self.connections.pop(cut, None)
        cut.abort()

    def _report(self, what: str) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._reported_at >= REPORT_SECONDS:
            self._reported_at = now
            logger.warning("the limit of %d connections is reached: %s", self.options.connections, what)

    def report_refusal(self, refusal: Refusal) -> None:
        now = asyncio.get_running_loop().time()
        if refusal.retry_after is None and now - self._reported_refusal_at >= REPORT_SECONDS:
            self._reported_refusal_at = now
            logger.warning("refused a request: %s", refusal.reason)
        else:
            logger.debug("refused a request: %s", refusal.reason)

    async def _ping_all(self) -> None:
        for connection in list(self.connections):
            connection.ping_or_cut()


def _replaceable(waiting: list[_Connection]) -> list[_Connection]:
    """The connections in ``waiting`` that may be closed for a new one. Connections that wait for the rest of an
    accepted request may be closed only if there are no others.
    """
    strangers = [connection for connection in waiting if not connection.takes_body]
    if not strangers:
        return waiting
    crowds = Counter(connection.network for connection in strangers if connection.is_new)
    return [one for one in strangers if not one.is_new or crowds[one.network] > GRACE_NETWORKS]


class _Connection(asyncio.Protocol):
    def __init__(self, server: HttpServer) -> None:
        options = server.options
        self._server = server
        self._http = HttpConnection(message_limit=options.message_bytes, binary_as_text=options.binary_as_text)
        self._peer: Peer | None = None
        self._ended: Callable[[], None] | None = None
        self._drained: Callable[[], None] = _nothing
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._events: deque[Event] = deque()
        self._handling = False
        self._held = False
        self._pinged = False
        self._unsent = 0
        self.send_framed: Callable[[bytes], None] = _dropped
        """The transport's own ``write`` while the WebSocket is open. It is called directly, because most bytes of a
        broadcast are sent this way."""
        self.address = self.network = ""
        self._made_at = asyncio.get_running_loop().time()
        self._has_asked = False
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.congested = False

    # asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports behave the same way but are not subclasses.
        self._transport = transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self.address = unmapped(peer[0]) if isinstance(peer, tuple) else ""
        self.network = network_of(self.address)
        self._made_at = asyncio.get_running_loop().time()  # over TLS, the handshake is complete by now
        if not self._server.add(self):
            transport.abort()
            return
        transport.set_write_buffer_limits(self._server.options.congested_bytes)
        sock = transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._server.options.kernel_bytes is not None and hasattr(socket, "TCP_NOTSENT_LOWAT"):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, self._server.options.kernel_bytes)
        self._end_in(HANDSHAKE_SECONDS)

    def data_received(self, data: bytes) -> None:
        self._pinged = False
        self._handle(self._http.receive(data))
        if self.congested:
            self._read_or_not()

    def eof_received(self) -> bool:
        self._handle(self._http.receive(b""))
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.pop(self, None)
        self._stop_timer()
        self._handle(self._http.receive(b""))
        # Breaks the reference cycle, so that the buffers are freed now, not at the next garbage collection.
        self._transport, self._drained, self.send_framed = None, _nothing, _dropped
        if not self.lost.done():
            self.lost.set_result(None)

    def pause_writing(self) -> None:
        self.congested = True
        self._read_or_not()

    def resume_writing(self) -> None:
        self.congested = False
        self._read_or_not()
        self._drained()

    def hold_reading(self, hold: bool) -> None:
        self._held = hold
        self._read_or_not()

    def _read_or_not(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        full = self.congested and transport.get_write_buffer_size() >= HIGH_WATER
        if self._held or full:
            transport.pause_reading()
        else:
            transport.resume_reading()

    @property
    def waits_for_peer(self) -> bool:
        """Whether the connection waits for something from its peer, which may never arrive."""
        return self._http.waits_for_peer

    @property
    def is_new(self) -> bool:
        """Whether its first request may still be on its way (``GRACE_SECONDS``)."""
        return not self._has_asked and asyncio.get_running_loop().time() - self._made_at < GRACE_SECONDS

    @property
    def takes_body(self) -> bool:
        """Whether its request was accepted and the body is not complete yet."""
        return self._http.takes_body

    # WebSocket

    def send(self, data: bytes) -> None:
        self._http.send_text(data)
        self._flush()

    def limit_unfinished(self, size: int | None) -> None:
        if self._http.websocket is not None:
            self._http.websocket.limit_unfinished(size)

    @property
    def compressed(self) -> bool:
        return self._http.websocket is not None and self._http.websocket.compressed

    def ping_or_cut(self) -> None:
        """Pings an open WebSocket, or closes it if its peer has sent nothing since the last ping, unless the peer is
        still reading earlier messages."""
        websocket, transport = self._http.websocket, self._transport
        if websocket is None or transport is None or not websocket.is_open:
            return
        unsent = transport.get_write_buffer_size()
        if self._pinged and not 0 < unsent < self._unsent:
            logger.info("closing the connection of a client that has stopped responding")
            self.abort()
            return
        self._pinged, self._unsent = True, unsent
        websocket.ping()
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
        self.send_framed = _dropped
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

    # events of the protocol: handle each one, then flush

    def _handle(self, events: Sequence[Event]) -> None:
        """Handles events. Events that an answer causes are queued, so that a thousand pipelined requests do not
        recurse."""
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
            case RequestHead():
                self._decide(event)
            case Body(head, data):
                self._stop_timer()
                self._server.app.requested(head, data, self)
            case HungUp():
                self._hang_up()
            case Message(text):
                if self._peer is not None:
                    self._peer.received(text)
            case Closed(code):
                peer, self._peer = self._peer, None
                if peer is not None:
                    peer.closed(code)

    def _decide(self, asked: RequestHead) -> None:
        self._has_asked = True
        app, head = self._server.app, structs.replace(asked.head, peer=self.address)
        refusal = app.admit(head, asked.upgrade)
        if refusal is not None:
            self._server.report_refusal(refusal)
            self._http.refuse(refusal)
        elif asked.upgrade:
            self._open_websocket(head)
        else:
            self._end_in(BODY_SECONDS)
            self._handle(self._http.read_body())

    def _open_websocket(self, head: Head) -> None:
        app = self._server.app
        behind = self._http.accept_websocket(app.subprotocol(head), compress=app.compresses(head))
        if self._http.is_websocket:
            self._stop_timer()
            self._flush()
            self._peer = app.opened(head, self)
            self._drained = self._peer.drained
            self._handle(behind)

    def _flush(self) -> None:
        transport = self._transport
        out = self._http.outgoing()
        if transport is None or transport.is_closing():
            self.send_framed = _dropped
            return
        if out:
            transport.writelines(out)
        if self._http.finished:
            transport.close()
            self._end_in(CLOSING_SECONDS)
        websocket = self._http.websocket
        is_open = websocket is not None and websocket.is_open and not self._http.finished
        self.send_framed = transport.write if is_open else _dropped

    def _end_in(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _nothing() -> None:
    pass


def _dropped(data: bytes) -> None:
    pass
