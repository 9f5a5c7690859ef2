"""What the model receives from the editor: the selection, lines that the user sends, and diagnostics."""

from __future__ import annotations

import json

import pytest

from tests.rigs.claude_rig import TOOL_DIALOG, YES
from tests.rigs.messages_stub import edit, read, text, tool_use

from .workstation import Workstation

POEM = "one\ntwo\nthree\nfour\n"

CRITIC = """
local space = vim.api.nvim_create_namespace('critic')
local function complain(row, message)
  vim.diagnostic.set(space, vim.fn.bufnr('poem.txt'), {
    { lnum = row, col = 0, end_lnum = row, end_col = 3, severity = vim.diagnostic.severity.ERROR,
      message = message, source = 'critic', code = 'R1' },
  })
end
complain(1, 'This does not rhyme')
vim.api.nvim_create_autocmd({ 'BufReadPost', 'FileChangedShellPost' }, { callback = function()
  complain(2, 'Now it is too loud')
end })
"""
"""A linter that reports one problem immediately, and replaces it with another when Neovim has reloaded a file."""


@pytest.mark.thorough
def test_sent_lines_are_typed_into_the_prompt(rig: Workstation) -> None:
    poem = rig.file("poem.txt", POEM)
    neovim = rig.neovim(poem)
    claude = rig.claude(recorded_as=("mention", "Lines 2 and 3 sent with :2,3DrawbridgeSend."))

    neovim.command("2,3DrawbridgeSend")

    claude.pane.wait_for(r"@poem\.txt#L2-3")
    rig.model.will_say(text("I see."))
    claude.prompt("What about these?")
    claude.pane.wait_for("I see")
    assert "2\ttwo\n3\tthree" in rig.model.requests[-1].new_text


@pytest.mark.slow
def test_lines_sent_before_the_cli_connects_are_not_lost(rig: Workstation) -> None:
    poem = rig.file("poem.txt", POEM)
    neovim = rig.neovim(poem)
    neovim.command("2,3DrawbridgeSend")

    claude = rig.claude()

    claude.pane.wait_for(r"@poem\.txt#L2-3")


@pytest.mark.thorough
def test_the_selection_is_in_the_next_request(rig: Workstation) -> None:
    poem = rig.file("poem.txt", POEM)
    neovim = rig.neovim(poem)
    claude = rig.claude(recorded_as=("selection", "Lines 2 and 3 selected in visual mode, then a prompt."))
    claude.pane.wait_for(r"In poem\.txt")

    neovim.pane.type("2GVj")

    claude.pane.wait_for("2 lines selected")
    rig.model.will_say(text("I see."))
    claude.prompt("What is selected?")
    claude.pane.wait_for("I see")
    assert f"The user selected the lines 2 to 3 from {poem}:\ntwo\nthree" in rig.model.requests[-1].new_text


@pytest.mark.thorough
def test_the_model_gets_the_diagnostics_it_asks_for(rig: Workstation) -> None:
    poem = rig.file("poem.txt", POEM)
    neovim = rig.neovim(poem)
    claude = rig.claude(recorded_as=("diagnostics", "The model calls getDiagnostics for one file."))
    neovim.lua(CRITIC)
    rig.model.will_say(tool_use("mcp__ide__getDiagnostics", uri=poem.as_uri()), text("It does not rhyme."))

    claude.prompt("Is it any good?")
    claude.answer_dialog(TOOL_DIALOG, YES)

    claude.pane.wait_for("It does not rhyme")
    [answer] = rig.model.requests[-1].tool_results
    assert json.loads(answer) == [
        {
            "uri": poem.as_uri(),
            "diagnostics": [
                {
                    "message": "This does not rhyme",
                    "severity": "Error",
                    "source": "critic",
                    "code": "R1",
                    "range": {"start": {"line": 1, "character": 0}, "end": {"line": 1, "character": 3}},
                }
            ],
        }
    ]


@pytest.mark.slow
def test_new_diagnostics_after_an_edit_are_in_a_later_request(rig: Workstation) -> None:
    poem = rig.file("poem.txt", POEM)
    neovim = rig.neovim(poem)
    claude = rig.claude(recorded_as=("new-diagnostics", "An Edit after which the editor has a new diagnostic."))
    neovim.lua(CRITIC)
    rig.model.will_say(read(poem), edit(poem, "three", "THREE"), text("It is done."))
    claude.prompt("Shout the third line.")
    neovim.wait_for_proposal()
    neovim.command("w")
    claude.pane.wait_for("It is done")
    neovim.wait_for_buffer(poem, ["one", "two", "THREE", "four"])

    rig.model.will_say(text("Oh."))
    claude.prompt("Well?")
    claude.pane.wait_for("Oh")

    received = "\n".join(request.new_text for request in rig.model.requests)
    assert "Now it is too loud" in received
    assert "This does not rhyme" not in received, "this problem is not new"
