"""Incomplete requests that are sent to a real server take little memory, and the owner can still connect."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
from websockets.exceptions import InvalidHandshake

from tests.protocols.bytes_of import giant_frame_head
from tests.server.processes import Server, serving
from tests.waiting import until

CROWD = 400
RENEWALS = 5
"""The maximum number of times that each member of the crowd reconnects after the server has closed its connection."""

TRIES = 5
PROMPT_SECONDS = 15.0
LITTLE = 10 * 1024 * 1024
"""The allowed growth of the server's resident memory, in bytes. Some tests allow twice as much."""

BODY = b"x" * 900_000
"""The part of a body that is sent: most of the bytes that the requests below announce."""

HANDSHAKE = (
    b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + b"A" * 22 + b"=="
)


def sent(line: bytes, fields: bytes, behind: bytes = b"") -> bytes:
    return line + b" HTTP/1.1\r\nHost: localhost\r\n" + fields + behind


REQUESTS = [
    pytest.param(sent(b"GET /health", b"X-Filler: " + b"x" * 12_000), id="half a head"),
    pytest.param(
        sent(b"GET /health", b"Content-Length: 990000\r\n\r\n", BODY),
        id="half a body of GET",
        marks=pytest.mark.thorough,
    ),
    pytest.param(sent(b"HEAD /", b"Content-Length: 10\r\n\r\n"), id="no body of HEAD", marks=pytest.mark.thorough),
    pytest.param(b"", id="nothing", marks=pytest.mark.thorough),
    pytest.param(
        sent(b"POST /ws", b"Content-Length: 990000\r\n\r\n", BODY), id="half a body", marks=pytest.mark.thorough
    ),
    pytest.param(
        sent(b"GET /", b"Transfer-Encoding: chunked\r\n\r\nfffff\r\n", BODY),
        id="half a chunk",
        marks=pytest.mark.thorough,
    ),
]

HALF_A_MESSAGE = giant_frame_head(917_504) + b"x" * 900_000
"""Sent once the server has accepted the WebSocket and waits for the token."""


@contextlib.asynccontextmanager
async def crowd(server: Server, words: bytes, tls: ssl.SSLContext | None, at_once: int) -> AsyncIterator[None]:
    """Yields once all members of the crowd have connected or given up. Those that are cut off reconnect, up to
    ``RENEWALS`` times. At most ``at_once`` of them connect at a time.
    """
    address = urlsplit(server.url)
    came: set[int] = set()
    few = asyncio.Semaphore(at_once)

    async def come(number: int) -> None:
        for _ in range(1 + RENEWALS):
            with contextlib.suppress(OSError):
                async with few:
                    reader, writer = await asyncio.open_connection(address.hostname, address.port, ssl=tls)
                try:
                    writer.write(words)
                    came.add(number)
                    while answer := await reader.read(65_536):
                        if answer.startswith(b"HTTP/1.1 101 "):
                            writer.write(HALF_A_MESSAGE)
                finally:
                    writer.transport.abort()

    members = [asyncio.create_task(come(number)) for number in range(CROWD)]
    try:
        await until(lambda: len(came) == CROWD or all(member.done() for member in members), "the crowd")
        yield
    finally:
        for member in members:
            member.cancel()
        await asyncio.gather(*members, return_exceptions=True)


def trusting_all() -> ssl.SSLContext:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    return tls


async def gets_in(server: Server, until: float | None) -> None:
    """Connects as the owner. ``until`` is the monotonic time after which no further attempt is made. None allows one
    attempt.
    """
    while True:
        try:
            async with server.client() as owner:
                assert (await owner.ask("project_list"))["type"] == "project_list"
                return
        except (OSError, InvalidHandshake):
            if until is None or time.monotonic() > until:
                raise


async def check(tmp_path: Path, tls: bool, words: bytes, most: int, *, shaken: bool = True) -> None:
    """Checks that the owner can connect while a crowd sends ``words``, and that the server's memory grows by less than
    ``most`` bytes. If ``shaken`` is false, the crowd sends ``words`` in place of a TLS handshake. The owner then
    retries, as the web UI and ``attach`` do, because a new handshake is refused while the crowd uses all the handshakes
    allowed for one address (docs/access.md).
    """
    async with serving(tmp_path / "data", *([] if tls else ["--no-tls"])) as server:
        async with server.client() as before:
            await before.ask("project_list")
        process = psutil.Process(server.process.pid)
        usual = process.memory_info().rss
        async with crowd(server, words, trusting_all() if tls and shaken else None, at_once=8 if shaken else CROWD):
            for _ in range(TRIES):
                began = time.monotonic()
                await gets_in(server, None if shaken else began + PROMPT_SECONDS)
                assert time.monotonic() - began < PROMPT_SECONDS
            assert process.memory_info().rss - usual < most


@pytest.mark.slow_for(
    "plain-half a body of GET",
    "plain-half a chunk",
    "plain-no body of HEAD",
    "tls-half a body of GET",
    "tls-half a body",
    "tls-half a chunk",
    "tls-no body of HEAD",
    "tls-nothing",
)
@pytest.mark.parametrize("words", REQUESTS)
@pytest.mark.parametrize("tls", [False, pytest.param(True, marks=pytest.mark.thorough)], ids=["plain", "tls"])
async def test_incomplete_requests_do_not_block_clients(tmp_path: Path, tls: bool, words: bytes) -> None:
    # The server waits for the rest of up to 128 requests at a time, and TLS takes about 80 kB for each.
    await check(tmp_path, tls, words, 2 * LITTLE if tls else LITTLE)


@pytest.mark.slow
async def test_incomplete_tls_handshakes_do_not_block_clients(tmp_path: Path) -> None:
    """The crowd connects from the owner's address, and reconnects as soon as it is cut off."""
    await check(tmp_path, True, b"\x16\x03\x01\x02\x00\x01", LITTLE, shaken=False)


@pytest.mark.slow_for("tls")
@pytest.mark.thorough
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_incomplete_first_messages_do_not_block_clients(tmp_path: Path, tls: bool) -> None:
    """The server waits for the tokens of up to 64 clients of one address, and reads from each of them in pieces of up
    to 256 kB.
    """
    await check(tmp_path, tls, sent(b"GET /ws", HANDSHAKE + b"\r\n\r\n"), 2 * LITTLE)
