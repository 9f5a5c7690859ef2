"""One server connection without I/O: an HTTP/1.1 request, and a WebSocket if that request asked for one.

Feed bytes to ``receive``, act on the events that it returns, send what ``outgoing`` gives. HTTP is h11's, frames are the
sans-I/O protocol's of ``websockets``; what is ours is the order of things and the bounds.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable
from http import HTTPStatus
from typing import Final, TypeAlias

import h11
from msgspec import Struct
from websockets.frames import Frame, Opcode
from websockets.protocol import OPEN, SEND_EOF, SERVER
from websockets.protocol import Protocol as Frames

from drawbridge.wire.gate import Head, Refusal

HEAD_LIMIT: Final = 16_384
"""Bytes of a request's head; the real CLI's is under 1 kB."""

MESSAGE_LIMIT: Final = 64 * 1024 * 1024
"""Bytes of one message, all its fragments together: openDiff carries whole files."""

_WEBSOCKET_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, 1.3


class Asked(Struct, frozen=True):
    """A request's head is complete. Answer with ``respond`` or ``accept_websocket``. ``upgrade``: it asks for a WebSocket."""

    head: Head
    upgrade: bool


class Message(Struct, frozen=True):
    """A whole WebSocket message. Binary ones are taken as text, as the peers do."""

    text: str


class Closed(Struct, frozen=True):
    """The WebSocket ended, by either side or by a broken frame: RFC 6455 close code (1006: no close frame came)."""

    code: int


Event: TypeAlias = Asked | Message | Closed


