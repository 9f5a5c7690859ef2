"""What ``snapshot`` and ``buffer_status`` return for files that the user has open in a real VS Code."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from .rig import Lines, VSCode, wait_until
from .workstation import NOTEBOOK, Workstation

pytestmark = pytest.mark.thorough

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360606060000000050001"
    "a5f645400000000049454e44ae426082"
)


def flags(modified: bool, current: bool, visible: bool) -> dict[str, bool]:
    return {"modified": modified, "current": current, "visible": visible}


def states(state: Any) -> dict[str, bool]:
    return {key: state[key] for key in ("modified", "current", "visible")}


def compare(rig: Workstation, left: Path, right: Path) -> None:
    code = "await vscode.commands.executeCommand('vscode.diff', ...argument.map((path) => vscode.Uri.file(path)))"
    rig.window.run(code, [str(left), str(right)])
    wait_until(lambda: rig.state(right), "the diff")
    rig.does("workbench.action.compareEditor.focusPrimarySide")


def test_an_edited_file_is_current_and_modified_until_saved(rig: Workstation) -> None:
    path = rig.opens(rig.file("a.py"))
    assert rig.state(path) == {"name": str(path), "lines": 3} | flags(False, True, True)
    assert rig.ask("buffer_status", file_path=str(path)) == {"is_current": True, "has_unsaved_changes": False}
    rig.types("mine ")
    assert rig.state(path) == {"name": str(path), "lines": 3} | flags(True, True, True)
    assert rig.ask("buffer_status", file_path=str(path)) == {"is_current": True, "has_unsaved_changes": True}
    rig.window.presses("Control+s")
    wait_until(lambda: not rig.state(path)["modified"], "the save")
    assert path.read_text() == "mine one\ntwo\nthree\n"


def test_a_file_that_is_not_open_has_no_state(rig: Workstation) -> None:
    path = rig.file("a.py")
    assert rig.state(path) is None
    assert rig.ask("buffer_status", file_path=str(path)) == {"is_current": False, "has_unsaved_changes": False}
    rig.opens(path)
    rig.does("workbench.action.closeActiveEditor")
    wait_until(lambda: rig.state(path) is None, "closed")


def test_visible_and_hidden_modified_files_are_distinguished(rig: Workstation) -> None:
    """Neither of the two modified files is the current one."""
    behind, beside, front = (rig.opens(rig.file(name)) for name in ("behind.py", "beside.py", "front.py"))
    rig.opens(beside, column=2)
    rig.opens(front)
    for path in (behind, beside):
        rig.inserts(path, "mine ")
    found = rig.snapshot(behind, beside, front, want=["unsaved"])
    assert [states(file) for file in found["files"]] == [
        flags(True, False, False),
        flags(True, False, True),
        flags(False, True, True),
    ]
    assert {file["name"] for file in found["unsaved"]} == {str(behind), str(beside)}


def test_open_files_are_listed_with_the_folders_of_the_window(rig: Workstation, vscode: VSCode) -> None:
    paths = [rig.opens(rig.file(name)) for name in ("a.py", "b.py")]
    found = rig.snapshot(want=["open", "connected"])
    assert sorted(found["open"]) == sorted(map(str, paths))
    assert found["folders"] == [str(vscode.directory / "one"), str(vscode.directory / "two")]
    assert found["connected"] == []
    assert found["editor"].startswith("code-server 1.")
    assert found["pid"] == rig.window.pid
    assert "unsaved" not in found
    assert "selection" not in found


def test_untitled_texts_are_not_listed_as_files(rig: Workstation) -> None:
    rig.does("workbench.action.files.newUntitledFile")
    rig.types("nothing that a file holds")
    found = rig.snapshot(want=["unsaved", "open"])
    assert (found["unsaved"], found["open"]) == ([], [])


def test_an_open_file_is_found_by_any_of_its_names(rig: Workstation) -> None:
    path = rig.file("real/a.py")
    (rig.folder / "link").symlink_to("real")
    (rig.folder / "other.py").symlink_to("real/a.py")
    os.link(path, rig.folder / "hard.py")
    rig.opens(rig.folder / "link" / "a.py")
    rig.types("mine ")
    names = ["real/a.py", "link/a.py", "other.py", "hard.py", "real/../link/./a.py"]
    for name in names:
        state = rig.state(f"{rig.folder}/{name}")
        assert state == {"name": str(path), "lines": 3} | flags(True, True, True), name


def test_a_deleted_file_with_unsaved_changes_is_found_by_name(rig: Workstation) -> None:
    (rig.folder / "link").symlink_to(".")
    path = rig.opens(rig.file("a.py"))
    rig.types("mine ")
    path.unlink()
    assert states(rig.state(rig.folder / "link" / "a.py")) == flags(True, True, True)


def test_both_files_of_a_diff_are_current(rig: Workstation) -> None:
    left, right = rig.file("left.py"), rig.file("right.py")
    compare(rig, left, right)
    rig.types("mine ")
    assert [states(file) for file in rig.snapshot(left, right)["files"]] == [
        flags(False, True, True),
        flags(True, True, True),
    ]


def test_a_file_open_as_text_and_in_a_diff_is_one_file(rig: Workstation) -> None:
    left, right = rig.file("left.py"), rig.file("right.py")
    compare(rig, left, right)
    rig.opens(right, column=2)
    rig.types("mine ")
    found = rig.snapshot(right, want=["unsaved", "open"])
    assert states(found["files"][0]) == flags(True, True, True)
    assert [file["name"] for file in found["unsaved"]] == [str(right)]
    assert sorted(found["open"]) == [str(left), str(right)]


def test_a_notebook_is_reported_and_saved(rig: Workstation) -> None:
    path = rig.file("a.ipynb", NOTEBOOK)
    rig.opens_notebook(path)
    assert states(rig.state(path)) == flags(False, True, True)
    rig.edits_notebook(path)
    assert rig.snapshot(want=["unsaved"])["unsaved"] == [{"name": str(path)} | flags(True, True, True)]
    assert rig.ask("save_buffer", file_path=str(path)) == {"saved": True}
    assert "mineone" in path.read_text()
    assert not rig.state(path)["modified"]


def test_a_custom_editor_is_reported_and_saved(rig: Workstation) -> None:
    picture, canvas = rig.file("a.png", PNG), rig.file("a.canvas")
    for path in (picture, canvas):
        rig.opens_by_kind(path)
    assert states(rig.state(picture)) == flags(False, False, False)
    assert states(rig.state(canvas)) == flags(False, True, True)
    rig.draws(canvas)
    assert rig.ask("buffer_status", file_path=str(canvas)) == {"is_current": True, "has_unsaved_changes": True}
    assert rig.ask("save_buffer", file_path=str(canvas)) == {"saved": True}
    assert canvas.read_text() == "drawn"


def test_a_modified_file_behind_a_webview_is_still_current(rig: Workstation) -> None:
    other, path = (rig.opens(rig.file(name)) for name in ("other.py", "a.py"))
    rig.types("mine ")
    rig.window.run("kept.panel = vscode.window.createWebviewPanel('agent', 'Agent', vscode.ViewColumn.Active)")
    wait_until(lambda: not rig.state(path)["visible"], "the page in front")
    assert states(rig.state(path)) == flags(True, True, False)
    assert states(rig.state(other)) == flags(False, False, False)
    rig.window.run("kept.panel.dispose()")


def test_the_sockets_of_both_folders_report_the_whole_window(rig: Workstation) -> None:
    path = rig.opens(rig.file("a.py"))
    rig.types("mine ")
    first, second = rig.window.sockets()
    answers = []
    for socket in (first, second):
        rig.socket = socket
        answers.append(rig.snapshot(path, want=["unsaved", "open"]))
    assert answers[0] == answers[1]
    assert states(answers[0]["files"][0]) == flags(True, True, True)


def test_many_simultaneous_requests_are_all_answered(rig: Workstation) -> None:
    path = rig.opens(rig.file("a.py"))
    connections = [Lines(rig.socket) for _ in range(20)]
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


def test_a_file_outside_the_folders_is_reported(rig: Workstation, vscode: VSCode) -> None:
    path = rig.opens(rig.file(str(vscode.directory / "outside" / "a.py")))
    rig.types("mine ")
    assert states(rig.state(path)) == flags(True, True, True)
