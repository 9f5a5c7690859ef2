"""The interface between the HTTP server and its applications, such as the bridge's and the agent server's. Does no
I/O."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from drawbridge.protocols.gate import Head, Refusal
from drawbridge.protocols.http import MESSAGE_LIMIT, Fields


class ServerOptions(Struct, frozen=True):
    """The options of an HTTP server. The bridge uses the defaults."""

    connections: int = 64
    """The maximum number of simultaneous connections, far more than one person's agents need. Waiting connections are
    closed to make room for new ones."""

    waiting: int = 64
    """The maximum number of these connections that may wait for their peer: for the rest of a request, the next
    request, or the end of a closing handshake. New connections are not closed because of this limit while their first
    requests may still arrive, unless too many of them are from one network (``http_server.GRACE_NETWORKS``)."""

    message_bytes: int = MESSAGE_LIMIT
    """The maximum size of one message or body from a peer, in bytes. A longer message ends its WebSocket with 1009. A
    longer body is refused with 413."""

    binary_as_text: bool = True
    """Whether a binary message is read as text. If not, it ends its WebSocket with 1003."""

    congested_bytes: int = 1024 * 1024
    """The number of bytes waiting for a slow peer above which its connection is ``congested``."""

    kernel_bytes: int | None = None
    """The maximum number of unsent bytes that the kernel buffers for a peer, if that can be set, because bytes in the
    kernel can no longer be dropped. None for the system's default.
    """

    ping_seconds: float | None = None
    """Seconds between pings of each WebSocket, which is closed if its peer has sent nothing since the previous ping,
    unless the peer is still reading earlier messages.

    If None, WebSockets are never pinged: a suspended agent (Ctrl-Z) keeps its connection and its diffs, and the kernel
    detects dead connections.
    """

    farewell: str = "the bridge is closing"
    """The reason that peers receive when the server closes (1001)."""


class WebSocket(Protocol):
    """An open WebSocket, as the application uses it."""

    address: str
    """The IP address of the peer, or "" if it has none."""

    def send(self, data: bytes) -> None:
        """Sends one text message (valid UTF-8). On a closed connection, the message is dropped."""
        ...

    @property
    def send_framed(self) -> Callable[[bytes], None]:
        """Sends a text message that ``protocols.websocket.framed`` has already framed, once for many peers."""
        ...

    @property
    def compressed(self) -> bool:
        """Whether ``send_framed`` may also send messages that ``protocols.compression.compressed`` has compressed."""
        ...

    def close(self, code: int = 1000, reason: str = "") -> None: ...

    def hold_reading(self, hold: bool) -> None:
        """Stops reading from the peer if ``hold`` is true, and resumes if it is false."""
        ...

    def limit_unfinished(self, size: int | None) -> None:
        """Ends the WebSocket with 1009 if more than ``size`` bytes of a message have arrived without its end.

        This is for peers that have not sent their token yet. With None, the limit is ``ServerOptions.message_bytes``
        again.
        """
        ...

    @property
    def congested(self) -> bool:
        """Whether the peer reads more slowly than the server writes. If so, optional messages should be dropped."""
        ...


class Peer(Protocol):
    """The application's side of one WebSocket. Its methods are called on the event loop's thread."""

    def received(self, text: str) -> None: ...

    def drained(self) -> None:
        """Called when ``congested`` has become false."""
        ...

    def closed(self, code: int) -> None:
        """Called when the WebSocket has ended. No other call follows."""
        ...


class Exchange(Protocol):
    """One accepted HTTP request, to be answered once. After its peer has disconnected, every answer is dropped."""

    def answer(self, status: int, body: bytes = b"", headers: Fields = ()) -> None: ...

    def begin_stream(self, headers: Fields, ended: Callable[[], None], drained: Callable[[], None]) -> None:
        """Begins an answer of unknown length. ``ended`` is called once, when the peer disconnects or ``end_stream`` is
        called.

        ``drained`` is called when ``congested`` becomes false.
        """
        ...

    def stream(self, data: bytes) -> None: ...

    def end_stream(self) -> None: ...

    @property
    def congested(self) -> bool: ...


class HttpApp(Protocol):
    """An application that handles requests and WebSockets."""

    def admit(self, head: Head, upgrade: bool) -> Refusal | None:
        """Checks the head of a request, such as its origin, host, path and token. Returns why the request is refused;
        None if it is accepted."""
        ...

    def subprotocol(self, head: Head) -> str | None:
        """The WebSocket subprotocol to confirm, which must be one that the client offers; None to confirm none."""
        ...

    def compresses(self, head: Head) -> bool:
        """Whether messages are compressed for this client, if it offers that."""
        ...

    def opened(self, head: Head, websocket: WebSocket) -> Peer: ...

    def requested(self, head: Head, body: bytes, exchange: Exchange) -> None:
        """Handles a plain HTTP request with a complete body."""
        ...
