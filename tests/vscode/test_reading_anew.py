"""``refresh_buffer``: how a real VS Code shows an open file that an agent wrote."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from .rig import VSCode, wait_until
from .workstation import NOTEBOOK, Workstation

pytestmark = pytest.mark.thorough

NOTHING = {"success": True, "reloaded": [], "kept": []}


@pytest.fixture
def backups(rig: Workstation, vscode: VSCode) -> Path:
    return vscode.directory / "backups" / rig.folder.name


def reloaded(path: Path, backup: Path | None = None) -> dict[str, object]:
    return {"success": True, "reloaded": [{"name": str(path), "backup": backup and str(backup)}], "kept": []}


def test_a_clean_file_is_reloaded_and_its_old_text_is_kept(rig: Workstation, backups: Path) -> None:
    """The copy is private, in a directory that is named after the time and the process."""
    path = rig.opens(rig.file("a.py", "mine\n"))
    before = time.time_ns() // 1_000_000
    path.write_text("theirs\n")
    answer = rig.ask("refresh_buffer", file_path=str(path), backups=str(backups))
    assert rig.document(path) == {"text": "theirs\n", "dirty": False}
    (place,) = backups.iterdir()
    milliseconds, _, pid = place.name.partition(".")
    assert before <= int(milliseconds) <= time.time_ns() // 1_000_000
    assert int(pid) == rig.window.pid
    copy = Path(f"{place}{path}")
    assert answer == reloaded(path, copy)
    assert copy.read_text() == "mine\n"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert {stat.S_IMODE(above.stat().st_mode) for above in backups.rglob("*") if above.is_dir()} == {0o700}


@pytest.mark.slow
def test_a_refresh_returns_once_all_files_are_reloaded(rig: Workstation) -> None:
    paths = [rig.opens(rig.file(f"{number}.py")) for number in range(8)]
    for number, path in enumerate(paths):
        path.write_text(f"written {number}\n")
    answer = rig.ask("refresh_buffer")
    texts = [rig.text(path) for path in paths]
    assert texts == [f"written {number}\n" for number in range(8)]
    assert sorted(file["name"] for file in answer["reloaded"]) == sorted(map(str, paths))


def test_a_copy_is_kept_when_vs_code_reloads_first(rig: Workstation, backups: Path) -> None:
    path = rig.opens(rig.file("a.py", "mine\n"))
    rig.snapshot(path, remember=True)
    path.write_text("first\n")
    rig.shows(path, "first\n")
    path.write_text("second\n")
    rig.shows(path, "second\n")
    answer = rig.ask("refresh_buffer", file_path=str(path), backups=str(backups))
    (file,) = answer["reloaded"]
    assert Path(file["backup"]).read_text() == "mine\n"


def test_a_reload_before_the_call_is_not_reported(rig: Workstation) -> None:
    path = rig.opens(rig.file("a.py", "mine\n"))
    path.write_text("pulled\n")
    rig.shows(path, "pulled\n")
    rig.snapshot(path, remember=True)
    assert rig.ask("refresh_buffer", file_path=str(path)) == NOTHING


def test_a_reload_is_reported_once(rig: Workstation) -> None:
    path = rig.opens(rig.file("a.py", "mine\n"))
    path.write_text("theirs\n")
    assert rig.ask("refresh_buffer", file_path=str(path)) == reloaded(path)
    assert rig.ask("refresh_buffer", file_path=str(path)) == NOTHING
    assert rig.ask("refresh_buffer") == NOTHING


def test_one_undo_restores_the_previous_text(rig: Workstation) -> None:
    path = rig.opens(rig.file("a.py", "one\ntwo\nthree\n"))
    path.write_text("zero\none\n2\nthree\nfour\n")
    rig.ask("refresh_buffer", file_path=str(path))
    assert rig.text(path) == "zero\none\n2\nthree\nfour\n"
    rig.does("undo")
    rig.shows(path, "one\ntwo\nthree\n")


def test_the_cursor_and_the_view_stay(rig: Workstation) -> None:
    path = rig.opens(rig.file("a.py", "".join(f"line {number}\n" for number in range(300))))
    view = """
    const { selection, visibleRanges } = vscode.window.activeTextEditor;
    return [selection.active.line, selection.active.character, visibleRanges[0].start.line];
    """
    goes = """
    const editor = vscode.window.activeTextEditor;
    editor.selection = new vscode.Selection(150, 3, 150, 3);
    editor.revealRange(editor.selection, vscode.TextEditorRevealType.InCenter);
    """
    rig.window.run(goes)
    wait_until(lambda: 100 < rig.window.run(view)[2] < 150, "the view")
    before = rig.window.run(view)
    path.write_text(path.read_text().replace("line 299", "the last line"))
    rig.ask("refresh_buffer", file_path=str(path))
    assert "the last line" in rig.text(path)
    assert rig.window.run(view) == before


def test_unsaved_changes_are_kept_and_reported(rig: Workstation, backups: Path) -> None:
    path = rig.opens(rig.file("a.py"))
    rig.types("mine ")
    path.write_text("theirs\n")
    kept = {"success": True, "reloaded": [], "kept": [{"name": str(path), "lines": 3}]}
    assert rig.ask("refresh_buffer", file_path=str(path), backups=str(backups)) == kept
    assert rig.ask("refresh_buffer", backups=str(backups)) == kept
    assert rig.document(path) == {"text": "mine one\ntwo\nthree\n", "dirty": True}
    assert path.read_text() == "theirs\n"
    assert not backups.exists()


def test_unsaved_changes_in_another_visible_editor_are_kept(rig: Workstation) -> None:
    """The program that the specification describes reverts these changes."""
    path = rig.opens(rig.file("a.py"))
    rig.opens(rig.file("front.py"), column=2)
    rig.inserts(path, "mine ")
    path.write_text("theirs\n")
    answer = rig.ask("refresh_buffer", file_path=str(path))
    assert [file["name"] for file in answer["kept"]] == [str(path)]
    assert rig.document(path) == {"text": "mine one\ntwo\nthree\n", "dirty": True}


def test_unsaved_changes_survive_a_reload_of_another_file(rig: Workstation) -> None:
    """VS Code's own command for reverting a file reverts the one in front, whichever file it is given."""
    behind, front = rig.opens(rig.file("behind.py")), rig.opens(rig.file("front.py"))
    rig.types("mine ")
    behind.write_text("theirs\n")
    assert rig.ask("refresh_buffer", file_path=str(behind)) == reloaded(behind)
    assert rig.text(behind) == "theirs\n"
    assert rig.document(front) == {"text": "mine one\ntwo\nthree\n", "dirty": True}


