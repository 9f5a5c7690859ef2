"""Options of the HTTP server that the bridge does not use: pings, other limits, small buffers, shared frames."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from websockets.frames import Opcode

from drawbridge.protocols.websocket import framed
from drawbridge.transport.http_server import HIGH_WATER, ServerOptions
from tests.protocols.bytes_of import close, frame, more, text
from tests.transport.rig import Client, ServerRig, handshake
from tests.waiting import until

PING = 0.05
"""The interval between pings, in seconds."""


@contextlib.asynccontextmanager
async def serving(terms: ServerOptions) -> AsyncIterator[ServerRig]:
    rig = ServerRig(terms)
    async with rig.server:
        yield rig
        await rig.leave()


def pong(payload: bytes = b"") -> bytes:
    return frame(Opcode.PONG, payload)


async def answer_pings(client: Client, times: int) -> None:
    for _ in range(times):
        reply = await client.receive()
        assert reply.opcode is Opcode.PING
        client.send(pong(bytes(reply.data)))


# pings


async def test_a_client_that_does_not_answer_pings_is_disconnected(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "drawbridge.http_server")
    async with serving(ServerOptions(ping_seconds=PING)) as rig:
        alive, dead = await rig.websocket(), await rig.websocket()
        await answer_pings(alive, 4)
        assert rig.app.peers[1].ends == [1006]
        assert rig.app.peers[0].ends == []
        assert b"\x89\x00" in await dead.rest()
        assert "stopped responding" in caplog.text


async def test_any_message_counts_as_an_answer_to_a_ping() -> None:
    async with serving(ServerOptions(ping_seconds=PING)) as rig:
        client = await rig.websocket()
        for _ in range(6):
            while (await client.receive()).opcode is not Opcode.PING:
                pass
            client.send(text("no pong, but here"))
        assert rig.app.peers[0].ends == []


async def test_a_slow_reader_is_not_cut_off() -> None:
    async with serving(ServerOptions(ping_seconds=3_600)) as rig:
        client = await rig.websocket()
        for _ in range(40):
            rig.app.peers[0].websocket.send(b"x" * 1_000_000)
        [connection] = rig.server.connections
        for _ in range(5):
            connection.ping_or_cut()
            assert rig.app.peers[0].ends == []
            before = connection._unsent
            while unsent(connection) >= before:
                assert await client.reader.read(1_000_000)
        connection.ping_or_cut()
        connection.ping_or_cut()  # no byte was sent since the last check
        await until(lambda: rig.app.peers[0].ends == [1006])


def unsent(connection: Any) -> int:
    size: int = connection._transport.get_write_buffer_size()
    return size


async def test_by_default_clients_are_not_pinged() -> None:
    async with serving(ServerOptions()) as rig:
        client = await rig.websocket()
        assert rig.server.options.ping_seconds is None
        client.send(text("hello"))
        assert await client.receive_text() == "hello"


# limits


async def test_a_message_over_the_limit_ends_the_connection_with_1009() -> None:
    """It does not matter whether the message arrives in one frame or in fragments."""
    async with serving(ServerOptions(message_bytes=1_000)) as rig:
        for data in (text("x" * 1_001), text("x" * 600, fin=False) + more("x" * 600)):
            client = await rig.websocket()
            client.send(data)
            assert await client.receive_close() == 1009
        whole = await rig.websocket()
        whole.send(text("x" * 1_000))
        assert await whole.receive_text() == "x" * 1_000


@pytest.mark.parametrize("fin", [True, False])
async def test_a_binary_message_ends_the_connection_with_1003(fin: bool) -> None:
    async with serving(ServerOptions(binary_as_text=False)) as rig:
        client = await rig.websocket()
        client.send(text("before"))
        assert await client.receive_text() == "before"
        client.send(frame(Opcode.BINARY, b"x", fin=fin))
        assert await client.receive_close() == 1003
        client.send(close(1003))
        await client.rest()
        assert rig.app.peers[0].messages == ["before"]
        assert rig.app.peers[0].ends == [1003]


async def test_the_number_of_connections_can_be_limited() -> None:
    async with serving(ServerOptions(connections=100)) as rig:
        clients = [await rig.websocket() for _ in range(100)]
        refused = await rig.raw(handshake())
        assert await refused.rest() == b""
        clients[0].send(text("hello"))
        assert await clients[0].receive_text() == "hello"


async def test_the_reason_in_the_close_frame_can_be_set() -> None:
    rig = ServerRig(ServerOptions(farewell="see you"))
    async with rig.server:
        client = await rig.websocket()
        closing = asyncio.create_task(client.receive())
        await asyncio.sleep(0)
        leaving = asyncio.create_task(rig.server.__aexit__())
        reply = await closing
        client.send(close(1001))
        await leaving
    assert bytes(reply.data) == b"\x03\xe9see you"
    await rig.leave()


# writing and reading


async def test_shared_frames_arrive_and_are_dropped_after_the_end() -> None:
    async with serving(ServerOptions()) as rig:
        client = await rig.websocket()
        websocket = rig.app.peers[0].websocket
        websocket.send_framed(framed(b"one") + framed("zwölf".encode()) + framed(b"x" * 70_000))
        assert [await client.receive_text() for _ in range(3)] == ["one", "zwölf", "x" * 70_000]
        websocket.close(1000)
        websocket.send_framed(framed(b"late"))
        assert await client.receive_close() == 1000
        client.send(close())
        assert await client.rest() == b""
        websocket.send_framed(framed(b"later still"))


async def test_reading_from_a_client_can_be_paused() -> None:
    async with serving(ServerOptions()) as rig:
        client = await rig.websocket()
        peer = rig.app.peers[0]
        peer.websocket.hold_reading(True)
        client.send(text("wait"))
        other = await rig.websocket()
        other.send(text("go"))
        assert await other.receive_text() == "go"
        assert peer.messages == []
        peer.websocket.hold_reading(False)
        assert await client.receive_text() == "wait"
        client.cut()
        await until(lambda: peer.ends)
        peer.websocket.hold_reading(True)
        peer.websocket.hold_reading(False)


async def test_a_congested_client_is_read_until_the_high_water_mark() -> None:
    async with serving(ServerOptions(congested_bytes=10_000, kernel_bytes=10_000)) as rig:
        client = await rig.websocket()
        client.reader._transport.pause_reading()  # type: ignore[attr-defined]
        peer = rig.app.peers[0]
        while not peer.websocket.congested:
            peer.websocket.send(b"x" * 10_000)
        client.send(text("still heard"))
        await until(lambda: peer.messages == ["still heard"])
        while sum(map(unsent, rig.server.connections)) < HIGH_WATER:
            peer.websocket.send(b"x" * 100_000)
        client.send(text("too much now"))
        client.reader._transport.resume_reading()  # type: ignore[attr-defined]
        await until(lambda: peer.drains)
        await until(lambda: peer.messages == ["still heard", "too much now"])
        client.cut()


async def test_the_peers_address_is_known() -> None:
    async with serving(ServerOptions()) as rig:
        await rig.websocket()
        assert rig.app.peers[0].websocket.address == "127.0.0.1"
