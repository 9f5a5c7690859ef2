"""How the guard responds to an edit of a file with unsaved changes, depending on the ``answer`` setting."""

from __future__ import annotations

import pytest

from tests.rigs.claude_rig import EDIT_DIALOG, YES
from tests.rigs.messages_stub import edit, read, text

from .test_claude_edits import MINE, NEW_POEM, POEM, SUCCESS, type_a_line
from .workstation import GuardedWorkstation, is_notified_in_one_line

SAVED = "just before this call: what was read earlier may be older"


@pytest.mark.thorough
def test_ask_has_claude_ask_in_its_own_dialog(rig: GuardedWorkstation) -> None:
    poem = rig.file("poem.txt", POEM)
    neovim = rig.nvim(poem)
    rig.set_up("claude", "--answer", "ask")
    type_a_line(neovim)
    claude = rig.unconnected_claude("--permission-mode", "acceptEdits")

    rig.model.will_say(read(poem), edit(poem, "two", "TWO"), text("So be it."))
    claude.prompt("Shout.")

    # Claude's dialog for edits does not show the reason (2.1.329), but the editor does.
    is_notified_in_one_line(neovim, r"Claude Code asks to change poem\.txt, which has unsaved changes")
    assert poem.read_text() == POEM
    claude.answer_dialog(EDIT_DIALOG, YES)
    claude.pane.wait_for("So be it")
    assert poem.read_text() == NEW_POEM
    assert neovim.buffer(poem) == MINE
    assert neovim.modified(poem)


@pytest.mark.thorough
def test_wait_holds_the_edit_until_the_user_saves(rig: GuardedWorkstation) -> None:
    poem = rig.file("poem.txt", POEM)
    neovim = rig.nvim(poem)
    rig.set_up("claude", "--answer", "wait", "--wait", "30")
    type_a_line(neovim)

    claude = rig.start_claude(read(poem), edit(poem, "two", "TWO"), text("It is done."))
    is_notified_in_one_line(neovim, r"Claude Code is waiting up to 30 s for you to save poem\.txt")
    assert poem.read_text() == POEM
    neovim.command("w")

    assert claude.wait_for_exit() == 0
    neovim.wait_for_buffer(poem, ["one", "TWO", "three", "mine"])
    assert SAVED in rig.model.requests[-1].new_text


@pytest.mark.slow
def test_wait_denies_what_was_not_saved_in_time(rig: GuardedWorkstation) -> None:
    poem = rig.file("poem.txt", POEM)
    neovim = rig.nvim(poem)
    rig.set_up("claude", "--answer", "wait", "--wait", "1")
    type_a_line(neovim)

    received = rig.ask_claude(read(poem), edit(poem, "two", "TWO"), text("Then not."))

    assert "The changes were not saved within 1 s." in received
    assert poem.read_text() == POEM


@pytest.mark.thorough
def test_save_saves_before_the_edit(rig: GuardedWorkstation) -> None:
    poem = rig.file("poem.txt", POEM)
    neovim = rig.nvim(poem)
    rig.set_up("claude", "--answer", "save")
    type_a_line(neovim)

    received = rig.ask_claude(read(poem), edit(poem, "two", "TWO"), text("It is done."))

    neovim.wait_for_buffer(poem, ["one", "TWO", "three", "mine"])
    assert SAVED in received


@pytest.mark.thorough
def test_merge_puts_the_change_into_the_unsaved_text(rig: GuardedWorkstation) -> None:
    poem = rig.file("poem.txt", POEM)
    neovim = rig.nvim(poem)
    rig.set_up("claude", "--answer", "merge")
    type_a_line(neovim)

    received = rig.ask_claude(read(poem), edit(poem, "one", "ONE"), text("It is done."))

    assert poem.read_text() == "ONE\ntwo\nthree\n"
    assert neovim.buffer(poem) == ["ONE", "two", "three", "mine"]
    assert neovim.modified(poem)
    assert "This change was merged into them in the editor" in received
    is_notified_in_one_line(neovim, r"Claude Code's change to poem\.txt was merged into yours: u undoes it")
    neovim.command("w")
    neovim.wait_for_buffer(poem, ["ONE", "two", "three", "mine"])
    assert "W12" not in neovim.pane.screen


@pytest.mark.thorough
def test_merge_does_not_touch_lines_that_both_changed(rig: GuardedWorkstation) -> None:
    poem = rig.file("poem.txt", POEM)
    neovim = rig.nvim(poem)
    rig.set_up("claude", "--answer", "merge")
    type_a_line(neovim)

    received = rig.ask_claude(read(poem), edit(poem, "three\n", "three\ntheirs\n"), text("It is done."))

    assert SUCCESS in received
    assert neovim.buffer(poem) == MINE
    assert "The change could not be merged: the user and the agent both changed line 4" in received
    assert "\n three\n-theirs\n+mine" in received
    is_notified_in_one_line(neovim, r"Claude Code.s change to poem\.txt can.t be merged; your text was not touched")
