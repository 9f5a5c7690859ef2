"""Claude Code wants to change files that the user has open, some of them with unsaved work."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests import programs
from tests.rigs.messages_stub import HOLD, edit, read, text, tool_use, write
from tests.rigs.neovim_rig import Neovim

from .workstation import STUCK, GuardedWorkstation, is_notified_in_one_line

POEM = "one\ntwo\nthree\n"
NEW_POEM = "one\nTWO\nthree\n"
MINE = ["one", "two", "three", "mine"]

KEPT = "Claude Code can't change poem.txt"
SUCCESS = "has been updated"

CELL = {"cell_type": "markdown", "id": "a1", "metadata": {}, "source": ["one"]}

VIEW = """
local view = vim.fn.winsaveview()
return { vim.fn.getline('.'), view.col, vim.fn.winline(), vim.fn.getline('w0'),
  vim.fn.getline(vim.fn.foldclosed(vim.fn.search('^line 20$', 'nw'))) }
"""
"""The user's position in the file, in terms of the text rather than of line numbers."""


@pytest.mark.parametrize(
    "plugin", [pytest.param(True, marks=pytest.mark.thorough), False], ids=["with-the-plugin", "without-it"]
)
@pytest.mark.parametrize("program", programs.each_nvim())
def test_an_edit_of_unsaved_work_is_denied_until_it_is_saved(
    rig: GuardedWorkstation, program: Path, plugin: bool
) -> None:
    poem = rig.file("poem.txt", POEM)
    neovim = rig.nvim(poem, program=program, plugin=plugin)
    rig.set_up()
    type_a_line(neovim)

    again = [HOLD, edit(poem, "two", "TWO")]
    claude = rig.start_claude(read(poem), edit(poem, "two", "TWO"), again, text("It is done."))
    [reason] = rig.model.wait_for_request(3).tool_results

    is_notified_in_one_line(neovim, KEPT)
    assert poem.read_text() == POEM
    assert neovim.buffer(poem) == MINE
    assert f"{poem} has unsaved changes in Neovim " in reason
    assert "where the user is working on it; the unsaved version has 4 lines." in reason
    assert "\n three\n+mine" in reason
    assert "Once they have saved poem.txt, the same call goes through" in reason

    neovim.save()
    rig.model.go_on()
    assert claude.wait_for_exit() == 0
    assert SUCCESS in rig.model.requests[-1].tool_results[0]
    neovim.wait_for_buffer(poem, ["one", "TWO", "three", "mine"])


@pytest.mark.thorough
@pytest.mark.parametrize("program", programs.each_nvim())
def test_an_edit_is_shown_and_the_users_view_stays_in_place(rig: GuardedWorkstation, program: Path) -> None:
    """One ``u`` reverts the edit in the buffer."""
    poem = rig.file("poem.txt", "".join(f"line {number}\n" for number in range(1, 301)))
    neovim = rig.nvim(poem, program=program)
    rig.set_up()
    neovim.command("20,30fold")
    neovim.pane.type("150Gzt5j3l")
    neovim.wait_for("return vim.fn.line('.') == 155", what="did not go there")
    before = neovim.lua(VIEW)

    rig.ask_claude(read(poem), edit(poem, "line 5\n", "line 5\nand\nmore\n"), text("It is done."))

    assert (neovim.buffer(poem) or [])[4:8] == ["line 5", "and", "more", "line 6"]
    assert not neovim.modified(poem)
    assert neovim.lua(VIEW) == before == ["line 155", 3, 6, "line 150", "line 20"]
    neovim.pane.type("u")
    neovim.wait_for("return vim.fn.getline(6) == 'line 6'", what="did not take it back with one u")


@pytest.mark.thorough
def test_a_new_file_is_not_written_if_it_is_an_unsaved_buffer(rig: GuardedWorkstation) -> None:
    poem = rig.project / "new.txt"
    neovim = rig.nvim(poem)
    rig.set_up()
    type_a_line(neovim)

    received = rig.ask_claude(write(poem, "by an agent\n"), text("Then not."))

    assert not poem.exists()
    assert f"{poem} has unsaved changes" in received
    assert "+mine" in received
    is_notified_in_one_line(neovim, "can't change new.txt")


