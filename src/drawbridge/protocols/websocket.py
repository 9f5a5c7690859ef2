"""An open WebSocket without I/O (RFC 6455): whole messages in and out. The size of received ones is limited.
``websockets`` handles the frames."""

from __future__ import annotations

import base64
import binascii
import hashlib
import logging
from types import ModuleType
from typing import Final, TypeAlias

from msgspec import Struct
from websockets.frames import Frame, Opcode
from websockets.protocol import OPEN, SEND_EOF, SERVER, Protocol

from drawbridge.protocols.gate import Head

_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, 1.3

LONGEST_REASON: Final = 123
"""The maximum size of a reason, in bytes. A close frame has no room for more. A longer reason is truncated."""

AT_ONCE: Final = 4
"""The number of messages of the maximum size to which the bytes of one read may be decompressed. Further ones end the
WebSocket with 1009. A kilobyte can be decompressed to a megabyte, and a read contains up to 256 kB."""

_no_frames: Final = logging.getLogger("drawbridge.frames")
"""Replaces the library's logger, which would write tokens and prompts to a log at the debug level."""
_no_frames.setLevel(logging.INFO)


class Message(Struct, frozen=True):
    """A complete message. Binary messages count as text if the connection is configured that way."""

    text: str


class Closed(Struct, frozen=True):
    """Either side, or an invalid frame, ended the WebSocket. ``code``: as in RFC 6455 (1006: no close frame)."""

    code: int


Event: TypeAlias = Message | Closed


class Handshake(Struct, frozen=True):
    """The answer to a request for a WebSocket: a status (101: it is open), headers, and the reason as a sentence if it
    is refused. ``compressed``: messages may be compressed."""

    status: int
    headers: tuple[tuple[str, str], ...]
    reason: str = ""
    compressed: bool = False


def handshake(head: Head, subprotocol: str | None, *, compress: bool = False) -> Handshake:
    """Answers a handshake (RFC 6455, 4.2). ``compress``: accepts compression (RFC 7692) if the client offers it."""
    key = head.one("sec-websocket-key") or ""
    if head.one("sec-websocket-version") != "13":
        return Handshake(
            426, (("Sec-WebSocket-Version", "13"),), "Only version 13 of the WebSocket protocol is supported."
        )
    if head.method != "GET":
        return Handshake(400, (), "A WebSocket handshake must be a GET request.")
    if not _is_nonce(key):
        return Handshake(400, (), "The Sec-WebSocket-Key header is missing, repeated or not valid.")
    digest = hashlib.sha1(key.encode() + _GUID, usedforsecurity=False).digest()
    headers = [
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Accept", base64.b64encode(digest).decode()),
    ]
    if subprotocol is not None:
        headers.append(("Sec-WebSocket-Protocol", subprotocol))
    agreed = compression().agreed(head) if compress else None
    if agreed is not None:
        headers.append(("Sec-WebSocket-Extensions", agreed))
    return Handshake(101, tuple(headers), compressed=agreed is not None)


def compression() -> ModuleType:
    """The module ``protocols.compression``, imported only when it is needed, because a bridge never compresses, and has
    to start quickly."""
    from drawbridge.protocols import compression

    return compression


def framed(data: bytes) -> bytes:
    """The uncompressed frame of a text message (valid UTF-8). It is the same for all peers, because servers do not mask
    their frames.
    """
    return Frame(Opcode.TEXT, data).serialize(mask=False)


