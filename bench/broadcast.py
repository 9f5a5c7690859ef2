"""The server's side of bench/fanout.py.

``python -m bench.broadcast WHAT LOOP CLIENTS FRAMES BYTES TURN PAUSE [CERT KEY]``

WHAT "ours": an agent's line goes through a project of the real core, into its history, and through the real server to
all clients that have joined. WHAT "bare": the same bytes, framed once, are written to each transport, and nothing else
is done. LOOP: "uvloop" or "asyncio". Sends TURN frames in one turn of the event loop every PAUSE milliseconds, without
a pause if it falls behind. Prints the port and, for "ours", the project's id; then, once CLIENTS clients have
connected, the CPU seconds of FRAMES broadcasts.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import socket
import ssl
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, ClassVar, Protocol

from drawbridge.agents.base import AgentLine
from drawbridge.agents.demo.driver import Demo
from drawbridge.protocols.gate import Head
from drawbridge.protocols.websocket import framed, handshake
from drawbridge.server.app.clients import Clients
from drawbridge.server.app.core import Core
from drawbridge.server.composition import Server
from drawbridge.server.plan import Plan
from drawbridge.server.serve import terms
from drawbridge.settings.serve import ServeSettings
from drawbridge.transport.http_server import HttpServer

WARM = 200
SETTLED = 0.2


class Broadcaster(Protocol):
    def connected(self) -> int: ...

    def broadcast(self, line: bytes) -> None: ...

    def behind(self) -> bool:
        """Whether a client reads so slowly that the next frames have to wait."""
        ...


class ServerBroadcaster:
    """A project of the real core, whose clients are connected through the real server."""

    def __init__(self, core: Core, clients: Clients, project: Any) -> None:
        self._core, self._project, self._clients = core, project, clients

    def connected(self) -> int:
        return len(self._core.audience.joined(self._project.id))

    def broadcast(self, line: bytes) -> None:
        self._project.store.write(AgentLine(line))

    def behind(self) -> bool:
        return any(client.outbox._bytes > 0 for client in self._clients)


class Bare(asyncio.Protocol):
    """One connection of the bare server. ``transports``: the transports of all connections."""

    transports: ClassVar[list[asyncio.Transport]] = []

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._shaken = False

    def data_received(self, data: bytes) -> None:
        if not self._shaken:
            self._shaken = True
            key = data.partition(b"Sec-WebSocket-Key: ")[2].partition(b"\r\n")[0].decode()
            head = Head("GET", "/", (("sec-websocket-version", "13"), ("sec-websocket-key", key)))
            answer = "".join(f"{name}: {value}\r\n" for name, value in handshake(head, None).headers)
            self._transport.write(f"HTTP/1.1 101 Switching Protocols\r\n{answer}\r\n".encode())
            self.transports.append(self._transport)

    @classmethod
    def connected(cls) -> int:
        return len(cls.transports)

    @classmethod
    def broadcast(cls, line: bytes) -> None:
        data = framed(line)
        for transport in cls.transports:
            transport.write(data)

    @classmethod
    def behind(cls) -> bool:
        return any(transport.get_write_buffer_size() > 65_536 for transport in cls.transports)


@contextlib.asynccontextmanager
async def ours(directory: Path, listener: socket.socket, tls: ssl.SSLContext | None) -> AsyncIterator[Broadcaster]:
    (directory / "code").mkdir()
    plan = Plan(ServeSettings(data_dir=str(directory / "data"), allow=(str(directory),), fsync="second"))
    plan.token_wanted, plan.tls = False, tls is not None
    server = Server(plan, listener.getsockname()[1], {"demo": Demo()})
    await server.open()
    session = await server.core.projects.create(str(directory / "code"), "demo")
    print(json.dumps({"port": listener.getsockname()[1], "project": session.id}), flush=True)
    async with HttpServer(server.site, listener, terms(1_000), tls):
        yield ServerBroadcaster(server.core, server.clients, session)
    await server.close("the end")


@contextlib.asynccontextmanager
async def bare(listener: socket.socket, tls: ssl.SSLContext | None) -> AsyncIterator[Broadcaster]:
    server = await asyncio.get_running_loop().create_server(Bare, sock=listener, ssl=tls)
    print(json.dumps({"port": listener.getsockname()[1]}), flush=True)
    yield Bare
    server.close()
    for transport in Bare.transports:
        transport.close()


async def measure(broadcaster: Broadcaster, frames: int, size: int, turn: int, pause: float) -> float:
    """Sends the frames and returns the CPU seconds that this took."""
    filler = b"x" * size
    before, began = cpu(), time.monotonic()

    def line() -> bytes:
        return (b'{"type":"assistant","t":%d,"x":"%b' % (time.monotonic_ns(), filler))[: size - 2] + b'"}'

    for sent in range(0, frames, turn):
        await asyncio.sleep(max(0, began + sent / turn * pause / 1000 - time.monotonic()))
        for _ in range(turn):
            broadcaster.broadcast(line())
        while broadcaster.behind():
            await asyncio.sleep(0.001)
    return cpu() - before


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def main(what: str, clients: int, frames: int, size: int, turn: int, pause: float, *tls: str) -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    listener.setblocking(False)
    context = None
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*tls)
    with tempfile.TemporaryDirectory() as name:
        serving = ours(Path(name), listener, context) if what == "ours" else bare(listener, context)
        async with serving as broadcaster:
            while broadcaster.connected() < clients:
                await asyncio.sleep(0.01)
            await asyncio.sleep(SETTLED)
            await measure(broadcaster, WARM, size, turn, pause)
            print(json.dumps({"cpu": await measure(broadcaster, frames, size, turn, pause)}), flush=True)


def loop_of(name: str) -> Callable[[], asyncio.AbstractEventLoop]:
    if name == "uvloop":
        import uvloop

        make: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
        return make
    return asyncio.new_event_loop


if __name__ == "__main__":
    what, loop, *numbers = sys.argv[1:]
    with asyncio.Runner(loop_factory=loop_of(loop)) as runner:
        runner.run(main(what, *map(int, numbers[:4]), float(numbers[4]), *numbers[5:]))  # type: ignore[arg-type]
