"""The total size of frames that wait for a client is limited, their order is kept, and small ones of one turn of the
event loop share a write. If the client is too slow, ephemeral frames are dropped first, then its connection is closed.
"""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.client import connect
from websockets.frames import Opcode

from drawbridge.protocols.websocket import framed
from drawbridge.server.app import outbox as outbox_module
from drawbridge.server.app.outbox import BATCH, EPHEMERAL_LIMIT, LIMIT, ROOM, Outbox, Writers
from drawbridge.server.protocol.frames import Frame
from tests.protocols.bytes_of import close, request, text
from tests.server.app.rig import TOKEN, Server
from tests.server.wire_client import WireClient, connected
from tests.transport.rig import Client
from tests.waiting import PATIENCE, until


class Socket:
    """A socket that records what is written to it. A test sets whether it is ``congested``."""

    address = "192.0.2.1"
    compressed = False

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.congested = False

    def send(self, data: bytes) -> None:
        raise AssertionError("frames are encoded once for all")

    def send_framed(self, data: bytes) -> None:
        self.writes.append(data)

    def close(self, code: int = 1000, reason: str = "") -> None:
        raise AssertionError("closing is the client's")

    def limit_unfinished(self, size: int | None) -> None:
        pass

    def hold_reading(self, hold: bool) -> None:
        raise AssertionError("reading is the client's")

    @property
    def got(self) -> list[bytes]:
        """The messages that were written, without their frame headers."""
        rest, found = b"".join(self.writes), []
        while rest:
            short = rest[1]
            head = {126: 4, 127: 10}.get(short, 2)
            size = short if head == 2 else int.from_bytes(rest[2:head], "big")
            found.append(rest[head : head + size])
            rest = rest[head + size :]
        return found


class Rig:
    """One client with its outbox."""

    def __init__(self, writers: Writers | None = None) -> None:
        self.writers = writers or Writers()
        self.socket = Socket()
        self.slow = 0
        self.outbox = Outbox(self.socket, self.too_slow)

    def too_slow(self) -> None:
        self.slow += 1
        self.outbox.close()

    def send(self, text: str, *, ephemeral: bool = False) -> None:
        self.writers.collect((self,), Frame(text.encode(), ephemeral=ephemeral))

    def release(self) -> None:
        """Ends the congestion, as if the peer had resumed reading."""
        self.socket.congested = False
        self.outbox.drained()


@pytest.fixture
def rig() -> Rig:
    return Rig()


async def turn() -> None:
    await asyncio.sleep(0)
    await asyncio.sleep(0)


# one writer


async def test_frames_of_one_turn_share_a_write_and_keep_their_order(rig: Rig) -> None:
    for letter in "abc":
        rig.send(letter)
    assert rig.socket.writes == []
    await turn()
    assert rig.socket.writes == [framed(b"a") + framed(b"b") + framed(b"c")]
    rig.send("d")
    await turn()
    assert rig.socket.writes[1:] == [framed(b"d")]


async def test_a_broadcast_is_encoded_once_for_all_clients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[bytes] = []

    def remembering(data: bytes) -> bytes:
        made.append(data)
        return framed(data)

    monkeypatch.setattr(outbox_module, "framed", remembering)
    writers = Writers()
    rigs = [Rig(writers) for _ in range(50)]
    for data in (b"one", b"two"):
        writers.collect(list(rigs), Frame(data))
    await turn()
    assert made == [b"one", b"two"]
    assert all(rig.socket.writes == [framed(b"one") + framed(b"two")] for rig in rigs)
    assert len({id(rig.socket.writes[0]) for rig in rigs}) == 1, "they all share the same bytes"


async def test_single_messages_and_broadcasts_keep_their_order() -> None:
    writers = Writers()
    one, other = Rig(writers), Rig(writers)
    one.send("1")
    writers.collect([one, other], Frame(b"2"))
    other.send("3")
    one.send("4")
    writers.collect([other, one], Frame(b"5"))
    await turn()
    assert one.socket.got == [b"1", b"2", b"4", b"5"]
    assert other.socket.got == [b"2", b"3", b"5"]


