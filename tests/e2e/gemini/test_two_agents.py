"""Claude Code and Gemini CLI share one bridge, and each gets the decision about its own proposal."""

from __future__ import annotations

import pytest

from tests.rigs import messages_stub
from tests.rigs.gemini_rig import EDIT_DIALOG
from tests.rigs.gemini_stub import replace, text, write_file

from .workstation import Workstation

POEM = "one\ntwo\nthree\n"


@pytest.mark.slow
def test_two_agents_propose_changes_to_two_files(rig: Workstation) -> None:
    poem = rig.file("poem.txt", POEM)
    song = rig.file("song.txt", POEM)
    neovim = rig.neovim(poem, song)
    claude = rig.claude()
    gemini = rig.gemini()
    rig.claude_model.will_say(
        messages_stub.read(poem), messages_stub.edit(poem, "two", "TWO"), messages_stub.text("The poem is done.")
    )
    rig.model.will_say(replace(song, "three", "THREE"), text("The song is done."))

    claude.prompt("Shout the second line.")
    neovim.wait_for_proposal(1)
    gemini.prompt("Shout the third line.")
    neovim.pane.wait_for("Gemini CLI proposes a change to song.txt")
    neovim.command("DrawbridgeReview")
    neovim.wait_for_proposal(2)
    assert (poem.read_text(), song.read_text()) == (POEM, POEM)
    neovim.pane.wait_for("THREE")
    neovim.command("w")

    gemini.pane.wait_for("The song is done")
    assert (poem.read_text(), song.read_text()) == (POEM, "one\ntwo\nTHREE\n")
    neovim.pane.wait_for("TWO")
    neovim.command("w")
    claude.pane.wait_for("The poem is done")
    assert (poem.read_text(), song.read_text()) == ("one\nTWO\nthree\n", "one\ntwo\nTHREE\n")


@pytest.mark.slow_for("write_file")
@pytest.mark.thorough
@pytest.mark.parametrize("tool", ["replace", "write_file"])
def test_a_second_agents_proposal_waits_and_has_both_changes(rig: Workstation, tool: str) -> None:
    poem = rig.file("poem.txt", POEM)
    neovim = rig.neovim(poem)
    claude = rig.claude()
    gemini = rig.gemini()
    rig.claude_model.will_say(
        messages_stub.read(poem), messages_stub.edit(poem, "one", "ONE"), messages_stub.text("The first is done.")
    )
    change = replace(poem, "three", "THREE") if tool == "replace" else write_file(poem, "one\ntwo\nTHREE\n")
    rig.model.will_say(change, text("The third is done."))

    claude.prompt("Shout the first line.")
    neovim.wait_for_proposal(1)
    gemini.prompt("Shout the third line.")
    gemini.pane.wait_for(EDIT_DIALOG)
    neovim.command("w")
    claude.pane.wait_for("The first is done")
    assert poem.read_text() == "ONE\ntwo\nthree\n"

    neovim.wait_for_proposal(2)
    neovim.pane.wait_for("ONE", "THREE")
    neovim.command("w")
    gemini.pane.wait_for("The third is done")
    assert poem.read_text() == "ONE\ntwo\nTHREE\n"
