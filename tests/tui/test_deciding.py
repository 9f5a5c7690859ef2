"""In the terminal client, a person decides on what the demo agent proposes."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from textual.widgets import Input

from drawbridge.tui import approval_view
from drawbridge.tui.fields import PlainTextArea
from tests.server.processes import Server

from .rig import attached


async def test_a_user_accepts_a_change(server: Server, directory: Path) -> None:
    async with attached(server, directory) as person:
        await person.prompts("Say that it rains")
        await person.is_asked("The demo agent wants to edit notes.md")
        assert "+ > You said: Say that it rains" in person.screen
        assert "Needs you" in person.screen
        assert "rains" not in (directory / "notes.md").read_text()
        await person.presses("a")
        await person.reads("Done: notes.md has the new line.", "✓ Accepted by you  notes.md", "Finished")
        assert person.card is None
    assert (directory / "notes.md").read_text().endswith("> You said: Say that it rains\n")


async def test_an_edited_proposal_is_shown_and_written_as_edited(server: Server, directory: Path) -> None:
    async with attached(server, directory) as person:
        await person.prompts("Something")
        card = await person.is_asked("Something")
        await person.presses("e")
        area = card.query_one(PlainTextArea)
        assert area.text == "# Notes\n\nThe bridge is up.\n> You said: Something\n"
        await person.presses("ctrl+a", "backspace", *"Mine alone.")
        wanted = area.text
        await person.presses("escape")
        await person.sees("Accept edited version", "Mine alone.")
        await person.presses("e")
        assert area.text == wanted
        await person.presses("ctrl+s")
        await person.reads("Done: notes.md has your version of it.")
    assert (directory / "notes.md").read_text() == wanted


async def test_a_key_right_after_an_edit_accepts_all_of_it(server: Server, directory: Path) -> None:
    """The key may be handled before the event about the text."""
    async with attached(server, directory) as person:
        await person.prompts("Something")
        card = await person.is_asked("Something")
        await person.presses("e")
        card.query_one(PlainTextArea).insert("Mine, too.\n")
        card.call_later(card.accept)
        await person.reads("Done: notes.md has your version of it.")
    assert "Mine, too.\n" in (directory / "notes.md").read_text()


@pytest.mark.thorough
async def test_a_rejection_sends_its_reason_and_changes_nothing(server: Server, directory: Path) -> None:
    before = (directory / "notes.md").read_bytes()
    async with attached(server, directory) as person:
        await person.prompts("Something")
        await person.is_asked("Something")
        await person.presses("r")
        await person.types("not in this file")
        await person.presses("enter")
        await person.reads("I was told: “not in this file”", "✗ Rejected by you: “not in this file”", "✗ rejected")
        assert "failed" not in person.history
    assert (directory / "notes.md").read_bytes() == before


@pytest.mark.thorough
async def test_after_always_the_user_is_not_asked_again(server: Server, directory: Path) -> None:
    async with attached(server, directory) as person:
        await person.prompts("one")
        await person.is_asked("w Accept all edits for this session")
        await person.presses("w")
        await person.reads("Finished")
        await person.prompts("two")
        await person.reads_times(2, "Finished")
        assert person.card is None
    assert (directory / "notes.md").read_text().endswith("> You said: one\n> You said: two\n")


@pytest.mark.thorough
async def test_a_question_with_choices_is_answered(server: Server, directory: Path) -> None:
    async with attached(server, directory) as person:
        await person.prompts("/ask")
        await person.is_asked("What should the drawbridge be painted with?")
        await person.presses("ctrl+s")
        await person.sees("Pick an option or type an answer for")
        await person.presses("down", "enter", "ctrl+s")
        await person.reads("Oak it is.")


@pytest.mark.slow
async def test_a_question_is_answered_with_free_text(server: Server, directory: Path) -> None:
    async with attached(server, directory) as person:
        await person.prompts("/ask")
        card = await person.is_asked("What should the drawbridge be painted with?")
        card.query_one(".own", Input).focus()
        await person.types("tar")
        await person.presses("enter")
        await person.reads("tar it is.")


@pytest.mark.slow
async def test_the_second_user_keeps_their_text_and_sees_who_was_first(server: Server, directory: Path) -> None:
    async with attached(server, directory, name="Ada") as ada, attached(server, directory, name="Bob") as bob:
        await ada.prompts("Something")
        await ada.is_asked("Something")
        card = await bob.is_asked("Something")
        await bob.presses("e", *"Bobs ")
        await ada.presses("a")
        await bob.sees("Ada accepted this first.", "Bobs")
        await bob.reads("✓ Accepted by Ada")
        assert "Bobs" in card.query_one(PlainTextArea).text
        await bob.presses("escape")
        await bob.loses("Bobs")
        await ada.reads("Finished")
    assert (directory / "notes.md").read_text().endswith("> You said: Something\n")
    assert "Bobs" not in (directory / "notes.md").read_text()


@pytest.mark.slow
async def test_another_client_with_the_same_name_is_distinguished(server: Server, directory: Path) -> None:
    async with attached(server, directory, name="Ada") as first, attached(server, directory, name="Ada") as second:
        await first.prompts("Something")
        await first.is_asked("Something")
        await second.is_asked("Something")
        await second.presses("e", *"Mine ")
        await first.presses("a")
        await second.sees("Another client (Ada) accepted this first.", "Another client (Ada) accepted the request.")
        await first.reads("Finished")
        assert "Another client" not in first.screen


@pytest.mark.thorough
async def test_only_one_of_two_simultaneous_answers_counts(server: Server, directory: Path) -> None:
    async with attached(server, directory, name="Ada") as ada, attached(server, directory, name="Bob") as bob:
        await ada.prompts("Something")
        await ada.is_asked("Something")
        card = await bob.is_asked("Something")
        await bob.presses("r")
        await bob.types("no")
        card.reject()  # both decisions are sent before either is confirmed
        ada_card = ada.card
        assert ada_card is not None
        ada_card.accept()
        await ada.reads("Finished")
        await bob.reads("Finished")
        accepted = "✓ Accepted by Ada" in bob.history
        assert accepted != ("✗ Rejected by you" in bob.history)
        if accepted:
            await bob.sees("Ada accepted this first.")
    assert ("Something" in (directory / "notes.md").read_text()) == accepted


async def test_a_key_meant_for_something_else_is_not_an_answer(
    server: Server, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(approval_view, "READING_SECONDS", 3600.0)
    before = (directory / "notes.md").read_bytes()
    async with attached(server, directory) as person:
        await person.types("are")
        await person.app.client.execute("Something")
        await person.waits_for(lambda: person.card is not None, "the question")
        await person.types(" we ")
        assert person.prompt.text == "are we "
        assert person.prompt.has_focus, "nobody took the keyboard from under their hands"
        await person.presses("escape", "a", "w", "e", "r")
        await person.sees("Needs you", "e Edit", "Read the request, then press the key again.")
        assert "Accepted" not in person.history
    assert (directory / "notes.md").read_bytes() == before


async def test_a_view_only_device_is_offered_no_answers(server: Server, directory: Path, tmp_path: Path) -> None:
    async with server.client() as owner:
        project = (await owner.ask("project_list"))["data"]["projects"][0]["id"]
        await owner.send("execute", {"prompt": "Something"}, project)
        await owner.receive("accepted")
        token = tmp_path / "token"
        token.write_text(await device_token(server, "view"))
        async with attached(server, directory, token_file=str(token)) as person:
            await person.waits_for(lambda: person.card is not None and "wants to edit" in person.screen, "the question")
            await person.presses("escape", "a", "s")
            assert "Accept" not in person.screen
            assert not person.prompt.display
            assert "Needs you" in person.screen
            assert "View only. Answer on another device." in person.screen
            assert "View only." in person.screen.splitlines()[-2]


async def device_token(server: Server, scope: str) -> str:
    """Creates a device's token, as the owner would. The device's name is unique, because tests share the server."""
    from tests.ide.processes import run

    name = f"{scope} {uuid.uuid4().hex[:8]}"
    code, output, errors = await run("token", "new", name, "--scope", scope, "--data-dir", server.data)
    assert code == 0, errors
    return next(word for word in output.split() if word.startswith("drawbridge_"))