async def test_many_frames_are_written_in_pieces(rig: Rig) -> None:
    for _ in range(10):
        rig.send("x" * (BATCH // 2))
    await turn()
    assert len(rig.socket.got) < 10
    await until(lambda: len(rig.socket.got) == 10)
    assert all(len(write) <= 2 * BATCH for write in rig.socket.writes)


async def test_nothing_is_written_to_a_congested_peer(rig: Rig) -> None:
    rig.socket.congested = True
    rig.send("a")
    await turn()
    assert rig.socket.writes == []
    rig.release()
    assert rig.socket.writes == [framed(b"a")]


async def test_new_frames_never_overtake_waiting_ones(rig: Rig) -> None:
    rig.socket.congested = True
    rig.send("a")
    await turn()
    rig.socket.congested = False  # the outbox has not been notified yet
    rig.send("b")
    await turn()
    await turn()
    assert rig.socket.got == [b"a", b"b"]


# slow clients


async def test_ephemeral_frames_are_dropped_first_and_no_others(rig: Rig) -> None:
    rig.socket.congested = True
    rig.send("p" * EPHEMERAL_LIMIT, ephemeral=True)
    rig.send("d" * 1_000)
    rig.send("q", ephemeral=True)
    for _ in range(LIMIT // 100_000 - 3):
        rig.send("e" * 100_000)
    rig.send("f" * 200_000)
    await turn()
    assert rig.slow == 0
    assert rig.outbox.left_out == 2, "the later frame was never queued, and the first one was dropped"
    rig.release()
    await until(lambda: rig.socket.got[-1:] == [b"f" * 200_000])
    assert rig.socket.got[0] == b"d" * 1_000


async def test_a_client_above_the_size_limit_is_closed_once(rig: Rig) -> None:
    rig.socket.congested = True
    for _ in range(LIMIT // 100_000 + 50):
        rig.send("e" * 100_000)
        await turn()
    assert rig.slow == 1
    rig.release()
    rig.send("too late")
    await turn()
    assert rig.socket.writes == []


async def test_a_single_frame_above_the_limit_is_sent(rig: Rig) -> None:
    rig.send("x" * (LIMIT + 1))
    await until(lambda: len(rig.socket.got) == 1)
    assert rig.slow == 0


async def test_room_waits_until_frames_are_sent_or_the_client_closes(rig: Rig) -> None:
    await asyncio.wait_for(rig.outbox.room(), PATIENCE)
    rig.socket.congested = True
    rig.send("x" * (ROOM + 1))
    await turn()
    waiting = [asyncio.create_task(rig.outbox.room()) for _ in range(2)]
    await turn()
    assert not any(task.done() for task in waiting)
    rig.release()
    await asyncio.wait_for(asyncio.gather(*waiting), PATIENCE)
    rig.socket.congested = True
    waiting = [asyncio.create_task(rig.outbox.room())]
    await turn()
    rig.outbox.close()
    await asyncio.wait_for(waiting[0], PATIENCE)
    await asyncio.wait_for(rig.outbox.room(), PATIENCE)


async def test_a_canceled_waiter_does_not_affect_another(rig: Rig) -> None:
    rig.socket.congested = True
    given_up, kept = (asyncio.create_task(rig.outbox.room()) for _ in range(2))
    await turn()
    given_up.cancel()
    rig.release()
    await asyncio.wait_for(kept, PATIENCE)


STEPS = st.lists(
    st.tuples(st.just("send"), st.integers(1, 3_000_000), st.booleans())
    | st.tuples(st.just("congested"), st.booleans(), st.none())
    | st.tuples(st.just("turn"), st.none(), st.none()),
    max_size=40,
)


@given(STEPS)
def test_durable_frames_arrive_in_order_or_the_client_is_closed(steps: list[Any]) -> None:
    async def run() -> None:
        rig, sent = Rig(), []
        for number, (step, value, ephemeral) in enumerate(steps):
            if step == "send":
                data = b"%d:" % number + bytes(value)
                rig.writers.collect((rig,), Frame(data, ephemeral=ephemeral))
                if not ephemeral:
                    sent.append(data)
            elif step == "congested":
                rig.socket.congested = value
                if not value:
                    rig.outbox.drained()
            else:
                await turn()
            assert rig.outbox._bytes == sum(len(wire) for wire, _ in rig.outbox._queue)
            assert rig.outbox._bytes <= LIMIT or len(rig.outbox._queue) == 1
            assert rig.outbox.is_free == (rig.outbox._open and not rig.outbox._queue)
        rig.release()
        for _ in range(200):
            await asyncio.sleep(0)
        durable = [message for message in rig.socket.got if message in sent]
        assert durable == sent[: len(durable)]
        assert rig.slow or len(durable) == len(sent)

    asyncio.run(run())


# over real sockets


class Slow:
    """A client that signs in and then reads nothing until the test allows it."""

    def __init__(self, client: Client) -> None:
        self.client = client

    @classmethod
    async def of(cls, server: Server) -> Slow:
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        sock.connect(("127.0.0.1", server.port))
        client = Client(*await asyncio.open_connection(sock=sock, limit=2**16))
        client.send(request({"Host": "localhost", "Authorization": f"Bearer {TOKEN}"}, line="GET /ws HTTP/1.1"))
        assert (await client.head()).startswith(b"HTTP/1.1 101 ")
        client.reader._transport.pause_reading()  # type: ignore[attr-defined]
        return cls(client)

    def read_again(self) -> None:
        self.client.reader._transport.resume_reading()  # type: ignore[attr-defined]


async def join_all(server: Server) -> None:
    await until(lambda: len(server.clients) >= 1)
    server.core.subscribers = {one.id: one for one in server.clients}


async def test_a_stalled_client_is_closed_and_others_miss_nothing(server: Server, client: WireClient) -> None:
    """The stalled client receives the reason when it reads again."""
    stalled = await Slow.of(server)
    await join_all(server)
    assert len(server.core.subscribers) == 2
    line = json.dumps({"type": "assistant", "text": "x" * 100_000}).encode()
    async with asyncio.timeout(PATIENCE):
        for seq in range(1, 1_000):
            server.core.say_line(line, seq)
            await client.receive("agent_message")
            if len(server.clients) == 1:
                break
    assert seq * len(line) < 2 * LIMIT + 20_000_000, "the client was kept far too long"
    assert [message["seq"] for message in client.received] == list(range(1, seq + 1))
    stalled.read_again()
    codes: list[tuple[int, str]] = []
    while not codes:
        frame = await stalled.client.receive()
        if frame.opcode is Opcode.CLOSE:
            codes.append((int.from_bytes(frame.data[:2], "big"), bytes(frame.data[2:]).decode()))
    assert codes == [(4408, "too slow: connect again and join with after_seq")]
    stalled.client.send(close(4408))
    await stalled.client.rest()
    stalled.client.cut()


async def test_a_client_that_is_closed_is_removed_immediately(server: Server, client: WireClient) -> None:
    """The client is removed even if a frame for it was collected and has not been written yet."""
    await join_all(server)
    await server.site.connections[0].done()
    (one,) = server.clients
    server.clients.writers.collect([one], Frame(b"{}"))
    one.close(4408, "too slow")
    assert len(server.clients) == 0
    assert server.core.left == [one.id]
    server.clients.writers.flush()


async def test_a_slow_client_misses_partial_text_and_nothing_else(server: Server) -> None:
    slow = await Slow.of(server)
    await join_all(server)
    partial, whole = (
        json.dumps({"type": type, "text": "x" * 50_000}).encode() for type in ("stream_event", "assistant")
    )
    for seq in range(1, 101):
        for _ in range(4):
            server.core.say_line(partial)
        if seq <= 50:
            server.core.say_line(whole, seq)
        await asyncio.sleep(0)
    assert len(server.clients) == 1
    slow.read_again()
    numbers: list[int] = []
    while len(numbers) < 50:
        message = json.loads(await slow.client.receive_text())
        if "seq" in message:
            numbers.append(message["seq"])
    assert numbers == list(range(1, 51))
    [there] = server.clients
    assert there.outbox.left_out > 0
    slow.client.cut()
    await until(lambda: not list(server.clients))


async def test_requests_of_a_slow_client_are_still_executed(server: Server) -> None:
    slow = await Slow.of(server)
    await join_all(server)
    line = json.dumps({"type": "assistant", "text": "x" * 100_000}).encode()
    for seq in range(1, 41):
        server.core.say_line(line, seq)
    [there] = server.clients
    await until(lambda: there._websocket.congested)
    assert there.outbox._bytes > 1_000_000, "the client is behind"
    slow.client.send(text('{"type":"agent_kill","project_id":"p1"}'))
    await until(lambda: server.core.asked)
    slow.read_again()
    assert [json.loads(await slow.client.receive_text())["seq"] for _ in range(40)] == list(range(1, 41))
    slow.client.cut()


async def test_a_hundred_clients_get_all_frames_in_the_same_order(server: Server) -> None:
    async with asyncio.timeout(PATIENCE):
        clients = [
            await connect(server.url, additional_headers={"Authorization": f"Bearer {TOKEN}"}, proxy=None)
            for _ in range(100)
        ]
        await join_all(server)
        await until(lambda: len(server.clients) == 100)
        server.core.subscribers = {one.id: one for one in server.clients}
        for seq in range(1, 21):
            server.core.say_line(b'{"type":"assistant"}', seq)
            if seq % 3 == 0:
                await asyncio.sleep(0)
        for one in clients:
            assert [json.loads(await one.recv())["seq"] for _ in range(20)] == list(range(1, 21))
        await asyncio.gather(*(one.close() for one in clients))
    await until(lambda: not list(server.clients))


async def test_a_disconnected_client_is_removed_and_ignores_frames(server: Server) -> None:
    async with connected(server.url, TOKEN) as client:
        await client.ask("project_list")
        [there] = server.clients
    await until(lambda: server.core.left == [there.id])
    there.send(Frame(b"{}"))
    await there.room()
