"""Gemini CLI's proposals, over real sockets: shown immediately, decided by the user, and reported to the asking
session."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect

from drawbridge.editors.neovim.rpc import NeovimError
from drawbridge.editors.port import Accepted, Rejected
from drawbridge.ide.claude import TOKEN_HEADER
from drawbridge.ide.gemini import gemini
from tests.ide.bridge_rig import BridgeRig
from tests.ide.gemini.rig import Cli, connected
from tests.ide.processes import bridge
from tests.waiting import PATIENCE, until


async def propose(rig: BridgeRig, cli: Cli, text: str = "ONE\ntwo\n", name: str = "poem.txt") -> str:
    """Proposes a change, waits until it is shown, and returns its ID."""
    before = set(rig.editor.shown)
    await cli.open_diff(rig.path(name), text)
    await until(lambda: set(rig.editor.shown) - before, "the proposal")
    [proposal] = set(rig.editor.shown) - before
    return proposal


async def gone(rig: BridgeRig) -> None:
    """Waits until no proposal is shown or being prepared."""
    await until(lambda: not rig.editor.shown and not rig.bridge.reviews._open, "the end of the proposal")


# the user decides


async def test_a_proposal_is_shown_with_its_change_and_its_agent(rig: BridgeRig) -> None:
    async with connected(rig) as (cli, _):
        shown = rig.editor.shown[await propose(rig, cli)]
        assert (shown.agent, shown.path, shown.old_text, shown.new_text) == (
            "Gemini CLI",
            rig.path(),
            "one\ntwo\n",
            "ONE\ntwo\n",
        )
        assert Path(rig.path()).read_text() == "one\ntwo\n"


async def test_an_accepted_text_is_sent_and_not_written_by_the_bridge(rig: BridgeRig) -> None:
    async with connected(rig) as (cli, stream):
        rig.editor.decide(await propose(rig, cli), Accepted("zwei\n"))
        assert await stream.receive("ide/diffAccepted") == {"filePath": rig.path(), "content": "zwei\n"}
        assert Path(rig.path()).read_text() == "one\ntwo\n", "the bridge never writes files"


async def test_text_written_by_the_cli_is_shown(rig: BridgeRig) -> None:
    rig.editor.open(rig.path())
    async with connected(rig) as (cli, stream):
        rig.editor.decide(await propose(rig, cli), Accepted("ONE\ntwo\n"))
        await stream.receive("ide/diffAccepted")
        Path(rig.path()).write_text("ONE\ntwo\n")
        await until(lambda: rig.editor.buffers[rig.path()].text == "ONE\ntwo\n")


async def test_a_rejection_is_reported(rig: BridgeRig) -> None:
    async with connected(rig) as (cli, stream):
        rig.editor.decide(await propose(rig, cli), Rejected())
        assert await stream.receive("ide/diffRejected") == {"filePath": rig.path()}


@pytest.mark.parametrize("spelling", ["{}", "{}/../{}", "/{}", "//{}"])
async def test_the_path_is_returned_as_it_was_spelled(rig: BridgeRig, spelling: str) -> None:
    """The CLI uses this path to match a decision to its proposal."""
    name = "schöne \u0301 poeme 😀.txt"
    spelled = spelling.replace("{}", rig.path(name), 1).replace("{}", name)
    async with connected(rig) as (cli, stream):
        await cli.open_diff(spelled, "la\n")
        rig.editor.decide((await rig.shown())[0], Accepted("la\n"))
        assert (await stream.receive("ide/diffAccepted"))["filePath"] == spelled


async def test_the_old_text_of_a_new_file_is_empty(rig: BridgeRig) -> None:
    async with connected(rig) as (cli, stream):
        proposal = await propose(rig, cli, "la\n", "new.txt")
        assert rig.editor.shown[proposal].old_text == ""
        rig.editor.decide(proposal, Accepted("la\n"))
        await stream.receive("ide/diffAccepted")
        assert not Path(rig.path("new.txt")).exists()


async def test_the_decision_is_sent_to_the_session_that_asked(rig: BridgeRig) -> None:
    async with connected(rig) as (one, one_hears), connected(rig) as (two, two_hears):
        first = await propose(rig, one)
        second = await propose(rig, two, "LA\n", "song.txt")
        rig.editor.decide(second, Rejected())
        rig.editor.decide(first, Accepted("ONE\n"))
        assert (await one_hears.message())["params"] == {"filePath": rig.path(), "content": "ONE\n"}
        assert (await two_hears.message())["params"] == {"filePath": rig.path("song.txt")}


async def test_a_proposal_that_the_user_emptied_counts_as_rejected(rig: BridgeRig) -> None:
    """The real CLI takes an empty text to mean "not edited", and would write its own text."""
    async with connected(rig) as (cli, stream):
        rig.editor.decide(await propose(rig, cli), Accepted(""))
        assert (await stream.message())["method"] == "ide/diffRejected"
        [(message, level)] = rig.editor.notices
        assert "can't write an empty file" in message
        assert level == "warn"


async def test_an_empty_text_that_was_proposed_is_accepted(rig: BridgeRig) -> None:
    async with connected(rig) as (cli, stream):
        rig.editor.decide(await propose(rig, cli, ""), Accepted(""))
        assert (await stream.receive("ide/diffAccepted"))["content"] == ""


# decided elsewhere


async def test_closing_a_proposal_returns_the_users_edited_text(rig: BridgeRig) -> None:
    """No decision on it is sent."""
    async with connected(rig) as (cli, stream):
        proposal = await propose(rig, cli)
        rig.editor.edit(proposal, "EINS\ntwo\n")
        assert await cli.body("closeDiff", filePath=rig.path(), suppressNotification=True) == {"content": "EINS\ntwo\n"}
        await gone(rig)
        rig.editor.decide(await propose(rig, cli, "LA\n", "song.txt"), Rejected())
        assert (await stream.message())["params"] == {"filePath": rig.path("song.txt")}


@pytest.mark.parametrize("arguments", [{}, {"suppressNotification": False}, {"suppressNotification": True}])
async def test_closing_an_unknown_proposal_returns_an_empty_object(rig: BridgeRig, arguments: dict[str, Any]) -> None:
    async with connected(rig) as (cli, _):
        assert await cli.body("closeDiff", filePath=rig.path(), **arguments) == {}
        await propose(rig, cli)
        assert await cli.body("closeDiff", filePath=rig.path("song.txt"), **arguments) == {}
        assert len(rig.editor.shown) == 1


async def test_a_session_cannot_close_another_sessions_proposal(rig: BridgeRig) -> None:
    async with connected(rig) as (one, _), connected(rig) as (two, _):
        await propose(rig, one)
        assert await two.body("closeDiff", filePath=rig.path()) == {}
        assert await two.body("rejectDiff", filePath=rig.path()) == {"decided": False}
        assert len(rig.editor.shown) == 1


async def test_the_agent_can_accept_or_reject_its_own_proposals(rig: BridgeRig) -> None:
    async with connected(rig) as (cli, stream):
        rig.editor.edit(await propose(rig, cli), "EINS\n")
        assert await cli.body("acceptDiff", filePath=rig.path()) == {"decided": True}
        assert await stream.receive("ide/diffAccepted") == {"filePath": rig.path(), "content": "EINS\n"}
        await propose(rig, cli, "LA\n", "song.txt")
        assert await cli.body("rejectDiff", filePath=rig.path("song.txt")) == {"decided": True}
        assert await stream.receive("ide/diffRejected") == {"filePath": rig.path("song.txt")}
        assert await cli.body("acceptDiff", filePath=rig.path()) == {"decided": False}
        await gone(rig)
        assert Path(rig.path()).read_text() == "one\ntwo\n"


async def test_a_second_proposal_replaces_the_first_without_a_decision(rig: BridgeRig) -> None:
    async with connected(rig) as (cli, stream):
        first = await propose(rig, cli)
        await cli.open_diff(rig.path(), "EINS\n")
        await until(lambda: rig.editor.shown and first not in rig.editor.shown)
        [second] = rig.editor.shown
        rig.editor.decide(second, Accepted("EINS\n"))
        assert (await stream.message())["params"]["content"] == "EINS\n"


async def test_a_proposal_can_be_closed_while_it_waits_for_its_turn(rig: BridgeRig) -> None:
    async with connected(rig) as (one, one_hears), connected(rig) as (two, two_hears):
        first = await propose(rig, one)
        await two.open_diff(rig.path(), "EINS\ntwo\n")
        assert await two.body("closeDiff", filePath=rig.path()) == {}
        await two.open_diff(rig.path(), "UNO\ntwo\n")
        assert list(rig.editor.shown) == [first]
        rig.editor.decide(first, Rejected())
        await one_hears.receive("ide/diffRejected")
        await until(lambda: rig.editor.shown)
        [(second, shown)] = rig.editor.shown.items()
        assert shown.new_text == "UNO\ntwo\n"
        rig.editor.decide(second, Rejected())
        assert await two_hears.receive("ide/diffRejected")


async def test_two_agents_take_turns_only_on_the_same_file(rig: BridgeRig) -> None:
    """The second proposal is shown after the first one is written, and is based on the new text."""
    poem = Path(rig.path())
    poem.write_text("one\ntwo\nthree\n")
    address, headers = f"ws://127.0.0.1:{rig.port}/", {TOKEN_HEADER: rig.token}
    async with (
        connected(rig) as (cli, stream),
        connect(address, additional_headers=headers, compression=None, proxy=None) as claude,
    ):
        await ask_as_claude(claude, rig.path(), "ONE\ntwo\nthree\n")
        [first] = await rig.shown()
        await cli.open_diff(rig.path(), "one\ntwo\nTHREE\n")
        other = await propose(rig, cli, "LA\n", "song.txt")
        rig.editor.decide(other, Accepted("LA\n"))
        assert (await stream.receive("ide/diffAccepted"))["filePath"] == rig.path("song.txt")
        assert list(rig.editor.shown) == [first]

        rig.editor.decide(first, Accepted("ONE\ntwo\nthree\n"))
        async with asyncio.timeout(PATIENCE):
            assert json.loads(await claude.recv())["result"]["content"][0]["text"] == "FILE_SAVED"
        poem.write_text("ONE\ntwo\nthree\n")
        await until(lambda: rig.editor.shown)
        [(second, shown)] = rig.editor.shown.items()
        assert shown.old_text == "ONE\ntwo\nthree\n"
        assert shown.new_text == "ONE\ntwo\nTHREE\n", "on top of the other agent's change"
        rig.editor.decide(second, Accepted(shown.new_text))
        assert (await stream.receive("ide/diffAccepted"))["content"] == "ONE\ntwo\nTHREE\n"


async def ask_as_claude(claude: ClientConnection, path: str, text: str) -> None:
    arguments = {"old_file_path": path, "new_file_path": path, "new_file_contents": text, "tab_name": "t"}
    params = {"name": "openDiff", "arguments": arguments}
    await claude.send(json.dumps({"jsonrpc": "2.0", "id": 0, "method": "tools/call", "params": params}))


# what can't be shown


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (".", "x"),
        ("binary", "x"),
        ("poem.txt", "a\0b"),
        ("poem.txt", "\ud800"),
        ("\0", "x"),
        ("\ud800", "x"),
        ("x" * 5_000, "x"),
        ("poem.txt/below", "x"),
    ],
)
async def test_a_proposal_that_cannot_be_shown_is_left_to_the_cli(
    rig: BridgeRig, name: str, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    """An error as the answer would break the real CLI, and a decision would close its dialog."""
    Path(rig.path("binary")).write_bytes(b"\0\1")
    async with connected(rig) as (cli, stream):
        await cli.open_diff(rig.path(name), text)
        await until(lambda: rig.editor.notices, "the notice")
        [(message, level)] = rig.editor.notices
        assert message.startswith("No diff: Gemini CLI's change to ")
        assert message.endswith("Answer in the agent's terminal.")
        assert level == "warn"
        assert await cli.body("closeDiff", filePath=rig.path(name)) == {}
        rig.editor.decide(await propose(rig, cli), Rejected())
        assert (await stream.message())["params"] == {"filePath": rig.path()}, "the first that is said"
    assert "failed" not in caplog.text
    assert Path(rig.path()).read_text() == "one\ntwo\n"


@pytest.mark.parametrize("path", ["", "https://example.org/poem.txt"])
async def test_a_proposal_without_a_valid_path_is_not_shown(rig: BridgeRig, path: str) -> None:
    async with connected(rig) as (cli, stream):
        await cli.open_diff(path, "x\n")
        assert await cli.body("closeDiff", filePath=path) == {}
        rig.editor.decide(await propose(rig, cli), Rejected())
        assert (await stream.message())["params"] == {"filePath": rig.path()}, "the first that is said"


async def test_a_proposal_over_unsaved_work_is_not_shown(rig: BridgeRig) -> None:
    """The buffer keeps its text, and the editor notifies the user."""
    rig.editor.open(rig.path())
    rig.editor.type(rig.path(), "uno\ntwo\n")
    async with connected(rig) as (cli, _):
        await cli.open_diff(rig.path(), "ONE\ntwo\n")
        await until(lambda: rig.editor.notices)
        assert "conflicts with your unsaved changes" in rig.editor.notices[0][0]
        assert rig.editor.shown == {}
        assert rig.editor.buffers[rig.path()].text == "uno\ntwo\n"


async def test_a_proposal_in_a_hung_editor_is_rejected(rig: BridgeRig) -> None:
    async with connected(rig) as (cli, stream):
        rig.editor.hung = True
        await cli.open_diff(rig.path(), "ONE\n")
        assert await stream.receive("ide/diffRejected") == {"filePath": rig.path()}
        rig.editor.hung = False
        await propose(rig, cli)


async def test_closing_in_a_hung_editor_does_not_block_the_cli(rig: BridgeRig) -> None:
    async with connected(rig) as (cli, stream):
        await propose(rig, cli)
        rig.editor.hung = True
        assert await cli.body("closeDiff", filePath=rig.path()) == {}
        assert await cli.body("acceptDiff", filePath=rig.path()) == {"decided": False}
        assert not rig.bridge.reviews._open
        rig.editor.hung = False
        rig.editor.shown.clear()
        rig.editor.decide(await propose(rig, cli, "LA\n", "song.txt"), Rejected())
        assert (await stream.message())["params"] == {"filePath": rig.path("song.txt")}


async def test_closing_is_answered_even_if_the_editor_fails(rig: BridgeRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proposal is withdrawn, and the CLI writes its own text."""

    async def fail(_: str) -> None:
        raise NeovimError("Invalid buffer id: 7")

    async with connected(rig) as (cli, _):
        await propose(rig, cli)
        monkeypatch.setattr(rig.editor, "proposed_text", fail)
        assert await cli.body("closeDiff", filePath=rig.path()) == {}
        await gone(rig)


