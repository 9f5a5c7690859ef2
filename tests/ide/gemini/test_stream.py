"""Over real sockets, Gemini CLI receives the current workspace, and every decision exactly once."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drawbridge.editors.port import Accepted, Position, Range, Rejected
from drawbridge.ide.gemini import gemini
from drawbridge.ide.gemini import http as gemini_http
from drawbridge.ide.gemini import stream as gemini_stream
from drawbridge.ide.gemini.stream import EventStream
from drawbridge.protocols.http import Fields
from drawbridge.transport.http_server import HIGH_WATER
from tests.editors.memory import MemoryEditor
from tests.ide.bridge_rig import BridgeRig
from tests.ide.gemini.rig import Cli, Stream, connected, open_gemini_bridge
from tests.waiting import PATIENCE, until


@pytest.fixture
async def cli(rig: BridgeRig) -> Cli:
    return await Cli(rig.port, rig.token).greet()


def select(rig: BridgeRig, name: str, line: int = 0, end: int = 0) -> None:
    rig.editor.select(rig.path(name), Range(Position(line, 0), Position(line, end)))


async def decide(rig: BridgeRig, cli: Cli, text: str, name: str = "poem.txt") -> None:
    """Proposes a change and accepts it."""
    await cli.open_diff(rig.path(name), text)
    [proposal] = await rig.shown()
    rig.editor.decide(proposal, Accepted(text))


# the workspace


async def test_open_files_are_sent_when_the_stream_opens(folder: Path) -> None:
    editor = MemoryEditor([str(folder)])
    editor.open(str(folder / "poem.txt"))
    async with open_gemini_bridge(folder, editor) as rig:
        cli = await Cli(rig.port, rig.token).greet()
        async with await cli.listen() as stream:
            [file] = await stream.files()
    assert file["path"] == str(folder / "poem.txt")
    assert (file["isActive"], file["cursor"]) == (True, {"line": 1, "character": 1})


async def test_without_open_files_an_empty_context_is_sent(cli: Cli) -> None:
    async with await cli.listen() as stream:
        assert await stream.receive("ide/contextUpdate") == {"workspaceState": {"openFiles": []}}


async def test_each_selection_is_sent_with_the_current_file_first(rig: BridgeRig) -> None:
    async with connected(rig) as (_, stream):
        select(rig, "poem.txt", 1, 3)
        [poem] = await stream.files()
        assert (poem["cursor"], poem["selectedText"]) == ({"line": 2, "character": 4}, "two")
        select(rig, "song.txt")
        song, poem = await stream.files()
        assert song["isActive"] is True
        assert poem.keys() == {"path", "timestamp"}


async def test_an_unchanged_selection_is_sent_once(rig: BridgeRig) -> None:
    async with connected(rig) as (_, stream):
        for _ in range(3):
            select(rig, "poem.txt", 0, 3)
            await rig.settled()
        select(rig, "poem.txt", 1, 3)
        assert [(await stream.files())[0]["selectedText"] for _ in range(2)] == ["one", "two"]


async def test_secrets_and_files_not_on_disk_are_never_sent(rig: BridgeRig) -> None:
    async with connected(rig) as (_, stream):
        for name in (".env", "poem.txt", ".env", "new.txt", "song.txt"):
            select(rig, name)
            await rig.settled()
        last: list[Any] = []
        while not last or last[0]["path"] != rig.path("song.txt"):
            last = await stream.files()
            assert not [file for file in last if file["path"].endswith((".env", "new.txt"))]
        assert [file["path"] for file in last] == [rig.path("song.txt"), rig.path("poem.txt")]


async def test_without_context_decisions_are_still_sent(folder: Path) -> None:
    """The context is empty, and selections are not sent."""
    async with open_gemini_bridge(folder, context=False) as rig:
        cli = await Cli(rig.port, rig.token).greet()
        async with await cli.listen() as stream:
            assert await stream.files() == []
            select(rig, "poem.txt", 0, 3)
            await decide(rig, cli, "ONE\n")
            message = await stream.message()
            assert message["method"] == "ide/diffAccepted"


async def test_every_session_receives_the_workspace(rig: BridgeRig) -> None:
    async with connected(rig) as (_, one), connected(rig) as (_, two):
        select(rig, "poem.txt", 0, 3)
        for stream in (one, two):
            assert (await stream.files())[0]["selectedText"] == "one"


async def test_an_editor_that_hangs_does_not_affect_the_stream(rig: BridgeRig) -> None:
    async with connected(rig) as (cli, stream):
        rig.editor.hung = True
        select(rig, "poem.txt", 0, 3)
        await rig.settled()
        assert (await cli.send(id=1, method="ping")).status == 200
        rig.editor.hung = False
        select(rig, "poem.txt", 1, 3)
        assert (await stream.files())[0]["selectedText"] == "two"


# the stream


async def test_a_silent_stream_is_kept_alive(rig: BridgeRig, monkeypatch: pytest.MonkeyPatch) -> None:
    assert gemini_http.KEEP_ALIVE_SECONDS + gemini_http.HOUSEKEEPING_SECONDS <= 30
    monkeypatch.setattr(gemini_http, "HOUSEKEEPING_SECONDS", 0.01)
    monkeypatch.setattr(gemini_http, "KEEP_ALIVE_SECONDS", 0.02)
    async with connected(rig) as (cli, stream), await cli.listen("/events") as watcher:
        for each in (stream, watcher):
            await each.comment()
            await each.comment()
        select(rig, "poem.txt", 0, 3)
        assert (await stream.files())[0]["selectedText"] == "one"


async def test_a_second_stream_replaces_the_first(rig: BridgeRig) -> None:
    async with connected(rig) as (cli, first), await cli.listen() as second:
        assert await second.files() == []
        assert await first.message() is None, "the first stream is ended cleanly"
        await decide(rig, cli, "ONE\n")
        assert await second.receive("ide/diffAccepted")
        assert len(rig.bridge.gemini._sessions) == 1


async def test_a_decision_made_between_streams_is_delivered_once(rig: BridgeRig) -> None:
    async with connected(rig) as (cli, stream):
        await decide(rig, cli, "ONE\n")
        await stream.receive("ide/diffAccepted")
        last_id = stream.last_id
    await until(lambda: not rig.bridge.gemini.names, "the end of the stream")
    await decide(rig, cli, "SONG\n", "song.txt")
    async with await cli.listen(last_event_id=last_id) as stream:
        message = await stream.message()
        assert message["params"] == {"filePath": rig.path("song.txt"), "content": "SONG\n"}
        assert (await stream.message())["method"] == "ide/contextUpdate"
        last_id = stream.last_id
    async with await cli.listen(last_event_id=last_id) as stream:
        assert (await stream.message())["method"] == "ide/contextUpdate"


@pytest.mark.parametrize("last_id", [None, "0", "nonsense", "9" * 18, "9" * 5_000])
async def test_without_a_valid_last_event_id_all_decisions_are_sent(
    rig: BridgeRig, cli: Cli, last_id: str | None
) -> None:
    await decide(rig, cli, "ONE\n")
    await until(lambda: not rig.bridge.reviews._open)
    async with await cli.listen(last_event_id=last_id) as stream:
        assert (await stream.receive("ide/diffAccepted"))["content"] == "ONE\n"
        assert await stream.files() == []


async def test_an_old_decision_never_answers_a_new_proposal(rig: BridgeRig, cli: Cli) -> None:
    """A CLI that reconnects without a last event ID matches decisions to its proposals by their path alone."""
    await decide(rig, cli, "ONE\n")
    await until(lambda: not rig.bridge.reviews._open)
    Path(rig.path()).write_text("ONE\n")
    await cli.open_diff(rig.path(), "TWO\n")
    await rig.shown()
    async with await cli.listen() as stream:
        assert (await stream.message())["method"] == "ide/contextUpdate"
        rig.editor.decide((await rig.shown())[0], Rejected())
        assert (await stream.message())["method"] == "ide/diffRejected"


async def test_event_ids_start_at_the_time_in_milliseconds(rig: BridgeRig, cli: Cli) -> None:
    async with await cli.listen() as stream:
        await stream.files()
        assert stream.last_id is not None
        assert int(stream.last_id) > 1_700_000_000_000


# /events


async def test_events_need_no_session_and_cover_all_sessions(rig: BridgeRig) -> None:
    watching = Cli(rig.port, rig.token)
    async with await watching.listen("/events") as watcher, connected(rig) as (one, _), connected(rig) as (two, _):
        assert await watcher.files() == []
        select(rig, "poem.txt", 0, 3)
        assert (await watcher.files())[0]["selectedText"] == "one"
        await decide(rig, one, "ONE\n")
        assert await watcher.message()
        await two.open_diff(rig.path("song.txt"), "SONG\n")
        rig.editor.decide((await rig.shown())[0], Rejected())
        assert await watcher.receive("ide/diffRejected") == {"filePath": rig.path("song.txt")}
        assert len(rig.bridge.agents) == 2, "a watcher is not an agent"
    await until(lambda: not rig.bridge.gemini.names)


async def test_events_require_the_token(rig: BridgeRig) -> None:
    assert (await Cli(rig.port, "wrong").get("/events")).status == 401


# slow readers


async def stuffed(cli: Cli) -> Stream:
    """Opens a stream whose client does not read, so it receives no more than fits into its socket's buffer."""
    stream = await cli.listen()
    stream.connection.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    reading(stream).pause_reading()
    return stream


