"""A whole bridge passes on what the editor reports to the right agents, and ends cleanly."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect

from drawbridge.editors.port import Accepted, BridgeState, Position, Range
from drawbridge.ide.claude import TOKEN_HEADER
from tests.editors.memory import MemoryEditor
from tests.ide.bridge_rig import BridgeRig, open_bridge
from tests.waiting import PATIENCE, until


class Agent:
    def __init__(self, client: ClientConnection) -> None:
        self.client = client
        self.notices: list[tuple[str, Any]] = []

    async def send(self, **members: Any) -> None:
        await self.client.send(json.dumps({"jsonrpc": "2.0", **members}))

    async def ask(self, **members: Any) -> Any:
        await self.send(id=1, **members)
        while "id" not in (message := await self.receive()):
            pass
        return message["result"]

    async def call(self, tool: str, **arguments: Any) -> list[str]:
        result = await self.ask(method="tools/call", params={"name": tool, "arguments": arguments})
        return [item["text"] for item in result["content"]]

    async def receive(self) -> Any:
        async with asyncio.timeout(PATIENCE):
            message = json.loads(await self.client.recv())
        if "method" in message:
            self.notices.append((message["method"], message["params"]))
        return message

    async def notice(self, method: str) -> Any:
        """Waits for a notification with this method, removes it from ``notices``, and returns its parameters."""
        while not any(name == method for name, _ in self.notices):
            await self.receive()
        [at, *_] = [at for at, (name, _) in enumerate(self.notices) if name == method]
        return self.notices.pop(at)[1]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "poem.txt").write_text("one\ntwo\n")
    (folder / ".env").write_text("TOKEN=1\n")
    return folder


@contextlib.asynccontextmanager
async def claude(rig: BridgeRig) -> AsyncIterator[Agent]:
    """Yields a fake Claude Code that is connected and has completed its handshake."""
    url, headers = f"ws://127.0.0.1:{rig.port}/", {TOKEN_HEADER: rig.token}
    async with connect(url, additional_headers=headers, compression=None, proxy=None) as client:
        agent = Agent(client)
        await agent.ask(method="initialize", params={"protocolVersion": "2025-11-25"})
        await agent.send(method="notifications/initialized")
        await agent.send(method="ide_connected", params={"pid": 1})
        await agent.ask(method="ping")
        yield agent


def cursor(line: int = 0, end: int = 0) -> Range:
    return Range(Position(line, 0), Position(line, end))


async def test_a_second_editor_of_a_folder_gets_its_own_name(folder: Path) -> None:
    async with open_bridge(folder) as first:
        one, other = MemoryEditor([str(folder)]), MemoryEditor([str(folder)])
        one.select(str(folder / "poem.txt"), cursor())
        async with open_bridge(folder, one) as second, open_bridge(folder, other) as third:
            names = [rig.lock["ideName"] for rig in (first, second, third)]
            assert names == ["MemoryEditor", "MemoryEditor (poem.txt)", f"MemoryEditor ({other.pid})"]
    async with open_bridge(folder) as alone:
        assert alone.lock["ideName"] == "MemoryEditor"


async def test_the_lock_file_contains_the_editors_current_folders(folder: Path, tmp_path: Path) -> None:
    async with open_bridge(folder) as rig:
        before = rig.lock
        assert before["workspaceFolders"] == [str(folder)]
        assert before["ideName"] == "MemoryEditor"
        rig.editor.change_folders(str(tmp_path), str(folder))
        assert rig.lock == {**before, "workspaceFolders": [str(tmp_path), str(folder)]}
        async with claude(rig) as agent:
            [text] = await agent.call("getWorkspaceFolders")
            assert json.loads(text)["rootPath"] == str(tmp_path)
        rig.editor.change_folders()
        assert rig.lock["workspaceFolders"] == [str(tmp_path), str(folder)], (
            "an editor without a folder changes nothing"
        )


async def test_configured_folders_do_not_change(folder: Path, tmp_path: Path) -> None:
    async with open_bridge(folder, workspace=[str(tmp_path)]) as rig:
        rig.editor.change_folders(str(folder))
        assert rig.lock["workspaceFolders"] == [str(tmp_path)]


async def test_a_selection_reaches_every_agent_unless_it_is_secret(folder: Path) -> None:
    """A selection in ``.env`` is sent to none of them."""
    async with open_bridge(folder) as rig, claude(rig) as one, claude(rig) as two:
        rig.editor.select(str(folder / "poem.txt"), cursor(0, 3))
        for agent in (one, two):
            assert (await agent.notice("selection_changed"))["text"] == "one"
        rig.editor.select(str(folder / ".env"), cursor(0, 5))
        rig.editor.select(str(folder / "poem.txt"), cursor(1, 3))
        for agent in (one, two):
            assert (await agent.notice("selection_changed"))["text"] == "two"
            assert agent.notices == []


async def test_an_agent_that_connects_later_gets_the_selection(folder: Path) -> None:
    editor = MemoryEditor([str(folder)])
    editor.open(str(folder / "poem.txt"))
    async with open_bridge(folder, editor) as rig, claude(rig) as agent:
        assert (await agent.notice("selection_changed"))["filePath"] == str(folder / "poem.txt")
        [text] = await agent.call("getLatestSelection")
        assert json.loads(text)["success"] is True


async def test_a_secret_file_open_at_the_start_is_not_reported(folder: Path) -> None:
    editor = MemoryEditor([str(folder)])
    editor.open(str(folder / ".env"))
    async with open_bridge(folder, editor) as rig, claude(rig) as agent:
        [text] = await agent.call("getLatestSelection")
        assert json.loads(text)["success"] is False
        assert agent.notices == []


async def test_without_context_only_mentions_are_sent(folder: Path) -> None:
    async with open_bridge(folder, context=False) as rig, claude(rig) as agent:
        rig.editor.select(str(folder / "poem.txt"), cursor(0, 3))
        rig.editor.mention(str(folder / "poem.txt"), (0, 1))
        assert await agent.notice("at_mentioned") == {
            "filePath": str(folder / "poem.txt"),
            "lineStart": 0,
            "lineEnd": 1,
        }
        assert agent.notices == []


async def test_a_mention_before_an_agent_connects_is_kept(folder: Path) -> None:
    async with open_bridge(folder) as rig:
        rig.editor.mention(str(folder / "poem.txt"))
        await until(lambda: rig.editor.notices)
        [(message, level)] = rig.editor.notices
        assert "is not connected yet" in message
        assert level == "warn"
        async with claude(rig) as agent:
            assert await agent.notice("at_mentioned") == {"filePath": str(folder / "poem.txt")}


async def test_the_editor_is_notified_of_connected_agents(folder: Path) -> None:
    async with open_bridge(folder) as rig:
        await until(lambda: [state.agents for state in rig.editor.announced] == [()])
        async with claude(rig), claude(rig):
            await until(lambda: rig.editor.announced[-1].agents == ("Claude Code", "Claude Code"))
        await until(lambda: rig.editor.announced[-1].agents == ())
        numbers = [len(state.agents) for state in rig.editor.announced]
        assert [number for number, _ in groupby(numbers)] == [0, 1, 2, 1, 0], "the announcements are in order"
        assert (1,) in [state.pids for state in rig.editor.announced], "the process ID that the agent has sent"
        state = rig.editor.announced[0]
        assert (state.port, state.token) == (rig.launched.port, rig.launched.token)


class Slow(MemoryEditor):
    """An editor that does not finish any announcement until ``free`` is set."""

    def __init__(self, folder: Path) -> None:
        super().__init__([str(folder)])
        self.free = asyncio.Event()

    async def announce(self, state: BridgeState) -> None:
        await self.free.wait()
        await super().announce(state)


async def test_a_slow_editor_gets_the_newest_state(folder: Path) -> None:
    """Each agent that connects or leaves is reported, even if others have connected or left since then."""
    editor = Slow(folder)
    async with open_bridge(folder, editor) as rig:
        async with claude(rig):
            pass
        await until(lambda: not rig.bridge.agents)
        async with claude(rig):
            editor.free.set()
            await until(lambda: len(editor.announced) == 4)
            counts = [(len(state.agents), len(state.pids)) for state in editor.announced]
            assert counts == [(0, 0), (1, 1), (0, 0), (1, 1)]


async def test_an_editor_that_never_answers_does_not_delay_the_end(folder: Path) -> None:
    tasks = asyncio.all_tasks()
    async with open_bridge(folder, Slow(folder)) as rig, claude(rig):
        pass
    assert {task.get_name() for task in asyncio.all_tasks() - tasks} & {"announcing the agents"} == set()


async def test_at_the_bridges_end_no_agent_counts_as_disconnected(folder: Path) -> None:
    async with open_bridge(folder) as rig:
        async with claude(rig):
            await until(lambda: rig.editor.announced[-1].pids)
            before = list(rig.editor.announced)
            rig.stop.set()
        await until(lambda: not rig.bridge.agents)
        assert rig.editor.announced == before


async def test_a_proposal_reaches_the_editor_and_its_decision_returns(folder: Path) -> None:
    path = str(folder / "poem.txt")
    async with open_bridge(folder) as rig, claude(rig) as agent:
        call = agent.call(
            "openDiff", old_file_path=path, new_file_path=path, new_file_contents="ONE\ntwo\n", tab_name="t"
        )
        answer = asyncio.create_task(call)
        await until(lambda: rig.editor.shown)
        rig.editor.decide(next(iter(rig.editor.shown)), Accepted("ONE\ntwo\n"))
        assert await answer == ["FILE_SAVED", "ONE\ntwo\n"]


async def test_the_bridge_stops_when_its_editor_exits(folder: Path) -> None:
    async with open_bridge(folder) as rig:
        rig.editor.leave()
        async with asyncio.timeout(PATIENCE):
            await rig.stop.wait()


async def test_the_bridge_continues_if_its_lock_cannot_be_rewritten(folder: Path, tmp_path: Path) -> None:
    async with open_bridge(folder) as rig, claude(rig) as agent:
        path = Path(rig.launched.files["lock_file"].path)
        path.unlink()
        path.mkdir()
        rig.editor.change_folders(str(tmp_path))
        await until(lambda: rig.editor.notices)
        assert "can't be written" in rig.editor.notices[0][0]
        [text] = await agent.call("getWorkspaceFolders")
        assert json.loads(text)["rootPath"] == str(tmp_path)
        path.rmdir()


async def test_an_editor_that_hangs_does_not_affect_agents(folder: Path) -> None:
    async with open_bridge(folder) as rig:
        rig.editor.hung = True
        rig.editor.mention(str(folder / "poem.txt"))
        async with claude(rig) as agent:
            assert await agent.notice("at_mentioned")
        rig.editor.hung = False
        async with claude(rig):
            await until(lambda: rig.editor.announced[-1].agents == ("Claude Code",))


async def test_opening_and_closing_often_leaves_nothing_behind(folder: Path) -> None:
    """The fixtures that run with each test fail if anything is left open or running."""
    for _ in range(25):
        async with open_bridge(folder) as rig, claude(rig) as agent:
            await agent.call("getOpenEditors")
        assert not Path(rig.launched.files["lock_file"].path).exists()
