"""What the editor tells the model: the selection, mentioned lines, diagnostics."""

from __future__ import annotations

from .claude_rig import TOOL_DIALOG, YES
from .desk import Desk
from .messages_stub import text, tool_use

POEM = "one\ntwo\nthree\nfour\n"

COMPLAIN = """
local buffer = vim.fn.bufnr()
vim.diagnostic.set(vim.api.nvim_create_namespace('poetry'), buffer, {
  { lnum = 1, col = 0, end_lnum = 1, end_col = 3, severity = vim.diagnostic.severity.ERROR,
    message = 'This does not rhyme', source = 'critic', code = 'R1' },
})
"""


def test_sent_lines_are_typed_into_the_prompt(desk: Desk) -> None:
    poem = desk.file("poem.txt", POEM)
    neovim = desk.neovim(poem)
    claude = desk.claude(recorded_as=("mention", "Lines 2 and 3 sent with :2,3DrawbridgeSend."))

    neovim.command("2,3DrawbridgeSend")

    claude.pane.wait_for(r"@poem\.txt#L2-3")
    desk.model.will_say(text("I see."))
    claude.prompt("What about these?")
    claude.pane.wait_for("I see")
    assert "2\ttwo\n3\tthree" in desk.model.requests[-1].told


def test_lines_sent_before_the_cli_is_there_are_not_lost(desk: Desk) -> None:
    poem = desk.file("poem.txt", POEM)
    neovim = desk.neovim(poem)
    neovim.command("2,3DrawbridgeSend")

    claude = desk.claude()

    claude.pane.wait_for(r"@poem\.txt#L2-3")


def test_the_selection_is_in_the_next_request(desk: Desk) -> None:
    poem = desk.file("poem.txt", POEM)
    neovim = desk.neovim(poem)
    claude = desk.claude(recorded_as=("selection", "Lines 2 and 3 selected in visual mode, then a prompt."))
    claude.pane.wait_for(r"In poem\.txt")

    neovim.pane.type("2GVj")

    claude.pane.wait_for("2 lines selected")
    desk.model.will_say(text("I see."))
    claude.prompt("What is selected?")
    claude.pane.wait_for("I see")
    assert f"The user selected the lines 2 to 3 from {poem}:\ntwo\nthree" in desk.model.requests[-1].told


def test_diagnostics_answer_the_model_and_report_what_an_edit_broke(desk: Desk) -> None:
    poem = desk.file("poem.txt", POEM)
    neovim = desk.neovim(poem)
    claude = desk.claude(recorded_as=("diagnostics", "getDiagnostics by the model, and after an Edit by the CLI."))
    neovim.lua(COMPLAIN)
    desk.model.will_say(tool_use("mcp__ide__getDiagnostics", uri=poem.as_uri()), text("It does not rhyme."))

    claude.prompt("Is it any good?")
    claude.answer_dialog(TOOL_DIALOG, YES)

    claude.pane.wait_for("It does not rhyme")
    [answer] = desk.model.requests[-1].tool_results
    assert "This does not rhyme" in answer
    assert '"severity":"Error"' in answer.replace(" ", "")
