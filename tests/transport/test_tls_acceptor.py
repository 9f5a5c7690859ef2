"""The acceptor of TLS connections: an error does not stop it, and it leaves no connection open that it has given up."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl

import pytest

from drawbridge.transport import tls_acceptor
from drawbridge.transport.tls_acceptor import TlsAcceptor
from tests.waiting import PATIENCE, until

HANDSHAKES = 40


async def test_connections_are_accepted_after_an_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The connection that it happened to is closed."""
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


async def test_connections_that_make_room_before_their_handshake_has_begun_are_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They all arrive at once, so that none of the handshakes has begun. A socket that is left to the garbage collector would
    be a ``ResourceWarning``, and so an error of this test.
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
