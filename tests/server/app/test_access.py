"""Only clients with the token can send commands. Requests from other origins or for unknown host names are refused."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.frames import Opcode

from drawbridge.core.errors import BadSetting, NotPrivate
from drawbridge.server.app import clients as clients_module
from drawbridge.server.app.clients import AUTH_BYTES, UNFINISHED_BYTES
from drawbridge.server.auth.access import OwnNames, is_loopback, owner_token
from drawbridge.server.protocol.commands import Execute
from drawbridge.transport import http_server
from tests.protocols.bytes_of import close, frame, request, text
from tests.server.app.rig import TOKEN, Server, serving
from tests.server.wire_client import connected
from tests.transport.rig import Client, one_network
from tests.waiting import PATIENCE, until


async def status_of(server: Server, path: str = "/ws", **headers: str | list[str]) -> int:
    """Returns the HTTP status code of the answer to a WebSocket handshake."""
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(request({"Host": f"127.0.0.1:{server.port}", **fields}, line=f"GET {path} HTTP/1.1"))
    async with asyncio.timeout(PATIENCE):
        status = int((await reader.readline()).split()[1])
    writer.transport.abort()
    return status


# a token in the header


async def test_the_right_token_in_the_header_signs_in_immediately(server: Server) -> None:
    async with connected(server.url, TOKEN) as client:
        assert (await client.ask("project_list"))["type"] == "project_list"


@pytest.mark.parametrize(
    "shown", ["Bearer wrong", f"Bearer {TOKEN}x", "Bearer ", "", f"Basic {TOKEN}", TOKEN, f"bearer{TOKEN}"]
)
async def test_a_wrong_token_in_the_header_gets_401(server: Server, shown: str) -> None:
    """The request is refused before it becomes a client."""
    assert await status_of(server, Authorization=shown) == 401
    assert not list(server.clients)


async def test_the_authorization_scheme_is_case_insensitive(server: Server) -> None:
    assert await status_of(server, Authorization=f"bearer {TOKEN}") == 101


# a token in the first message


async def test_a_client_can_send_its_token_in_the_first_message(server: Server) -> None:
    """Browsers cannot set a header for a WebSocket."""
    async with connected(server.url) as client:
        answer = await client.ask("auth", {"token": TOKEN, "client": "a browser"})
        assert answer["type"] == "auth"
        assert answer["data"]["client"] == "a browser"
        assert (await client.ask("project_list"))["type"] == "project_list"


async def test_nothing_is_sent_before_the_first_message(server: Server) -> None:
    async with connect(server.url, proxy=None) as silent, connected(server.url, TOKEN) as other:
        await other.ask("health_check")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(silent.recv(), 0.05)


@pytest.mark.parametrize(
    "message",
    [
        '{"type":"auth","data":{"token":"wrong"}}',
        '{"type":"auth","data":{}}',
        '{"type":"auth","data":{"token":5}}',
        '{"type":"project_list"}',
        '{"type":"hello","data":{"client":"x"}}',
        "nonsense",
        "[" * 3_000,
        '{"type":"auth","data":{"token":"' + TOKEN + '"},"x":"' + "x" * AUTH_BYTES + '"}',
        '{"type":"auth","data":{"token":"' + TOKEN + '"},"x":"' + "é" * (AUTH_BYTES - 200) + '"}',
    ],
)
async def test_any_first_message_but_a_valid_auth_is_refused(server: Server, message: str) -> None:
    """The connection ends with code 4401, no command runs and the error contains no address."""
    async with connect(server.url, proxy=None) as stranger:
        await stranger.send(message)
        reply = await stranger.recv()
        assert '"UNAUTHORIZED"' in reply
        assert "127.0.0.1" not in reply
        with pytest.raises(ConnectionClosed):
            await stranger.recv()
        assert stranger.close_code == 4401
    assert server.core.asked == []
    assert not list(server.clients)


async def pieces(connection: ClientConnection) -> AsyncIterator[str]:
    """Yields a message of 200 kB in pieces, each once the server has read the previous one."""
    for _ in range(10):
        yield "x" * 20_000
        await (await connection.ping())


async def test_a_large_message_without_a_token_is_refused(server: Server) -> None:
    async with connect(server.url, proxy=None) as stranger:
        with pytest.raises(ConnectionClosed):
            await stranger.send(pieces(stranger))
        assert stranger.close_code == 1009
    await until(lambda: not server.door.connections)


async def test_a_token_lifts_the_limit_on_message_size(server: Server) -> None:
    async with connect(server.url, proxy=None) as client:
        await client.send(f'{{"type":"auth","data":{{"token":"{TOKEN}"}}}}')
        assert '"auth"' in str(await client.recv())
        await client.send(pieces(client))
        assert '"JSON_PARSING"' in str(await client.recv())


async def test_a_request_sent_together_with_the_token_is_executed(server: Server) -> None:
    """The request is larger than a client without a token may send. The client sends its token and the request
    together, without waiting for an answer.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    client = Client(reader, writer)
    client.send(request({"Host": "localhost"}, line="GET /ws HTTP/1.1"))
    assert (await client.head()).startswith(b"HTTP/1.1 101 ")
    large = json.dumps({"type": "execute", "project_id": "p1", "data": {"prompt": "x" * 2 * UNFINISHED_BYTES}}).encode()
    client.send(
        text(f'{{"type":"auth","data":{{"token":"{TOKEN}"}}}}')
        + text(large[:-10], fin=False)
        + frame(Opcode.CONT, large[-10:])
        + close(1000)
    )
    await until(lambda: server.core.left)
    [done] = server.core.asked
    assert isinstance(done, Execute)
    assert len(done.prompt) == 2 * UNFINISHED_BYTES
    client.cut()


