"""Claude and Gemini at one bridge, each with its proposal, each with its own answer."""

from __future__ import annotations

from tests.e2e import messages_stub

from .desk import Desk
from .gemini_stub import replace, text

POEM = "one\ntwo\nthree\n"


def test_each_has_a_proposal_for_a_file_of_its_own(desk: Desk) -> None:
    poem = desk.file("poem.txt", POEM)
    song = desk.file("song.txt", POEM)
    neovim = desk.neovim(poem, song)
    claude = desk.claude()
    gemini = desk.gemini()
    desk.claude_model.will_say(
        messages_stub.read(poem), messages_stub.edit(poem, "two", "TWO"), messages_stub.text("The poem is done.")
    )
    desk.model.will_say(replace(song, "three", "THREE"), text("The song is done."))

    claude.prompt("Shout the second line.")
    neovim.wait_for_proposal(1)
    gemini.prompt("Shout the third line.")
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
