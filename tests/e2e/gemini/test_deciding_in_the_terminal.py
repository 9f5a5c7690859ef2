"""The CLI's own dialog stays usable while Neovim shows the diff; whatever is decided there closes the view, nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.rigs.gemini_rig import EDIT_DIALOG, Gemini
from tests.rigs.gemini_stub import replace, text
from tests.rigs.neovim_rig import Neovim

from .desk import Desk

POEM = "one\ntwo\nthree\n"


def propose(desk: Desk, recorded_as: tuple[str, str]) -> tuple[Neovim, Gemini, dict[str, Any]]:
    """A proposal for poem.txt is shown in Neovim, beside two windows; with the layout of before."""
    poem = desk.file("poem.txt", POEM)
    neovim = desk.neovim(poem)
    neovim.command(f"split {desk.file('notes.txt', 'a note')}")
    neovim.pane.wait_for("a note")
    before = neovim.layout
    gemini = desk.gemini(recorded_as=recorded_as)
    desk.model.will_say(replace(poem, "two", "TWO"), text("It is done."))
    gemini.prompt("Shout the second line.")
    neovim.wait_for_proposal()
    gemini.pane.wait_for(EDIT_DIALOG)
    return neovim, gemini, before


@pytest.mark.thorough
def test_allow_once_writes_and_closes_the_view(desk: Desk) -> None:
    neovim, gemini, before = propose(desk, ("terminal-yes", "A replace, decided with Allow once in the CLI's dialog."))

    gemini.pane.press("1")

    gemini.pane.wait_for("It is done")
    neovim.wait_until_closed()
    assert neovim.layout == before
    assert (desk.project / "poem.txt").read_text() == "one\nTWO\nthree\n"
    neovim.wait_for_buffer(desk.project / "poem.txt", ["one", "TWO", "three"])


@pytest.mark.thorough
def test_allow_once_writes_what_the_person_made_of_the_proposal_in_neovim(desk: Desk) -> None:
    neovim, gemini, _ = propose(
        desk, ("terminal-yes-edited", "A replace, edited in Neovim, then Allow once in the CLI's dialog.")
    )
    neovim.command("2s/TWO/zwei/")
    neovim.pane.wait_for("zwei")

    gemini.pane.press("1")

    gemini.pane.wait_for("It is done")
    neovim.wait_until_closed()
    assert (desk.project / "poem.txt").read_text() == "one\nzwei\nthree\n"
    neovim.wait_for_buffer(desk.project / "poem.txt", ["one", "zwei", "three"])


@pytest.mark.thorough
def test_escape_closes_the_view_and_nothing_is_written(desk: Desk) -> None:
    neovim, gemini, before = propose(desk, ("terminal-no", "A replace, decided with Esc in the CLI's dialog."))

    gemini.pane.press("Escape")

    gemini.pane.wait_for("Request cancelled")
    neovim.wait_until_closed()
    assert neovim.layout == before
    assert (desk.project / "poem.txt").read_text() == POEM
    assert neovim.buffer(desk.project / "poem.txt") == ["one", "two", "three"]
