"""The CLI's own dialog stays usable while Neovim shows the diff. A decision there closes the view and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.rigs.gemini_rig import EDIT_DIALOG, Gemini
from tests.rigs.gemini_stub import replace, text
from tests.rigs.neovim_rig import Neovim

from .workstation import Workstation

POEM = "one\ntwo\nthree\n"


def propose(rig: Workstation, recorded_as: tuple[str, str]) -> tuple[Neovim, Gemini, dict[str, Any]]:
    """Shows a proposal for poem.txt in a Neovim with two windows. Returns Neovim, the CLI, and the previous layout."""
    poem = rig.file("poem.txt", POEM)
    neovim = rig.neovim(poem)
    neovim.command(f"split {rig.file('notes.txt', 'a note')}")
    neovim.pane.wait_for("a note")
    before = neovim.layout
    gemini = rig.gemini(recorded_as=recorded_as)
    rig.model.will_say(replace(poem, "two", "TWO"), text("It is done."))
    gemini.prompt("Shout the second line.")
    neovim.wait_for_proposal()
    gemini.pane.wait_for(EDIT_DIALOG)
    return neovim, gemini, before


@pytest.mark.slow
def test_allow_once_writes_and_closes_the_view(rig: Workstation) -> None:
    neovim, gemini, before = propose(rig, ("terminal-yes", "A replace, decided with Allow once in the CLI's dialog."))

    gemini.pane.press("1")

    gemini.pane.wait_for("It is done")
    neovim.wait_until_closed()
    assert neovim.layout == before
    assert (rig.project / "poem.txt").read_text() == "one\nTWO\nthree\n"
    neovim.wait_for_buffer(rig.project / "poem.txt", ["one", "TWO", "three"])


@pytest.mark.thorough
def test_allow_once_writes_the_proposal_as_edited_in_neovim(rig: Workstation) -> None:
    neovim, gemini, _ = propose(
        rig, ("terminal-yes-edited", "A replace, edited in Neovim, then Allow once in the CLI's dialog.")
    )
    neovim.command("2s/TWO/zwei/")
    neovim.pane.wait_for("zwei")

    gemini.pane.press("1")

    gemini.pane.wait_for("It is done")
    neovim.wait_until_closed()
    assert (rig.project / "poem.txt").read_text() == "one\nzwei\nthree\n"
    neovim.wait_for_buffer(rig.project / "poem.txt", ["one", "zwei", "three"])


@pytest.mark.slow
def test_escape_closes_the_view_and_nothing_is_written(rig: Workstation) -> None:
    neovim, gemini, before = propose(rig, ("terminal-no", "A replace, decided with Esc in the CLI's dialog."))

    gemini.pane.press("Escape")

    gemini.pane.wait_for("Request cancelled")
    neovim.wait_until_closed()
    assert neovim.layout == before
    assert (rig.project / "poem.txt").read_text() == POEM
    assert neovim.buffer(rig.project / "poem.txt") == ["one", "two", "three"]
