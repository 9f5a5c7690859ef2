"""The HTTP server on real sockets: access, time limits, bounded memory, and connections that do not harm each other."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from websockets.frames import Opcode

from drawbridge.protocols.http import HEAD_LIMIT
from drawbridge.transport import http_server as door_module
from drawbridge.transport.http_server import HIGH_WATER, ServerOptions
from tests.protocols.bytes_of import close, frame, giant_frame_head, more, ping, request, text
from tests.transport.rig import TOKEN, Client, ServerRig, handshake, one_network, plain
from tests.waiting import PATIENCE, until


@pytest.fixture
async def rig() -> AsyncIterator[ServerRig]:
    rig = ServerRig()
    async with rig.server:
        yield rig
        await rig.leave()


@pytest.fixture
def short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HANDSHAKE_SECONDS", "CLOSING_SECONDS", "BODY_SECONDS", "IDLE_SECONDS"):
        monkeypatch.setattr(door_module, name, 0.1)


# access


async def test_a_real_client_gets_an_echo_and_disconnects(rig: ServerRig) -> None:
    async with rig.dial() as client:
        await client.send("hello")
        assert await client.recv() == "hello"
    await until(lambda: rig.app.peers[0].ends == [1000])
    await until(lambda: not rig.server.connections)


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="needs sockets for both IPv4 and IPv6")
async def test_an_ipv4_client_of_an_ipv6_socket_has_an_ipv4_address() -> None:
    """``serve --host ::`` listens on one socket for both."""
    listener = socket.create_server(("::ffff:127.0.0.1", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    rig = ServerRig(listener=listener)
    async with rig.server:
        await rig.websocket()
        assert rig.app.addresses == ["127.0.0.1"]
        await rig.leave()


async def test_a_handshake_may_arrive_byte_by_byte(rig: ServerRig) -> None:
    client = await rig.client()
    for byte in handshake():
        client.send(bytes([byte]))
        await client.writer.drain()
        await asyncio.sleep(0)
    assert (await client.head()).startswith(b"HTTP/1.1 101 ")
    client.send(text("hello"))
    assert await client.receive_text() == "hello"


@pytest.mark.parametrize(
    ("offered", "confirmed"),
    [
        ("mcp", b"\r\nSec-WebSocket-Protocol: mcp\r\n"),
        ("chat, mcp", b"\r\nSec-WebSocket-Protocol: mcp\r\n"),
        ("chat", None),
    ],
)
async def test_a_subprotocol_is_confirmed_only_when_it_was_offered(
    rig: ServerRig, offered: str, confirmed: bytes | None
) -> None:
    client = await rig.raw(handshake(Sec_WebSocket_Protocol=offered))
    sent = await client.head()
    assert (confirmed in sent) if confirmed else (b"Sec-WebSocket-Protocol" not in sent)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "https://evil.example", "x-token": None}, 403),
        ({"Origin": ""}, 403),
        ({"Host": "evil.example"}, 403),
        ({"Host": "evil.example", "x-token": "wrong"}, 403),
        ({"Host": None}, 400),
        ({"Host": ["localhost", "localhost"]}, 400),
        ({"x-token": None}, 401),
        ({"x-token": "wrong"}, 401),
        ({"x-token": [TOKEN, TOKEN]}, 401),
        ({"x-token": None, "Upgrade": None}, 401),
        ({"x-token": None, "Sec-WebSocket-Key": "bad"}, 401),
        ({"x-token": None, "Sec-WebSocket-Version": "8"}, 401),
        ({"Sec-WebSocket-Version": "8"}, 426),
        ({"Sec-WebSocket-Key": "bad"}, 400),
    ],
)
async def test_a_refused_client_gets_the_reason_and_no_connection(
    rig: ServerRig, headers: dict[str, Any], status: int
) -> None:
    """Access is checked before the protocol: first the origin, then the host, then the token."""
    client = await rig.raw(request({"x-token": TOKEN, **headers}, body=text("ignored")))
    assert await client.status() == status
    assert rig.app.peers == []
    await until(lambda: not rig.server.connections)


@pytest.mark.parametrize("body", [b"{not json", bytes(1_000), b"x" * 200_000])
async def test_the_body_of_a_request_without_access_is_not_read(rig: ServerRig, body: bytes) -> None:
    client = await rig.raw(plain("/echo", body).replace(TOKEN.encode(), b"wrong"))
    assert (await client.head()).startswith(b"HTTP/1.1 401 ")
    assert rig.app.exchanges == []


async def test_messages_right_after_the_handshake_are_received(rig: ServerRig) -> None:
    client = await rig.raw(handshake() + text("one") + text("two"))
    await client.head()
    assert [await client.receive_text(), await client.receive_text()] == ["one", "two"]


async def test_a_head_that_is_too_long_is_refused(rig: ServerRig) -> None:
    client = await rig.raw(request({"x-token": TOKEN, "X-Filler": "x" * HEAD_LIMIT}))
    assert (await client.head()).startswith(b"HTTP/1.1 431 ")
    assert rig.app.asked == 0


@pytest.mark.usefixtures("short_times")
@pytest.mark.parametrize("sent", [b"", b"GET", handshake()[:-1], b"\r\n"])
async def test_a_client_that_does_not_finish_its_head_is_disconnected(rig: ServerRig, sent: bytes) -> None:
    client = await rig.raw(sent)
    await client.rest()
    await until(lambda: not rig.server.connections)
    assert rig.app.peers == []


@pytest.mark.usefixtures("short_times")
async def test_sending_single_bytes_does_not_extend_the_time_limit(rig: ServerRig) -> None:
    client = await rig.client()
    with contextlib.suppress(ConnectionError):
        for byte in handshake():
            client.send(bytes([byte]))
            await client.writer.drain()
            await asyncio.sleep(0.01)
    await client.rest()
    assert rig.app.asked == 0


@pytest.mark.usefixtures("short_times")
async def test_an_open_websocket_has_no_time_limit(rig: ServerRig) -> None:
    client = await rig.websocket()
    await asyncio.sleep(0.25)
    client.send(text("still there"))
    assert await client.receive_text() == "still there"


# limits on connections


async def test_clients_without_access_do_not_block_others(rig: ServerRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "GRACE_SECONDS", 0.0)
    rig.server.options = ServerOptions(connections=4)
    friend = await rig.websocket()
    strangers = [await rig.raw(b"GET / HT") for _ in range(20)]
    await until(lambda: len(rig.server.connections) == 4)
    newcomer = await rig.websocket()
    for client in (friend, newcomer):
        client.send(text("hello"))
        assert await client.receive_text() == "hello"
    await strangers[0].rest()
    assert len(rig.server.connections) <= 4


async def test_a_slow_first_request_is_served_despite_a_crowd(rig: ServerRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients with slow connections are served even if another address keeps opening new ones."""
    monkeypatch.setattr(door_module, "GRACE_SECONDS", 3_600)
    rig.server.options = ServerOptions(connections=4)
    slow = [await rig.raw(handshake()[:-1], source=f"127.0.0.{2 + at}") for at in range(4)]
    for _ in range(20):
        refused = await rig.raw(b"GET / HT")
        assert await refused.rest() == b""
    for client in slow:
        client.send(handshake()[-1:])
        assert (await client.head()).startswith(b"HTTP/1.1 101 ")


