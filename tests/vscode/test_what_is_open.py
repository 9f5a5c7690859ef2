"""What ``snapshot`` and ``buffer_status`` say of files that a person has open in a real VS Code."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from .desk import NOTEBOOK, Desk
from .rig import Lines, VSCode, wait_until

pytestmark = pytest.mark.thorough

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360606060000000050001"
    "a5f645400000000049454e44ae426082"
)


def told(modified: bool, current: bool, visible: bool) -> dict[str, bool]:
    return {"modified": modified, "current": current, "visible": visible}


def states(state: Any) -> dict[str, bool]:
    return {key: state[key] for key in ("modified", "current", "visible")}


def compare(desk: Desk, left: Path, right: Path) -> None:
    code = "await vscode.commands.executeCommand('vscode.diff', ...argument.map((path) => vscode.Uri.file(path)))"
    desk.window.run(code, [str(left), str(right)])
    wait_until(lambda: desk.state(right), "the diff")
    desk.does("workbench.action.compareEditor.focusPrimarySide")


def test_a_file_that_is_typed_into_is_current_and_modified_until_it_is_saved(desk: Desk) -> None:
    path = desk.opens(desk.file("a.py"))
    assert desk.state(path) == {"name": str(path), "lines": 3} | told(False, True, True)
    assert desk.ask("buffer_status", file_path=str(path)) == {"is_current": True, "has_unsaved_changes": False}
    desk.types("mine ")
    assert desk.state(path) == {"name": str(path), "lines": 3} | told(True, True, True)
    assert desk.ask("buffer_status", file_path=str(path)) == {"is_current": True, "has_unsaved_changes": True}
    desk.window.presses("Control+s")
    wait_until(lambda: not desk.state(path)["modified"], "the save")
    assert path.read_text() == "mine one\ntwo\nthree\n"


def test_a_file_that_is_not_open_is_neither(desk: Desk) -> None:
    path = desk.file("a.py")
    assert desk.state(path) is None
    assert desk.ask("buffer_status", file_path=str(path)) == {"is_current": False, "has_unsaved_changes": False}
    desk.opens(path)
    desk.does("workbench.action.closeActiveEditor")
    wait_until(lambda: desk.state(path) is None, "closed")


def test_a_modified_file_beside_or_behind_the_current_one_is_told_apart(desk: Desk) -> None:
    behind, beside, front = (desk.opens(desk.file(name)) for name in ("behind.py", "beside.py", "front.py"))
    desk.opens(beside, column=2)
    desk.opens(front)
    for path in (behind, beside):
        desk.inserts(path, "mine ")
    found = desk.snapshot(behind, beside, front, want=["unsaved"])
    assert [states(file) for file in found["files"]] == [
        told(True, False, False),
        told(True, False, True),
        told(False, True, True),
    ]
    assert {file["name"] for file in found["unsaved"]} == {str(behind), str(beside)}


def test_what_is_open_is_listed_with_the_folders_of_the_window(desk: Desk, vscode: VSCode) -> None:
    paths = [desk.opens(desk.file(name)) for name in ("a.py", "b.py")]
    found = desk.snapshot(want=["open", "connected"])
    assert sorted(found["open"]) == sorted(map(str, paths))
    assert found["folders"] == [str(vscode.directory / "one"), str(vscode.directory / "two")]
    assert found["connected"] == []
    assert found["editor"].startswith("code-server 1.")
    assert found["pid"] == desk.window.pid
    assert "unsaved" not in found
    assert "selection" not in found


def test_untitled_texts_are_no_files(desk: Desk) -> None:
    desk.does("workbench.action.files.newUntitledFile")
    desk.types("nothing that a file holds")
    found = desk.snapshot(want=["unsaved", "open"])
    assert (found["unsaved"], found["open"]) == ([], [])


def test_every_name_of_a_file_leads_to_it(desk: Desk) -> None:
    path = desk.file("real/a.py")
    (desk.folder / "link").symlink_to("real")
    (desk.folder / "other.py").symlink_to("real/a.py")
    os.link(path, desk.folder / "hard.py")
    desk.opens(desk.folder / "link" / "a.py")
    desk.types("mine ")
    names = ["real/a.py", "link/a.py", "other.py", "hard.py", "real/../link/./a.py"]
    for name in names:
        state = desk.state(f"{desk.folder}/{name}")
        assert state == {"name": str(path), "lines": 3} | told(True, True, True), name


def test_a_file_that_was_deleted_under_its_unsaved_changes_is_found_by_its_name(desk: Desk) -> None:
    (desk.folder / "link").symlink_to(".")
    path = desk.opens(desk.file("a.py"))
    desk.types("mine ")
    path.unlink()
    assert states(desk.state(desk.folder / "link" / "a.py")) == told(True, True, True)


def test_both_files_of_a_diff_are_current(desk: Desk) -> None:
    left, right = desk.file("left.py"), desk.file("right.py")
    compare(desk, left, right)
    desk.types("mine ")
    assert [states(file) for file in desk.snapshot(left, right)["files"]] == [
        told(False, True, True),
        told(True, True, True),
    ]


def test_a_file_in_a_diff_behind_and_as_text_in_front_is_one_file(desk: Desk) -> None:
    left, right = desk.file("left.py"), desk.file("right.py")
    compare(desk, left, right)
    desk.opens(right, column=2)
    desk.types("mine ")
    found = desk.snapshot(right, want=["unsaved", "open"])
    assert states(found["files"][0]) == told(True, True, True)
    assert [file["name"] for file in found["unsaved"]] == [str(right)]
    assert sorted(found["open"]) == [str(left), str(right)]


def test_a_notebook_counts(desk: Desk) -> None:
    path = desk.file("a.ipynb", NOTEBOOK)
    desk.opens_notebook(path)
    assert states(desk.state(path)) == told(False, True, True)
    desk.edits_notebook(path)
    assert desk.snapshot(want=["unsaved"])["unsaved"] == [{"name": str(path)} | told(True, True, True)]
    assert desk.ask("save_buffer", file_path=str(path)) == {"saved": True}
    assert "mineone" in path.read_text()
    assert not desk.state(path)["modified"]


def test_an_editor_of_another_kind_counts(desk: Desk) -> None:
    picture, canvas = desk.file("a.png", PNG), desk.file("a.canvas")
    for path in (picture, canvas):
        desk.opens_by_kind(path)
    assert states(desk.state(picture)) == told(False, False, False)
    assert states(desk.state(canvas)) == told(False, True, True)
    desk.draws(canvas)
    assert desk.ask("buffer_status", file_path=str(canvas)) == {"is_current": True, "has_unsaved_changes": True}
    assert desk.ask("save_buffer", file_path=str(canvas)) == {"saved": True}
    assert canvas.read_text() == "drawn"


def test_a_terminal_or_a_page_in_front_does_not_unguard_the_file_behind(desk: Desk) -> None:
    other, path = (desk.opens(desk.file(name)) for name in ("other.py", "a.py"))
    desk.types("mine ")
    desk.window.run("kept.panel = vscode.window.createWebviewPanel('agent', 'Agent', vscode.ViewColumn.Active)")
    wait_until(lambda: not desk.state(path)["visible"], "the page in front")
    assert states(desk.state(path)) == told(True, True, False)
    assert states(desk.state(other)) == told(False, False, False)
    desk.window.run("kept.panel.dispose()")


def test_two_folders_have_a_socket_each_and_both_know_the_whole_window(desk: Desk) -> None:
    path = desk.opens(desk.file("a.py"))
    desk.types("mine ")
    first, second = desk.window.sockets()
    answers = []
    for socket in (first, second):
        desk.socket = socket
        answers.append(desk.snapshot(path, want=["unsaved", "open"]))
    assert answers[0] == answers[1]
    assert states(answers[0]["files"][0]) == told(True, True, True)


def test_many_questions_at_once_are_all_answered(desk: Desk) -> None:
    path = desk.opens(desk.file("a.py"))
    connections = [Lines(desk.socket) for _ in range(20)]
    try:
        for number, lines in enumerate(connections):
            question = f'{{"id": {number}, "method": "snapshot", "params": {{"paths": ["{path}"]}}}}\n'
            lines.send(question.encode() * 3)
        for number, lines in enumerate(connections):
            answers = [lines.receive() for _ in range(3)]
            assert [(answer["id"], answer["result"]["files"][0]["name"]) for answer in answers] == [
                (number, str(path))
            ] * 3
    finally:
        for lines in connections:
            lines.close()


def test_a_file_outside_the_folders_counts(desk: Desk, vscode: VSCode) -> None:
    path = desk.opens(desk.file(str(vscode.directory / "outside" / "a.py")))
    desk.types("mine ")
    assert states(desk.state(path)) == told(True, True, True)
