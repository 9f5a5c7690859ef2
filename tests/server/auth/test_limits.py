"""However many clients connect, each refused client receives the reason, the others are not affected, and memory stays
limited.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import logging
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidMessage, InvalidStatus

from drawbridge.core.addresses import network_of, unmapped
from drawbridge.protocols.gate import Head
from drawbridge.protocols.websocket import AT_ONCE
from drawbridge.server import serve
from drawbridge.server.app import blobs
from drawbridge.server.app import clients as clients_module
from drawbridge.server.auth import devices, entrance
from drawbridge.server.auth.access import Access, OwnNames
from drawbridge.server.auth.entrance import (
    ALL_WRONG_CODES,
    CHANGES,
    CONNECTS,
    FAILURES,
    HANDSHAKES,
    LEAST_PER_DEVICE,
    REQUESTS,
    WRONG_CODES,
    ClientLimits,
    Entrance,
)
from drawbridge.server.auth.rate_limits import Buckets
from drawbridge.server.auth.ssh_keys import Keys
from drawbridge.server.auth.tls import own_certificate
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.messages import MESSAGE_BYTES
from drawbridge.transport import http_server, tls_acceptor
from drawbridge.transport.tls_acceptor import HANDSHAKE_LIMIT, NETWORK_LIMIT, TlsAcceptor
from tests.server.auth.rig import OWNER, Server, code_of, serving
from tests.server.wire_client import connected
from tests.waiting import PATIENCE, until

SOMEWHERE, ELSEWHERE = "203.0.113.5", "203.0.113.6"

DOCS = Path(__file__).parents[3] / "docs" / "access.md"


def test_the_docs_list_the_current_limits() -> None:
    page, limits = DOCS.read_text(), ClientLimits()
    assert entrance.OWNERS_PART == entrance.DEVICES_PART == 8, "an eighth"
    stored = {
        share: f"{blobs.MOST * share:g} blobs and {blobs.ALTOGETHER * share / 2**20:g} MB" for share in (0.5, 0.75)
    }
    ways = {
        "wrong tokens, codes and signatures from one address": at_once(FAILURES),
        "wrong pairing codes from one address": at_once(WRONG_CODES),
        "wrong pairing codes from all addresses": at_once(ALL_WRONG_CODES),
        "handshakes from one address, without a valid token in their header": at_once(HANDSHAKES),
        "clients from one address": f"{limits.per_address} (`--max-per-address`)",
        "clients of one device": f"an eighth of `--max-clients` (at least {LEAST_PER_DEVICE}): {limits.per_device}",
        "clients in total": f"{limits.clients} (`--max-clients`), an eighth of them reserved for the owner",
        "plain requests from one address (the files of the web UI, `/health`)": at_once(REQUESTS),
        "connections with an unfinished request, or without one": (
            f"{serve.WAITING_CONNECTIONS} after their first second; before that, {http_server.GRACE_NETWORKS} from each"
            f" address (while fewer than `--max-clients` + {serve.SPARE_CONNECTIONS} connections are open)"
        ),
        "unfinished first message of a WebSocket without a token": f"{clients_module.UNFINISHED_BYTES // 1024} kB",
        "first message of a WebSocket without a token": f"{clients_module.AUTH_BYTES // 1024} kB",
        "compressed messages of one client that arrive together": f"{AT_ONCE * MESSAGE_BYTES // 1_000_000} MB, decompressed",
        "TLS handshakes in progress": (
            f"{HANDSHAKE_LIMIT}, and {NETWORK_LIMIT} from one address; {http_server.HANDSHAKE_SECONDS:g} seconds each"
        ),
        "WebSockets that have not signed in": (
            f"{clients_module.STRANGERS}, and {clients_module.NETWORK_STRANGERS} from one address;"
            f" {clients_module.AUTH_SECONDS:g} seconds each, or {clients_module.SIGNING_SECONDS:g} to sign a challenge"
            " with an SSH key"
        ),
        "blobs (large input) from one device": (
            f"{stored[blobs.DEVICE_PART]}; {stored[blobs.DEVICES_PART]} for all devices together"
        ),
        "other commands that are audited, from one device": at_once(CHANGES),
        "connections of one device": at_once(CONNECTS),
    }
    assert [what for what, limit in ways.items() if f"| {what} | {limit} |" not in page] == []
    assert f"| {limits.prompts} (`--max-prompts`) |" in page
    assert f"at most {ALL_WRONG_CODES[0] + 600 * ALL_WRONG_CODES[1]:,.0f} of" in page


def at_once(limit: tuple[int, float]) -> str:
    """A limit in the words of the documentation, such as "60 at once, then 2 a second"."""
    count, rate = limit
    return f"{count:,} at once, then " + (f"{rate:g} a second" if rate >= 1 else f"one every {1 / rate:g} seconds")


class Clock:
    """The clock of the entrance, which the test sets."""

    def __init__(self) -> None:
        self.time = 1_000.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(entrance, "now", clock)
    return clock


@pytest.fixture
async def server(tmp_path: Path, clock: Clock) -> AsyncIterator[Server]:
    """A server behind a proxy on this machine that reports the clients' addresses."""
    async with serving(tmp_path, proxies=["127.0.0.1"]) as server:
        yield server


