"""An error does not stop the acceptor of TLS connections, and it closes every connection that it gives up."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator

import pytest

from drawbridge.transport import tls_acceptor
from drawbridge.transport.tls_acceptor import TlsAcceptor
from tests.transport.rig import one_network
from tests.waiting import PATIENCE, until

HANDSHAKES = 40


async def test_connections_are_accepted_after_an_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Only the connection with the error is closed."""
    peers = list[str]()

    async def fails_once(self: TlsAcceptor, address: str) -> bool:
        peers.append(address)
        if len(peers) == 1:
            raise ValueError("odd")
        return True

    monkeypatch.setattr(TlsAcceptor, "_make_room", fails_once)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    listener = socket.create_server(("127.0.0.1", 0))
    address = listener.getsockname()
    acceptor = TlsAcceptor(listener, context, asyncio.Protocol, shaking=15, closing=1)
    with contextlib.ExitStack() as stack:
        first, second = (stack.enter_context(socket.create_connection(address, timeout=PATIENCE)) for _ in range(2))
        await until(lambda: acceptor.shaking == 1, "the second handshake")
        assert await asyncio.to_thread(first.recv, 1) == b""
        second.setblocking(False)
        with pytest.raises(BlockingIOError):
            second.recv(1)
        acceptor.close()
        await acceptor.wait_closed()
    assert [record.getMessage() for record in caplog.records] == ["accepting connections failed"]


async def test_a_connection_displaced_before_its_handshake_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All connections arrive before any handshake has begun. A socket that is left to the garbage collector would cause
    a ``ResourceWarning``, which fails this test.
    """
    monkeypatch.setattr(tls_acceptor, "GRACE_SECONDS", 0.0)
    monkeypatch.setattr(tls_acceptor, "HANDSHAKE_LIMIT", HANDSHAKES)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    listener = socket.create_server(("127.0.0.1", 0), backlog=100)
    address, more = listener.getsockname(), 5
    with contextlib.ExitStack() as stack:
        sources = ["127.0.0.2"] * HANDSHAKES + ["127.0.0.3"] * more
        crowd = [stack.enter_context(socket.create_connection(address, 10, (source, 0))) for source in sources]
        acceptor = TlsAcceptor(listener, context, asyncio.Protocol, shaking=15, closing=1)
        ended = [await asyncio.to_thread(one.recv, 1) for one in crowd[:more]]
        assert ended == [b""] * more
        assert acceptor.shaking == HANDSHAKES
        acceptor.close()
        await acceptor.wait_closed()


class Listening:
    """An acceptor and connections to it that send nothing."""

    def __init__(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.address = listener.getsockname()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.acceptor = TlsAcceptor(listener, context, asyncio.Protocol, shaking=PATIENCE, closing=1)
        self.opened = contextlib.ExitStack()

    async def silent(self, source: str) -> socket.socket:
        """Opens a connection from the address ``source``."""
        one = self.opened.enter_context(socket.socket())
        one.setblocking(False)
        one.bind((source, 0))
        await asyncio.get_running_loop().sock_connect(one, self.address)
        return one

    async def shaking(self, *sources: str) -> list[socket.socket]:
        """Opens connections from these addresses, one after another, and waits until the handshake of each has begun."""
        open = []
        for number, source in enumerate(sources, self.acceptor.shaking + 1):
            open.append(await self.silent(source))
            await self._are_shaking(number)
        return open

    async def _are_shaking(self, number: int) -> None:
        await until(lambda: self.acceptor.shaking == number, "the handshake")


@pytest.fixture
async def listening() -> AsyncIterator[Listening]:
    listening = Listening()
    with listening.opened:
        yield listening
        listening.acceptor.close()
        await listening.acceptor.wait_closed()


async def is_cut(one: socket.socket) -> bool:
    async with asyncio.timeout(PATIENCE):
        try:
            return await asyncio.get_running_loop().sock_recv(one, 1) == b""
        except ConnectionError:
            return True


def is_open(one: socket.socket) -> bool:
    try:
        return one.recv(1) != b""
    except BlockingIOError:
        return True


async def test_the_addresses_of_one_network_share_their_handshakes(
    listening: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_acceptor, "network_of", one_network)
    monkeypatch.setattr(tls_acceptor, "NETWORK_LIMIT", 3)
    monkeypatch.setattr(tls_acceptor, "GRACE_SECONDS", 3_600.0)
    mine = await listening.shaking("127.1.0.1", "127.1.0.2", "127.1.0.3")
    assert await is_cut(await listening.silent("127.1.0.4"))
    other = await listening.shaking("127.0.0.2")
    assert all(map(is_open, (*mine, *other)))


async def test_the_oldest_handshake_of_the_largest_crowd_is_closed(
    listening: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest handshake of all stays, because its address has only one."""
    monkeypatch.setattr(tls_acceptor, "HANDSHAKE_LIMIT", 4)
    monkeypatch.setattr(tls_acceptor, "GRACE_SECONDS", 0.0)
    alone, first, *others = await listening.shaking("127.0.0.2", *["127.0.0.3"] * 3)
    newcomer = await listening.silent("127.0.0.4")
    assert await is_cut(first)
    assert all(map(is_open, (alone, *others, newcomer)))
