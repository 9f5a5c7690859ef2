"""Builds the bytes of HTTP heads and WebSocket frames, valid or not."""

from __future__ import annotations

import struct

from websockets.frames import Opcode

KEY = "dGhlIHNhbXBsZSBub25jZQ=="  # the example key of RFC 6455, 1.3
ACCEPT = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="  # the answer to that key

Headers = dict[str, str | list[str] | None]


def request(changed: Headers | None = None, *, line: str = "GET / HTTP/1.1", body: bytes = b"") -> bytes:
    """Returns a WebSocket handshake as Claude Code sends it. ``changed`` contains headers that replace or extend it. A
    list repeats a header, and None omits it."""
    headers: Headers = {
        "Host": "127.0.0.1:12345",
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": KEY,
        **(changed or {}),
    }
    lines = [line]
    for name, value in headers.items():
        values = value if isinstance(value, list) else [value]
        lines += [f"{name}: {one}" for one in values if one is not None]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def frame(opcode: int, payload: bytes = b"", *, fin: bool = True, reserved: int = 0, masked: bool = True) -> bytes:
    """Returns one client frame, whether the protocol allows it or not."""
    head = bytes([fin << 7 | reserved << 4 | opcode])
    length = len(payload)
    mask_bit = masked << 7
    if length < 126:
        head += bytes([mask_bit | length])
    elif length < 65_536:
        head += struct.pack("!BH", mask_bit | 126, length)
    else:
        head += struct.pack("!BQ", mask_bit | 127, length)
    # A mask of zeros leaves the payload as it is, which keeps tests of 64 MB quick.
    return head + (bytes(4) if masked else b"") + payload


def text(payload: str | bytes, *, fin: bool = True) -> bytes:
    return frame(Opcode.TEXT, payload.encode() if isinstance(payload, str) else payload, fin=fin)


def more(payload: str | bytes, *, fin: bool = True) -> bytes:
    """Returns a continuation frame."""
    return frame(Opcode.CONT, payload.encode() if isinstance(payload, str) else payload, fin=fin)


def ping(payload: bytes = b"") -> bytes:
    return frame(Opcode.PING, payload)


def close(code: int | None = 1000, reason: str = "") -> bytes:
    return frame(Opcode.CLOSE, b"" if code is None else struct.pack("!H", code) + reason.encode())


def giant_frame_head(length: int) -> bytes:
    """Returns the head of a text frame that announces ``length`` bytes, without those bytes."""
    return struct.pack("!BBQ", 0x80 | Opcode.TEXT, 0x80 | 127, length) + bytes(4)
