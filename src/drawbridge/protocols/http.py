"""One server connection without I/O: HTTP/1.1 requests one after another, or a WebSocket if one of them asks for it.

Feed bytes to ``receive``, handle the events that it returns, and send the bytes of ``outgoing``. h11 parses HTTP. This
module enforces the order and the limits. No part of a body is read before the head is accepted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Final, TypeAlias

import h11
from msgspec import Struct

from drawbridge.protocols import websocket
from drawbridge.protocols.gate import Head, Refusal
from drawbridge.protocols.websocket import Closed as Closed
from drawbridge.protocols.websocket import Message as Message
from drawbridge.protocols.websocket import WebSocketConnection

HEAD_LIMIT: Final = 16_384
"""The maximum size of a request's head, in bytes. The heads that the real CLIs send are smaller than 1 kB."""

MESSAGE_LIMIT: Final = 64 * 1024 * 1024
"""The maximum size of one message or body, in bytes. openDiff contains whole files."""

HEAD_TOO_LONG: Final = f"The head of a request may be at most {HEAD_LIMIT:,} bytes long."

Fields: TypeAlias = Iterable[tuple[str, str]]


class RequestHead(Struct, frozen=True):
    """A request's head is complete. Answer with ``refuse``, ``accept_websocket`` (if ``upgrade``) or ``read_body``."""

    head: Head
    upgrade: bool


class Body(Struct, frozen=True):
    """An accepted request is complete. Answer it with ``answer`` or ``begin_stream``."""

    head: Head
    data: bytes


class HungUp(Struct, frozen=True):
    """An HTTP exchange ended before its answer was complete: the peer disconnected or violated the protocol."""


Event: TypeAlias = RequestHead | Body | HungUp | Message | Closed

_PROBLEMS: Final = {431: HEAD_TOO_LONG, 501: "Only one Transfer-Encoding header is supported, with the value chunked."}
"""Maps the status that h11 suggests for an invalid request to the reason, if the status implies it."""


