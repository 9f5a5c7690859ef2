"""The acceptor of TLS connections continues after a defect of the server."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl

import pytest

from drawbridge.transport.tls_acceptor import TlsAcceptor
from tests.waiting import PATIENCE, until


async def test_connections_are_accepted_after_an_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The connection that it happened to is closed."""
    peers = list[str]()

    async def fails_once(self: TlsAcceptor, address: str) -> None:
        peers.append(address)
        if len(peers) == 1:
            raise ValueError("odd")

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
