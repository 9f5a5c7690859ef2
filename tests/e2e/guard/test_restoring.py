"""``drawbridge hook --restore`` restores text that a reload replaced in an editor."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rigs.messages_stub import edit, read, text
from tests.rigs.neovim_rig import Neovim

from .test_claude_edits import NEW_POEM, POEM, type_a_line
from .workstation import GuardedWorkstation


@pytest.fixture
def poem(rig: GuardedWorkstation) -> Path:
    return rig.file("poem.txt", POEM)


@pytest.fixture
def neovim(rig: GuardedWorkstation, poem: Path) -> Neovim:
    """A Neovim that has reloaded the poem twice, after two edits by Claude."""
    neovim = rig.nvim(poem)
    rig.set_up()
    rig.ask_claude(read(poem), edit(poem, "two", "TWO"), edit(poem, "three", "3"), text("It is done."))
    neovim.wait_for_buffer(poem, ["one", "TWO", "3"])
    return neovim


@pytest.mark.slow
@pytest.mark.usefixtures("neovim")
def test_copies_are_listed_with_the_newest_first(rig: GuardedWorkstation, poem: Path) -> None:
    newest, oldest = rig.drawbridge("hook", "--restore").splitlines()
    assert newest.split()[0::5] == ["1", str(poem)]
    assert oldest.split()[0::5] == ["2", str(poem)]
    assert f"{len(POEM)} bytes" in oldest


@pytest.mark.thorough
def test_a_copy_chosen_by_number_is_restored_and_shown(rig: GuardedWorkstation, poem: Path, neovim: Neovim) -> None:
    output = rig.drawbridge("hook", "--restore", "2")

    assert output.startswith(f"{poem} was restored to its text from ")
    assert poem.read_text() == POEM
    neovim.wait_for_buffer(poem, ["one", "two", "three"])
    assert len(rig.drawbridge("hook", "--restore").splitlines()) > 2, "the replaced text is a copy, too"


@pytest.mark.slow
def test_the_newest_copy_of_a_file_is_restored(rig: GuardedWorkstation, poem: Path, neovim: Neovim) -> None:
    rig.drawbridge("hook", "--restore", "poem.txt")

    assert poem.read_text() == NEW_POEM
    neovim.wait_for_buffer(poem, ["one", "TWO", "three"])


@pytest.mark.thorough
def test_unsaved_changes_are_not_replaced(rig: GuardedWorkstation, poem: Path, neovim: Neovim) -> None:
    type_a_line(neovim)

    refused = rig.attempt("hook", "--restore", "2")

    assert refused.returncode == 2
    assert f"{poem} has unsaved changes in Neovim" in refused.stderr
    assert poem.read_text() == "one\nTWO\n3\n"
    assert neovim.buffer(poem) == ["one", "TWO", "3", "mine"]


def test_without_a_copy_nothing_is_restored(rig: GuardedWorkstation) -> None:
    assert "the guard has not replaced any text in an editor" in rig.drawbridge("hook", "--restore")
    refused = rig.attempt("hook", "--restore", "poem.txt")
    assert refused.returncode == 2
    assert "There is no copy of poem.txt. `drawbridge hook --restore` lists" in refused.stderr
