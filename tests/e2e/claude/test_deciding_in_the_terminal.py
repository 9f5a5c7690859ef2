"""The CLI's own dialog stays usable while Neovim shows the diff. A decision there closes the view and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.rigs.claude_rig import EDIT_DIALOG, NO, YES, Claude
from tests.rigs.messages_stub import edit, read, text
from tests.rigs.neovim_rig import Neovim

from .workstation import Workstation

POEM = "one\ntwo\nthree\n"


def propose(rig: Workstation, recorded_as: tuple[str, str]) -> tuple[Neovim, Claude, dict[str, Any]]:
    """Shows a proposal for poem.txt in a Neovim with two windows. Returns Neovim, the CLI, and the previous layout."""
    poem = rig.file("poem.txt", POEM)
    neovim = rig.neovim(poem)
    neovim.command(f"split {rig.file('notes.txt', 'a note')}")
    neovim.pane.wait_for("a note")
    before = neovim.layout
    claude = rig.claude(recorded_as=recorded_as)
    rig.model.will_say(read(poem), edit(poem, "two", "TWO"), text("It is done."))
    claude.prompt("Shout the second line.")
    neovim.wait_for_proposal()
    claude.pane.wait_for("Opened changes in Neovim", EDIT_DIALOG)
    return neovim, claude, before


@pytest.mark.thorough
def test_yes_in_the_terminal_writes_and_closes_the_view(rig: Workstation) -> None:
    neovim, claude, before = propose(rig, ("terminal-yes", "An Edit, decided with Yes in the CLI's own dialog."))

    claude.answer_dialog(EDIT_DIALOG, YES)

    claude.pane.wait_for("It is done")
    neovim.wait_until_closed()
    assert neovim.layout == before
    assert (rig.project / "poem.txt").read_text() == "one\nTWO\nthree\n"
    neovim.wait_for_buffer(rig.project / "poem.txt", ["one", "TWO", "three"])


@pytest.mark.slow
def test_no_in_the_terminal_closes_the_view_and_writes_nothing(rig: Workstation) -> None:
    neovim, claude, before = propose(rig, ("terminal-no", "An Edit, decided with No in the CLI's own dialog."))

    claude.answer_dialog(EDIT_DIALOG, NO)

    claude.pane.wait_for("Rejected update to poem.txt")
    neovim.wait_until_closed()
    assert neovim.layout == before
    assert (rig.project / "poem.txt").read_text() == POEM
    assert neovim.buffer(rig.project / "poem.txt") == ["one", "two", "three"]
