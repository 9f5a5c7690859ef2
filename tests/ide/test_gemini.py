"""Gemini CLI's proposals, on real sockets: shown at once, decided by a person, told to the one that asked."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect

from drawbridge.editors.port import Accepted, Rejected
from drawbridge.ide import gemini
from drawbridge.ide.claude import TOKEN_HEADER
from tests.ide.gemini_rig import Cli, House, connected
from tests.ide.processes import bridge
from tests.waiting import PATIENCE, until


async def propose(house: House, cli: Cli, text: str = "ONE\ntwo\n", name: str = "poem.txt") -> str:
    """The id of the proposal, once it is there to see."""
    before = set(house.editor.shown)
    await cli.open_diff(house.path(name), text)
    await until(lambda: set(house.editor.shown) - before, "the proposal")
    [proposal] = set(house.editor.shown) - before
    return proposal


async def gone(house: House) -> None:
    """Nothing is shown or prepared any more."""
    await until(lambda: not house.editor.shown and not house.bridge.reviews._open, "the end of the proposal")


# a person decides


async def test_a_proposal_is_shown_with_what_it_changes_and_who_asks(house: House) -> None:
    async with connected(house) as (cli, _):
        shown = house.editor.shown[await propose(house, cli)]
        assert (shown.agent, shown.path, shown.old_text, shown.new_text) == (
            "Gemini CLI",
            house.path(),
            "one\ntwo\n",
            "ONE\ntwo\n",
        )
        assert Path(house.path()).read_text() == "one\ntwo\n"


async def test_what_is_accepted_is_told_and_the_cli_writes_it(house: House) -> None:
    async with connected(house) as (cli, stream):
        house.editor.decide(await propose(house, cli), Accepted("zwei\n"))
        assert await stream.hear("ide/diffAccepted") == {"filePath": house.path(), "content": "zwei\n"}
        assert Path(house.path()).read_text() == "one\ntwo\n", "we never write"


async def test_what_the_cli_wrote_is_shown(house: House) -> None:
    house.editor.open(house.path())
    async with connected(house) as (cli, stream):
        house.editor.decide(await propose(house, cli), Accepted("ONE\ntwo\n"))
        await stream.hear("ide/diffAccepted")
        Path(house.path()).write_text("ONE\ntwo\n")
        await until(lambda: house.editor.buffers[house.path()].text == "ONE\ntwo\n")


async def test_a_rejection_is_told(house: House) -> None:
    async with connected(house) as (cli, stream):
        house.editor.decide(await propose(house, cli), Rejected())
        assert await stream.hear("ide/diffRejected") == {"filePath": house.path()}


@pytest.mark.parametrize("spelling", ["{}", "{}/../{}", "/{}", "//{}"])
async def test_the_path_comes_back_as_it_was_spelled(house: House, spelling: str) -> None:
    """The CLI looks its question up by it."""
    name = "schöne \u0301 poeme 😀.txt"
    spelled = spelling.replace("{}", house.path(name), 1).replace("{}", name)
    async with connected(house) as (cli, stream):
        await cli.open_diff(spelled, "la\n")
        house.editor.decide((await house.shown())[0], Accepted("la\n"))
        assert (await stream.hear("ide/diffAccepted"))["filePath"] == spelled


async def test_a_new_file_is_proposed_beside_nothing(house: House) -> None:
    async with connected(house) as (cli, stream):
        proposal = await propose(house, cli, "la\n", "new.txt")
        assert house.editor.shown[proposal].old_text == ""
        house.editor.decide(proposal, Accepted("la\n"))
        await stream.hear("ide/diffAccepted")
        assert not Path(house.path("new.txt")).exists()


async def test_the_verdict_goes_to_the_session_that_asked(house: House) -> None:
    async with connected(house) as (one, one_hears), connected(house) as (two, two_hears):
        first = await propose(house, one)
        second = await propose(house, two, "LA\n", "song.txt")
        house.editor.decide(second, Rejected())
        house.editor.decide(first, Accepted("ONE\n"))
        assert (await one_hears.message())["params"] == {"filePath": house.path(), "content": "ONE\n"}
        assert (await two_hears.message())["params"] == {"filePath": house.path("song.txt")}


async def test_an_emptied_file_is_a_rejection_and_the_person_is_told_why(house: House) -> None:
    """The real CLI takes an empty text for "not edited" and would write its own."""
    async with connected(house) as (cli, stream):
        house.editor.decide(await propose(house, cli), Accepted(""))
        assert (await stream.message())["method"] == "ide/diffRejected"
        [(message, level)] = house.editor.told
        assert "cannot write an empty file" in message
        assert level == "warn"


async def test_an_empty_text_that_was_proposed_is_accepted(house: House) -> None:
    async with connected(house) as (cli, stream):
        house.editor.decide(await propose(house, cli, ""), Accepted(""))
        assert (await stream.hear("ide/diffAccepted"))["content"] == ""


# decided elsewhere


async def test_closing_gives_the_text_as_the_person_has_made_it_and_no_verdict(house: House) -> None:
    async with connected(house) as (cli, stream):
        proposal = await propose(house, cli)
        house.editor.edit(proposal, "EINS\ntwo\n")
        assert await cli.body("closeDiff", filePath=house.path(), suppressNotification=True) == {
            "content": "EINS\ntwo\n"
        }
        await gone(house)
        house.editor.decide(await propose(house, cli, "LA\n", "song.txt"), Rejected())
        assert (await stream.message())["params"] == {"filePath": house.path("song.txt")}


@pytest.mark.parametrize("arguments", [{}, {"suppressNotification": False}, {"suppressNotification": True}])
async def test_closing_what_is_not_open_is_an_empty_object(house: House, arguments: dict[str, Any]) -> None:
    async with connected(house) as (cli, _):
        assert await cli.body("closeDiff", filePath=house.path(), **arguments) == {}
        await propose(house, cli)
        assert await cli.body("closeDiff", filePath=house.path("song.txt"), **arguments) == {}
        assert len(house.editor.shown) == 1


async def test_nobody_closes_the_proposal_of_another(house: House) -> None:
    async with connected(house) as (one, _), connected(house) as (two, _):
        await propose(house, one)
        assert await two.body("closeDiff", filePath=house.path()) == {}
        assert await two.body("rejectDiff", filePath=house.path()) == {"decided": False}
        assert len(house.editor.shown) == 1


async def test_the_agent_may_decide_as_the_person_would(house: House) -> None:
    async with connected(house) as (cli, stream):
        house.editor.edit(await propose(house, cli), "EINS\n")
        assert await cli.body("acceptDiff", filePath=house.path()) == {"decided": True}
        assert await stream.hear("ide/diffAccepted") == {"filePath": house.path(), "content": "EINS\n"}
        await propose(house, cli, "LA\n", "song.txt")
        assert await cli.body("rejectDiff", filePath=house.path("song.txt")) == {"decided": True}
        assert await stream.hear("ide/diffRejected") == {"filePath": house.path("song.txt")}
        assert await cli.body("acceptDiff", filePath=house.path()) == {"decided": False}
        await gone(house)
        assert Path(house.path()).read_text() == "one\ntwo\n"


async def test_proposing_anew_replaces_the_proposal_without_a_verdict(house: House) -> None:
    async with connected(house) as (cli, stream):
        first = await propose(house, cli)
        await cli.open_diff(house.path(), "EINS\n")
        await until(lambda: house.editor.shown and first not in house.editor.shown)
        [second] = house.editor.shown
        house.editor.decide(second, Accepted("EINS\n"))
        assert (await stream.message())["params"]["content"] == "EINS\n"


async def test_a_proposal_that_waits_for_another_agents_can_be_closed(house: House) -> None:
    async with connected(house) as (one, one_hears), connected(house) as (two, two_hears):
        first = await propose(house, one)
        await two.open_diff(house.path(), "EINS\ntwo\n")
        assert await two.body("closeDiff", filePath=house.path()) == {}
        await two.open_diff(house.path(), "UNO\ntwo\n")
        assert list(house.editor.shown) == [first]
        house.editor.decide(first, Rejected())
        await one_hears.hear("ide/diffRejected")
        await until(lambda: house.editor.shown)
        [(second, shown)] = house.editor.shown.items()
        assert shown.new_text == "UNO\ntwo\n"
        house.editor.decide(second, Rejected())
        assert await two_hears.hear("ide/diffRejected")


async def test_two_agents_wait_for_each_other_at_one_file_and_not_at_two(house: House) -> None:
    poem = Path(house.path())
    poem.write_text("one\ntwo\nthree\n")
    address, headers = f"ws://127.0.0.1:{house.port}/", {TOKEN_HEADER: house.token}
    async with (
        connected(house) as (cli, stream),
        connect(address, additional_headers=headers, compression=None, proxy=None) as claude,
    ):
        await ask_as_claude(claude, house.path(), "ONE\ntwo\nthree\n")
        [first] = await house.shown()
        await cli.open_diff(house.path(), "one\ntwo\nTHREE\n")
        other = await propose(house, cli, "LA\n", "song.txt")
        house.editor.decide(other, Accepted("LA\n"))
        assert (await stream.hear("ide/diffAccepted"))["filePath"] == house.path("song.txt")
        assert list(house.editor.shown) == [first]

        house.editor.decide(first, Accepted("ONE\ntwo\nthree\n"))
        async with asyncio.timeout(PATIENCE):
            assert json.loads(await claude.recv())["result"]["content"][0]["text"] == "FILE_SAVED"
        poem.write_text("ONE\ntwo\nthree\n")
        await until(lambda: house.editor.shown)
        [(second, shown)] = house.editor.shown.items()
        assert shown.old_text == "ONE\ntwo\nthree\n"
        assert shown.new_text == "ONE\ntwo\nTHREE\n", "on top of the other's"
        house.editor.decide(second, Accepted(shown.new_text))
        assert (await stream.hear("ide/diffAccepted"))["content"] == "ONE\ntwo\nTHREE\n"


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
async def test_what_can_not_be_shown_leaves_the_clis_own_dialog_and_tells_the_person(
    house: House, name: str, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    """An error as the answer breaks the real CLI, a verdict would close its dialog."""
    Path(house.path("binary")).write_bytes(b"\0\1")
    async with connected(house) as (cli, stream):
        await cli.open_diff(house.path(name), text)
        await until(lambda: house.editor.told, "the notice")
        [(message, level)] = house.editor.told
        assert message.startswith("No diff: Gemini CLI's change to ")
        assert message.endswith("Answer in its terminal.")
        assert level == "warn"
        assert await cli.body("closeDiff", filePath=house.path(name)) == {}
        house.editor.decide(await propose(house, cli), Rejected())
        assert (await stream.message())["params"] == {"filePath": house.path()}, "the first that is said"
    assert "failed" not in caplog.text
    assert Path(house.path()).read_text() == "one\ntwo\n"


@pytest.mark.parametrize("path", ["", "https://example.org/poem.txt"])
async def test_what_is_no_path_is_not_shown_either(house: House, path: str) -> None:
    async with connected(house) as (cli, stream):
        await cli.open_diff(path, "x\n")
        assert await cli.body("closeDiff", filePath=path) == {}
        house.editor.decide(await propose(house, cli), Rejected())
        assert (await stream.message())["params"] == {"filePath": house.path()}, "the first that is said"


async def test_a_proposal_on_unsaved_work_is_not_shown_and_the_work_stays(house: House) -> None:
    house.editor.open(house.path())
    house.editor.type(house.path(), "uno\ntwo\n")
    async with connected(house) as (cli, _):
        await cli.open_diff(house.path(), "ONE\ntwo\n")
        await until(lambda: house.editor.told)
        assert "that you have not saved" in house.editor.told[0][0]
        assert house.editor.shown == {}
        assert house.editor.buffers[house.path()].text == "uno\ntwo\n"


async def test_an_editor_that_hangs_is_a_rejection_after_the_answer(house: House) -> None:
    async with connected(house) as (cli, stream):
        house.editor.hung = True
        await cli.open_diff(house.path(), "ONE\n")
        assert await stream.hear("ide/diffRejected") == {"filePath": house.path()}
        house.editor.hung = False
        await propose(house, cli)


async def test_closing_in_an_editor_that_hangs_lets_the_cli_go_on(house: House) -> None:
    async with connected(house) as (cli, stream):
        await propose(house, cli)
        house.editor.hung = True
        assert await cli.body("closeDiff", filePath=house.path()) == {}
        assert await cli.body("acceptDiff", filePath=house.path()) == {"decided": False}
        assert not house.bridge.reviews._open
        house.editor.hung = False
        house.editor.shown.clear()
        house.editor.decide(await propose(house, cli, "LA\n", "song.txt"), Rejected())
        assert (await stream.message())["params"] == {"filePath": house.path("song.txt")}


async def test_a_fault_of_ours_in_a_proposal_is_logged_and_harms_no_other(
    house: House, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise RuntimeError("a fault of ours")

    async with connected(house) as (cli, _):
        with monkeypatch.context() as patch:
            patch.setattr(house.editor, "show", fail)
            await cli.open_diff(house.path(), "ONE\n")
            await until(lambda: "a fault of ours" in caplog.text)
        await propose(house, cli)


async def test_more_proposals_than_one_agent_may_have_are_not_shown(house: House) -> None:
    async with connected(house) as (cli, _):
        for number in range(51):
            await cli.open_diff(house.path(f"{number}.txt"), "x\n")
        await house.shown(50)
        await until(lambda: house.editor.told)
        assert "too many proposals open" in house.editor.told[0][0]


# a real process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_bridge_that_is_ended_rejects_what_is_open_before_it_goes(folder: Path, number: int) -> None:
    async with bridge("--folder", folder) as running:
        cli = await Cli(running.port, running.token).greet()
        async with await cli.listen() as stream:
            assert await stream.files() == []
            await cli.open_diff(str(folder / "poem.txt"), "ONE\n")
            assert (await running.end(number))[0] == 0
            assert await stream.hear("ide/diffRejected") == {"filePath": str(folder / "poem.txt")}
            assert await stream.message() is None
    assert (folder / "poem.txt").read_text() == "one\ntwo\n"


async def test_a_bridge_that_decides_by_itself(folder: Path) -> None:
    async with bridge("--folder", folder, "--decide", "accept", "--agent", "gemini") as running:
        cli = await Cli(running.port, running.token).greet()
        async with await cli.listen() as stream:
            await cli.open_diff("poem.txt", "ONE\n")
            assert await stream.hear("ide/diffAccepted") == {"filePath": "poem.txt", "content": "ONE\n"}
            assert await cli.body("closeDiff", filePath="poem.txt") == {}


def test_the_times_fit_the_real_cli() -> None:
    assert gemini.GRACE_SECONDS > 2.5, "it comes back 1 s after the end of a stream, and 1.5 s after a first failure"
