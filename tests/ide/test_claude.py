"""Claude Code's side of the bridge: who may connect, which clients are notified, and what happens to calls that
are canceled or exceed the limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from drawbridge.core.errors import EditorGone
from drawbridge.editors.files import to_uri
from drawbridge.editors.port import Accepted, Mentioned, Position, Range, Selection
from drawbridge.ide import claude
from drawbridge.ide.claude import CALL_LIMIT, MENTION_LIMIT, ClaudeClient
from drawbridge.ide.tools.tool import Tool
from drawbridge.protocols.gate import BAD_TOKEN, FOREIGN_HOST, FOREIGN_ORIGIN
from tests.ide.rig import Agent, ClaudeRig, FakeWebSocket, head, texts
from tests.waiting import until


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a b.txt"
    path.write_text("one\ntwo\n")
    return path


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[ClaudeRig]:
    async with ClaudeRig(tmp_path) as rig:
        yield rig


def selection(path: Path | str = "/p/a b.txt", start: int = 0, end: int = 3, text: str = "one") -> Selection:
    return Selection(str(path), text, Range(Position(0, start), Position(0, end)))


def lines(agent: Agent) -> list[Any]:
    return [(received.get("lineStart"), received.get("lineEnd")) for received in agent.notifications("at_mentioned")]


# who may connect


def test_origin_host_and_token_are_checked(rig: ClaudeRig) -> None:
    admit = rig.clients.admit
    assert admit(head()) is None
    assert admit(head(origin="https://evil.example")) is FOREIGN_ORIGIN
    assert admit(head(host="evil.example")) is FOREIGN_HOST
    assert admit(head(x_claude_code_ide_authorization="wrong")) is BAD_TOKEN


async def test_bad_tokens_can_be_refused_with_a_close_code(tmp_path: Path) -> None:
    async with ClaudeRig(tmp_path, reject="1008") as rig:
        bad = head(x_claude_code_ide_authorization="wrong")
        assert rig.clients.admit(bad) is None
        assert rig.clients.admit(head(x_claude_code_ide_authorization="wrong", origin="null")) is FOREIGN_ORIGIN
        assert rig.clients.admit(head(x_claude_code_ide_authorization="wrong", host="evil")) is FOREIGN_HOST
        socket = FakeWebSocket()
        peer = rig.clients.opened(bad, socket)
        assert socket.closed == (1008, "Unauthorized")
        assert not isinstance(peer, ClaudeClient)
        peer.received('{"jsonrpc": "2.0", "id": 0, "method": "ping"}')
        peer.drained()
        peer.closed(1008)
        assert socket.sent == []
        assert rig.clients.names == ()


@pytest.mark.parametrize(
    ("offered", "confirmed"),
    [("mcp", "mcp"), ("a, mcp ,b", "mcp"), ("mcp2", None), ("MCP", None), ("", None), (None, None)],
)
def test_the_subprotocol_is_confirmed_when_it_was_offered(
    rig: ClaudeRig, offered: str | None, confirmed: str | None
) -> None:
    headers = {} if offered is None else {"sec_websocket_protocol": offered}
    assert rig.clients.subprotocol(head(**headers)) == confirmed


# the handshake


async def test_a_client_counts_once_its_handshake_is_done(rig: ClaudeRig) -> None:
    changes = []
    rig.clients.on_change = lambda: changes.append(rig.clients.names)
    agent = Agent(rig.clients)
    assert changes == []
    agent.greet()
    agent.send(method="notifications/initialized")
    assert changes == [("Claude Code",)]
    agent.vanish()
    assert changes == [("Claude Code",), ()]


async def test_the_current_selection_is_reported_on_ide_connected(rig: ClaudeRig) -> None:
    rig.workspace.selection = selection()
    agent = Agent(rig.clients)
    agent.greet(hears=False)
    assert agent.notifications("selection_changed") == []
    agent.send(method="ide_connected", params={"pid": 4711})
    assert agent.peer.pid == 4711
    assert agent.notifications("selection_changed") == [
        {
            "text": "one",
            "filePath": "/p/a b.txt",
            "fileUrl": "file:///p/a%20b.txt",
            "selection": {
                "start": {"line": 0, "character": 0},
                "end": {"line": 0, "character": 3},
                "isEmpty": False,
            },
        }
    ]


@pytest.mark.parametrize("params", [None, {}, {"pid": None}, {"pid": "7"}, {"pid": [7]}, [7]])
async def test_ide_connected_with_invalid_params_is_accepted(rig: ClaudeRig, params: Any) -> None:
    rig.workspace.selection = selection()
    agent = Agent(rig.clients)
    agent.send(method="ide_connected", params=params)
    assert agent.peer.pid is None
    assert len(agent.notifications("selection_changed")) == 1


# selections


async def test_every_ready_client_is_sent_a_new_selection_once(rig: ClaudeRig) -> None:
    agents = [rig.agent(), rig.agent()]
    stranger = Agent(rig.clients)
    for chosen in [selection(), selection(), selection(end=2, text="on"), selection()]:
        rig.clients.select(chosen)
    for agent in agents:
        assert [received["text"] for received in agent.notifications("selection_changed")] == ["one", "on", "one"]
    assert stranger.socket.sent == []


async def test_a_bare_cursor_is_an_empty_selection(rig: ClaudeRig) -> None:
    agent = rig.agent()
    rig.clients.select(selection(start=2, end=2, text=""))
    [received] = agent.notifications("selection_changed")
    assert received["text"] == ""
    assert received["selection"]["isEmpty"] is True


async def test_a_slow_client_gets_only_the_last_selection(rig: ClaudeRig) -> None:
    slow, quick = rig.agent(), rig.agent()
    slow.socket.congested = True
    for end in (1, 2, 3):
        rig.clients.select(selection(end=end))
    assert slow.notifications("selection_changed") == []
    assert len(quick.notifications("selection_changed")) == 3
    slow.socket.congested = False
    slow.peer.drained()
    slow.peer.drained()
    assert [received["selection"]["end"]["character"] for received in slow.notifications("selection_changed")] == [3]


async def test_a_slow_client_does_not_get_an_outdated_selection(rig: ClaudeRig) -> None:
    agent = rig.agent()
    rig.clients.select(selection(end=1))
    agent.socket.congested = True
    rig.clients.select(selection(end=2))
    rig.clients.select(selection(end=1))
    agent.socket.congested = False
    agent.peer.drained()
    assert [received["selection"]["end"]["character"] for received in agent.notifications("selection_changed")] == [1]


async def test_a_selection_in_a_file_with_an_odd_name_can_be_sent(rig: ClaudeRig) -> None:
    agent = rig.agent()
    rig.clients.select(selection("/p/gr\udcfc#%.txt", text="byte \udcff"))
    [received] = agent.notifications("selection_changed")
    assert received["fileUrl"] == "file:///p/gr%FC%23%25.txt" == to_uri("/p/gr\udcfc#%.txt")
    assert received["text"] == "byte \N{REPLACEMENT CHARACTER}"


# mentions


async def test_a_mention_is_sent_to_the_last_active_client(rig: ClaudeRig) -> None:
    first, second = rig.agent(), rig.agent()
    assert rig.clients.mention(Mentioned("/a", (0, 1)))
    first.send(id="x", method="ping")
    assert rig.clients.mention(Mentioned("/a", (2, 3)))
    first.vanish()
    assert rig.clients.mention(Mentioned("/a", None))
    assert first.notifications("at_mentioned") == [{"filePath": "/a", "lineStart": 2, "lineEnd": 3}]
    assert second.notifications("at_mentioned") == [
        {"filePath": "/a", "lineStart": 0, "lineEnd": 1},
        {"filePath": "/a"},
    ]


async def test_with_mention_all_a_mention_is_sent_to_all_clients(tmp_path: Path) -> None:
    async with ClaudeRig(tmp_path, mention="all") as rig:
        agents = [rig.agent(), rig.agent()]
        stranger = Agent(rig.clients)
        rig.clients.mention(Mentioned("/a", (0, 1)))
        assert [lines(agent) for agent in agents] == [[(0, 1)], [(0, 1)]]
        assert stranger.socket.sent == []


async def test_a_mention_waits_for_the_first_client_that_is_ready(rig: ClaudeRig) -> None:
    agent = Agent(rig.clients)
    assert not rig.clients.mention(Mentioned("/a", (0, 0)))
    assert not rig.clients.mention(Mentioned("/a", (1, 1)))
    assert agent.socket.sent == []
    agent.greet()
    assert lines(agent) == [(0, 0), (1, 1)]
    assert lines(rig.agent()) == []


async def test_the_number_of_waiting_mentions_is_limited(rig: ClaudeRig) -> None:
    for number in range(MENTION_LIMIT + 5):
        rig.clients.mention(Mentioned("/a", (number, number)))
    assert lines(rig.agent()) == [(number, number) for number in range(5, MENTION_LIMIT + 5)]


# several clients


async def test_each_client_has_its_own_ids_and_proposals(rig: ClaudeRig, file: Path) -> None:
    agents = [rig.agent(), rig.agent()]
    ids = [
        agent.ask(
            "openDiff",
            old_file_path=f"{file}{number}",
            new_file_path=f"{file}{number}",
            tab_name="t",
            new_file_contents=f"{number}\n",
        )
        for number, agent in enumerate(agents)
    ]
    assert ids[0] == ids[1]
    for proposal in await rig.proposals(2):
        rig.editor.decide(proposal, Accepted(rig.editor.shown[proposal].new_text))
    for number, agent in enumerate(agents):
        assert texts(await agent.answer(ids[number])) == ["FILE_SAVED", f"{number}\n"]


async def test_only_a_disconnected_clients_proposals_are_closed(rig: ClaudeRig, file: Path) -> None:
    staying, going = rig.agent(), rig.agent()
    for number, agent in enumerate((staying, going)):
        for name in ("a", "b"):
            path = f"{file}{number}{name}"
            agent.ask("openDiff", old_file_path=path, new_file_path=path, new_file_contents="x\n", tab_name=name)
    await rig.proposals(4)
    going.vanish()
    left = await rig.proposals(2)
    for proposal in left:
        rig.editor.decide(proposal, Accepted("x\n"))
    await until(lambda: len(staying.socket.sent) == 3)
    assert len(going.socket.sent) == 1, "only the answer to initialize"


async def test_notifications_that_a_client_may_miss_are_repeated(
    rig: ClaudeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claude, "LISTENS_AFTER_SECONDS", 0.05)
    rig.workspace.selection = Selection("/a", "", Range(Position(1, 0), Position(1, 0)))
    agent = Agent(rig.clients)
    agent.greet(hears=False)
    agent.send(method="ide_connected", params={"pid": 1})
    assert rig.clients.mention(Mentioned("/a", (2, 3))), "the user is told that it waits"
    assert lines(agent) == []
    assert len(agent.notifications("selection_changed")) == 1, "for a prompt that the user sends at once"
    await until(lambda: lines(agent) == [(2, 3)])
    assert len(agent.notifications("selection_changed")) == 2
    assert rig.clients.mention(Mentioned("/a", None))
    assert lines(agent) == [(2, 3), (None, None)]


async def test_with_a_single_client_the_newer_one_replaces_the_older(tmp_path: Path, file: Path) -> None:
    async with ClaudeRig(tmp_path, single_client=True) as rig:
        old = rig.agent()
        arguments = {"old_file_path": str(file), "new_file_path": str(file), "new_file_contents": "x\n"}
        old.ask("openDiff", **arguments, tab_name="t")
        await rig.proposals(1)
        new = Agent(rig.clients)
        assert old.socket.closed == (1000, "replaced by a newer connection")
        await rig.proposals(0)
        assert not rig.clients.mention(Mentioned("/a", (0, 0))), "the mention is kept for the newer client"
        new.greet()
        assert lines(new) == [(0, 0)]
        assert lines(old) == []
        assert rig.clients.names == ("Claude Code",)
        old.vanish()
        assert rig.clients.names == ("Claude Code",)


async def test_several_clients_can_connect_by_default(rig: ClaudeRig) -> None:
    first, second = rig.agent(), rig.agent()
    assert first.socket.closed is None
    assert rig.clients.names == ("Claude Code", "Claude Code")
    assert await second.body("getOpenEditors") == await first.body("getOpenEditors")


# calls


async def test_a_canceled_call_gets_no_answer_and_its_view_closes(rig: ClaudeRig, file: Path) -> None:
    agent = rig.agent()
    arguments = {"old_file_path": str(file), "new_file_path": str(file), "new_file_contents": "x\n"}
    id = agent.ask("openDiff", **arguments, tab_name="t")
    await rig.proposals(1)
    agent.send(method="notifications/cancelled", params={"requestId": id, "reason": "Esc"})
    await rig.proposals(0)
    assert await agent.texts("closeAllDiffTabs") == ["CLOSED_0_DIFF_TABS"]
    assert agent.answers(id) == []


async def test_a_call_canceled_immediately_leaves_nothing_behind(rig: ClaudeRig, file: Path) -> None:
    agent = rig.agent()
    for _ in range(CALL_LIMIT + 1):
        id = agent.ask("getOpenEditors")
        agent.send(method="notifications/cancelled", params={"requestId": id})
        await asyncio.sleep(0)
    assert await agent.body("getOpenEditors") == {"tabs": []}
    assert agent.peer._calls == {}


async def test_canceling_a_finished_or_unknown_call_changes_nothing(rig: ClaudeRig) -> None:
    agent = rig.agent()
    id = agent.ask("getOpenEditors")
    await agent.answer(id)
    for other in (id, 999, "999", ""):
        agent.send(method="notifications/cancelled", params={"requestId": other})
    assert await agent.body("getOpenEditors") == {"tabs": []}


async def test_a_number_and_a_string_are_different_ids(rig: ClaudeRig) -> None:
    agent = rig.agent()
    agent.socket.sent.clear()
    for id in (7, "7", 0, ""):
        agent.send(id=id, method="tools/call", params={"name": "getOpenEditors"})
    for id in (7, "7", 0, ""):
        await agent.answer(id)


async def test_an_id_in_use_is_an_error_and_the_first_call_continues(rig: ClaudeRig, file: Path) -> None:
    agent = rig.agent()
    arguments = {"old_file_path": str(file), "new_file_path": str(file), "new_file_contents": "x\n", "tab_name": "t"}
    for _ in range(2):
        agent.send(id="d", method="tools/call", params={"name": "openDiff", "arguments": arguments})
    assert (await agent.answer("d"))["error"]["code"] == -32600
    agent.socket.sent.clear()
    [proposal] = await rig.proposals()
    rig.editor.decide(proposal, Accepted("x\n"))
    assert texts(await agent.answer("d")) == ["FILE_SAVED", "x\n"]


async def test_too_many_simultaneous_calls_are_refused(rig: ClaudeRig, file: Path) -> None:
    agent = rig.agent()
    ids = [agent.ask("getOpenEditors") for _ in range(CALL_LIMIT)]
    refused = agent.ask("getOpenEditors")
    assert (await agent.answer(refused))["error"]["code"] == -32603
    for id in ids:
        assert texts(await agent.answer(id)) == ['{"tabs":[]}']
    assert await agent.body("getOpenEditors") == {"tabs": []}


async def test_an_internal_error_is_logged_and_sent_without_details(
    rig: ClaudeRig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: object) -> list[str]:
        raise RuntimeError("secret details")

    [tool] = [tool for tool in rig.clients.toolbox._tools.values() if tool.name == "getOpenEditors"]
    broken = Tool(tool.name, tool.description, tool.arguments, fail)
    monkeypatch.setitem(rig.clients.toolbox._tools, tool.name, broken)
    agent = rig.agent()
    error = (await agent.call("getOpenEditors"))["error"]
    assert error["code"] == -32603
    assert "secret" not in error["message"]
    assert "secret details" in caplog.text
    assert (await agent.body("getWorkspaceFolders"))["success"] is True


async def test_a_call_after_the_editor_exits_fails_with_a_clear_error(rig: ClaudeRig) -> None:
    agent = rig.agent()
    rig.editor.leave()
    answer = await agent.call("getOpenEditors")
    assert answer["result"]["isError"] is True
    assert "editor is gone" in answer["result"]["content"][0]["text"]
    assert EditorGone.code == "EDITOR_GONE"


async def test_a_bad_message_gets_an_error_and_affects_no_other_client(rig: ClaudeRig) -> None:
    bad, good = rig.agent(), rig.agent()
    for text in ["{", "[" * 100_000, "[]", "null", '{"jsonrpc": "2.0", "id": null, "method": 5}', "\ud800"]:
        bad.peer.received(text)
        assert bad.socket.sent[-1]["error"]["code"] in (-32700, -32600)
        assert bad.socket.sent[-1]["id"] is None
    assert await good.body("getOpenEditors") == await bad.body("getOpenEditors")