@pytest.mark.slow
def test_a_new_file_below_a_linked_directory_is_not_written(rig: GuardedWorkstation) -> None:
    (rig.project / "real").mkdir()
    (rig.project / "link").symlink_to("real")
    neovim = rig.nvim(rig.project / "link" / "new.txt")
    rig.set_up()
    type_a_line(neovim)

    received = rig.ask_claude(write(rig.project / "real" / "new.txt", "by an agent\n"), text("Then not."))

    assert list((rig.project / "real").iterdir()) == []
    assert "has unsaved changes" in received


@pytest.mark.slow_for("gone/../poem.txt")
@pytest.mark.thorough
@pytest.mark.parametrize("path", ["link/../poem.txt", "gone/../poem.txt"])
def test_two_dots_in_a_path_are_resolved_as_claude_code_does(rig: GuardedWorkstation, path: str) -> None:
    """Claude Code removes the part before the dots, even if it is a link. The kernel would follow the link."""
    poem = rig.file("poem.txt", POEM)
    (rig.project / "other/sub").mkdir(parents=True)
    elsewhere = rig.file("other/poem.txt", POEM)
    (rig.project / "link").symlink_to("other/sub")
    neovim = rig.nvim(poem)
    rig.set_up()
    type_a_line(neovim)
    name = rig.project / path

    received = rig.ask_claude(read(name), edit(name, "two", "TWO"), text("Then not."))

    assert "has unsaved changes" in received
    assert (poem.read_text(), elsewhere.read_text()) == (POEM, POEM)


