"""``buffer_text``, ``save_buffer`` and ``merge_buffer`` in a real VS Code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .rig import VSCode, wait_until
from .workstation import Workstation

pytestmark = pytest.mark.thorough

THEIRS = "one\ntwo\nthree\nfour\n"
FORMATTER = """
kept.formatter = vscode.languages.registerDocumentFormattingEditProvider('python', {
  provideDocumentFormattingEdits: (document) => [vscode.TextEdit.insert(document.lineAt(0).range.end, '  # formatted')],
});
await vscode.workspace.getConfiguration('editor').update('formatOnSave', true, true);
"""
NO_FORMATTER = """
kept.formatter.dispose();
await vscode.workspace.getConfiguration('editor').update('formatOnSave', undefined, true);
"""


def edit(start: int, end: int, *lines: str) -> dict[str, Any]:
    return {"start": start, "end": end, "lines": list(lines)}


def text_and_version(rig: Workstation, path: Path) -> tuple[str, int]:
    answer = rig.ask("buffer_text", file_path=str(path))
    return answer["text"], answer["version"]


def merge(rig: Workstation, path: Path, *edits: dict[str, Any], version: int | None = None) -> Any:
    if version is None:
        version = text_and_version(rig, path)[1]
    return rig.ask("merge_buffer", file_path=str(path), version=version, edits=list(edits))


@pytest.fixture
def merged(rig: Workstation) -> Path:
    """An open file with the user's unsaved first line, into which the agent's fourth line, already on disk, is merged."""
    path = rig.opens(rig.file("a.py"))
    rig.types("mine ")
    path.write_text(THEIRS)
    assert merge(rig, path, edit(3, 3, "four")) == {"merged": True}
    assert rig.document(path) == {"text": "mine one\ntwo\nthree\nfour\n", "dirty": True}
    return path


def saves(rig: Workstation, path: Path) -> None:
    rig.window.presses("Control+s")
    wait_until(lambda: not rig.document(path)["dirty"], "the save")


# buffer_text


def test_the_returned_text_is_what_a_save_would_write(rig: Workstation) -> None:
    path = rig.opens(rig.file("a.txt", "\ufeffone\r\ntwo\r\n"))
    rig.types("mine ")
    assert text_and_version(rig, path)[0] == "\ufeffmine one\r\ntwo\r\n"
    saves(rig, path)
    assert path.read_bytes().decode() == "\ufeffmine one\r\ntwo\r\n"


def test_the_version_changes_with_every_change(rig: Workstation) -> None:
    path = rig.opens(rig.file("a.py"))
    first = text_and_version(rig, path)[1]
    assert text_and_version(rig, path)[1] == first
    rig.types("m")
    second = text_and_version(rig, path)[1]
    rig.does("undo")
    wait_until(lambda: not rig.document(path)["dirty"], "the undo")
    assert len({first, second, text_and_version(rig, path)[1]}) == 3


def test_the_text_of_a_closed_or_too_large_file_is_not_returned(rig: Workstation) -> None:
    nothing = {"text": None}
    assert rig.ask("buffer_text", file_path=str(rig.file("a.py"))) == nothing
    large = rig.opens(rig.file("large.txt", "x" * 99 + "\n" + ("y" * 99 + "\n") * 41_999))
    assert rig.ask("buffer_text", file_path=str(large)) == nothing


# save_buffer


def test_unsaved_changes_are_saved_on_request(rig: Workstation) -> None:
    path = rig.opens(rig.file("a.py"))
    rig.types("mine ")
    assert rig.ask("save_buffer", file_path=str(path)) == {"saved": True}
    assert path.read_text() == "mine one\ntwo\nthree\n"
    assert not rig.state(path)["modified"]
    assert rig.ask("save_buffer", file_path=str(path)) == {"saved": True}, "there is nothing left to save"


def test_a_file_behind_another_is_saved_without_being_shown(rig: Workstation) -> None:
    path, front = rig.opens(rig.file("a.py")), rig.opens(rig.file("front.py"))
    rig.inserts(path, "mine ")
    assert rig.ask("save_buffer", file_path=str(path)) == {"saved": True}
    assert path.read_text() == "mine one\ntwo\nthree\n"
    assert rig.state(front)["current"]


def test_a_newer_file_on_disk_is_not_overwritten(rig: Workstation) -> None:
    path = rig.opens(rig.file("a.py"))
    rig.types("mine ")
    path.write_text("theirs\n")
    answer = rig.ask("save_buffer", file_path=str(path))
    assert answer == {"saved": False, "reason": "the file has changed on disk since it was opened or saved"}
    assert path.read_text() == "theirs\n"
    assert rig.document(path) == {"text": "mine one\ntwo\nthree\n", "dirty": True}
    assert rig.notices() == []


def test_a_file_that_is_not_open_is_not_saved(rig: Workstation) -> None:
    path = rig.file("a.py")
    answer = rig.ask("save_buffer", file_path=str(path))
    assert answer == {"saved": False, "reason": "the file is not open in this window"}


# merge_buffer


def test_one_undo_reverts_a_merge(rig: Workstation) -> None:
    path = rig.opens(rig.file("a.py"))
    rig.types("mine ")
    path.write_text("zero\none\n2\nthree\nfour\n")
    edits = [edit(0, 0, "zero"), edit(1, 2, "2"), edit(3, 3, "four")]
    assert merge(rig, path, *edits) == {"merged": True}
    assert rig.text(path) == "zero\nmine one\n2\nthree\nfour\n"
    rig.window.presses("Control+z")
    rig.shows(path, "mine one\ntwo\nthree\n")
    assert rig.document(path)["dirty"]


def test_a_merged_file_is_saved_without_a_question(rig: Workstation, merged: Path) -> None:
    saves(rig, merged)
    assert merged.read_text() == "mine one\ntwo\nthree\nfour\n"
    assert rig.notices() == []


def test_a_merged_file_is_saved_on_request(rig: Workstation, merged: Path) -> None:
    assert rig.ask("save_buffer", file_path=str(merged)) == {"saved": True}
    assert merged.read_text() == "mine one\ntwo\nthree\nfour\n"


@pytest.mark.slow
def test_a_merged_file_is_formatted_and_saved_without_a_question(rig: Workstation, merged: Path) -> None:
    rig.window.run(FORMATTER)
    try:
        saves(rig, merged)
    finally:
        rig.window.run(NO_FORMATTER)
    assert merged.read_text() == "mine one  # formatted\ntwo\nthree\nfour\n"
    assert rig.notices() == []


def test_a_merged_file_in_another_encoding_keeps_it(rig: Workstation) -> None:
    path = rig.opens(rig.file("a.txt", "\ufeffone\r\ntwo\r\n"))
    rig.types("mine ")
    path.write_bytes("\ufeffone\r\ntwo\r\nthree\r\n".encode())
    assert merge(rig, path, edit(2, 2, "three")) == {"merged": True}
    saves(rig, path)
    assert path.read_bytes() == "\ufeffmine one\r\ntwo\r\nthree\r\n".encode()
    assert rig.notices() == []


def test_a_file_written_after_the_merge_is_not_overwritten(rig: Workstation, merged: Path) -> None:
    """VS Code reports instead that the file on disk is newer."""
    merged.write_text("theirs again\n")
    rig.window.presses("Control+s")
    wait_until(rig.notices, "VS Code's question")
    assert "newer" in rig.notices()[0]
    assert merged.read_text() == "theirs again\n"
    assert rig.document(merged) == {"text": "mine one\ntwo\nthree\nfour\n", "dirty": True}


def test_a_merged_file_is_not_reported_again(rig: Workstation, merged: Path) -> None:
    assert rig.ask("refresh_buffer")["kept"] == []
    merged.write_text("theirs again\n")
    assert [file["name"] for file in rig.ask("refresh_buffer")["kept"]] == [str(merged)]


def test_merging_into_a_hidden_file_does_not_show_it(rig: Workstation) -> None:
    path, front = rig.opens(rig.file("a.py")), rig.opens(rig.file("front.py"))
    rig.inserts(path, "mine ")
    assert merge(rig, path, edit(2, 3)) == {"merged": True}
    assert rig.text(path) == "mine one\ntwo\n"
    assert rig.state(front)["current"]


def test_a_text_that_has_changed_since_is_not_merged(rig: Workstation) -> None:
    path = rig.opens(rig.file("a.py"))
    rig.types("mine ")
    version = text_and_version(rig, path)[1]
    rig.types("more ")
    answer = merge(rig, path, edit(3, 3, "four"), version=version)
    assert answer == {"merged": False, "reason": "the unsaved text has changed in the meantime"}
    assert rig.text(path) == "mine more one\ntwo\nthree\n"


@pytest.mark.parametrize(
    "edits",
    [None, {}, [edit(2, 1)], [edit(0, 9)], [edit(1, 2, "B"), edit(0, 1)], [edit(0, 1, "a\nb")], [{"start": 0}], ["x"]],
)
def test_invalid_edits_are_refused_and_change_nothing(rig: Workstation, edits: Any) -> None:
    path = rig.opens(rig.file("a.py"))
    rig.types("mine ")
    version = text_and_version(rig, path)[1]
    answer = rig.asked("merge_buffer", file_path=str(path), version=version, edits=edits)
    assert answer["error"]["code"] == -32602
    assert "edits" in answer["error"]["message"]
    assert text_and_version(rig, path) == ("mine one\ntwo\nthree\n", version)


def test_an_impossible_merge_returns_the_reason(rig: Workstation, vscode: VSCode) -> None:
    closed, clean = rig.file("closed.py"), rig.opens(rig.file("clean.py"))
    assert merge(rig, closed, version=1) == {"merged": False, "reason": "the file is not open as text in the editor"}
    answer = merge(rig, clean, edit(0, 1, "x"))
    assert answer == {"merged": False, "reason": "the file no longer has unsaved changes"}
    assert rig.document(clean) == {"text": "one\ntwo\nthree\n", "dirty": False}


def test_text_that_is_not_utf8_is_not_merged(rig: Workstation) -> None:
    path = rig.opens(rig.file("a.py"))
    rig.types("mine ")
    answer = merge(rig, path, edit(0, 1, "caf\udce9"))
    assert answer == {"merged": False, "reason": "the text to insert is not UTF-8"}
    assert rig.text(path) == "mine one\ntwo\nthree\n"