def reading(stream: Stream) -> asyncio.ReadTransport:
    transport = stream.connection.writer.transport
    assert isinstance(transport, asyncio.ReadTransport)
    return transport


def waiting(rig: BridgeRig) -> int:
    """Returns the number of bytes that wait in the transports of all streams."""
    readers = [stream._reader for stream in rig.bridge.gemini._streams()]
    return sum(reader._transport.get_write_buffer_size() for reader in readers)  # type: ignore[union-attr]


async def test_a_slow_reader_uses_little_memory_and_delays_no_others(
    rig: BridgeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gemini_stream, "BACKLOG_BYTES", 3_000_000)
    text = ("x" * 99 + "\n") * 10_000
    Path(rig.path("wide.txt")).write_text("a" * 16_000 + "\n" + "b" * 16_000)
    async with connected(rig) as (quick, stream):
        slow = await Cli(rig.port, rig.token).greet()
        async with await stuffed(slow) as stuffed_stream:
            for number in range(12):
                await decide(rig, slow, text, f"new-{number}.txt")
                await decide(rig, quick, f"{number}\n", f"quick-{number}.txt")
                async with asyncio.timeout(PATIENCE):
                    assert await stream.receive("ide/diffAccepted")
            for number in range(200):
                select(rig, "wide.txt", number % 2, 16_000)
                await rig.settled()
            assert waiting(rig) < HIGH_WATER + 1_100_000
            backlog = rig.bridge.gemini._sessions[slow.session or ""].stream._backlog._kept
            assert sum(len(kept.data) for kept in backlog) < 3_000_000

            reading(stuffed_stream).resume_reading()
            while (await stuffed_stream.receive("ide/diffAccepted"))["filePath"] != rig.path("new-11.txt"):
                pass
            last = (await stuffed_stream.files())[0]
            assert last["selectedText"] == "b" * 16_000, "only what is open now, not everything that was"