async def test_new_connections_from_one_address_do_not_block_others(
    rig: ServerRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All are within ``GRACE_SECONDS``, but at most ``GRACE_NETWORKS`` connections from one address are protected."""
    monkeypatch.setattr(door_module, "GRACE_SECONDS", 3_600)
    monkeypatch.setattr(door_module, "GRACE_NETWORKS", 2)
    rig.server.options = ServerOptions(connections=4)
    for _ in range(20):
        await rig.raw(b"GET / HT")
    await until(lambda: len(rig.server.connections) == 4)
    other = await rig.raw(handshake(), source="127.0.0.2")
    assert (await other.head()).startswith(b"HTTP/1.1 101 ")


async def test_the_addresses_of_one_network_count_as_one(rig: ServerRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "network_of", one_network)
    monkeypatch.setattr(door_module, "GRACE_SECONDS", 3_600)
    monkeypatch.setattr(door_module, "GRACE_NETWORKS", 2)
    rig.server.options = ServerOptions(connections=4)
    for number in range(1, 5):
        await rig.raw(b"GET / HT", source=f"127.1.0.{number}")
    await until(lambda: len(rig.server.connections) == 4)
    other = await rig.raw(handshake(), source="127.0.0.2")
    assert (await other.head()).startswith(b"HTTP/1.1 101 ")


async def test_an_idle_connection_is_replaced_by_a_new_one(rig: ServerRig) -> None:
    rig.server.options = ServerOptions(connections=3)
    busy = await rig.raw(plain("/later"))
    await until(lambda: rig.app.exchanges)
    for _ in range(5):
        lingering = await rig.raw(plain("/echo", b"x"))
        assert (await lingering.head()).startswith(b"HTTP/1.1 200 ")
    await rig.websocket()
    rig.app.exchanges[0].answer(200, b"at last")
    assert (await busy.head()).startswith(b"HTTP/1.1 200 ")


async def test_when_all_connections_are_in_use_a_new_one_is_refused(rig: ServerRig) -> None:
    rig.server.options = ServerOptions(connections=2)
    friends = [await rig.websocket() for _ in range(2)]
    refused = await rig.raw(handshake())
    assert await refused.rest() == b""
    for friend in friends:
        friend.send(text("hello"))
        assert await friend.receive_text() == "hello"
    friends[0].cut()
    await until(lambda: len(rig.server.connections) == 1)
    await rig.websocket()


async def test_a_half_sent_body_is_replaced_by_a_new_connection(rig: ServerRig) -> None:
    rig.server.options = ServerOptions(connections=4)
    halves = [await rig.raw(plain("/echo", b"half")[:-2]) for _ in range(20)]
    await until(lambda: rig.app.asked == 20)
    newcomer = await rig.websocket()
    newcomer.send(text("hello"))
    assert await newcomer.receive_text() == "hello"
    await halves[0].rest()
    assert len(rig.server.connections) <= 4


async def test_unfinished_heads_are_replaced_before_a_half_sent_body(rig: ServerRig) -> None:
    rig.server.options = ServerOptions(connections=4)
    uploading = await rig.raw(plain("/echo", b"half")[:-2])
    await until(lambda: rig.app.asked)
    for _ in range(20):
        await rig.raw(b"GET / HT")
    uploading.send(b"lf")
    assert (await uploading.head()).startswith(b"HTTP/1.1 200 ")


async def test_a_crowd_at_one_address_only_displaces_itself(rig: ServerRig) -> None:
    rig.server.options = ServerOptions(connections=4)
    first = await rig.raw(handshake()[:-1], source="127.0.0.2")
    for _ in range(20):
        await rig.raw(b"GET / HT")
    first.send(handshake()[-1:])
    assert (await first.head()).startswith(b"HTTP/1.1 101 ")


async def are_open(rig: ServerRig, number: int) -> None:
    await until(lambda: len(rig.server.connections) == number)


async def test_the_oldest_of_the_largest_crowd_is_cut_off(rig: ServerRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest connection of all stays, even when every connection has used up its first second."""
    monkeypatch.setattr(door_module, "GRACE_SECONDS", 0.0)
    rig.server.options = ServerOptions(connections=4)
    opened = []
    for number, source in enumerate(["127.0.0.2", *["127.0.0.3"] * 3], 1):
        opened.append(await rig.raw(handshake()[:-1], source=source))
        await are_open(rig, number)
    alone, *crowd = opened
    await rig.raw(handshake()[:-1], source="127.0.0.4")
    assert await crowd[0].rest() == b""
    for one in (alone, *crowd[1:]):
        one.send(handshake()[-1:])
        assert (await one.head()).startswith(b"HTTP/1.1 101 ")


async def test_a_connection_that_does_not_end_is_replaced(rig: ServerRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here, the peers of two WebSockets do not answer the close frame. A new connection replaces one of them."""
    monkeypatch.setattr(door_module, "CLOSING_SECONDS", 3_600)
    rig.server.options = ServerOptions(connections=2)
    closing = [await rig.websocket(), await rig.websocket()]
    for peer in rig.app.peers:
        peer.websocket.close()
    assert await closing[0].receive_close() == 1000
    await rig.websocket()


async def test_reaching_the_connection_limit_is_logged(
    rig: ServerRig, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door_module, "REPORT_SECONDS", 0.0)
    rig.server.options = ServerOptions(connections=2)
    await rig.websocket()
    lingering = await rig.raw(plain("/echo", b"x"))
    assert (await lingering.head()).startswith(b"HTTP/1.1 200 ")
    await rig.websocket()
    assert "the limit of 2 connections is reached: closed one that was waiting for its client" in caplog.text
    refused = await rig.raw(handshake())
    assert await refused.rest() == b""
    assert "the limit of 2 connections is reached: refused a new one" in caplog.text


async def test_the_limit_of_waiting_connections_is_separate(rig: ServerRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "GRACE_SECONDS", 0.0)
    rig.server.options = ServerOptions(connections=100, waiting=4)
    friends = [await rig.websocket() for _ in range(10)]
    for _ in range(20):
        await rig.raw(b"GET / HT")
    await until(lambda: len(rig.server.connections) == 14)
    friends[0].send(text("hello"))
    assert await friends[0].receive_text() == "hello"


async def test_clients_that_connect_simultaneously_are_all_served(rig: ServerRig) -> None:
    rig.server.options = ServerOptions(connections=100, waiting=4)
    clients = await asyncio.gather(*(rig.raw(handshake()) for _ in range(60)))
    for client in clients:
        assert (await client.head()).startswith(b"HTTP/1.1 101 ")


# bodies


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    "field", ["Content-Length: 10", "Transfer-Encoding: chunked", "Content-Length: 10\r\nExpect: 100-continue"]
)
async def test_a_get_or_head_request_with_a_body_is_refused(rig: ServerRig, method: str, field: str) -> None:
    """The refusal comes before the body, even with the token, because no handler reads such a body."""
    client = await rig.raw(
        f"{method} /echo HTTP/1.1\r\nHost: localhost\r\nx-token: {TOKEN}\r\n{field}\r\n\r\n".encode()
    )
    assert await client.status() == 400
    assert rig.app.exchanges == []


async def test_a_get_that_announces_an_empty_body_is_served(rig: ServerRig) -> None:
    client = await rig.raw(plain("/echo").replace(b"POST", b"GET"))
    assert (await client.head()).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("order", [1, -1])
async def test_a_request_with_two_body_lengths_is_refused(rig: ServerRig, order: int) -> None:
    """A server behind a proxy could take the rest of the body for another request."""
    fields = "\r\n".join(["Content-Length: 5", "Transfer-Encoding: chunked"][::order])
    head = f"POST /echo HTTP/1.1\r\nHost: localhost\r\nx-token: {TOKEN}\r\n{fields}\r\n\r\n"
    client = await rig.raw(head.encode() + b"0\r\n\r\nGET /")
    assert await client.status() == 400
    assert rig.app.asked == 0


async def test_a_chunked_body_of_http_1_0_is_refused(rig: ServerRig) -> None:
    data = plain("/echo").replace(b"HTTP/1.1", b"HTTP/1.0").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    client = await rig.raw(data + b"0\r\n\r\n")
    assert await client.status() == 400
    assert rig.app.asked == 0


# messages


async def test_a_fragmented_message_may_contain_pings(rig: ServerRig) -> None:
    client = await rig.websocket()
    for data in (text("gr\u00fc".encode()[:3], fin=False), ping(b"1"), more(b"\xbc", fin=False), ping(b"2"), more("n")):
        client.send(data)
        await client.writer.drain()
    assert [bytes((await client.receive()).data) for _ in range(2)] == [b"1", b"2"]
    assert await client.receive_text() == "grün"


async def test_a_large_message_is_received_and_echoed(rig: ServerRig) -> None:
    """The limit of 64 MB is tested in tests/protocols/test_http.py, where that is faster."""
    message = "x" * (8 * 1024 * 1024)
    async with rig.dial() as client:
        await client.send([message[:1_000_000], message[1_000_000:]])
        assert await client.recv() == message


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(Opcode.TEXT, b"x", masked=False), 1002),
        (frame(Opcode.TEXT, b"x", reserved=4), 1002),
        (text(b"\xff"), 1007),
        (text("€".encode()[:1], fin=False) + more("x"), 1007),
        (giant_frame_head(2**63), 1009),
    ],
)
async def test_a_broken_frame_only_ends_its_own_connection(rig: ServerRig, data: bytes, code: int) -> None:
    """The close code depends on what is wrong with the frame."""
    other = await rig.websocket()
    client = await rig.websocket()
    client.send(data)
    assert await client.receive_close() == code
    assert await client.rest() == b""
    await until(lambda: rig.app.peers[1].ends == [code])
    other.send(text("unharmed"))
    assert await other.receive_text() == "unharmed"


async def test_an_unfinished_message_over_its_limit_ends_with_1009(rig: ServerRig) -> None:
    client = await rig.websocket()
    rig.app.peers[0].websocket.limit_unfinished(1_000)
    client.send(text("x" * 900, fin=False) + ping(b"1"))
    assert bytes((await client.receive()).data) == b"1"
    client.send(more("x" * 900, fin=False))
    assert await client.receive_close() == 1009
    assert await client.rest() == b""


async def test_a_lifted_limit_no_longer_applies(rig: ServerRig) -> None:
    client = await rig.websocket()
    websocket = rig.app.peers[0].websocket
    websocket.limit_unfinished(1_000)
    websocket.limit_unfinished(None)
    client.send(text("x" * 9_000, fin=False))
    client.send(more("y"))
    assert await client.receive_text() == "x" * 9_000 + "y"


# slow readers


async def flood(client: Client, data: bytes, *, limit: int) -> int:
    """Sends ``data`` until the server stops reading or ``limit`` bytes are sent. Returns the number of bytes sent."""
    sent = 0
    client.writer.transport.set_write_buffer_limits(0)
    while sent < limit:
        client.send(data)
        sent += len(data)
        try:
            await asyncio.wait_for(client.writer.drain(), 0.3)
        except TimeoutError:
            return sent
    return sent


async def test_a_client_that_does_not_read_does_not_slow_others(rig: ServerRig) -> None:
    quick = await rig.websocket()
    slow = await rig.websocket()
    slow.reader._transport.pause_reading()  # type: ignore[attr-defined]
    sent = await flood(slow, text("x" * 60_000), limit=200_000_000)
    assert sent < 50_000_000, "the server keeps reading although its answers are not read"
    [connection] = [each for each in rig.server.connections if each.congested]
    assert connection._transport is not None
    assert connection._transport.get_write_buffer_size() < HIGH_WATER + 1_000_000
    peer = rig.app.peers[1]
    assert peer.drains == 0
    for _ in range(20):
        quick.send(text("hello"))
        async with asyncio.timeout(PATIENCE):
            assert await quick.receive_text() == "hello"
    slow.reader._transport.resume_reading()  # type: ignore[attr-defined]
    received = asyncio.create_task(slow.rest())
    await until(lambda: peer.drains == 1)
    assert not connection.congested
    slow.send(close())
    await received
    assert peer.messages.count("x" * 60_000) == len(peer.messages) >= sent // 60_100


async def test_unread_answers_to_pings_use_bounded_memory(rig: ServerRig) -> None:
    client = await rig.websocket()
    client.reader._transport.pause_reading()  # type: ignore[attr-defined]
    assert await flood(client, ping(b"x" * 125) * 500, limit=100_000_000) < 50_000_000
    [connection] = rig.server.connections
    assert connection._transport is not None
    assert connection._transport.get_write_buffer_size() < HIGH_WATER + 1_000_000


# the end


async def test_a_lost_client_is_reported_once(rig: ServerRig) -> None:
    client = await rig.websocket()
    client.send(text("half")[:-2])
    await client.writer.drain()
    client.cut()
    await until(lambda: rig.app.peers[0].ends == [1006])
    await until(lambda: not rig.server.connections)
    rig.app.peers[0].websocket.send(b"to nobody")
    rig.app.peers[0].websocket.close()


async def test_messages_after_a_close_by_the_server_are_ignored(rig: ServerRig) -> None:
    client = await rig.websocket()
    rig.app.peers[0].websocket.close(1001, "the editor is closing")
    assert await client.receive_close() == 1001
    client.send(text("too late") + close(1001))
    assert await client.rest() == b""
    assert rig.app.peers[0].ends == [1001]
    assert rig.app.peers[0].messages == []


@pytest.mark.usefixtures("short_times")
async def test_a_client_that_never_answers_a_close_is_cut_off(rig: ServerRig) -> None:
    client = await rig.websocket()
    rig.app.peers[0].websocket.close(1000)
    assert await client.receive_close() == 1000
    await client.rest()
    await until(lambda: rig.app.peers[0].ends == [1000])
    await until(lambda: not rig.server.connections)


@pytest.mark.usefixtures("short_times")
async def test_a_client_that_closes_but_stays_connected_is_cut_off(rig: ServerRig) -> None:
    client = await rig.websocket()
    client.send(close())
    assert await client.receive_close() == 1000
    assert await client.rest() == b""
    await until(lambda: not rig.server.connections)


@pytest.mark.usefixtures("short_times")
async def test_a_client_that_neither_reads_nor_disconnects_is_cut_off(rig: ServerRig) -> None:
    client = await rig.websocket()
    client.reader._transport.pause_reading()  # type: ignore[attr-defined]
    await flood(client, text("x" * 60_000), limit=200_000_000)
    rig.app.peers[0].websocket.close(1000)
    await until(lambda: not rig.server.connections)
    assert rig.app.peers[0].ends == [1000]


async def test_closing_the_server_ends_all_connections() -> None:
    rig = ServerRig()
    async with rig.server:
        clients = [await rig.websocket() for _ in range(3)]
        stranger = await rig.raw(b"GET / HT")
        await until(lambda: len(rig.server.connections) == 4)
        answering = [asyncio.create_task(answer_close(client)) for client in clients]
    assert await asyncio.gather(*answering) == [1001, 1001, 1001]
    assert [peer.ends for peer in rig.app.peers] == [[1001]] * 3
    assert not rig.server.connections
    await stranger.rest()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", rig.port)
    await rig.leave()


@pytest.mark.usefixtures("short_times")
async def test_closing_the_server_does_not_wait_forever_for_a_client() -> None:
    rig = ServerRig()
    async with rig.server:
        silent = await rig.websocket()
    assert rig.app.peers[0].ends == [1001]
    assert not rig.server.connections
    await silent.rest()
    await rig.leave()


async def answer_close(client: Client) -> int:
    code = await client.receive_close()
    client.send(close(code))
    return code


async def test_an_error_in_the_app_ends_only_its_own_connection(
    rig: ServerRig, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim, other = await rig.websocket(), await rig.websocket()

    def fail(text: str) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(rig.app.peers[0], "received", fail)
    victim.send(text("x"))
    await victim.rest()
    assert rig.app.peers[0].ends == [1006]
    assert "a fault of ours" in caplog.text
    other.send(text("unharmed"))
    assert await other.receive_text() == "unharmed"


# plain requests


async def test_requests_on_one_connection_are_answered_in_order(rig: ServerRig) -> None:
    client = await rig.raw(plain("/echo", b"one") + plain("/echo", b"two"))
    for body in (b"one", b"two"):
        assert (await client.head()).startswith(b"HTTP/1.1 200 ")
        assert await client.reader.readexactly(3) == body


async def test_thousands_of_pipelined_requests_are_answered_in_order(rig: ServerRig) -> None:
    client = await rig.raw(b"".join(plain("/echo", b"%04d" % number) for number in range(3_000)))
    for number in range(3_000):
        assert (await client.head()).startswith(b"HTTP/1.1 200 ")
        assert await client.reader.readexactly(4) == b"%04d" % number


async def test_a_stream_is_sent_in_pieces_and_its_end_is_reported(rig: ServerRig) -> None:
    ended: list[int] = []
    client = await rig.raw(plain("/stream"))
    await until(lambda: rig.app.exchanges)
    [exchange] = rig.app.exchanges
    exchange.begin_stream([("Content-Type", "text/event-stream")], lambda: ended.append(1), lambda: None)
    assert b"text/event-stream" in await client.head()
    exchange.stream(b"data: 1\n\n")
    assert await client.reader.readuntil(b"1\n\n\r\n")
    client.cut()
    await until(lambda: ended == [1])
    exchange.stream(b"to nobody")
    exchange.end_stream()
    assert ended == [1]


async def test_an_answer_for_a_lost_client_is_dropped(rig: ServerRig) -> None:
    client = await rig.raw(plain("/later"))
    await until(lambda: rig.app.exchanges)
    client.cut()
    await until(lambda: not rig.server.connections)
    rig.app.exchanges[0].answer(200, b"late")
    ended: list[int] = []
    rig.app.exchanges[0].begin_stream([], lambda: ended.append(1), lambda: None)
    assert ended == [1]


@pytest.mark.usefixtures("short_times")
@pytest.mark.parametrize("sent", [plain("/echo", b"12345")[:-1], plain("/echo", b"done")], ids=["body", "idle"])
async def test_plain_connections_have_time_limits(rig: ServerRig, sent: bytes) -> None:
    client = await rig.raw(sent)
    await client.rest()
    await until(lambda: not rig.server.connections)


async def test_an_unread_last_answer_does_not_keep_a_connection(
    rig: ServerRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door_module, "CLOSING_SECONDS", 0.1)
    client = await rig.client()
    client.reader._transport.pause_reading()  # type: ignore[attr-defined]
    client.send(plain("/echo", b"x" * 20_000_000).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1))
    await until(lambda: rig.app.exchanges)
    await until(lambda: not rig.server.connections)


async def test_many_short_connections_leave_nothing_behind(rig: ServerRig) -> None:
    """tests/conftest.py checks that no file, task or thread is left."""
    visits: list[Callable[[], Any]] = [
        lambda: rig.raw(b""),
        lambda: rig.raw(b"nonsense\r\n\r\n"),
        lambda: rig.raw(handshake(x_token="wrong")),
        lambda: rig.raw(handshake()),
        lambda: rig.raw(handshake() + text("x") + close()),
        lambda: rig.raw(plain("/echo", b"x")),
    ]
    for _ in range(30):
        for visit in visits:
            client = await visit()
            client.cut()
    await until(lambda: not rig.server.connections)
    assert all(len(peer.ends) == 1 for peer in rig.app.peers)