class HttpConnection:
    """The protocol of one accepted connection. When ``finished`` is true, close the transport once the bytes have been
    sent."""

    def __init__(self, *, message_limit: int = MESSAGE_LIMIT, binary_as_text: bool = True) -> None:
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_LIMIT)
        self._message_limit = message_limit
        self._binary_as_text = binary_as_text
        self._asked: RequestHead | None = None
        self._bodyless = False
        self._body: bytearray | None = None
        self._whole = False
        """Whether a request is complete but its answer is not."""
        self._out: list[bytes] = []
        self._finished = False
        self.websocket: WebSocketConnection | None = None

    @property
    def finished(self) -> bool:
        return self._finished or (self.websocket is not None and self.websocket.finished)

    @property
    def is_websocket(self) -> bool:
        return self.websocket is not None

    @property
    def waits_for_peer(self) -> bool:
        """Whether the connection waits for its peer: for the rest of a head or body, for the next request, or for the
        peer's half of the closing handshake."""
        if self.websocket is not None:
            return not self.websocket.is_open
        return self._finished or not self._whole

    @property
    def takes_body(self) -> bool:
        """Whether a request was accepted and its body is not complete yet."""
        return self._body is not None and not self._whole

    def receive(self, data: bytes) -> Sequence[Event]:
        """Handles bytes from the network; b"" is the end of the stream. Returns the events to handle."""
        if self.websocket is not None:
            return self.websocket.receive(data)
        if self._finished:
            return []
        if not data and self._asked is not None:
            # No client uses half-closed connections, so the end of its data is the end of the connection.
            self._finish()
            return [HungUp()]
        try:
            self._http.receive_data(data)
            return self._advance()
        except h11.RemoteProtocolError as error:
            return self._break(error)

    def outgoing(self) -> list[bytes]:
        """Returns the bytes to send now, in order."""
        out, self._out = self._out, []
        return out + self.websocket.outgoing() if self.websocket is not None else out

    # answers to RequestHead

    def respond(self, status: int, text: str, headers: Fields = ()) -> None:
        """Sends a short plain-text answer, after which the connection ends."""
        self._send_response(status, f"{text}\n".encode(), [("Connection", "close"), *headers])
        self._finish()

    def refuse(self, refusal: Refusal) -> None:
        headers = [] if refusal.retry_after is None else [("Retry-After", str(refusal.retry_after))]
        self.respond(refusal.status, refusal.reason, headers)

    def accept_websocket(self, subprotocol: str | None = None, *, compress: bool = False) -> Sequence[Event]:
        """Opens the WebSocket that a ``RequestHead`` with ``upgrade`` asks for. Returns the events from bytes that
        arrived after the request. ``compress``: accepts compression if the client offers it.

        A request that is not a valid WebSocket handshake is answered with 400 or 426, and no WebSocket is opened.
        """
        assert self._asked is not None, "there is no request to answer with a WebSocket"
        if not self._asked.upgrade:
            self.respond(426, "This path serves WebSockets only.", [("Upgrade", "websocket")])
            return []
        if not self._bodyless or self._http.their_http_version != b"1.1":
            self.respond(400, "A WebSocket handshake must be an HTTP/1.1 request without a body.")
            return []
        answer = websocket.handshake(self._asked.head, subprotocol, compress=compress)
        if answer.status != 101:
            self.respond(answer.status, answer.reason, answer.headers)
            return []
        reason = b"Switching Protocols"
        behind = self._http.trailing_data[0]
        self._http_send(h11.InformationalResponse(status_code=101, headers=list(answer.headers), reason=reason))
        self._forget_unread()
        self.websocket = WebSocketConnection(
            self._message_limit, binary_as_text=self._binary_as_text, compressed=answer.compressed
        )
        return self.websocket.receive(behind) if behind else []

    def read_body(self) -> Sequence[Event]:
        """Accepts the request. Its ``Body`` follows now or later. A body that is too long, or any body of a GET or HEAD
        request, is refused."""
        assert self._asked is not None, "there is no request whose body could be read"
        method = self._asked.head.method
        if method in ("GET", "HEAD") and not self._bodyless:
            self.respond(400, f"A {method} request must not have a body.")
            return []
        if int(self._asked.head.one("content-length") or 0) > self._message_limit:
            self._refuse_length()
            return []
        self._body = bytearray()
        if self._http.they_are_waiting_for_100_continue:
            self._http_send(h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue"))
        try:
            return self._advance()
        except h11.RemoteProtocolError as error:
            return self._break(error)

    # answers to Body

    def answer(self, status: int, body: bytes = b"", headers: Fields = ()) -> Sequence[Event]:
        """Sends a complete answer. The connection stays open unless the peer asked to close it. Returns the events of
        the next request if it has arrived."""
        self._send_response(status, body, headers)
        return self._next_request()

    def begin_stream(self, headers: Fields) -> None:
        """Begins an answer of unknown length. ``stream`` sends pieces of it, and ``end_stream`` ends it."""
        self._http_send(h11.Response(status_code=200, headers=list(headers), reason=b"OK"))

    def stream(self, data: bytes) -> None:
        """Sends a piece of the answer. Does nothing once the exchange is over."""
        if self._http.our_state is h11.SEND_BODY and not self._finished:
            self._http_send(h11.Data(data=data))

    def end_stream(self) -> Sequence[Event]:
        if self._http.our_state is not h11.SEND_BODY or self._finished:
            return []
        self._http_send(h11.EndOfMessage())
        return self._next_request()

    # the WebSocket, once it is open

    def send_text(self, data: bytes) -> None:
        """Sends one message of valid UTF-8, or drops it if the WebSocket is closing or closed."""
        if self.websocket is not None:
            self.websocket.send_text(data)

    def close_websocket(self, code: int, reason: str = "") -> None:
        """Begins the closing handshake. The caller closes the transport if the peer does not finish it in time."""
        if self.websocket is not None:
            self.websocket.close(code, reason)

    # internals

    def _advance(self) -> Sequence[Event]:
        while True:
            if self._asked is not None and self._body is None:
                return []
            event = self._http.next_event()
            if isinstance(event, h11.Request):
                return self._ask(event)
            if isinstance(event, h11.Data) and self._body is not None:
                self._body += event.data
                if len(self._body) > self._message_limit:
                    self._refuse_length()
                    return []
            elif isinstance(event, h11.EndOfMessage) and self._body is not None and self._asked is not None:
                self._whole = True
                return [Body(self._asked.head, bytes(self._body))]
            elif event is h11.NEED_DATA:
                return []
            elif event is h11.PAUSED and len(self._http.trailing_data[0]) <= HEAD_LIMIT:
                return []  # the next request waits until this one is answered, because no peer may send far ahead
            else:
                self._finish()
                return [HungUp()] if self._body is not None else []

    def _ask(self, request: h11.Request) -> Sequence[Event]:
        fields = request.headers.raw_items()
        headers = tuple(
            (name.decode("latin-1").lower(), value.decode("utf-8", "surrogateescape")) for name, value in fields
        )
        head = Head(request.method.decode("latin-1"), request.target.decode("latin-1"), headers)
        # Set before the checks, because a refusal of a HEAD request must not have a body either: h11 raises an error
        # if one is sent, which would reach the event loop.
        self._asked = RequestHead(head, False)
        if len(request.target) + sum(len(name) + len(value) + 4 for name, value in fields) > HEAD_LIMIT:
            # h11's own limit applies only to a head that arrives in pieces.
            self.respond(431, HEAD_TOO_LONG)
            return []
        if head.all("transfer-encoding") and (head.all("content-length") or request.http_version != b"1.1"):
            # RFC 9112, 6.1: a proxy may have found the end of this request in a different place than this server would.
            if request.http_version != b"1.1":
                self.respond(400, "Transfer-Encoding is accepted in HTTP/1.1 only: send Content-Length.")
            else:
                self.respond(400, "Send Content-Length or Transfer-Encoding, not both: the body's length is ambiguous.")
            return []
        wants = "upgrade" in (token.lower() for token in head.tokens("connection"))
        offers = "websocket" in (token.lower() for token in head.tokens("upgrade"))
        self._asked = RequestHead(head, wants and offers)
        self._bodyless = not head.all("transfer-encoding") and head.all("content-length") in ([], ["0"])
        if self._asked.upgrade and self._bodyless:
            self._http.next_event()  # reads the end of the message, because h11 switches the protocol only after that
        return [self._asked]

    def _refuse_length(self) -> None:
        self.respond(413, f"The body of a request may be at most {self._message_limit:,} bytes long.")

    def _break(self, error: h11.RemoteProtocolError) -> Sequence[Event]:
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            status = error.error_status_hint or 400
            self.respond(status, _PROBLEMS.get(status, "This is not a valid HTTP request."))
        self._finish()
        return [HungUp()] if self._body is not None else []

    def _finish(self) -> None:
        """Ends HTTP on this connection. Nothing more is read."""
        self._finished = True
        self._forget_unread()

    def _forget_unread(self) -> None:
        """Drops what h11 has received, because h11 would keep up to 256 kB for as long as the connection lasts."""
        self._http = h11.Connection(h11.SERVER)

    def _next_request(self) -> Sequence[Event]:
        self._asked = self._body = None
        self._whole = False
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            self._finish()
            return []
        self._http.start_next_cycle()
        try:
            return self._advance()
        except h11.RemoteProtocolError as error:
            return self._break(error)

    def _send_response(self, status: int, body: bytes, headers: Fields) -> None:
        fields = {"Content-Type": "text/plain; charset=utf-8", "Content-Length": str(len(body)), **dict(headers)}
        reason = HTTPStatus(status).phrase.encode()
        self._http_send(h11.Response(status_code=status, headers=list(fields.items()), reason=reason))
        if self._asked is None or self._asked.head.method != "HEAD":
            self._http_send(h11.Data(data=body))
        self._http_send(h11.EndOfMessage())

    def _http_send(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if data:
            self._out.append(data)