async def status(
    server: Server, address: str, token: str | None = None, **headers: str
) -> tuple[int, http.client.HTTPMessage, str]:
    """Sends a handshake from this address. Returns the status, headers and body of the answer. The body is empty if the
    handshake was accepted.
    """
    fields = {"X-Forwarded-For": address, "Upgrade": "websocket", "Connection": "Upgrade", **headers}
    fields |= {"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}
    fields |= {"Authorization": f"Bearer {token}"} if token is not None else {}

    def ask() -> tuple[int, http.client.HTTPMessage, str]:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
        connection.request("GET", "/ws", headers=fields)
        answer = connection.getresponse()
        body = answer.read().decode() if answer.status != 101 else ""
        connection.close()
        return answer.status, answer.headers, body

    return await asyncio.to_thread(ask)


async def first_words(server: Server, address: str, message: dict[str, Any]) -> tuple[str, int | None]:
    """Sends this first message from this address. Returns the error code or type of the answer, and the close code, or
    None if the connection stays open.
    """
    async with connect(server.url, proxy=None, additional_headers={"X-Forwarded-For": address}) as stranger:
        await stranger.send(json.dumps(message))
        reply = json.loads(await stranger.recv())
        if reply["type"] == "error":
            await stranger.wait_closed()
        return code_of(reply), stranger.close_code


def auth(token: str) -> dict[str, Any]:
    return {"type": "auth", "data": {"token": token}}


# failed sign-in attempts


async def test_wrong_tokens_slow_down_only_their_address(server: Server, clock: Clock) -> None:
    for number in range(FAILURES[0]):
        if number % 2:
            assert (await status(server, SOMEWHERE, "wrong"))[0] == 401
        else:
            assert await first_words(server, SOMEWHERE, auth("wrong")) == ("UNAUTHORIZED", 4401)
    refused, headers, body = await status(server, SOMEWHERE, "wrong")
    assert refused == 429
    assert "RATE_LIMITED: Too many failed sign-in attempts" in body
    assert 0 < int(headers["Retry-After"]) <= 6
    assert await first_words(server, SOMEWHERE, auth("wrong")) == ("RATE_LIMITED", 4429)
    assert await first_words(server, ELSEWHERE, auth("wrong")) == ("UNAUTHORIZED", 4401)
    clock.time += 6
    assert await first_words(server, SOMEWHERE, auth("wrong")) == ("UNAUTHORIZED", 4401)
    assert await first_words(server, SOMEWHERE, auth("wrong")) == ("RATE_LIMITED", 4429)


async def test_wrong_tokens_do_not_lock_out_others_at_the_address(server: Server, clock: Clock) -> None:
    code = devices.new_code(server.devices, "view")
    for _ in range(FAILURES[0]):
        await status(server, SOMEWHERE, "wrong")
    assert (await status(server, SOMEWHERE, OWNER))[0] == 101
    assert await first_words(server, SOMEWHERE, auth(OWNER)) == ("auth", None)
    pair = {"type": "pair", "data": {"code": code}}
    assert (await first_words(server, SOMEWHERE, pair))[0] == "RATE_LIMITED", "a code is short: it has to wait"
    assert (await first_words(server, ELSEWHERE, pair))[0] == "paired"


async def test_successful_logins_are_never_counted(server: Server) -> None:
    for _ in range(2 * FAILURES[0]):
        assert (await status(server, SOMEWHERE, OWNER))[0] == 101


async def test_failures_are_counted_per_ipv6_network(server: Server) -> None:
    for number in range(FAILURES[0]):
        assert (await status(server, f"2001:db8::{number}", "wrong"))[0] == 401
    assert (await status(server, "2001:db8::ffff", "wrong"))[0] == 429
    assert (await status(server, "2001:db8:0:1::1", "wrong"))[0] == 401


def pair(code: str) -> dict[str, Any]:
    return {"type": "pair", "data": {"code": code}}


async def test_wrong_pairing_codes_block_only_their_address(server: Server, clock: Clock) -> None:
    """Other addresses are not blocked, however long the guessing continues."""
    code = devices.new_code(server.devices, "admin")
    answers = [(await first_words(server, SOMEWHERE, pair("AAAA-0000")))[0] for _ in range(WRONG_CODES[0] + 2)]
    assert answers == ["PAIRING_WRONG"] * WRONG_CODES[0] + ["RATE_LIMITED"] * 2
    for _ in range(5):
        clock.time += 1 / WRONG_CODES[1]
        assert (await first_words(server, SOMEWHERE, pair("AAAA-0000")))[0] == "PAIRING_WRONG"
        assert (await first_words(server, SOMEWHERE, pair("AAAA-0000")))[0] == "RATE_LIMITED"
    assert await first_words(server, SOMEWHERE, pair(code)) == ("RATE_LIMITED", 4429)
    assert (await first_words(server, ELSEWHERE, pair(code)))[0] == "paired"


async def test_wrong_codes_at_the_same_moment_are_counted_one_by_one(server: Server, clock: Clock) -> None:
    crowd, checked = Entrance(server.access), []
    pair_by = server.access.pair

    def noted(code: str, name: str | None) -> Any:
        checked.append(code)
        return pair_by(code, name)

    server.access.pair = noted  # type: ignore[method-assign]
    outcomes = await asyncio.gather(*(outcome(crowd, "AAAA-0000", SOMEWHERE) for _ in range(3 * WRONG_CODES[0])))
    assert outcomes.count("PAIRING_WRONG") == WRONG_CODES[0]
    assert len(checked) == WRONG_CODES[0], "the others are not even compared with the codes"


async def outcome(entrance: Entrance, code: str, address: str) -> str:
    try:
        await entrance.by_code(code, None, address)
    except ClientError as error:
        return error.code
    return "paired"


async def test_many_addresses_cannot_guess_a_pairing_code(server: Server, clock: Clock) -> None:
    """While a code is valid, all clients together can try so few of the 2**40 codes that they practically never find
    it.
    """
    at_once, a_second = ALL_WRONG_CODES
    lifetime = devices.CODE_LIFETIME.total_seconds()
    assert (at_once + a_second * lifetime) / len(devices.CODE_LETTERS) ** devices.CODE_LENGTH < 1e-8
    assert at_once >= 100 * WRONG_CODES[0], "many addresses are needed to keep the others out"
    assert a_second >= 300 * WRONG_CODES[1], "and have to continue"
    code = devices.new_code(server.devices, "admin")
    crowd = Entrance(server.access)
    outcomes = [
        await outcome(crowd, "AAAA-0000", f"198.51.{number // 250}.{number % 250}") for number in range(at_once + 50)
    ]
    assert outcomes == ["PAIRING_WRONG"] * at_once + ["RATE_LIMITED"] * 50
    assert await outcome(crowd, code, SOMEWHERE) == "RATE_LIMITED"
    clock.time += 2 / a_second
    assert await outcome(crowd, code, SOMEWHERE) == "paired"


# handshakes and connections


async def test_the_handshakes_of_an_address_are_limited(server: Server, clock: Clock) -> None:
    for _ in range(HANDSHAKES[0]):
        assert (await status(server, SOMEWHERE))[0] == 101
    refused, headers, body = await status(server, SOMEWHERE)
    assert (refused, headers["Retry-After"]) == (429, "1")
    assert "RATE_LIMITED: Too many handshakes" in body
    assert (await status(server, ELSEWHERE))[0] == 101
    clock.time += 1
    assert (await status(server, SOMEWHERE))[0] == 101


async def test_handshakes_do_not_lock_out_others_at_the_address(server: Server) -> None:
    for number in range(HANDSHAKES[0]):
        assert (await status(server, SOMEWHERE, "wrong" if number == 0 else None))[0] in (101, 401)
    assert (await status(server, SOMEWHERE))[0] == 429
    for _ in range(2):
        assert (await status(server, SOMEWHERE, OWNER))[0] == 101
    assert (await status(server, SOMEWHERE, server.token("phone", "view")))[0] == 101
    assert (await status(server, SOMEWHERE, "wrong"))[0] == 429


async def test_plain_requests_of_one_address_are_limited(server: Server, clock: Clock) -> None:
    async def get(address: str, times: int) -> set[int]:
        def ask() -> set[int]:
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
            seen = set()
            for _ in range(times):
                connection.request("GET", "/health", headers={"X-Forwarded-For": address})
                answer = connection.getresponse()
                answer.read()
                seen.add(answer.status)
            connection.close()
            return seen

        return await asyncio.to_thread(ask)

    assert await get(SOMEWHERE, REQUESTS[0]) == {200}
    assert await get(SOMEWHERE, 1) == {429}
    assert await get(ELSEWHERE, 1) == {200}
    assert await get("127.0.0.1", REQUESTS[0] + 1) == {200}, "requests from this machine are not counted"
    clock.time += 1
    assert await get(SOMEWHERE, 1) == {200}


@contextlib.asynccontextmanager
async def many(server: Server, *addresses: str) -> AsyncIterator[list[ClientConnection]]:
    async with contextlib.AsyncExitStack() as stack:
        clients = []
        for address in addresses:
            headers = {"X-Forwarded-For": address, "Authorization": f"Bearer {OWNER}"}
            opened = connect(server.url, proxy=None, additional_headers=headers)
            clients.append(await stack.enter_async_context(opened))
        yield clients


@contextlib.asynccontextmanager
async def many_devices(server: Server, number: int) -> AsyncIterator[list[ClientConnection]]:
    """Connects ``number`` new devices with one client each, from different addresses."""
    async with contextlib.AsyncExitStack() as stack:
        clients = []
        for one in range(number):
            headers = {"X-Forwarded-For": f"198.51.100.{one}"}
            headers["Authorization"] = f"Bearer {server.token(f'device {one}', 'view')}"
            opened = connect(server.url, proxy=None, additional_headers=headers)
            clients.append(await stack.enter_async_context(opened))
        yield clients


async def test_the_number_of_clients_from_one_address_is_limited(tmp_path: Path, clock: Clock) -> None:
    async with (
        serving(tmp_path, crowd=ClientLimits(per_address=3), proxies=["127.0.0.1"]) as server,
        many(server, *[SOMEWHERE] * 3) as clients,
    ):
        refused, headers, body = await status(server, SOMEWHERE, OWNER)
        assert (refused, headers["Retry-After"]) == (429, "30")
        assert "TOO_MANY_FROM_ADDRESS" in body
        assert (await status(server, ELSEWHERE, OWNER))[0] == 101
        await clients[0].close()
        await until(lambda: len(server.clients) == 2)
        async with many(server, SOMEWHERE):
            pass


async def test_clients_are_counted_per_ipv6_network(tmp_path: Path, clock: Clock) -> None:
    network = [f"2001:db8::{number}" for number in range(4)]
    async with (
        serving(tmp_path, crowd=ClientLimits(per_address=3), proxies=["127.0.0.1"]) as server,
        many(server, *network[:3]) as clients,
    ):
        assert (await status(server, network[3], OWNER))[0] == 429
        assert (await status(server, "2001:db8:0:1::1", OWNER))[0] == 101
        await clients[0].close()
        await until(lambda: len(server.clients) == 2)
        async with many(server, network[3]):
            pass


@contextlib.asynccontextmanager
async def strangers(server: Server, number: int, *, sign: bool) -> AsyncIterator[None]:
    """Opens ``number`` WebSockets from ``SOMEWHERE`` without a token. ``sign``: whether they request a challenge for an
    SSH key, which gives them a minute to sign in.
    """
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(number):
            opened = connect(server.url, proxy=None, additional_headers={"X-Forwarded-For": SOMEWHERE})
            stranger = await stack.enter_async_context(opened)
            if sign:
                await stranger.send('{"type":"ssh_challenge","data":{}}')
                assert json.loads(await stranger.recv())["type"] == "ssh_challenge"
        yield


@pytest.mark.parametrize("sign", [False, True], ids=["silent", "with a challenge"])
async def test_strangers_at_its_address_do_not_lock_out_a_device(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, sign: bool
) -> None:
    """Clients without a token have their own limit, and do not count toward the limit of clients from one address."""
    monkeypatch.setattr(clients_module, "NETWORK_STRANGERS", 5)
    monkeypatch.setattr(clients_module, "AUTH_SECONDS", PATIENCE)
    (tmp_path / "keys").touch(mode=0o600)
    async with (
        serving(
            tmp_path, crowd=ClientLimits(per_address=3), proxies=["127.0.0.1"], keys=Keys(tmp_path / "keys")
        ) as server,
        strangers(server, 4, sign=sign),
    ):
        token = server.token("phone", "view")
        assert (await status(server, SOMEWHERE, token))[0] == 101
        assert (await status(server, SOMEWHERE, OWNER))[0] == 101
        assert await first_words(server, SOMEWHERE, auth(token)) == ("auth", None)


async def test_the_limit_per_address_applies_to_first_messages(tmp_path: Path, clock: Clock) -> None:
    """A pairing code that is refused this way stays valid."""
    async with (
        serving(tmp_path, crowd=ClientLimits(per_address=3), proxies=["127.0.0.1"]) as server,
        many(server, *[SOMEWHERE] * 3),
    ):
        code = devices.new_code(server.devices, "view")
        for message in (auth(OWNER), auth(server.token("phone", "view")), pair(code)):
            assert await first_words(server, SOMEWHERE, message) == ("RESOURCE_LIMIT", 1013)
        assert await first_words(server, ELSEWHERE, pair(code)) == ("paired", None)


async def test_the_total_number_of_clients_is_limited(tmp_path: Path, clock: Clock) -> None:
    addresses = [f"198.51.100.{number}" for number in range(4)]
    async with (
        serving(tmp_path, crowd=ClientLimits(clients=4), proxies=["127.0.0.1"]) as server,
        many(server, *addresses) as clients,
    ):
        refused, headers, body = await status(server, SOMEWHERE, OWNER)
        assert (refused, headers["Retry-After"]) == (503, "30")
        assert "TOO_MANY_CLIENTS" in body
        await clients[0].close()
        await until(lambda: len(server.clients) == 3)
        assert (await status(server, SOMEWHERE, OWNER))[0] == 101


async def test_one_device_cannot_use_up_all_connections(tmp_path: Path, clock: Clock) -> None:
    """However many connections one device opens, another device and the owner can connect."""
    async with serving(tmp_path, crowd=ClientLimits(clients=16), proxies=["127.0.0.1"]) as server:
        token = server.token("phone", "view")
        async with contextlib.AsyncExitStack() as stack:
            for number in range(LEAST_PER_DEVICE):
                sent = {"X-Forwarded-For": f"198.51.100.{number}", "Authorization": f"Bearer {token}"}
                await stack.enter_async_context(connect(server.url, proxy=None, additional_headers=sent))
            refused, headers, body = await status(server, SOMEWHERE, token)
            assert (refused, headers["Retry-After"]) == (429, "30")
            assert "TOO_MANY_FROM_DEVICE" in body
            assert await first_words(server, SOMEWHERE, auth(token)) == ("RESOURCE_LIMIT", 1013)
            assert (await status(server, SOMEWHERE, server.token("tablet", "view")))[0] == 101
            assert (await status(server, SOMEWHERE, OWNER))[0] == 101


async def test_connections_are_reserved_for_the_owner(tmp_path: Path, clock: Clock) -> None:
    async with (
        serving(tmp_path, crowd=ClientLimits(clients=8), proxies=["127.0.0.1"]) as server,
        many_devices(server, 7),
    ):
        another = server.token("another", "view")
        assert (await status(server, SOMEWHERE, another))[0] == 503
        assert await first_words(server, SOMEWHERE, auth(another)) == ("RESOURCE_LIMIT", 1013)
        async with many(server, ELSEWHERE):
            assert (await status(server, ELSEWHERE, OWNER))[0] == 503


async def test_a_full_server_does_not_use_up_a_pairing_code(tmp_path: Path, clock: Clock) -> None:
    async with (
        serving(tmp_path, crowd=ClientLimits(clients=4), proxies=["127.0.0.1"]) as server,
        many_devices(server, 4) as clients,
    ):
        code = devices.new_code(server.devices, "view", name="phone")
        assert await first_words(server, SOMEWHERE, pair(code)) == ("RESOURCE_LIMIT", 1013)
        assert "phone" not in [device.name for device in server.devices]
        await clients[0].close()
        await until(lambda: len(server.clients) == 3)
        async with connected(server.url) as phone:
            assert code_of(await phone.ask("pair", {"code": code})) == "paired"
            assert code_of(await phone.ask("hello")) == "hello"


async def test_a_connection_is_reserved_during_a_pairing(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other client can take the last connection between the moment the code is used up and the moment its client is
    accepted.
    """
    paired, goes_on = threading.Event(), threading.Event()
    async with (
        serving(tmp_path, crowd=ClientLimits(clients=4), proxies=["127.0.0.1"]) as server,
        many_devices(server, 3),
    ):
        pair_by = server.access.pair

        def held(code: str, name: str | None) -> Any:
            made = pair_by(code, name)
            paired.set()
            assert goes_on.wait(PATIENCE)
            return made

        monkeypatch.setattr(server.access, "pair", held)
        another = server.token("another", "view")
        async with connected(server.url) as phone:
            await phone.send("pair", {"code": devices.new_code(server.devices, "view")})
            assert await asyncio.to_thread(paired.wait, PATIENCE)
            refused = await first_words(server, SOMEWHERE, auth(another))
            goes_on.set()
            assert refused == ("RESOURCE_LIMIT", 1013)
            assert code_of(await phone.next()) == "paired"
            assert code_of(await phone.ask("hello")) == "hello"


# prompts


async def test_each_device_has_its_own_prompt_limit_per_minute(tmp_path: Path, clock: Clock) -> None:
    """The error contains the number of seconds until the device can try again."""
    async with serving(tmp_path, crowd=ClientLimits(prompts=2)) as server, server.client() as owner:
        project = await server.project(owner)
        async with server.client(server.token("one", "run")) as one, server.client(server.token("two", "run")) as two:
            two._numbers = count(1_000)  # a project recognizes a repeated request_id from any client
            await two.ask("project_join", project_id=project)
            for _ in range(2):
                assert code_of(await one.ask("execute", {"prompt": "/quick"}, project)) == "accepted"
            refused = await one.ask("execute", {"prompt": "/quick"}, project)
            assert code_of(refused) == "RATE_LIMITED"
            assert refused["data"]["retryable"]
            assert refused["data"]["details"] == {"retry_after": 30}
            assert code_of(await two.ask("execute", {"prompt": "/quick"}, project)) == "accepted"
            clock.time += 30
            assert code_of(await one.ask("execute", {"prompt": "/quick"}, project)) == "accepted"
            for _ in range(4):
                await two.receive("update", "run_finished")


# blobs


async def test_blobs_of_a_device_do_not_block_others(tmp_path: Path) -> None:
    blob = {"offset": 0, "data": "", "last": True}
    async with serving(tmp_path) as server, server.client() as owner, server.client(server.token("one")) as one:
        answers = [await one.ask("blob_put", {"blob_id": f"b{number}", **blob}) for number in range(200)]
        assert {code_of(answer) for answer in answers} == {"blob_stored", "RESOURCE_LIMIT"}
        async with server.client(server.token("two")) as two:
            assert code_of(await two.ask("blob_put", {"blob_id": "theirs", **blob})) == "blob_stored"
        assert code_of(await owner.ask("blob_put", {"blob_id": "mine", **blob})) == "blob_stored"


async def test_only_its_device_can_read_and_change_a_blob(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, server.client() as owner, server.client(server.token("one")) as one:
        blob = {"blob_id": "b", "offset": 0, "last": True}
        assert code_of(await owner.ask("blob_put", {**blob, "data": "b3du"})) == "blob_stored"
        assert code_of(await one.ask("blob_get", {"blob_id": "b"})) == "BLOB_NOT_FOUND"
        assert code_of(await one.ask("blob_put", {**blob, "data": "b25l"})) == "blob_stored"
        for client, data in ((owner, "b3du"), (one, "b25l")):
            assert (await client.ask("blob_get", {"blob_id": "b"}))["data"]["data"] == data


# what is logged


async def test_many_refusals_cause_few_log_lines(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "drawbridge")
    for _ in range(FAILURES[0] + 30):
        await status(server, SOMEWHERE, "wrong")
    logged = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert (
        len([line for line in logged if "too many failed sign-in attempts from 203.0.113.5; more are refused" in line])
        == 1
    )
    assert len(logged) <= 2 * FAILURES[0] + 1


# proxies


@pytest.mark.parametrize(
    ("peer", "headers", "expected"),
    [
        ("127.0.0.1", ["203.0.113.5"], "203.0.113.5"),
        ("203.0.113.9", ["203.0.113.5"], "203.0.113.9"),
        ("127.0.0.1", ["198.51.100.1, 203.0.113.5"], "203.0.113.5"),
        ("127.0.0.1", ["203.0.113.5, 10.1.2.3"], "203.0.113.5"),
        ("127.0.0.1", ["203.0.113.5", "10.1.2.3"], "203.0.113.5"),
        ("127.0.0.1", ["10.1.2.3"], "10.1.2.3"),
        ("127.0.0.1", [], "127.0.0.1"),
        ("127.0.0.1", ["unknown"], "127.0.0.1"),
        ("127.0.0.1", ["203.0.113.5, rubbish, 10.1.2.3"], "10.1.2.3"),
        ("127.0.0.1", ["203.0.113.5:4711"], "203.0.113.5"),
        ("127.0.0.1", ["[2001:db8::7]:4711"], "2001:db8::7"),
        ("127.0.0.1", ["2001:db8::7"], "2001:db8::7"),
        ("", ["203.0.113.5"], ""),
    ],
)
def test_only_trusted_proxies_report_a_clients_address(peer: str, headers: list[str], expected: str) -> None:
    access = Access(OWNER, OwnNames(), secure=True, proxies=["127.0.0.1", "10.0.0.0/8"])
    assert access.address(Head("GET", "/ws", tuple(("x-forwarded-for", one) for one in headers), peer)) == expected


async def test_without_a_proxy_no_client_can_fake_its_address(tmp_path: Path, clock: Clock) -> None:
    async with serving(tmp_path) as server:
        for number in range(FAILURES[0]):
            assert (await status(server, f"198.51.100.{number}", "wrong"))[0] == 401
        assert (await status(server, ELSEWHERE, "wrong"))[0] == 429


@pytest.mark.parametrize(("proxies", "warnings"), [([], 1), (["127.0.0.1"], 0)], ids=["not trusted", "trusted"])
async def test_a_proxy_that_is_not_trusted_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, proxies: list[str], warnings: int
) -> None:
    caplog.set_level("WARNING", "drawbridge")
    async with serving(tmp_path, proxies=proxies) as server:
        for _ in range(2):
            assert (await status(server, SOMEWHERE))[0] == 101
    found = [record for record in caplog.records if "--trusted-proxy 127.0.0.1" in record.getMessage()]
    assert len(found) == warnings


# pages from other origins


async def test_only_allowed_origins_may_connect(tmp_path: Path) -> None:
    async with serving(tmp_path, origins=["https://Agents.example/"]) as server:
        for origin, expected in [
            ("https://agents.example", 101),
            ("https://agents.example:444", 403),
            ("http://agents.example", 403),
            ("https://agents.example.evil.example", 403),
            ("null", 403),
            (f"http://127.0.0.1:{server.port}", 101),
        ]:
            assert (await status(server, "", OWNER, Origin=origin))[0] == expected, origin


# buckets


def test_a_bucket_refills_up_to_its_burst() -> None:
    buckets = Buckets(2, 0.5)
    assert [buckets.admit("a", 0.0) is None for _ in range(3)] == [True, True, False]
    refused = buckets.admit("a", 1.0)
    assert refused is not None
    assert refused.seconds == pytest.approx(1.0)
    assert buckets.admit("a", 2.0) is None
    assert [buckets.admit("a", 1_000.0) is None for _ in range(3)] == [True, True, False]


def test_a_clock_that_is_set_back_adds_no_tokens() -> None:
    buckets = Buckets(1, 1.0)
    assert buckets.admit("a", 100.0) is None
    assert buckets.admit("a", 0.0) is not None
    assert buckets.admit("a", 0.5) is not None


def test_the_table_is_limited_and_keeps_known_addresses() -> None:
    buckets = Buckets(2, 0.01, table=100)
    buckets.admit("known", 0.0)
    buckets.admit("known", 0.0)
    for number in range(10_000):
        buckets.admit(f"stranger {number}", 1.0)
    assert len(buckets) <= 101
    assert buckets.admit("known", 2.0) is not None, "it can't make the table forget it"
    for number in range(50):
        buckets.admit(f"later {number}", 10_000.0)
    assert len(buckets) == 50
    assert buckets.admit("known", 10_000.0) is None


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 5)), max_size=200))
def test_no_client_gets_more_than_burst_and_rate_allow(steps: list[tuple[str, float]]) -> None:
    buckets, now, taken = Buckets(3, 0.5), 0.0, {"a": 0, "b": 0, "c": 0}
    for key, pause in steps:
        now += pause
        taken[key] += buckets.admit(key, now) is None
    assert all(count <= 3 + now * 0.5 + 1e-6 for count in taken.values())


def test_addresses_of_one_network_are_counted_together() -> None:
    assert network_of("192.0.2.7") == network_of("::ffff:192.0.2.7") == "192.0.2.7"
    assert network_of("2001:db8::1") == network_of("2001:db8::2") != network_of("2001:db8:0:1::1")
    assert network_of("") == ""
    assert unmapped("::ffff:192.0.2.7") == "192.0.2.7"
    assert unmapped("2001:db8::1") == "2001:db8::1"


# a crowd


async def newcomer(server: Server) -> ClientConnection:
    """Connects as the owner. Retries if the connection is cut off because others connect at the same moment."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return await connect(server.url, proxy=None, additional_headers={"Authorization": f"Bearer {OWNER}"})
            except (InvalidMessage, OSError):
                continue


@pytest.mark.thorough
async def test_a_thousand_connections_do_not_disturb_a_client(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A third of them send nothing at all, a third send nothing after the handshake, and a third send a wrong token."""
    caplog.set_level("ERROR", "drawbridge")
    head = "GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    head += "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    words = ["", f"{head}\r\n", f"{head}Authorization: Bearer wrong\r\n\r\n"]
    async with serving(tmp_path) as server, server.client() as client:
        crowd = [socket.socket() for _ in range(1_000)]

        def come() -> None:
            for number, one in enumerate(crowd):
                one.settimeout(PATIENCE)
                with contextlib.suppress(OSError):
                    one.connect(("127.0.0.1", server.port))
                    one.sendall(words[number % 3].encode())

        begin = time.monotonic()
        coming = asyncio.create_task(asyncio.to_thread(come))
        waits: list[float] = []
        while not coming.done() or len(waits) < 50:  # all of the crowd may have connected before the first answer
            began = time.monotonic()
            assert code_of(await client.ask("project_list")) == "project_list"
            waits.append(time.monotonic() - began)
            await asyncio.sleep(0)
        await coming
        assert max(waits) < (time.monotonic() - begin) / 2, "the client waited until most of the crowd was accepted"
        assert len(server.door.connections) <= server.door.options.connections
        another = await newcomer(server)
        await another.close()
        for one in crowd:
            one.close()
        await until(lambda: len(server.door.connections) <= 1)


@pytest.mark.parametrize(
    "words",
    [b"", pytest.param(b"GET / HTTP/1.1\r\n\r\n", marks=pytest.mark.thorough), b"\x16\x03\x01\x02\x00\x01"],
    ids=["silent", "plain", "half"],
)
async def test_unfinished_tls_handshakes_do_not_block_clients(tmp_path: Path, words: bytes) -> None:
    made = own_certificate(tmp_path / "tls", ["127.0.0.1"])
    trusted = ssl.create_default_context(cafile=str(made.certificate))
    loop = asyncio.get_running_loop()
    async with serving(tmp_path, made.context()) as server, server.client(tls=trusted) as client:
        acceptor = server.door._server
        assert isinstance(acceptor, TlsAcceptor)
        crowd = [socket.socket() for _ in range(200)]
        for number, one in enumerate(crowd):
            one.setblocking(False)
            one.bind((f"127.0.0.{2 + number % 8}", 0))
            await loop.sock_connect(one, ("127.0.0.1", server.port))
            await loop.sock_sendall(one, words)
            assert acceptor.shaking <= HANDSHAKE_LIMIT
        began = time.monotonic()
        async with server.client(tls=trusted) as another:
            assert code_of(await another.ask("project_list")) == "project_list"
        assert code_of(await client.ask("project_list")) == "project_list"
        assert time.monotonic() - began < PATIENCE / 2, "the crowd's handshakes never end"
        for one in crowd:
            one.close()
        await until(lambda: acceptor.shaking == 0)


async def silent(server: Server, source: str) -> socket.socket:
    """Opens a connection from this address that sends nothing."""
    one = socket.socket()
    one.setblocking(False)
    one.bind((source, 0))
    await asyncio.get_running_loop().sock_connect(one, ("127.0.0.1", server.port))
    return one


async def keeps(*open: socket.socket) -> bool:
    """Whether all connections are still open after 0.05 seconds."""
    await asyncio.sleep(0.05)
    for one in open:
        with contextlib.suppress(BlockingIOError):
            one.recv(1)
            return False
    return True


async def test_no_handshake_is_cut_off_in_its_first_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients at many addresses use all handshakes, and none of them has been connected for a second yet. Another
    client waits until one of them leaves.
    """
    made = own_certificate(tmp_path / "tls", ["127.0.0.1"])
    monkeypatch.setattr(tls_acceptor, "GRACE_SECONDS", 3600.0)
    trusted = ssl.create_default_context(cafile=str(made.certificate))
    async with serving(tmp_path, made.context()) as server:
        acceptor = server.door._server
        assert isinstance(acceptor, TlsAcceptor)
        crowd = [await silent(server, f"127.0.1.{number % 250 + 1}") for number in range(HANDSHAKE_LIMIT)]
        await until(lambda: acceptor.shaking == HANDSHAKE_LIMIT)
        knocking = asyncio.create_task(answered(server, trusted))
        assert await keeps(*crowd)
        assert not knocking.done()
        crowd[0].close()
        assert await knocking == "project_list"
        assert await keeps(*crowd[1:])
        for one in crowd:
            one.close()
        await until(lambda: acceptor.shaking == 0)


async def answered(server: Server, trusted: ssl.SSLContext) -> str:
    async with server.client(tls=trusted) as client:
        return code_of(await client.ask("project_list"))


async def test_one_address_gets_only_its_share_of_handshakes(tmp_path: Path) -> None:
    made = own_certificate(tmp_path / "tls", ["127.0.0.1"])
    loop = asyncio.get_running_loop()
    async with serving(tmp_path, made.context()) as server:
        acceptor = server.door._server
        assert isinstance(acceptor, TlsAcceptor)
        slow = await silent(server, "127.0.0.2")
        await until(lambda: acceptor.shaking == 1)
        crowd = [await silent(server, "127.0.0.3") for _ in range(NETWORK_LIMIT)]
        await until(lambda: acceptor.shaking == NETWORK_LIMIT + 1)
        later = await silent(server, "127.0.0.3")
        async with asyncio.timeout(PATIENCE):
            with contextlib.suppress(ConnectionError):
                assert await loop.sock_recv(later, 1) == b"", "the address has its share"
        assert await keeps(slow, *crowd)
        later.close()
        for one in (slow, *crowd):
            one.close()
        await until(lambda: acceptor.shaking == 0)


async def test_a_refused_handshake_leaves_no_client_behind(server: Server) -> None:
    with pytest.raises(InvalidStatus):
        await connect(server.url, proxy=None, additional_headers={"Authorization": "Bearer wrong"})
    assert not list(server.clients)