@pytest.mark.slow
def test_an_edit_of_an_unsaved_notebook_is_denied(rig: GuardedWorkstation) -> None:
    content = json.dumps({"cells": [CELL], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)
    notebook = rig.file("book.ipynb", content)
    neovim = rig.nvim(notebook)
    rig.set_up()
    type_a_line(neovim)

    change = tool_use("NotebookEdit", notebook_path=str(notebook), cell_id="a1", new_source="2", edit_mode="replace")
    received = rig.ask_claude(read(notebook), change, text("Then not."))

    assert notebook.read_text() == content
    assert f"{notebook} has unsaved changes" in received
    is_notified_in_one_line(neovim, "can't change book.ipynb")


@pytest.mark.parametrize("program", programs.each_nvim())
@pytest.mark.thorough
def test_an_edit_leaves_unsaved_work_in_another_window_alone(rig: GuardedWorkstation, program: Path) -> None:
    """The edit is written to disk, the buffer keeps its text, and both Claude Code and the user are notified."""
    poem, other = rig.file("poem.txt", POEM), rig.file("other.txt", "x\n")
    neovim = rig.nvim(poem, program=program)
    rig.set_up()
    type_a_line(neovim)
    neovim.command(f"set hidden | split {other}")

    received = rig.ask_claude(read(poem), edit(poem, "two", "TWO"), text("It is done."))

    assert poem.read_text() == NEW_POEM
    assert neovim.buffer(poem) == MINE
    assert neovim.modified(poem)
    assert f"{poem} is on disk as you wrote it, but has unsaved changes in Neovim" in received
    is_notified_in_one_line(neovim, r"Claude Code changed poem\.txt on disk; your text was not touched")
    assert "W12" not in neovim.pane.screen


@pytest.mark.slow
def test_a_policy_for_one_tool_protects_hidden_buffers(rig: GuardedWorkstation) -> None:
    poem, other = rig.file("poem.txt", POEM), rig.file("other.txt", "x\n")
    neovim = rig.nvim(poem)
    rig.set_up("claude", "--policy-for", "Write=any")
    type_a_line(neovim)
    neovim.command(f"set hidden | edit {other}")
    neovim.wait_for("return vim.fn.expand('%:t') == 'other.txt'", what="did not go there")

    received = rig.ask_claude(read(poem), write(poem, "all new\n"), edit(poem, "two", "TWO"), text("Done."))

    assert "where it is open" in received
    assert poem.read_text() == NEW_POEM
    assert neovim.buffer(poem) == MINE


@pytest.mark.slow
def test_an_edit_by_an_agent_in_a_subdirectory_is_denied(rig: GuardedWorkstation) -> None:
    poem = rig.file("poem.txt", POEM)
    below = rig.project / "deep" / "down"
    below.mkdir(parents=True)
    neovim = rig.nvim(poem)
    rig.set_up()
    type_a_line(neovim)

    allowed = ("--add-dir", str(rig.project))  # otherwise Claude Code itself would not allow the write
    received = rig.ask_claude(read(poem), edit(poem, "two", "TWO"), text("Then not."), flags=allowed, cwd=below)

    assert poem.read_text() == POEM
    assert "where the user is working on it; the unsaved version has 4 lines. Nothing was written." in received


@pytest.mark.thorough
def test_a_neovim_started_without_drawbridge_is_found(rig: GuardedWorkstation) -> None:
    """The guard finds the socket that Neovim itself created in the directory that ``--socket-dir`` names."""
    poem = rig.file("poem.txt", POEM)
    neovim = rig.plain_nvim(poem)
    rig.set_up("claude", "--socket-dir", os.environ["XDG_RUNTIME_DIR"])
    type_a_line(neovim)

    rig.ask_claude(read(poem), edit(poem, "two", "TWO"), text("Then not."))

    assert poem.read_text() == POEM
    is_notified_in_one_line(neovim, KEPT)


class TestTwoNeovimsInOneDirectory:
    """The rule applies to each Neovim separately, but both get the notice and are refreshed."""

    @pytest.mark.slow
    def test_an_edit_passes_if_the_unsaved_text_is_hidden_elsewhere(self, rig: GuardedWorkstation) -> None:
        """One Neovim shows the file unmodified, and the other has unsaved changes to it in a hidden buffer."""
        poem, other = rig.file("poem.txt", POEM), rig.file("other.txt", "x\n")
        first, second = rig.nvim(poem), rig.nvim(poem)
        rig.set_up()
        type_a_line(second)
        second.command(f"set hidden | edit {other}")
        second.wait_for("return vim.fn.expand('%:t') == 'other.txt'", what="did not go there")

        received = rig.ask_claude(read(poem), edit(poem, "two", "TWO"), text("It is done."))

        assert poem.read_text() == NEW_POEM
        first.wait_for_buffer(poem, ["one", "TWO", "three"])
        assert second.buffer(poem) == MINE
        assert received.count("which were not touched") == 1

    @pytest.mark.slow_for("behind-in-the-second")
    @pytest.mark.thorough
    @pytest.mark.parametrize("behind", [0, 1], ids=["behind-in-the-first", "behind-in-the-second"])
    def test_an_edit_is_denied_if_either_neovim_works_on_the_file(self, rig: GuardedWorkstation, behind: int) -> None:
        """Both have unsaved changes to the file, but in one of them it is in a hidden buffer."""
        poem, other = rig.file("poem.txt", POEM), rig.file("other.txt", "x\n")
        both = [rig.nvim(poem), rig.nvim(poem)]
        rig.set_up()
        for neovim in both:
            type_a_line(neovim)
        both[behind].command(f"set hidden | edit {other}")
        both[behind].wait_for("return vim.fn.expand('%:t') == 'other.txt'", what="did not go there")

        rig.ask_claude(read(poem), edit(poem, "two", "TWO"), text("Then not."))

        assert poem.read_text() == POEM
        for neovim in both:
            is_notified_in_one_line(neovim, KEPT)

    @pytest.mark.slow
    def test_an_edit_is_shown_in_both(self, rig: GuardedWorkstation) -> None:
        poem = rig.file("poem.txt", POEM)
        both = [rig.nvim(poem), rig.nvim(poem)]
        rig.set_up()

        rig.ask_claude(read(poem), edit(poem, "two", "TWO"), text("It is done."))

        for neovim in both:
            neovim.wait_for_buffer(poem, ["one", "TWO", "three"])


def type_a_line(neovim: Neovim) -> None:
    """Types a line, as the user would, without saving."""
    neovim.pane.type("Gomine")
    neovim.pane.press("Escape")
    neovim.wait_for("return vim.bo.modified", what="was not typed into")
    assert STUCK not in neovim.pane.screen
