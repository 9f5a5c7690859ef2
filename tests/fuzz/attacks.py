"""Attacks on a bridge's port: bytes to send, and ways to disconnect. They are reproducible from one ``Random``."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import Callable
from random import Random

from drawbridge.ide.claude import TOKEN_HEADER
from drawbridge.ide.gemini.http import SessionIds
from drawbridge.ide.tools import TOOLS
from drawbridge.ide.tools.gemini import TOOLS as GEMINI_TOOLS
from tests.protocols.bytes_of import close, giant_frame_head, more, ping, request, text

ATTACK_SECONDS = 2.0
"""The longest time that one attack lasts, in seconds."""

TEXTS = [
    "",
    "a",
    "poem.txt",
    ".",
    "/",
    "/dev/zero",
    "../../x",
    "file://",
    "file:///%00",
    "a\0b",
    "ü€🌉",
    "\ud800",
    "x" * 5_000,
]
METHODS = ["initialize", "ping", "tools/list", "tools/call", "prompts/list", "resources/list", "ide_connected"]
METHODS += ["notifications/initialized", "notifications/cancelled", "notifications/progress", "", "no/such"]
METHODS += ["tools/call"] * len(METHODS)


class Attacker:
    """Attacks one port, with a new connection for each attack. Most attacks send the right token."""

    def __init__(self, port: int, token: str, random: Random) -> None:
        self._port, self._token, self._random = port, token, random
        self._sessions = [SessionIds(token).new() for _ in range(2)]
        self._ways: list[Callable[[], bytes]] = [
            self._noise,
            self._bent_handshake,
            self._noise_behind_the_handshake,
            self._bent_frames,
            self._bent_frames,
            self._calls,
            self._calls,
            self._calls,
            self._cut_off,
            self._deep,
            self._giant,
            self._storm,
            self._bent_request,
            self._posts,
        ]

    async def attack(self) -> None:
        data = self._random.choice(self._ways)()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(ATTACK_SECONDS):
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
                try:
                    await self._send(reader, writer, data)
                finally:
                    await self._leave(writer)

    async def _send(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, data: bytes) -> None:
        for piece in self._pieces(data):
            writer.write(piece)
            await writer.drain()
            if self._random.random() < 0.3:
                await asyncio.sleep(0)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._random.choice([0, 0.01, 0.1])):
                while await reader.read(self._random.choice([1, 1_000, 1_000_000])):
                    pass

    async def _leave(self, writer: asyncio.StreamWriter) -> None:
        match self._random.randrange(4):
            case 0:  # a TCP reset
                sock = writer.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
            case 1 if writer.can_write_eof():
                with contextlib.suppress(OSError):
                    writer.write_eof()
                    await asyncio.sleep(0.01)
                writer.transport.abort()
            case 2:
                writer.transport.abort()
            case _:
                writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    def _pieces(self, data: bytes) -> list[bytes]:
        if self._random.random() < 0.5 or len(data) > 100_000:
            return [data]
        cuts = sorted(self._random.sample(range(len(data) + 1), min(len(data), self._random.randrange(12))))
        return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]

    # kinds of attacks

    def _noise(self) -> bytes:
        return self._random.randbytes(self._random.choice([0, 1, 10, 1_000, 70_000]))

    def _handshake(self) -> bytes:
        return request({TOKEN_HEADER: self._token, "Sec-WebSocket-Protocol": "mcp"})

    def _bent_handshake(self) -> bytes:
        return self._bend(self._handshake()) + self._random.choice([b"", text("{}"), b"\r\n\r\n"])

    def _noise_behind_the_handshake(self) -> bytes:
        return self._handshake() + self._noise()

    def _bent_frames(self) -> bytes:
        return self._handshake() + self._bend(b"".join(text(self._message()) for _ in range(5)))

    def _calls(self) -> bytes:
        return self._handshake() + b"".join(self._frames(self._message()) for _ in range(self._random.randrange(30)))

    def _cut_off(self) -> bytes:
        data = self._handshake() + text(self._message()) + close()
        return data[: self._random.randrange(len(data))]

    def _deep(self) -> bytes:
        opening = self._random.choice(["[", '{"a":', '{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":['])
        return self._handshake() + text(opening * 100_000)

    def _giant(self) -> bytes:
        return self._handshake() + giant_frame_head(self._random.choice([2**26 + 1, 2**32, 2**63 - 1, 2**64 - 1]))

    def _storm(self) -> bytes:
        storms = [ping(b"x" * 125) * 500, text("a", fin=False) + more("", fin=False) * 3_000, text("{") * 1_000]
        return self._handshake() + self._random.choice(storms)

    def _posts(self) -> bytes:
        """Returns plain requests like Gemini CLI's, some of them invalid. Some have the id of a session that a previous
        bridge issued or that never existed.
        """
        requests = b""
        for _ in range(self._random.randrange(1, 10)):
            body = self._random.choice([self._message, self._message, self._gemini_call, self._noise])()
            fields = {
                "Host": "localhost",
                "Authorization": f"Bearer {self._token}",
                "Accept": self._random.choice(["*/*", "application/json, text/event-stream", ""]),
                "Content-Type": self._random.choice(["application/json", "text/plain"]),
                "Content-Length": str(len(body)),
                "Mcp-Session-Id": self._random.choice(["", "x", *self._sessions, *self._sessions]),
                "Last-Event-Id": self._random.choice(["", "0", "5", "9" * 30, "x"]),
            }
            path = self._random.choice(["/mcp", "/mcp", "/mcp", "/events", "/health", "/"])
            line = f"{self._random.choice(['POST', 'POST', 'GET', 'DELETE'])} {path} HTTP/1.1\r\n"
            requests += (
                line + "".join(f"{name}: {value}\r\n" for name, value in fields.items()) + "\r\n"
            ).encode() + body
        return requests

    def _bent_request(self) -> bytes:
        line = self._random.choice(["GET / HTTP/1.1", "POST /mcp HTTP/1.1", "HEAD / HTTP/1.0", "CONNECT a:1 HTTP/1.1"])
        headers = {
            "Upgrade": None,
            TOKEN_HEADER: self._token,
            "Content-Length": self._random.choice([None, "5", "1e9"]),
        }
        return self._bend(request({**headers}, line=line, body=b"hello")) * self._random.randrange(1, 4)

    # parts of attacks

    def _bend(self, data: bytes) -> bytes:
        """Returns ``data`` with a few bytes overwritten, deleted, duplicated or inserted."""
        bent = bytearray(data)
        for _ in range(self._random.randrange(1, 6)):
            at = self._random.randrange(len(bent) + 1)
            many = self._random.choice([1, 1, 2, 8, 40])
            match self._random.randrange(4):
                case 0:
                    bent[at : at + many] = self._random.randbytes(many)
                case 1:
                    del bent[at : at + many]
                case 2:
                    bent[at:at] = bent[at : at + many]
                case _:
                    bent[at:at] = self._random.choice([b"\r\n", b"\0", b"\xff", b": ", b","])
        return bytes(bent)

    def _frames(self, message: bytes) -> bytes:
        if self._random.random() < 0.7:
            return text(message)
        cut = self._random.randrange(len(message))
        return text(message[:cut], fin=False) + ping() + more(message[cut:])

    def _message(self) -> bytes:
        chosen = self._random.choice
        message: dict[str, object] = {"jsonrpc": chosen(["2.0"] * 9 + ["1.0", None])}
        if chosen([True] * 9 + [False]):
            message["id"] = chosen([0, 1, 2, "a", "", None, 1.5, True, 2**70, [], "x" * 1_000])
        message["method"] = chosen(METHODS) if chosen([True] * 9 + [False]) else self._value()
        message["params"] = self._params() if chosen([True] * 9 + [False]) else self._value()
        return json.dumps(message, ensure_ascii=chosen([True, False])).encode("utf-8", "surrogatepass")

    def _gemini_call(self) -> bytes:
        tool = self._random.choice(GEMINI_TOOLS)
        names = tool.entry()["inputSchema"]["properties"]
        params = {"name": tool.name, "arguments": {name: self._value() for name in names}}
        return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()

    def _params(self) -> dict[str, object]:
        tool = self._random.choice(TOOLS)
        names = tool.entry()["inputSchema"]["properties"]
        arguments = {name: self._value() for name in names if self._random.random() < 0.9}
        return {
            "name": tool.name if self._random.random() < 0.9 else self._value(),
            "arguments": arguments if self._random.random() < 0.9 else self._value(),
            "requestId": self._random.choice([0, 1, 2, "a", None]),
            "protocolVersion": self._value(),
            "clientInfo": self._value(),
            "pid": self._value(),
        }

    def _value(self) -> object:
        if self._random.random() < 0.7:
            return self._random.choice(TEXTS)
        return self._random.choice([None, True, 0, -1, 1.5, 2**70, [], {}, ["a"], {"name": {"name": []}}, [[[[[]]]]]])
