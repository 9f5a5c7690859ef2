"""Compressed WebSocket messages (RFC 7692), for clients on other machines. The extension comes from ``websockets``.

The server's messages are the same for all clients, so only an offer with the largest window is accepted. Each message
is compressed separately, in both directions, because an idle connection does not need memory for compression.
"""

from __future__ import annotations

from typing import Final

from websockets.exceptions import InvalidHeader, NegotiationError
from websockets.extensions.permessage_deflate import PerMessageDeflate, ServerPerMessageDeflateFactory
from websockets.frames import Frame, Opcode
from websockets.headers import build_extension, parse_extension

from drawbridge.protocols.gate import Head

LARGEST_WINDOW: Final = 15
"""The largest window of deflate, as an exponent of 2."""

LEVEL: Final = 1
"""The compression level of zlib. With it, half a megabyte of history takes 5 ms and shrinks to a fifth. Level 6 takes
85 ms and shrinks it to a seventh."""


def agreed(head: Head) -> str | None:
    """The value of the header that accepts the client's first suitable offer; None if no offer is suitable."""
    factory = ServerPerMessageDeflateFactory(server_no_context_takeover=True, client_no_context_takeover=True)
    try:
        offers = parse_extension(", ".join(head.all("sec-websocket-extensions")))
    except InvalidHeader:
        return None
    for name, parameters in offers:
        if name == factory.name:
            try:
                answer, made = factory.process_request_params(parameters, [])
            except NegotiationError:
                continue
            if made.local_max_window_bits == LARGEST_WINDOW:
                return build_extension([(name, answer)])
    return None


class Compression(PerMessageDeflate):
    """The compression of one connection."""

    def __init__(self) -> None:
        super().__init__(
            remote_no_context_takeover=True,
            local_no_context_takeover=True,
            remote_max_window_bits=LARGEST_WINDOW,
            local_max_window_bits=LARGEST_WINDOW,
            compress_settings={"level": LEVEL},
        )
        self._left = 0

    def allow(self, size: int) -> None:
        """Allows ``size`` bytes of decompressed messages from now on. The limit for a single message also applies."""
        self._left = size

    def decode(self, frame: Frame, *, max_size: int | None = None) -> Frame:
        allowed = self._left if max_size is None else min(max_size, self._left)
        found = super().decode(frame, max_size=max(allowed, 1))  # 0 would mean no limit
        self._left -= len(found.data)
        return found


def compressed(data: bytes) -> bytes:
    """Like ``websocket.framed``, but compressed, for peers that agreed to it. They also accept uncompressed
    messages."""
    return Frame(Opcode.TEXT, data).serialize(mask=False, extensions=[Compression()])