class WebSocketConnection:
    """The server's side of one open WebSocket. When ``finished`` is true, close the transport once the bytes have been
    sent."""

    def __init__(self, message_limit: int, *, binary_as_text: bool = True, compressed: bool = False) -> None:
        """``message_limit``: the maximum size of one message in bytes, with all its fragments, once it is decompressed.
        ``binary_as_text``: accepts binary messages as text. Otherwise, they are refused. ``compressed``: compression
        was agreed."""
        self.compressed = compressed
        self._binary_as_text = binary_as_text
        self._frames = Protocol(SERVER, state=OPEN, max_size=message_limit, logger=_no_frames)
        self._message_limit = message_limit
        self._compression = compression().Compression() if compressed else None
        self._frames.extensions = [self._compression] if self._compression is not None else []
        self._parts = bytearray()
        self._closed_told = False
        self._not_text = False
        self._out: list[bytes] = []
        self.finished = False
        self._unfinished_limit: int | None = None

    def limit_unfinished(self, size: int | None) -> None:
        """Limits the number of bytes of an incomplete message that may be buffered; None for as many as a message may
        have."""
        self._unfinished_limit = size

    def receive(self, data: bytes) -> list[Event]:
        """Handles bytes from the network; b"" is the end of the stream. Returns the events to handle."""
        frames = self._frames
        if frames.reader.eof or self._closed_told:
            self.finished = self.finished or not data
            return []
        leaving = frames.close_sent is not None
        if self._compression is not None:
            # A few bytes must not be decompressed into many messages, which would stop the event loop and fill the
            # memory. A peer that has not signed in gets only one message, because it has no reason to send more.
            is_unknown = self._unfinished_limit is not None
            self._compression.allow(self._message_limit * (1 if is_unknown else AT_ONCE))
        if data:
            frames.receive_data(data)
        else:
            frames.receive_eof()
        events: list[Event] = []
        for frame in frames.events_received():
            if leaving or not isinstance(frame, Frame) or frame.opcode not in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
                continue  # after the server has sent its close frame, the peer's messages are dropped
            if frame.opcode is Opcode.BINARY and not self._binary_as_text:
                self._refuse(1003, "binary messages are not supported; send text")
                break
            self._parts += frame.data
            if frame.fin and not self._finish_message(events):
                break
        # If the same bytes contained a message, the limit is not checked, because that message may lift it.
        if not events and self._unfinished_limit is not None and self._unfinished > self._unfinished_limit:
            self._refuse(1009, "the message is too large for a client that is not signed in")
        self._flush()
        ended = not data or frames.close_rcvd is not None or frames.parser_exc is not None or self._not_text
        if ended:
            self._closed_told = True
            events.append(Closed(_close_code(frames)))
        self.finished = self.finished or not data
        return events

    def send_text(self, data: bytes) -> None:
        """Sends one message of valid UTF-8, or drops it if the connection is closing or closed."""
        if self._frames.state is OPEN:
            self._frames.send_text(data)
            self._flush()

    def ping(self) -> None:
        """Sends a ping. Every WebSocket implementation answers it."""
        if self._frames.state is OPEN:
            self._frames.send_ping(b"")
            self._flush()

    @property
    def is_open(self) -> bool:
        return self._frames.state is OPEN

    def close(self, code: int, reason: str = "") -> None:
        """Begins the closing handshake. The caller closes the transport if the peer does not finish it in time."""
        if self._frames.state is OPEN:
            self._frames.send_close(code, reason.encode()[:LONGEST_REASON].decode(errors="ignore"))
            self._flush()

    def outgoing(self) -> list[bytes]:
        out, self._out = self._out, []
        return out

    def _finish_message(self, events: list[Event]) -> bool:
        """Adds a message to ``events``. Returns False if it is not UTF-8, which ends the connection (RFC 6455, 8.1)."""
        parts, self._parts = self._parts, bytearray()
        try:
            events.append(Message(parts.decode()))
        except UnicodeDecodeError:
            self._refuse(1007, "the message is not valid UTF-8")
            return False
        return True

    @property
    def _unfinished(self) -> int:
        return len(self._parts) + len(self._frames.reader.buffer)

    def _refuse(self, code: int, reason: str) -> None:
        self._not_text = True
        if self._frames.state is OPEN:
            self._frames.fail(code, reason)
        else:
            self.finished = True
        self._parts = bytearray()
        self._frames.reader.discard()

    def _flush(self) -> None:
        for data in self._frames.data_to_send():
            if data == SEND_EOF:
                self.finished = True
            else:
                self._out.append(data)


def _close_code(frames: Protocol) -> int:
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
