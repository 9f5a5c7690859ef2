"""Claude proposes a change, the user decides in Neovim, and the CLI does exactly that. All programs are real."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import programs
from tests.rigs.messages_stub import HOLD, edit, read, text, write

from .workstation import Workstation

POEM = "one\ntwo\nthree\n"


@pytest.mark.thorough
@pytest.mark.parametrize("program", programs.each_nvim())
def test_w_accepts_the_proposal_unchanged(rig: Workstation, program: Path) -> None:
    poem = rig.file("poem.txt", POEM)
    neovim = rig.neovim(poem, program=program)
    claude = rig.claude(recorded_as=("accept", "An Edit, accepted as it is with :w in Neovim."))
    before = neovim.layout
    rig.model.will_say(read(poem), edit(poem, "two", "TWO"), text("It is done."))
    claude.prompt("Shout the second line.")
    neovim.wait_for_proposal()
    neovim.pane.wait_for("two", "TWO")
    assert poem.read_text() == POEM, "nothing is written before the user has decided"

    neovim.command("w")

    claude.pane.wait_for("It is done")
    assert poem.read_bytes() == b"one\nTWO\nthree\n"
    [result] = rig.model.requests[-1].tool_results
    assert "has been updated successfully" in result
    assert "user modified" not in result
    neovim.wait_until_closed()
    neovim.wait_for_buffer(poem, ["one", "TWO", "three"])
    assert neovim.layout == before


def test_the_cli_writes_the_edited_line(rig: Workstation) -> None:
    poem = rig.file("poem.txt", POEM)
    neovim = rig.neovim(poem)
    claude = rig.claude(recorded_as=("accept-edited", "An Edit, accepted with :w after the person changed a line."))
    rig.model.will_say(read(poem), edit(poem, "two", "TWO"), text("It is done."))
    claude.prompt("Shout the second line.")
    neovim.wait_for_proposal()

    neovim.command("2s/TWO/zwei/")
    neovim.pane.wait_for("zwei")
    neovim.command("w")

    claude.pane.wait_for("It is done")
    assert poem.read_bytes() == b"one\nzwei\nthree\n"
    assert "user modified your proposed changes" in rig.model.requests[-1].new_text
    neovim.wait_for_buffer(poem, ["one", "zwei", "three"])


@pytest.mark.thorough
def test_a_proposal_opens_even_if_a_prompt_is_half_typed(rig: Workstation) -> None:
    """The CLI's dialog replaces the prompt box without showing the change, which a stray Enter would accept."""
    poem = rig.file("poem.txt", POEM)
    command = f"{{ '{programs.claude()}', '--permission-mode', 'default' }}"
    neovim = rig.neovim(poem, options=f"{{ terminal = {{ command = {command}, size = 60 }} }}")
    rig.model.will_say(read(poem), [HOLD, edit(poem, "two", "TWO")], text("It is done."))
    neovim.command("DrawbridgeClaude")
    neovim.pane.wait_for("❯", "⧉")
    neovim.pane.type("Shout the second line.")
    neovim.pane.wait_for("Shout the second line")
    neovim.pane.press("Enter")
    rig.model.wait_for_request(2)
    neovim.pane.type("Then whisper")
    neovim.pane.wait_for("Then whisper")

    rig.model.go_on()
    neovim.wait_for_proposal()

    neovim.pane.wait_for("two", "TWO")
    assert poem.read_text() == POEM
    neovim.command("w")
    neovim.pane.wait_for("It is done")
    assert poem.read_text() == POEM.replace("two", "TWO")
    neovim.pane.wait_for("Then whisper")


@pytest.mark.slow_for("q-close", "tabclose-close-tab")
@pytest.mark.thorough
@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("DrawbridgeReject", "reject"),
        *(pytest.param(*each, marks=pytest.mark.thorough) for each in [("q", "close"), ("tabclose", "close-tab")]),
    ],
)
def test_a_refused_proposal_is_not_written(rig: Workstation, words: str, name: str) -> None:
    poem = rig.file("poem.txt", POEM)
    neovim = rig.neovim(poem)
    claude = rig.claude(recorded_as=(name, f"An Edit, rejected with :{words} in Neovim."))
    before = neovim.layout
    rig.model.will_say(read(poem), edit(poem, "two", "TWO"), text("I leave it."))
    claude.prompt("Shout the second line.")
    neovim.wait_for_proposal()

    neovim.command(words)

    claude.pane.wait_for("Rejected update to poem.txt")
    assert poem.read_text() == POEM
    neovim.wait_until_closed()
    assert neovim.layout == before
    assert neovim.buffer(poem) == ["one", "two", "three"]
    claude.prompt("Why not?")
    claude.pane.wait_for("I leave it")
    assert "The user doesn't want to proceed with this tool use" in rig.model.requests[-1].new_text


@pytest.mark.slow
def test_a_new_file_is_shown_and_written(rig: Workstation) -> None:
    song = rig.project / "song.txt"
    neovim = rig.neovim(rig.file("poem.txt", POEM))
    claude = rig.claude(recorded_as=("new-file", "A Write of a file that did not exist, accepted with :w."))
    rig.model.will_say(write(song, "la\nla la\n"), text("It is sung."))
    claude.prompt("Write a song.")
    neovim.wait_for_proposal()
    neovim.pane.wait_for("la la")
    assert not song.exists()

    neovim.command("w")

    claude.pane.wait_for("It is sung")
    assert song.read_bytes() == b"la\nla la\n"


@pytest.mark.slow
def test_two_edits_are_proposed_in_turn(rig: Workstation) -> None:
    poem = rig.file("poem.txt", POEM)
    neovim = rig.neovim(poem)
    claude = rig.claude(recorded_as=("two-edits", "Two Edits in one answer: the first accepted, the second rejected."))
    rig.model.will_say(read(poem), [edit(poem, "one", "ONE"), edit(poem, "three", "THREE")])
    claude.prompt("Shout the outer lines.")

    neovim.wait_for_proposal(1)
    neovim.command("w")
    neovim.wait_for_proposal(2)
    neovim.pane.wait_for("THREE")
    assert poem.read_text() == "ONE\ntwo\nthree\n", "the first one is written before the second one is shown"
    neovim.command("DrawbridgeReject")

    claude.pane.wait_for("Rejected update")
    neovim.wait_until_closed(2)
    assert poem.read_text() == "ONE\ntwo\nthree\n"


@pytest.mark.thorough
def test_a_write_without_asking_is_shown(rig: Workstation) -> None:
    """In a mode of the CLI that does not ask, the file is reloaded, and Neovim shows why no diff opened."""
    poem = rig.file("poem.txt", POEM)
    neovim = rig.neovim(poem)
    claude = rig.claude()
    claude.pane.press("BTab")
    claude.pane.wait_for("accept edits on")
    rig.model.will_say(read(poem), edit(poem, "two", "TWO"), text("It is done."))
    claude.prompt("Shout the second line.")

    neovim.pane.wait_for(r"Claude Code wrote poem\.txt without asking")
    neovim.wait_for_buffer(poem, ["one", "TWO", "three"])
    neovim.command("DrawbridgeStatus")
    neovim.pane.wait_for(r"asks +no: Claude Code wrote a file without asking")
    assert "(not asking)" in neovim.lua("return require('drawbridge').statusline()")