class SlowReader:
    """A fake exchange whose client does not read."""

    def __init__(self) -> None:
        self.congested = True
        self.sent = b""

    def begin_stream(self, headers: Fields, ended: Callable[[], None], drained: Callable[[], None]) -> None:
        self.ended = ended

    def stream(self, data: bytes) -> None:
        self.sent += data

    def end_stream(self) -> None:
        self.ended()

    def answer(self, status: int, body: bytes = b"", headers: Fields = ()) -> None:
        raise AssertionError("it is a stream")


def test_a_slow_reader_gets_its_decisions_when_the_stream_ends() -> None:
    reader, stream = SlowReader(), EventStream(b"{}")
    stream.open(reader, 0)
    stream.decided(b'"one"', "/a")
    stream.decided(b'"two"', "/b")
    assert reader.sent == b""
    stream.close()
    assert reader.sent.index(b'"one"') < reader.sent.index(b'"two"')
    assert b"{}" not in reader.sent
    assert not stream.has_reader


def test_a_closed_stream_contains_the_reconnect_delay() -> None:
    reader, stream = SlowReader(), EventStream(b"{}")
    stream.open(reader, 0)
    stream.close()
    assert reader.sent == b"retry: 3000\n\n"


# the end of the bridge


async def test_open_proposals_are_rejected_before_the_streams_end(folder: Path) -> None:
    async with open_gemini_bridge(folder) as rig:
        cli = await Cli(rig.port, rig.token).greet()
        stream = await cli.listen()
        watcher = await cli.listen("/events")
        for name in ("poem.txt", "song.txt"):
            await cli.open_diff(rig.path(name), "NEW\n")
        await rig.shown(2)
    async with stream, watcher:
        for each in (stream, watcher):
            rejected = [await each.receive("ide/diffRejected") for _ in range(2)]
            assert [params["filePath"] for params in rejected] == [rig.path("poem.txt"), rig.path("song.txt")]
            assert await each.message() is None


async def test_streams_open_and_close_often_and_leave_nothing(rig: BridgeRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fixtures that run with each test fail if anything is left open or running."""
    monkeypatch.setattr(gemini_http, "HOUSEKEEPING_SECONDS", 0.01)
    monkeypatch.setattr(gemini, "GRACE_SECONDS", 0.01)
    for _ in range(25):
        async with connected(rig) as (cli, _), await cli.listen("/events"):
            await cli.open_diff(rig.path(), "ONE\n")
    await until(lambda: not rig.bridge.gemini._sessions and not rig.bridge.gemini._watchers)
    await until(lambda: rig.editor.shown == {})
