"""Claude Code runs a command that changes, or may change, files that the user has open."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import programs
from tests.rigs.claude_rig import TOOL_DIALOG, YES
from tests.rigs.messages_stub import Block, text, tool_use

from .test_claude_edits import MINE, POEM, type_a_line
from .workstation import GuardedWorkstation, is_notified_in_one_line

NO = "2"
"""The key for "No": this dialog has no "Yes, always"."""

ALLOWED = ("--allowedTools", "Bash")


def bash(command: str) -> Block:
    return tool_use("Bash", command=command, description="Runs")


@pytest.mark.slow_for("1-appended\\n")
@pytest.mark.thorough
@pytest.mark.parametrize(("answer", "expected"), [(YES, "appended\n"), (NO, "")])
def test_claude_asks_before_a_command_that_names_unsaved_work(
    rig: GuardedWorkstation, answer: str, expected: str
) -> None:
    """Claude Code's own dialog asks, even though its settings allow every command."""
    poem = rig.file("poem.txt", POEM)
    neovim = rig.nvim(poem)
    rig.set_up()
    type_a_line(neovim)
    rig.file(".claude-settings.json", '{"permissions": {"allow": ["Bash"]}}')
    claude = rig.unconnected_claude("--settings", ".claude-settings.json")

    rig.model.will_say(bash("echo appended >> poem.txt"), text("So be it."))
    claude.prompt("Append a line.")

    unsaved = r"poem\.txt\s+has\s+unsaved\s+changes\s+in\s+Neovim"
    claude.pane.wait_for(TOOL_DIALOG, unsaved, r"This\s+command\s+names\s+it")
    is_notified_in_one_line(neovim, r"Claude Code asks to run a command on poem\.txt \(unsaved\)")
    claude.answer_dialog(TOOL_DIALOG, answer)
    claude.pane.wait_for("So be it|Interrupted|did you want")
    assert poem.read_text() == POEM + expected
    assert neovim.buffer(poem) == MINE


def test_a_command_is_not_run_when_no_user_can_be_asked(rig: GuardedWorkstation) -> None:
    poem = rig.file("poem.txt", POEM)
    neovim = rig.nvim(poem)
    rig.set_up()
    type_a_line(neovim)

    received = rig.ask_claude(bash("cd / && sed -i s/two/TWO/ ~1/poem.txt"), text("Then not."), flags=ALLOWED)

    assert poem.read_text() == POEM
    assert "This command names it; nothing was run." in received


@pytest.mark.slow
def test_a_command_that_names_no_unsaved_file_is_not_delayed(rig: GuardedWorkstation) -> None:
    poem = rig.file("poem.txt", POEM)
    neovim = rig.nvim(poem)
    rig.set_up()
    type_a_line(neovim)

    rig.ask_claude(bash("echo x > other.txt"), text("It is done."), flags=ALLOWED)

    assert (rig.project / "other.txt").read_text() == "x\n"


@pytest.mark.parametrize("program", programs.each_nvim())
def test_changes_by_a_command_are_shown_or_reported(rig: GuardedWorkstation, program: Path) -> None:
    """The command does not name the files that it changes, and its failure at the end makes no difference."""
    poem, clean = rig.file("poem.txt", POEM), rig.file("clean.txt", "two\n")
    neovim = rig.nvim(poem, program=program)
    rig.set_up()
    type_a_line(neovim)
    neovim.command("set hidden noautoread | edit clean.txt")
    neovim.wait_for("return vim.fn.expand('%:t') == 'clean.txt'", what="did not go there")

    received = rig.ask_claude(bash("sed -i s/two/TWO/ *.txt; false"), text("It is done."), flags=ALLOWED)

    neovim.wait_for_buffer(clean, ["TWO"])
    assert neovim.buffer(poem) == MINE
    assert neovim.modified(poem)
    assert f"{poem} has changed on disk, but has unsaved changes in Neovim" in received
    # Claude Code also watches the open files, and may notice the change before the command has ended.
    is_notified_in_one_line(neovim, r"(Claude Code )?changed (poem\.txt )?on disk; your text was not touched")


@pytest.mark.thorough
def test_changes_by_a_running_command_are_reported_immediately(rig: GuardedWorkstation) -> None:
    poem = rig.file("poem.txt", POEM)
    neovim = rig.nvim(poem)
    rig.set_up()
    type_a_line(neovim)
    # The CLI begins to watch the file only after a while, and an earlier change is noticed only at the end.
    rig.file("write.sh", "for _ in $(seq 60); do echo three >> poem.txt; [ -e noticed ] && exit; sleep 1; done\n")
    pane = rig.start_claude(bash("sh write.sh"), text("It is done."), flags=ALLOWED)

    is_notified_in_one_line(neovim, r"poem\.txt changed on disk; your text was not touched")
    rig.file("noticed", "")

    assert pane.wait_for_exit() == 0
    received = "\n".join(request.new_text for request in rig.model.requests)
    assert f"{poem} has changed on disk, but has unsaved changes in Neovim" in received