def test_text_typed_during_a_reload_stays(rig: Workstation) -> None:
    path = rig.opens(rig.file("a.py"))
    for number in range(5):
        path.write_text(f"theirs {number}\n")
        rig.types(f"mine{number} ")
        rig.ask("refresh_buffer", file_path=str(path))
        document = rig.document(path)
        assert f"mine{number} " in document["text"]
        assert document["dirty"]
        rig.does("workbench.action.files.revert")
        wait_until(lambda: not rig.document(path)["dirty"], "the revert")


def test_a_touched_file_with_unsaved_changes_is_not_reported(rig: Workstation) -> None:
    """Only the modification time of the file on disk has changed."""
    path = rig.opens(rig.file("a.py"))
    rig.types("mine ")
    os.utime(path)
    assert rig.ask("refresh_buffer", file_path=str(path)) == NOTHING
    assert rig.ask("refresh_buffer") == NOTHING


def test_a_deleted_file_is_unchanged(rig: Workstation) -> None:
    clean, modified = rig.opens(rig.file("clean.py")), rig.opens(rig.file("modified.py"))
    rig.types("mine ")
    clean.unlink()
    modified.unlink()
    assert rig.ask("refresh_buffer") == NOTHING
    assert rig.text(clean) == "one\ntwo\nthree\n"
    assert rig.document(modified) == {"text": "mine one\ntwo\nthree\n", "dirty": True}
    assert not clean.exists()


