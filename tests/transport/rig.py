"""An HTTP server whose app records what it receives, and clients that can send it any bytes."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from typing import Any

from websockets.asyncio.client import connect
from websockets.frames import Frame, Opcode
from websockets.protocol import CLIENT, OPEN, Protocol

from drawbridge.core.addresses import network_of
from drawbridge.protocols.gate import Gate, Head, Refusal
from drawbridge.transport.http_server import DEFAULT_OPTIONS, Exchange, HttpServer, ServerOptions, WebSocket
from tests.protocols.bytes_of import request
from tests.waiting import PATIENCE

TOKEN = "0123456789abcdef0123456789abcdef"


def one_network(address: str) -> str:
    """Replaces ``core.addresses.network_of``: all 127.1.* addresses count as one, like the addresses of one IPv6 network.

    Tests can't use a real network, because the machine may have only one IPv6 address.
    """
    return "2001:db8::/64" if address.startswith("127.1.") else network_of(address)


class Echo:
    """A peer that records each message that it receives and echoes it."""

    def __init__(self, websocket: WebSocket) -> None:
        self.websocket = websocket
        self.messages: list[str] = []
        self.ends: list[int] = []
        self.drains = 0

    def received(self, text: str) -> None:
        assert self.ends == [], "a message after the end"
        self.messages.append(text)
        self.websocket.send(text.encode())

    def drained(self) -> None:
        self.drains += 1

    def closed(self, code: int) -> None:
        self.ends.append(code)


class HttpApp:
    def __init__(self) -> None:
        self.gate = Gate(TOKEN, "x-token")
        self.asked = 0
        self.addresses: list[str] = []
        self.compressing = False
        self.peers: list[Echo] = []
        self.exchanges: list[Exchange] = []

    def admit(self, head: Head, upgrade: bool) -> Refusal | None:
        self.asked += 1
        return self.gate.check(head)

    def subprotocol(self, head: Head) -> str | None:
        return "mcp" if "mcp" in head.tokens("sec-websocket-protocol") else None

    def compresses(self, head: Head) -> bool:
        return self.compressing

    def opened(self, head: Head, websocket: WebSocket) -> Echo:
        self.addresses.append(head.peer)
        self.peers.append(Echo(websocket))
        return self.peers[-1]

    def requested(self, head: Head, body: bytes, exchange: Exchange) -> None:
        self.exchanges.append(exchange)
        if head.path == "/echo":
            exchange.answer(200, body)


class Client:
    """A connection on which any bytes can be sent."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._frames = Protocol(CLIENT, state=OPEN, max_size=None)

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def rest(self) -> bytes:
        """Returns all further bytes until the server closes or resets the connection."""
        received = bytearray()
        async with asyncio.timeout(PATIENCE):
            with contextlib.suppress(ConnectionError):
                while piece := await self.reader.read(65_536):
                    received += piece
        return bytes(received)

    async def status(self) -> int:
        return int((await self.rest()).split()[1])

    async def head(self) -> bytes:
        async with asyncio.timeout(PATIENCE):
            return await self.reader.readuntil(b"\r\n\r\n")

    async def receive(self) -> Frame:
        """Waits for the next frame and returns it."""
        while not self._frames.events:
            async with asyncio.timeout(PATIENCE):
                piece = await self.reader.read(65_536)
            assert piece, "the server ended the connection"
            self._frames.receive_data(piece)
        frame = self._frames.events.pop(0)
        assert isinstance(frame, Frame)
        return frame

    async def receive_text(self) -> str:
        frame = await self.receive()
        assert frame.opcode is Opcode.TEXT
        return bytes(frame.data).decode()

    async def receive_close(self) -> int:
        frame = await self.receive()
        assert frame.opcode is Opcode.CLOSE
        return int.from_bytes(frame.data[:2], "big")

    def cut(self) -> None:
        """Aborts the connection without a close frame."""
        transport = self.writer.transport
        transport.abort()


class ServerRig:
    """An HTTP server whose app records what it receives."""

    def __init__(
        self,
        terms: ServerOptions = DEFAULT_OPTIONS,
        tls: ssl.SSLContext | None = None,
        listener: socket.socket | None = None,
    ) -> None:
        self.app = HttpApp()
        self.listener = listener or socket.create_server(("127.0.0.1", 0), backlog=128)
        self.listener.setblocking(False)
        self.port: int = self.listener.getsockname()[1]
        self.server = HttpServer(self.app, self.listener, terms, tls)
        self._clients: list[Client] = []

    async def client(self, source: str = "127.0.0.1") -> Client:
        """Opens a connection. ``source``: the client's address."""
        opened = await asyncio.open_connection("127.0.0.1", self.port, limit=2**20, local_addr=(source, 0))
        client = Client(*opened)
        self._clients.append(client)
        return client

    async def raw(self, data: bytes, source: str = "127.0.0.1") -> Client:
        client = await self.client(source)
        client.send(data)
        return client

    async def websocket(self, **headers: Any) -> Client:
        client = await self.raw(handshake(**headers))
        assert (await client.head()).startswith(b"HTTP/1.1 101 ")
        return client

    def dial(self) -> connect:
        return connect(
            f"ws://127.0.0.1:{self.port}/",
            additional_headers={"x-token": TOKEN},
            compression=None,
            proxy=None,
            max_size=None,
        )

    async def leave(self) -> None:
        for client in self._clients:
            client.cut()
        for client in self._clients:
            with contextlib.suppress(ConnectionError):
                await client.writer.wait_closed()


def handshake(**headers: Any) -> bytes:
    return request({"x-token": TOKEN, **{name.replace("_", "-"): value for name, value in headers.items()}})


def plain(path: str, body: bytes = b"") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nx-token: {TOKEN}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body