async def test_requests_after_a_wrong_token_are_ignored(server: Server) -> None:
    async with connect(server.url, proxy=None) as stranger:
        await stranger.send('{"type":"auth","data":{"token":"wrong"}}')
        await stranger.send(f'{{"type":"auth","data":{{"token":"{TOKEN}"}}}}')
        await stranger.send('{"type":"project_list"}')
        await stranger.wait_closed()
    assert server.core.asked == []


async def test_a_client_that_sends_no_token_in_time_is_disconnected(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients_module, "AUTH_SECONDS", 0.05)
    async with connect(server.url, proxy=None) as stranger:
        with pytest.raises(ConnectionClosed):
            await stranger.recv()
        assert stranger.close_code == 4401
        assert (stranger.close_reason or "").startswith("the client did not sign in within ")


async def test_a_client_with_a_token_has_no_time_limit(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients_module, "AUTH_SECONDS", 2.0)
    async with connected(server.url) as client:
        await client.ask("auth", {"token": TOKEN})
        await asyncio.sleep(2.2)
        assert (await client.ask("project_list"))["type"] == "project_list"


async def test_a_wrong_token_in_a_later_auth_keeps_the_connection(server: Server) -> None:
    """The client gets an error, and a valid token is accepted as before."""
    async with connected(server.url, TOKEN) as client:
        assert (await client.ask("auth", {"token": "wrong"}))["data"]["code"] == "UNAUTHORIZED"
        assert (await client.ask("auth", {"token": TOKEN, "client": "pad"}))["data"]["client"] == "pad"


async def stranger(server: Server, number: int, network: str = "127.0.0") -> ClientConnection:
    """Connects a client without a token, from a different address for each ``number``."""
    return await connect(server.url, proxy=None, local_addr=(f"{network}.{number}", 0))


async def close_code(stranger: ClientConnection) -> int | None:
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(ConnectionClosed):
            await stranger.recv()
    return stranger.close_code


async def signs_in(stranger: ClientConnection) -> bool:
    await stranger.send(f'{{"type":"auth","data":{{"token":"{TOKEN}"}}}}')
    return '"auth"' in str(await stranger.recv())


