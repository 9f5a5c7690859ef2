"""End to end: an agent's hook call, ``drawbridge hook``, and a user in a real VS Code (whose window has two sockets)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import PATIENCE

from .rig import wait_until
from .workstation import NOTEBOOK, Workstation

pytestmark = pytest.mark.thorough


def hook(rig: Workstation, event: str, tool: str, *flags: str, **tool_input: Any) -> Any:
    """Runs ``drawbridge hook`` as Claude Code does, and returns its answer."""
    call: dict[str, Any] = {
        "session_id": "s",
        "transcript_path": "/t",
        "cwd": str(rig.folder),
        "hook_event_name": event,
    }
    call |= {"tool_name": tool, "tool_input": tool_input, "tool_use_id": "t1", "prompt": "hello"}

    command = [sys.executable, "-m", "drawbridge", "hook", "--socket-dir", str(rig.socket.parent), *flags]
    done = subprocess.run(command, input=json.dumps(call), capture_output=True, text=True, timeout=PATIENCE, check=True)
    return json.loads(done.stdout)


def edits(rig: Workstation, event: str, path: Path, *flags: str) -> Any:
    return hook(rig, event, "Edit", *flags, file_path=str(path), old_string="three", new_string="3")


def context(answer: Any) -> str:
    text: str = answer["hookSpecificOutput"]["additionalContext"]
    return text


def test_an_edit_of_unsaved_work_is_denied_until_it_is_saved(rig: Workstation) -> None:
    path = rig.opens(rig.file("a.py"))
    rig.types("mine ")
    denied = edits(rig, "PreToolUse", path)["hookSpecificOutput"]
    assert denied["permissionDecision"] == "deny"
    reason = denied["permissionDecisionReason"]
    assert f"{path} has unsaved changes in code-server 1." in reason
    assert "+mine one" in reason
    wait_until(rig.notices, "the notice")
    assert [notice.count("can't change a.py") for notice in rig.notices()] == [1]
    rig.ask("save_buffer", file_path=str(path))
    assert edits(rig, "PreToolUse", path) == {}


@pytest.mark.thorough
def test_a_notebook_is_kept_until_it_is_saved(rig: Workstation) -> None:
    """This is true even if changes are merged, because a notebook has no text into which they could be merged."""
    path = rig.file("a.ipynb", NOTEBOOK)
    rig.opens_notebook(path)
    rig.edits_notebook(path)
    for flags in ((), ("--answer", "merge")):
        denied = hook(rig, "PreToolUse", "NotebookEdit", *flags, notebook_path=str(path))["hookSpecificOutput"]
        assert denied["permissionDecision"] == "deny"
        assert f"{path} has unsaved changes in code-server 1." in denied["permissionDecisionReason"]
    assert path.read_text() == NOTEBOOK
    rig.ask("save_buffer", file_path=str(path))
    assert hook(rig, "PreToolUse", "NotebookEdit", notebook_path=str(path)) == {}


def test_after_an_edit_the_editor_shows_it_and_a_copy_is_kept(rig: Workstation, home: Path) -> None:
    path = rig.opens(rig.file("a.py"))
    assert edits(rig, "PreToolUse", path) == {}
    path.write_text("one\ntwo\n3\n")
    assert edits(rig, "PostToolUse", path) == {}
    assert rig.text(path) == "one\ntwo\n3\n"
    copies = [file for file in home.rglob("copies/*/**/a.py") if file.is_file()]
    assert [file.read_text() for file in copies] == ["one\ntwo\nthree\n"]


def test_unsaved_changes_and_an_edit_are_merged(rig: Workstation) -> None:
    path = rig.opens(rig.file("a.py"))
    rig.types("mine ")
    assert edits(rig, "PreToolUse", path, "--answer", "merge") == {}
    path.write_text("one\ntwo\n3\n")
    added = context(edits(rig, "PostToolUse", path, "--answer", "merge"))
    assert "This change was merged into them in the editor" in added
    assert rig.document(path) == {"text": "mine one\ntwo\n3\n", "dirty": True}
    rig.window.presses("Control+s")
    wait_until(lambda: path.read_text() == "mine one\ntwo\n3\n", "the save")


def test_changes_by_a_command_are_noticed(rig: Workstation) -> None:
    clean, modified = rig.opens(rig.file("clean.py")), rig.opens(rig.file("modified.py"))
    rig.types("mine ")
    clean.write_text("theirs\n")
    modified.write_text("theirs\n")
    added = context(hook(rig, "PostToolUse", "Bash", command="make"))
    assert added.count(f"{modified} has changed on disk, but has unsaved changes in VS Code") == 1
    assert rig.text(clean) == "theirs\n"
    assert rig.document(modified) == {"text": "mine one\ntwo\nthree\n", "dirty": True}


def test_a_prompt_carries_the_selection_once(rig: Workstation) -> None:
    rig.opens(rig.file("a.py"))
    rig.does("editor.action.selectAll")
    wait_until(lambda: rig.ask("get_visual_selection"), "the selection")
    added = context(hook(rig, "UserPromptSubmit", ""))
    assert added.count("one\ntwo\nthree") == 1
    assert hook(rig, "UserPromptSubmit", "") == {}