class HttpConnection:
    """The protocol of one accepted connection. After ``finished`` is true, close the transport once the bytes are out."""

    def __init__(self, *, message_limit: int = MESSAGE_LIMIT) -> None:
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_LIMIT)
        self._frames: Frames | None = None
        self._message_limit = message_limit
        self._parts = bytearray()
        self._asked: Asked | None = None
        self._closed_told = False
        self._not_text = False
        self._out: list[bytes] = []
        self.finished = False

    # bytes in, events out

    def receive(self, data: bytes) -> list[Event]:
        """Take bytes from the network; b"" is its end."""
        if self.finished and self._frames is None:
            return []
        if self._frames is not None:
            return self._receive_frames(data)
        return self._receive_http(data)

    def outgoing(self) -> list[bytes]:
        """What to send now, in order."""
        out, self._out = self._out, []
        return out

    @property
    def is_websocket(self) -> bool:
        return self._frames is not None

    # answers to Asked

    def respond(self, status: int, text: str, headers: Iterable[tuple[str, str]] = ()) -> None:
        """A short plain answer; the connection ends after it."""
        body = f"{text}\n".encode()
        fields = [
            ("Content-Type", "text/plain; charset=utf-8"),
            ("Content-Length", str(len(body))),
            ("Connection", "close"),
            *headers,
        ]
        self._http_send(h11.Response(status_code=status, headers=fields, reason=HTTPStatus(status).phrase.encode()))
        self._http_send(h11.Data(data=body))
        self._http_send(h11.EndOfMessage())
        self.finished = True

    def refuse(self, refusal: Refusal) -> None:
        self.respond(refusal.status, refusal.reason)

    def accept_websocket(self, subprotocol: str | None = None) -> list[Event]:
        """Answer an ``Asked`` with ``upgrade``; events that came in behind the request are returned.

        A request that is no valid WebSocket handshake (RFC 6455, 4.2.1) is answered 400 or 426 and nothing is opened.
        """
        if self._asked is None:
            raise RuntimeError("nobody asked for a WebSocket")
        if not self._asked.upgrade:
            self.respond(426, "Here a WebSocket is served, nothing else.", [("Upgrade", "websocket")])
            return []
        head = self._asked.head
        key = head.one("sec-websocket-key") or ""
        if head.one("sec-websocket-version") != "13":
            self.respond(426, "Only version 13 of the WebSocket protocol is served.", [("Sec-WebSocket-Version", "13")])
            return []
        if head.method != "GET" or not _is_nonce(key):
            self.respond(400, "This is no valid WebSocket handshake.")
            return []
        digest = hashlib.sha1(key.encode() + _WEBSOCKET_GUID, usedforsecurity=False).digest()
        headers = [
            ("Upgrade", "websocket"),
            ("Connection", "Upgrade"),
            ("Sec-WebSocket-Accept", base64.b64encode(digest).decode()),
        ]
        if subprotocol is not None:
            headers.append(("Sec-WebSocket-Protocol", subprotocol))
        self._http_send(h11.InformationalResponse(status_code=101, headers=headers, reason=b"Switching Protocols"))
        self._frames = Frames(SERVER, state=OPEN, max_size=self._message_limit)
        behind = self._http.trailing_data[0]
        return self._receive_frames(behind) if behind else []

    # the WebSocket

    def send_text(self, data: bytes) -> None:
        """Send one message of valid UTF-8. After the end of the WebSocket it goes nowhere."""
        if self._frames is not None and self._frames.state is OPEN:
            self._frames.send_text(data)
            self._flush_frames()

    def close_websocket(self, code: int, reason: str = "") -> None:
        """Begin the closing handshake. The shell closes the transport if the peer does not finish it in time."""
        if self._frames is not None and self._frames.state is OPEN:
            self._frames.send_close(code, reason)
            self._flush_frames()

    def _receive_http(self, data: bytes) -> list[Event]:
        try:
            self._http.receive_data(data)
            while self._asked is None:
                event = self._http.next_event()
                if isinstance(event, h11.Request):
                    return [self._ask(event)]
                if event is h11.NEED_DATA:
                    return []
                if event is h11.PAUSED or isinstance(event, h11.ConnectionClosed):
                    self.finished = True
                    return []
        except h11.RemoteProtocolError as error:
            self._answer_broken_request(error)
        return []

    def _ask(self, request: h11.Request) -> Asked:
        headers = tuple((name.decode("latin-1"), _text(value)) for name, value in request.headers)
        head = Head(request.method.decode("latin-1"), request.target.decode("latin-1"), headers)
        wants = "upgrade" in (token.lower() for token in head.tokens("connection"))
        offers = "websocket" in (token.lower() for token in head.tokens("upgrade"))
        self._asked = Asked(head, wants and offers)
        if self._asked.upgrade:
            # A handshake has no body; h11 offers the switch only after the end of the message.
            while not isinstance(self._http.next_event(), h11.EndOfMessage):
                if self._http.their_state is not h11.SEND_BODY:
                    break
        return self._asked

    def _answer_broken_request(self, error: h11.RemoteProtocolError) -> None:
        self.finished = True
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.respond(error.error_status_hint or 400, "This is no valid HTTP request.")

    def _http_send(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if data:
            self._out.append(data)

    def _receive_frames(self, data: bytes) -> list[Event]:
        frames = self._frames
        assert frames is not None
        if frames.reader.eof or self._closed_told:
            return []
        if data:
            frames.receive_data(data)
        else:
            frames.receive_eof()
        events: list[Event] = []
        for frame in frames.events_received():
            if not isinstance(frame, Frame) or frame.opcode not in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
                continue
            self._parts += frame.data
            if frame.fin and not self._finish_message(events):
                break
        self._flush_frames()
        ended = not data or frames.close_rcvd is not None or frames.parser_exc is not None or self._not_text
        if ended and not self._closed_told:
            self._closed_told = True
            events.append(Closed(_close_code(frames)))
        self.finished = self.finished or not data
        return events

    def _finish_message(self, events: list[Event]) -> bool:
        """False when the message broke the connection (RFC 6455, 8.1)."""
        parts, self._parts = self._parts, bytearray()
        try:
            events.append(Message(parts.decode()))
        except UnicodeDecodeError:
            self._not_text = True
            if self._frames is not None and self._frames.state is OPEN:
                self._frames.fail(1007, "the message is not valid UTF-8")
            return False
        return True

    def _flush_frames(self) -> None:
        assert self._frames is not None
        for data in self._frames.data_to_send():
            if data == SEND_EOF:
                self.finished = True
            else:
                self._out.append(data)


def _close_code(frames: Frames) -> int:
    if frames.close_rcvd is not None:
        return int(frames.close_rcvd.code)
    if frames.close_sent is not None:
        return int(frames.close_sent.code)
    return 1006


def _is_nonce(key: str) -> bool:
    try:
        return len(base64.b64decode(key.encode("latin-1"), validate=True)) == 16
    except (binascii.Error, UnicodeEncodeError):
        return False


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")