async def test_an_internal_error_in_a_proposal_harms_no_other(
    rig: BridgeRig, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise RuntimeError("a fault of ours")

    async with connected(rig) as (cli, _):
        with monkeypatch.context() as patch:
            patch.setattr(rig.editor, "show", fail)
            await cli.open_diff(rig.path(), "ONE\n")
            await until(lambda: "a fault of ours" in caplog.text)
        await propose(rig, cli)


async def test_more_proposals_than_one_agent_may_have_are_not_shown(rig: BridgeRig) -> None:
    async with connected(rig) as (cli, _):
        for number in range(51):
            await cli.open_diff(rig.path(f"{number}.txt"), "x\n")
        await rig.shown(50)
        await until(lambda: rig.editor.notices)
        assert "too many proposals open" in rig.editor.notices[0][0]


# a real process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_signal_makes_the_bridge_reject_open_proposals(folder: Path, number: int) -> None:
    """Gemini CLI receives the rejection before its stream ends, and the file is not changed."""
    async with bridge("--folder", folder) as running:
        cli = await Cli(running.port, running.token).greet()
        async with await cli.listen() as stream:
            assert await stream.files() == []
            await cli.open_diff(str(folder / "poem.txt"), "ONE\n")
            assert (await running.end(number))[0] == 0
            assert await stream.receive("ide/diffRejected") == {"filePath": str(folder / "poem.txt")}
            assert await stream.message() is None
    assert (folder / "poem.txt").read_text() == "one\ntwo\n"


async def test_a_bridge_with_decide_accept_accepts_proposals(folder: Path) -> None:
    async with bridge("--folder", folder, "--decide", "accept", "--agent", "gemini") as running:
        cli = await Cli(running.port, running.token).greet()
        async with await cli.listen() as stream:
            await cli.open_diff("poem.txt", "ONE\n")
            assert await stream.receive("ide/diffAccepted") == {"filePath": "poem.txt", "content": "ONE\n"}
            assert await cli.body("closeDiff", filePath="poem.txt") == {}


def test_sessions_outlast_the_real_clis_reconnect_delay() -> None:
    assert gemini.GRACE_SECONDS > 2.5, (
        "the CLI reconnects 1 s after the end of a stream, and 1.5 s after a first failure"
    )
