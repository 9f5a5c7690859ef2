"""A slow link between a browser and a server on this machine.

It slows down everything that the two exchange, including the requests of a service worker and, at their compressed
size, a WebSocket's frames. A browser's own throttling covers neither. With ``--trusted-proxy 127.0.0.1``, the server
treats the link's clients as clients on another machine.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from typing import Any

from tests.server.processes import Server

BUFFER = 65_536
"""The maximum number of bytes of a connection that wait for the link."""

CHUNK = 1_460
"""The maximum number of bytes that a connection sends before the other connections get a turn."""

ELSEWHERE = b"X-Forwarded-For: 192.0.2.7\r\n"


class _Direction:
    """One direction of the link. ``speed`` is in bytes per second, for all connections together, and ``delay`` in
    seconds."""

    def __init__(self, speed: float, delay: float) -> None:
        self._speed = speed
        self._delay = delay
        self._free = 0.0
        self._turn = asyncio.Lock()

    async def send(self, data: bytes, writer: asyncio.StreamWriter) -> None:
        """Sends data, and returns once it has left. It arrives ``delay`` seconds later."""
        loop = asyncio.get_running_loop()
        ready = loop.time()
        for start in range(0, len(data), CHUNK):
            part = data[start : start + CHUNK]
            async with self._turn:
                # Data that was waiting uses the link from the moment when it became free, however late this task wakes
                # up. Otherwise, the link would be slower on a busy machine.
                self._free = max(self._free, ready) + len(part) / self._speed
                await asyncio.sleep(self._free - loop.time())
                loop.call_at(self._free + self._delay, _deliver, writer, part)

    def end(self, writer: asyncio.StreamWriter) -> None:
        """Closes the connection once everything has arrived."""
        loop = asyncio.get_running_loop()
        loop.call_at(max(self._free, loop.time()) + self._delay, writer.close)


def _deliver(writer: asyncio.StreamWriter, part: bytes) -> None:
    if not writer.is_closing():  # what is under way to a side that has closed its connection gets lost
        writer.write(part)


@contextlib.asynccontextmanager
async def slow_link(server: Server, *, kilobits: float, latency: float) -> AsyncIterator[str]:
    """Runs a slow link to the server, and yields the address of the web UI behind it. ``kilobits``: the speed in each
    direction, in kbit/s; ``latency``: the duration of a round trip, in seconds. A new connection takes one more round
    trip."""
    port = int(server.url.removesuffix("/ws").rpartition(":")[2])
    up, down = (_Direction(kilobits * 1000 / 8, latency / 2) for _ in range(2))

    async def asks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Passes on the requests, which have no bodies, until the connection becomes a WebSocket. Then passes on all
        data."""
        head = b""
        while b"upgrade: websocket" not in head.lower():
            head = await reader.readuntil(b"\r\n\r\n")
            line, rest = head.split(b"\r\n", 1)
            await up.send(line + b"\r\n" + ELSEWHERE + rest, writer)
        while data := await reader.read(BUFFER):
            await up.send(data, writer)

    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(BUFFER):
            await down.send(data, writer)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(latency)
        there, to = await asyncio.open_connection("127.0.0.1", port)

        async def one_way(
            carrying: Coroutine[Any, Any, None], direction: _Direction, end: asyncio.StreamWriter
        ) -> None:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await carrying
            direction.end(end)

        with contextlib.suppress(asyncio.CancelledError):  # the benchmark has ended
            await asyncio.gather(one_way(asks(reader, to), up, to), one_way(answers(there, writer), down, writer))

    link = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{link.sockets[0].getsockname()[1]}/"
    finally:
        link.close()
