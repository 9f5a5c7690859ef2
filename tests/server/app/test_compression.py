"""Large messages are compressed once for all clients on other machines, and not for clients on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from websockets.asyncio.client import ClientConnection

from drawbridge.protocols.compression import compressed
from drawbridge.protocols.websocket import framed
from drawbridge.server.app import outbox as outbox_module
from drawbridge.server.app.outbox import COMPRESSED_FROM, Writers
from drawbridge.server.protocol.frames import Frame
from tests.server.app.test_outbox import Rig
from tests.server.auth.rig import OWNER, Server, serving
from tests.server.wire_client import connected

ELSEWHERE = {"X-Forwarded-For": "192.0.2.7"}


class Remote(Rig):
    """A client on another machine."""

    def __init__(self, writers: Writers) -> None:
        super().__init__(writers)
        self.outbox.compressed = True


def extensions(connection: ClientConnection) -> list[str]:
    return [extension.name for extension in connection.protocol.extensions]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """A server behind a proxy on this machine."""
    async with serving(tmp_path, proxies=["127.0.0.1"]) as server:
        yield server


async def test_only_clients_on_other_machines_get_compression(server: Server) -> None:
    async with connected(server.url, OWNER) as here, connected(server.url, OWNER, headers=ELSEWHERE) as elsewhere:
        assert extensions(here.connection) == []
        assert extensions(elsewhere.connection) == ["permessage-deflate"]


async def test_history_is_the_same_with_and_without_compression(server: Server) -> None:
    async with connected(server.url, OWNER) as here, connected(server.url, OWNER, headers=ELSEWHERE) as elsewhere:
        project = await server.project(here)
        await here.ask("project_join", project_id=project)
        await elsewhere.ask("project_join", project_id=project)
        await elsewhere.ask("execute", {"prompt": "/quick " + "many words " * 2_000}, project)
        for client in (here, elsewhere):
            await client.receive("update", "run_finished")
        pages = [(await client.ask("get_messages", {"limit": 100}, project))["data"] for client in (here, elsewhere)]
        assert pages[0] == pages[1]
        assert "many words" in str(pages[0])


async def test_a_large_frame_is_compressed_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[bytes] = []

    def remembering(data: bytes) -> bytes:
        made.append(data)
        return compressed(data)

    monkeypatch.setattr(outbox_module, "compressed", remembering)
    writers = Writers()
    near, remote = [Rig(writers) for _ in range(3)], [Remote(writers) for _ in range(3)]
    large, small = b"a" * COMPRESSED_FROM, b"b" * (COMPRESSED_FROM - 1)
    for data in (small, large, small):
        writers.collect([*near, *remote], Frame(data))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert made == [large]
    assert [b"".join(rig.socket.writes) for rig in near] == [framed(small) + framed(large) + framed(small)] * 3
    assert [b"".join(rig.socket.writes) for rig in remote] == [framed(small) + compressed(large) + framed(small)] * 3


async def test_small_frames_are_not_compressed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages with a token are small, and must not be compressed."""
    monkeypatch.setattr(outbox_module, "compressed", None)
    writers = Writers()
    remote = Remote(writers)
    writers.collect([remote], Frame(b"a" * (COMPRESSED_FROM - 1)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert remote.socket.writes == [framed(b"a" * (COMPRESSED_FROM - 1))]
