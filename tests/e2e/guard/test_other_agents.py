"""Gemini CLI and Codex, set up with the guard, want to change files that the user has open."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests import programs
from tests.rigs import gemini_rig, gemini_stub
from tests.rigs.gemini_rig import Gemini
from tests.rigs.gemini_stub import GeminiStub, replace
from tests.rigs.responses_stub import ResponsesStub, apply_patch, text
from tests.setup import headless

from .test_claude_edits import POEM, type_a_line
from .test_what_claude_is_told import SELECTED, select_two_lines
from .workstation import GuardedWorkstation, is_notified_in_one_line

PATCH = """\
*** Begin Patch
*** Update File: clean.txt
@@
-two
+TWO
*** Update File: poem.txt
@@
-two
+TWO
*** Add File: new.txt
+new
*** End Patch
"""


@pytest.mark.thorough
def test_a_gemini_edit_of_unsaved_work_is_denied_until_saved(rig: GuardedWorkstation, home: Path) -> None:
    poem = rig.file("poem.txt", POEM)
    neovim = rig.nvim(poem)
    headless.settings_of_gemini(home)
    rig.set_up("gemini")
    type_a_line(neovim)

    with GeminiStub() as model:
        model.will_say(replace(poem, "two", "TWO"), gemini_stub.text("Then not."))
        headless.gemini(model, rig.project)
    assert poem.read_text() == POEM
    [reason] = model.requests[1].tool_results
    assert f"{poem} has unsaved changes in Neovim" in reason
    assert "+mine" in reason
    is_notified_in_one_line(neovim, r"Gemini CLI can't change poem\.txt")

    neovim.save()
    with GeminiStub() as model:
        model.will_say(replace(poem, "two", "TWO"), gemini_stub.text("Done."))
        headless.gemini(model, rig.project)
    neovim.wait_for_buffer(poem, ["one", "TWO", "three", "mine"])


@pytest.mark.thorough
def test_a_prompt_to_gemini_includes_the_selection(rig: GuardedWorkstation, home: Path) -> None:
    poem = rig.file("poem.txt", POEM)
    neovim = rig.nvim(poem)
    headless.settings_of_gemini(home)
    rig.set_up("gemini")
    select_two_lines(neovim)

    with GeminiStub() as model:
        model.will_say(gemini_stub.text("I see."))
        headless.gemini(model, rig.project)

    assert f"{SELECTED} {poem}, lines 2-3:\n```text\ntwo\nthree\n```" in model.requests[0].new_text


@pytest.mark.thorough
def test_a_codex_patch_is_denied_if_any_file_has_unsaved_work(rig: GuardedWorkstation, home: Path) -> None:
    """None of the files in the patch is changed until the user has saved."""
    programs.codex()
    poem, clean = rig.file("poem.txt", POEM), rig.file("clean.txt", POEM)
    neovim = rig.nvim(poem, clean)
    rig.set_up("codex")
    type_a_line(neovim)

    with ResponsesStub(apply_patch(PATCH), text("Then not.")) as model:
        headless.codex(model, home, headless.TRUSTED)
    assert f"{poem} has unsaved changes in Neovim" in model.tool_results[0]
    assert (poem.read_text(), clean.read_text()) == (POEM, POEM)
    assert not (rig.project / "new.txt").exists()
    is_notified_in_one_line(neovim, r"Codex can't change poem\.txt")

    neovim.save()
    with ResponsesStub(apply_patch(PATCH), text("Done.")) as model:
        headless.codex(model, home, headless.TRUSTED)
    assert (rig.project / "new.txt").exists()
    neovim.wait_for_buffer(poem, ["one", "TWO", "three", "mine"])


@pytest.mark.slow
def test_gemini_connected_to_the_editor_gets_the_selection_once(rig: GuardedWorkstation) -> None:
    poem = rig.file("poem.txt", POEM)
    neovim = rig.nvim(poem, plugin=True)
    gemini_rig.prepare_home()
    rig.set_up("gemini")
    select_two_lines(neovim)

    with GeminiStub() as model:
        model.will_say(gemini_stub.text("I see."))
        environment = gemini_rig.environment(model)
        gemini = Gemini.start(rig.tmux, programs.gemini(), project=rig.project, environment=environment)
        gemini.wait_for_editor()
        gemini.prompt("Look at this.")
        request = model.wait_for_request(1)
        os.kill(gemini.pane.pid, signal.SIGKILL)

    assert request.editor is not None
    assert request.editor["activeFile"]["selectedText"] == "two\nthree"
    assert SELECTED not in request.new_text