def test_a_file_outside_the_folders_is_reloaded(rig: Workstation, vscode: VSCode) -> None:
    path = rig.opens(rig.file(str(vscode.directory / "elsewhere" / "a.py")))
    rig.opens(rig.file("front.py"))
    path.write_text("theirs\n")
    assert rig.ask("refresh_buffer", file_path=str(path)) == reloaded(path)
    assert rig.text(path) == "theirs\n"


@pytest.mark.slow
def test_the_wait_for_an_unwatched_file_happens_once(rig: Workstation) -> None:
    path = rig.opens(rig.file(".git/objects/a.py"))
    rig.opens(rig.file("front.py"))
    path.write_text("theirs\n")
    assert rig.ask("refresh_buffer", file_path=str(path)) == NOTHING

    def took() -> float:
        before = time.monotonic()
        assert rig.ask("refresh_buffer", file_path=str(path)) == NOTHING
        return time.monotonic() - before

    assert any(took() < 1.4 for _ in range(5)), "the extension waits 1.5 s for a reload"
    assert rig.document(path) == {"text": "one\ntwo\nthree\n", "dirty": False}


def test_a_copy_that_cannot_be_written_is_reported(rig: Workstation) -> None:
    path = rig.opens(rig.file("a.py"))
    backups = rig.file("a file in its place")
    path.write_text("theirs\n")
    assert rig.ask("refresh_buffer", file_path=str(path), backups=str(backups)) == reloaded(path)


@pytest.mark.parametrize(
    ("content", "written"),
    [
        (b"one\r\ntwo\r\n", b"eins\r\nzwei\r\n"),
        ("\ufeffone\n".encode(), "\ufeffeins\n".encode()),
        (b"one\ntwo", b""),
        (b"", b"eins"),
        ("\U0001f600 one\n".encode(), "\U0001f600 eins\n".encode()),
    ],
    ids=["CRLF", "byte-order mark", "emptied", "was empty", "beyond 16 bits"],
)
def test_a_copy_contains_every_byte(rig: Workstation, backups: Path, content: bytes, written: bytes) -> None:
    path = rig.opens(rig.file("a.txt", content))
    path.write_bytes(written)
    (file,) = rig.ask("refresh_buffer", file_path=str(path), backups=str(backups))["reloaded"]
    assert Path(file["backup"]).read_bytes() == content
    assert rig.text(path) == written.decode("utf-8-sig")


def test_a_notebook_is_reloaded_unless_it_has_unsaved_changes(rig: Workstation, backups: Path) -> None:
    path = rig.file("a.ipynb", NOTEBOOK)
    rig.opens_notebook(path)
    path.write_text(NOTEBOOK.replace("one", "theirs"))
    answer: list[Any] = wait_until(  # on a busy machine, VS Code takes longer than a refresh waits
        lambda: rig.ask("refresh_buffer", file_path=str(path), backups=str(backups))["reloaded"], "the new text"
    )
    assert Path(answer[0]["backup"]).read_text() == NOTEBOOK
    cell = "return vscode.workspace.notebookDocuments.find(({ uri }) => uri.fsPath === argument).cellAt(0).document.getText()"
    assert rig.window.run(cell, str(path)) == "theirs"
    rig.edits_notebook(path)
    path.write_text(NOTEBOOK.replace("one", "theirs again"))
    assert rig.ask("refresh_buffer")["kept"] == [{"name": str(path)}]
    assert rig.window.run(cell, str(path)) == "minetheirs"


def test_a_custom_editor_with_unsaved_changes_is_reported(rig: Workstation) -> None:
    path = rig.file("a.canvas")
    rig.opens_by_kind(path)
    rig.draws(path)
    assert rig.ask("refresh_buffer") == NOTHING
    path.write_text("theirs")
    assert rig.ask("refresh_buffer", file_path=str(path))["kept"] == [{"name": str(path)}]


def test_nothing_is_reloaded_for_a_file_that_is_not_open(rig: Workstation) -> None:
    assert rig.ask("refresh_buffer", file_path=str(rig.file("a.py"))) == NOTHING