@pytest.fixture
def few_strangers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allows at most four clients without a token, and at most two of them from the same address."""
    monkeypatch.setattr(clients_module, "STRANGERS", 4)
    monkeypatch.setattr(clients_module, "NETWORK_STRANGERS", 2)


@pytest.mark.usefixtures("few_strangers")
async def test_the_oldest_stranger_of_the_largest_group_is_closed(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients_module, "GRACE_SECONDS", 0.0)
    alone, first, second, third = [await stranger(server, number) for number in (1, 2, 2, 2)]
    assert await close_code(first) == 1013, "the limit of one address"
    other, newcomer = [await stranger(server, number) for number in (3, 4)]
    assert await close_code(second) == 1013, "the limit of all addresses"
    for one in (alone, third, other, newcomer):
        assert await signs_in(one)
        await one.close()
    await until(lambda: not server.door.connections)


@pytest.mark.usefixtures("few_strangers")
async def test_no_unauthenticated_client_is_closed_in_its_first_second(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients_module, "GRACE_SECONDS", 3_600.0)
    mine = [await stranger(server, 2) for _ in range(2)]
    assert await close_code(await stranger(server, 2)) == 1013, "its address has its share"
    others = [await stranger(server, number) for number in (3, 4)]
    for number in range(5, 15):
        assert await close_code(await stranger(server, number)) == 1013
    for one in (*mine, *others):
        assert await signs_in(one)
        await one.close()
    await until(lambda: not server.door.connections)


@pytest.mark.usefixtures("few_strangers")
async def test_strangers_of_one_network_share_a_limit(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients_module, "network_of", one_network)
    monkeypatch.setattr(clients_module, "GRACE_SECONDS", 3_600.0)
    mine = [await stranger(server, number, "127.1.0") for number in (1, 2)]
    assert await close_code(await stranger(server, 3, "127.1.0")) == 1013
    for one in (*mine, await stranger(server, 2)):
        assert await signs_in(one)
        await one.close()
    await until(lambda: not server.door.connections)


async def test_refused_requests_cause_few_log_lines(
    server: Server, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "REPORT_SECONDS", 3_600.0)
    for _ in range(3):
        assert await status_of(server, Host="evil.example") == 403
        assert await status_of(server, "/wp-login.php") == 404
    assert [message.partition(":")[0] for message in caplog.messages] == ["refused 127.0.0.1", "refused a request"]


async def test_a_client_that_does_not_sign_in_is_not_logged(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    """This applies to the default log level."""
    caplog.set_level("INFO", "drawbridge")
    async with connect(server.url, proxy=None) as client:
        await client.send('{"type":"hello"}')
        await client.wait_closed()
    assert not caplog.messages


async def test_the_token_is_never_logged(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "drawbridge")
    for shown in (TOKEN, "not-the-token"):
        async with connect(server.url, proxy=None) as client:
            await client.send(f'{{"type":"auth","data":{{"token":"{shown}"}}}}')
            await client.recv()
    assert await status_of(server, Authorization="Bearer also-not-the-token") == 401
    assert "could not sign in" in caplog.text
    assert "refused a request" in caplog.text
    for shown in (TOKEN, "not-the-token"):
        assert shown not in caplog.text


# without a token


async def test_without_tokens_host_and_origin_are_still_checked(tmp_path: Path) -> None:
    async with serving(tmp_path, token=None) as server:
        async with connected(server.url) as client:
            assert (await client.ask("project_list"))["type"] == "project_list"
        assert await status_of(server, Origin="https://evil.example") == 403
        assert await status_of(server, Host="evil.example") == 403


# Origin and Host


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "", "http://127.0.0.1", "http://localhost:1"])
async def test_any_other_origin_is_refused_even_with_the_token(server: Server, origin: str) -> None:
    assert await status_of(server, Origin=origin, Authorization=f"Bearer {TOKEN}") == 403


@pytest.mark.parametrize("place", ["/ws", "/"])
@pytest.mark.parametrize("second", ["own", "https://evil.example"])
async def test_an_origin_that_is_sent_twice_is_refused(server: Server, place: str, second: str) -> None:
    """It is unknown which of the two is meant, and no browser sends the header twice, not even with equal values."""
    own = f"http://127.0.0.1:{server.port}"
    origins = [own, own if second == "own" else second]
    for order in (origins, origins[::-1]):
        assert await status_of(server, place, Origin=order, Authorization=f"Bearer {TOKEN}") == 403


async def test_the_servers_own_origin_is_accepted(server: Server) -> None:
    assert await status_of(server, Origin=f"http://127.0.0.1:{server.port}") == 101
    assert await status_of(server, Origin=f"https://127.0.0.1:{server.port}") == 403


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "8.8.8.8", "[2001:db8::1]", "localhost.evil"]
)
async def test_another_host_name_is_refused_even_with_the_token(server: Server, host: str) -> None:
    assert await status_of(server, Host=f"{host}:{server.port}", Authorization=f"Bearer {TOKEN}") == 403


async def test_the_servers_own_names_are_accepted(server: Server) -> None:
    names = ["localhost", "LOCALHOST", "localhost.", "127.0.0.1", "127.0.0.5", "[::1]", "public.example"]
    for host in [*names, socket.gethostname()]:
        assert await status_of(server, Host=f"{host}:{server.port}") == 101, host


def test_only_this_machines_addresses_count_as_its_names() -> None:
    names = OwnNames()
    for address in {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None)}:
        assert str(address) in names
    assert "203.0.113.7" not in names
    assert "" not in names


def test_loopback_names_and_addresses_are_recognized() -> None:
    assert all(map(is_loopback, ["127.0.0.1", "127.9.9.9", "::1", "localhost", "LocalHost"]))
    assert not any(map(is_loopback, ["0.0.0.0", "::", "192.168.1.1", "example", ""]))


# other paths


async def test_only_the_socket_and_health_have_paths(server: Server) -> None:
    assert await status_of(server, "/") == 404
    assert await status_of(server, "/ws/x") == 404
    assert await status_of(server, "/health") == 404, "it is not a WebSocket"

    def get(path: str, **headers: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, body

    assert await asyncio.to_thread(get, "/health") == (200, b'{"status":"ok"}')
    assert (await asyncio.to_thread(get, "/health", Host="evil.example"))[0] == 403
    assert (await asyncio.to_thread(get, "/ws"))[0] == 400
    assert (await asyncio.to_thread(get, "/projects"))[0] == 404


# the token file


def test_the_token_is_created_once_and_private_to_the_owner(tmp_path: Path) -> None:
    path = tmp_path / "data" / "token"
    token = owner_token(path)
    assert len(token) >= 43
    assert owner_token(path) == token
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert owner_token(tmp_path / "other" / "token") != token


def test_a_token_file_that_others_can_read_is_made_private(tmp_path: Path) -> None:
    path = tmp_path / "token"
    token = owner_token(path)
    path.chmod(0o644)
    assert owner_token(path) == token
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [b"", b"short", b"\xff" * 40, b"two words " * 5])
def test_a_file_without_a_token_is_reported_and_kept(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    with pytest.raises(BadSetting, match="does not contain a valid token"):
        owner_token(path)
    assert path.read_bytes() == content


def test_a_file_where_the_directory_should_be_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NotPrivate):
        owner_token(tmp_path / "file" / "token")
