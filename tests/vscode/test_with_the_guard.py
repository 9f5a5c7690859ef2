"""The whole way: an agent's hook call, ``drawbridge hook``, and a person in a real VS Code (whose window has two sockets)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import PATIENCE

from .desk import NOTEBOOK, Desk
from .rig import wait_until

pytestmark = pytest.mark.thorough


def hook(desk: Desk, event: str, tool: str, *flags: str, **tool_input: Any) -> Any:
    """What ``drawbridge hook`` answers Claude Code."""
    call: dict[str, Any] = {
        "session_id": "s",
        "transcript_path": "/t",
        "cwd": str(desk.folder),
        "hook_event_name": event,
    }
    call |= {"tool_name": tool, "tool_input": tool_input, "tool_use_id": "t1", "prompt": "hello"}

    command = [sys.executable, "-m", "drawbridge", "hook", "--socket-dir", str(desk.socket.parent), *flags]
    done = subprocess.run(command, input=json.dumps(call), capture_output=True, text=True, timeout=PATIENCE, check=True)
    return json.loads(done.stdout)


def edits(desk: Desk, event: str, path: Path, *flags: str) -> Any:
    return hook(desk, event, "Edit", *flags, file_path=str(path), old_string="three", new_string="3")


def context(answer: Any) -> str:
    text: str = answer["hookSpecificOutput"]["additionalContext"]
    return text


def test_an_edit_of_unsaved_work_is_denied_until_it_is_saved(desk: Desk) -> None:
    path = desk.opens(desk.file("a.py"))
    desk.types("mine ")
    denied = edits(desk, "PreToolUse", path)["hookSpecificOutput"]
    assert denied["permissionDecision"] == "deny"
    reason = denied["permissionDecisionReason"]
    assert f"{path} has unsaved changes in code-server 1." in reason
    assert "+mine one" in reason
    wait_until(desk.notices, "the notice")
    assert [notice.count("kept from changing a.py") for notice in desk.notices()] == [1]
    desk.ask("save_buffer", file_path=str(path))
    assert edits(desk, "PreToolUse", path) == {}


@pytest.mark.thorough
def test_a_notebook_is_kept_until_it_is_saved(desk: Desk) -> None:
    """Where changes are merged too: there is no text of it that they could go into."""
    path = desk.file("a.ipynb", NOTEBOOK)
    desk.opens_notebook(path)
    desk.edits_notebook(path)
    for flags in ((), ("--answer", "merge")):
        denied = hook(desk, "PreToolUse", "NotebookEdit", *flags, notebook_path=str(path))["hookSpecificOutput"]
        assert denied["permissionDecision"] == "deny"
        assert f"{path} has unsaved changes in code-server 1." in denied["permissionDecisionReason"]
    assert path.read_text() == NOTEBOOK
    desk.ask("save_buffer", file_path=str(path))
    assert hook(desk, "PreToolUse", "NotebookEdit", notebook_path=str(path)) == {}


def test_after_an_edit_the_file_shows_it_and_a_copy_is_kept(desk: Desk, home: Path) -> None:
    path = desk.opens(desk.file("a.py"))
    assert edits(desk, "PreToolUse", path) == {}
    path.write_text("one\ntwo\n3\n")
    assert edits(desk, "PostToolUse", path) == {}
    assert desk.text(path) == "one\ntwo\n3\n"
    copies = [file for file in home.rglob("copies/*/**/a.py") if file.is_file()]
    assert [file.read_text() for file in copies] == ["one\ntwo\nthree\n"]


def test_unsaved_work_and_an_edit_are_merged(desk: Desk) -> None:
    path = desk.opens(desk.file("a.py"))
    desk.types("mine ")
    assert edits(desk, "PreToolUse", path, "--answer", "merge") == {}
    path.write_text("one\ntwo\n3\n")
    told = context(edits(desk, "PostToolUse", path, "--answer", "merge"))
    assert "This change was merged into them there" in told
    assert desk.document(path) == {"text": "mine one\ntwo\n3\n", "dirty": True}
    desk.window.presses("Control+s")
    wait_until(lambda: path.read_text() == "mine one\ntwo\n3\n", "the save")


def test_what_a_command_wrote_is_noticed(desk: Desk) -> None:
    clean, modified = desk.opens(desk.file("clean.py")), desk.opens(desk.file("modified.py"))
    desk.types("mine ")
    clean.write_text("theirs\n")
    modified.write_text("theirs\n")
    told = context(hook(desk, "PostToolUse", "Bash", command="make"))
    assert told.count(f"{modified} has changed on disk, but has unsaved changes in VS Code") == 1
    assert desk.text(clean) == "theirs\n"
    assert desk.document(modified) == {"text": "mine one\ntwo\nthree\n", "dirty": True}


def test_a_prompt_carries_the_selection_once(desk: Desk) -> None:
    desk.opens(desk.file("a.py"))
    desk.does("editor.action.selectAll")
    wait_until(lambda: desk.ask("get_visual_selection"), "the selection")
    told = context(hook(desk, "UserPromptSubmit", ""))
    assert told.count("one\ntwo\nthree") == 1
    assert hook(desk, "UserPromptSubmit", "") == {}
