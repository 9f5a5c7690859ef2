"""A slow client can still connect while up to 500 connections a second come from thousands of addresses, and none of
them signs in.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import resource
import socket
import ssl
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest

from drawbridge.server.app import clients
from drawbridge.server.auth.tls import own_certificate
from drawbridge.transport import tls_acceptor
from drawbridge.transport.tls_acceptor import TlsAcceptor
from tests.protocols.bytes_of import request, text
from tests.server.auth.rig import OWNER, Server, serving
from tests.transport.rig import Client, one_network
from tests.waiting import PATIENCE, until

ROUND_TRIP = 0.4
"""The duration of a round trip in a slow mobile network, in seconds."""

ADDRESSES = 5_000
RATE = 500
"""The number of connections that a flood opens each second."""

RATE_OF_WEBSOCKETS = 40
"""The number of WebSockets that a flood opens each second. The server needs longer for each than for a silent
connection. The test therefore lowers the server's limit, which even a slow machine then reaches in a round trip.
"""

KEPT = 4_000
"""The maximum number of connections that a flood keeps open."""


def of_the_flood(number: int) -> str:
    return f"127.1.{number // 250}.{number % 250 + 1}"


@contextlib.contextmanager
def many_files() -> Iterator[None]:
    """Lets the process open enough files for the flood. Skips the test if the system does not permit so many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(soft, 2 * KEPT)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"a process may have only {hard} files open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextlib.contextmanager
def flood(server: Server, room: int, rate: int = RATE, words: bytes = b"") -> Iterator[threading.Event]:
    """Opens ``rate`` connections a second, each of which sends ``words``. Yields an event that is set when more than 2
    *
    ``room`` connections have been opened.
    """
    is_full, is_over = threading.Event(), threading.Event()
    failures: list[BaseException] = []

    def come() -> None:
        opened = deque[socket.socket]()
        for number in range(1_000_000):
            if is_over.wait(1 / rate):
                break
            one = socket.socket()
            one.setblocking(False)
            one.bind((of_the_flood(number % ADDRESSES), 0))
            assert one.connect_ex(("127.0.0.1", server.port)) == errno.EINPROGRESS
            opened.append(one)
            with contextlib.suppress(BlockingIOError):  # the kernel's queue is full
                one.send(words)
            if number > room * 2:
                is_full.set()
            if len(opened) > KEPT:
                opened.popleft().close()
        for one in opened:
            one.close()

    def comes() -> None:
        try:
            come()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=comes)
    thread.start()
    try:
        yield is_full
    finally:
        is_over.set()
        thread.join()
    assert failures == []


async def slow_answer(server: Server, trusted: ssl.SSLContext) -> bytes:
    """Sends a handshake like a client with a long round trip. Returns the answer, which is empty if the kernel's queue
    is full or if the client was cut off.
    """
    loop = asyncio.get_running_loop()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = trusted.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    request = f"GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    request += "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    request += f"Authorization: Bearer {OWNER}\r\n\r\n"
    is_sent, found = False, b""
    with socket.socket() as one:
        one.setblocking(False)
        one.bind(("127.0.0.9", 0))
        try:
            await asyncio.wait_for(loop.sock_connect(one, ("127.0.0.1", server.port)), ROUND_TRIP * 3)
        except TimeoutError:
            return b""
        while not found:
            with contextlib.suppress(ssl.SSLWantReadError):
                if not is_sent:
                    tls.do_handshake()
                    tls.write(request.encode())
                    is_sent = True
                found = tls.read(4096)
                break
            try:
                if outgoing.pending:
                    await asyncio.sleep(ROUND_TRIP / 2)
                    await loop.sock_sendall(one, outgoing.read())
                data = await loop.sock_recv(one, 65536)
            except ConnectionError:
                return b""
            if not data:
                return b""
            await asyncio.sleep(ROUND_TRIP / 2)
            incoming.write(data)
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("whose", ["one network", "many addresses"])
async def test_a_slow_client_can_connect_during_a_flood(
    tmp_path: Path, whose: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client retries, as all clients do. The server has room for a quarter of its usual number of handshakes, so
    that the flood can fill it several times in a round trip.
    """
    monkeypatch.setattr(tls_acceptor, "HANDSHAKE_LIMIT", tls_acceptor.HANDSHAKE_LIMIT // 4)
    monkeypatch.setattr(tls_acceptor, "NETWORK_LIMIT", tls_acceptor.NETWORK_LIMIT // 4)
    if whose == "one network":
        monkeypatch.setattr(tls_acceptor, "network_of", one_network)
    made = own_certificate(tmp_path / "tls", ["127.0.0.1"])
    trusted = ssl.create_default_context(cafile=str(made.certificate))
    async with serving(tmp_path, made.context()) as server:
        with many_files(), flood(server, tls_acceptor.HANDSHAKE_LIMIT) as is_full:
            await until(is_full.is_set)
            async with asyncio.timeout(PATIENCE):
                while not (answer := await slow_answer(server, trusted)):
                    pass
            acceptor = server.door._server
            assert isinstance(acceptor, TlsAcceptor)
            # One network never uses all handshakes, whatever the total limit is.
            assert whose == "many addresses" or acceptor.shaking <= tls_acceptor.HANDSHAKE_LIMIT // 2
        assert answer.startswith(b"HTTP/1.1 101")


HANDSHAKE = request({"Host": "127.0.0.1"}, line="GET /ws HTTP/1.1")


async def slow_sign_in(server: Server) -> bool:
    """Whether a client with a long round trip can sign in with a token in its first message, as browsers do."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, local_addr=("127.0.0.9", 0))
    client = Client(reader, writer)
    try:
        client.send(HANDSHAKE)
        await client.head()
        await asyncio.sleep(ROUND_TRIP)
        client.send(text(f'{{"type":"auth","data":{{"token":"{OWNER}"}}}}'))
        return b'"auth"' in (await client.receive()).data
    except (ConnectionError, asyncio.IncompleteReadError):
        return False
    finally:
        client.cut()


@pytest.mark.slow
async def test_a_slow_browser_can_sign_in_during_a_flood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The flood opens WebSockets, and never sends a token."""
    monkeypatch.setattr(clients, "STRANGERS", 4)
    async with serving(tmp_path) as server:
        with many_files(), flood(server, clients.STRANGERS, RATE_OF_WEBSOCKETS, HANDSHAKE) as is_full:
            await until(is_full.is_set)
            async with asyncio.timeout(PATIENCE):
                while not await slow_sign_in(server):
                    pass
