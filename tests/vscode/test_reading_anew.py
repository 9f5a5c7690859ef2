"""``refresh_buffer``: an agent has written a file that is open in a real VS Code."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from .desk import NOTEBOOK, Desk
from .rig import VSCode, wait_until

pytestmark = pytest.mark.thorough

NOTHING = {"success": True, "reloaded": [], "kept": []}


@pytest.fixture
def backups(desk: Desk, vscode: VSCode) -> Path:
    return vscode.directory / "backups" / desk.folder.name


def reloaded(path: Path, backup: Path | None = None) -> dict[str, object]:
    return {"success": True, "reloaded": [{"name": str(path), "backup": backup and str(backup)}], "kept": []}


def test_a_clean_file_shows_what_was_written_and_what_it_replaced_is_kept(desk: Desk, backups: Path) -> None:
    path = desk.opens(desk.file("a.py", "mine\n"))
    before = time.time_ns() // 1_000_000
    path.write_text("theirs\n")
    answer = desk.ask("refresh_buffer", file_path=str(path), backups=str(backups))
    assert desk.document(path) == {"text": "theirs\n", "dirty": False}
    (place,) = backups.iterdir()
    milliseconds, _, pid = place.name.partition(".")
    assert before <= int(milliseconds) <= time.time_ns() // 1_000_000
    assert int(pid) == desk.window.pid
    copy = Path(f"{place}{path}")
    assert answer == reloaded(path, copy)
    assert copy.read_text() == "mine\n"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert {stat.S_IMODE(above.stat().st_mode) for above in backups.rglob("*") if above.is_dir()} == {0o700}


def test_it_waits_until_it_is_done(desk: Desk) -> None:
    paths = [desk.opens(desk.file(f"{number}.py")) for number in range(8)]
    for number, path in enumerate(paths):
        path.write_text(f"written {number}\n")
    answer = desk.ask("refresh_buffer")
    texts = [desk.text(path) for path in paths]
    assert texts == [f"written {number}\n" for number in range(8)]
    assert sorted(file["name"] for file in answer["reloaded"]) == sorted(map(str, paths))


def test_it_is_kept_too_when_vs_code_was_faster(desk: Desk, backups: Path) -> None:
    path = desk.opens(desk.file("a.py", "mine\n"))
    desk.snapshot(path, remember=True)
    path.write_text("first\n")
    desk.shows(path, "first\n")
    path.write_text("second\n")
    desk.shows(path, "second\n")
    answer = desk.ask("refresh_buffer", file_path=str(path), backups=str(backups))
    (file,) = answer["reloaded"]
    assert Path(file["backup"]).read_text() == "mine\n"


def test_what_was_replaced_before_the_call_is_not_its_doing(desk: Desk) -> None:
    path = desk.opens(desk.file("a.py", "mine\n"))
    path.write_text("pulled\n")
    desk.shows(path, "pulled\n")
    desk.snapshot(path, remember=True)
    assert desk.ask("refresh_buffer", file_path=str(path)) == NOTHING


def test_it_is_told_once(desk: Desk) -> None:
    path = desk.opens(desk.file("a.py", "mine\n"))
    path.write_text("theirs\n")
    assert desk.ask("refresh_buffer", file_path=str(path)) == reloaded(path)
    assert desk.ask("refresh_buffer", file_path=str(path)) == NOTHING
    assert desk.ask("refresh_buffer") == NOTHING


def test_one_undo_brings_the_former_text_back(desk: Desk) -> None:
    path = desk.opens(desk.file("a.py", "one\ntwo\nthree\n"))
    path.write_text("zero\none\n2\nthree\nfour\n")
    desk.ask("refresh_buffer", file_path=str(path))
    assert desk.text(path) == "zero\none\n2\nthree\nfour\n"
    desk.does("undo")
    desk.shows(path, "one\ntwo\nthree\n")


def test_the_cursor_and_the_view_stay(desk: Desk) -> None:
    path = desk.opens(desk.file("a.py", "".join(f"line {number}\n" for number in range(300))))
    look = """
    const { selection, visibleRanges } = vscode.window.activeTextEditor;
    return [selection.active.line, selection.active.character, visibleRanges[0].start.line];
    """
    goes = """
    const editor = vscode.window.activeTextEditor;
    editor.selection = new vscode.Selection(150, 3, 150, 3);
    editor.revealRange(editor.selection, vscode.TextEditorRevealType.InCenter);
    """
    desk.window.run(goes)
    wait_until(lambda: 100 < desk.window.run(look)[2] < 150, "the view")
    before = desk.window.run(look)
    path.write_text(path.read_text().replace("line 299", "the last line"))
    desk.ask("refresh_buffer", file_path=str(path))
    assert "the last line" in desk.text(path)
    assert desk.window.run(look) == before


def test_unsaved_changes_are_left_alone_and_told(desk: Desk, backups: Path) -> None:
    path = desk.opens(desk.file("a.py"))
    desk.types("mine ")
    path.write_text("theirs\n")
    kept = {"success": True, "reloaded": [], "kept": [{"name": str(path), "lines": 3}]}
    assert desk.ask("refresh_buffer", file_path=str(path), backups=str(backups)) == kept
    assert desk.ask("refresh_buffer", backups=str(backups)) == kept
    assert desk.document(path) == {"text": "mine one\ntwo\nthree\n", "dirty": True}
    assert path.read_text() == "theirs\n"
    assert not backups.exists()


def test_unsaved_changes_are_left_alone_that_are_visible_without_the_cursor(desk: Desk) -> None:
    """The original reverted them."""
    path = desk.opens(desk.file("a.py"))
    desk.opens(desk.file("front.py"), column=2)
    desk.inserts(path, "mine ")
    path.write_text("theirs\n")
    answer = desk.ask("refresh_buffer", file_path=str(path))
    assert [file["name"] for file in answer["kept"]] == [str(path)]
    assert desk.document(path) == {"text": "mine one\ntwo\nthree\n", "dirty": True}


def test_unsaved_changes_in_front_survive_that_another_file_is_read_anew(desk: Desk) -> None:
    """VS Code's own command to revert a file takes the one in front, whichever it is told."""
    behind, front = desk.opens(desk.file("behind.py")), desk.opens(desk.file("front.py"))
    desk.types("mine ")
    behind.write_text("theirs\n")
    assert desk.ask("refresh_buffer", file_path=str(behind)) == reloaded(behind)
    assert desk.text(behind) == "theirs\n"
    assert desk.document(front) == {"text": "mine one\ntwo\nthree\n", "dirty": True}


def test_what_is_typed_while_it_is_read_anew_stays(desk: Desk) -> None:
    path = desk.opens(desk.file("a.py"))
    for number in range(5):
        path.write_text(f"theirs {number}\n")
        desk.types(f"mine{number} ")
        desk.ask("refresh_buffer", file_path=str(path))
        document = desk.document(path)
        assert f"mine{number} " in document["text"]
        assert document["dirty"]
        desk.does("workbench.action.files.revert")
        wait_until(lambda: not desk.document(path)["dirty"], "the revert")


def test_unsaved_changes_of_a_file_that_nobody_wrote_are_not_told(desk: Desk) -> None:
    path = desk.opens(desk.file("a.py"))
    desk.types("mine ")
    os.utime(path)
    assert desk.ask("refresh_buffer", file_path=str(path)) == NOTHING
    assert desk.ask("refresh_buffer") == NOTHING


def test_a_file_that_is_gone_is_left_as_it_is(desk: Desk) -> None:
    clean, modified = desk.opens(desk.file("clean.py")), desk.opens(desk.file("modified.py"))
    desk.types("mine ")
    clean.unlink()
    modified.unlink()
    assert desk.ask("refresh_buffer") == NOTHING
    assert desk.text(clean) == "one\ntwo\nthree\n"
    assert desk.document(modified) == {"text": "mine one\ntwo\nthree\n", "dirty": True}
    assert not clean.exists()


def test_a_file_outside_the_folders_behind_another_is_read_anew(desk: Desk, vscode: VSCode) -> None:
    path = desk.opens(desk.file(str(vscode.directory / "elsewhere" / "a.py")))
    desk.opens(desk.file("front.py"))
    path.write_text("theirs\n")
    assert desk.ask("refresh_buffer", file_path=str(path)) == reloaded(path)
    assert desk.text(path) == "theirs\n"


def test_a_file_that_vs_code_does_not_watch_is_waited_for_once(desk: Desk) -> None:
    path = desk.opens(desk.file(".git/objects/a.py"))
    desk.opens(desk.file("front.py"))
    path.write_text("theirs\n")
    assert desk.ask("refresh_buffer", file_path=str(path)) == NOTHING
    before = time.monotonic()
    assert desk.ask("refresh_buffer", file_path=str(path)) == NOTHING
    assert time.monotonic() - before < 1
    assert desk.document(path) == {"text": "one\ntwo\nthree\n", "dirty": False}


def test_a_copy_that_can_not_be_written_is_said(desk: Desk) -> None:
    path = desk.opens(desk.file("a.py"))
    backups = desk.file("a file in its place")
    path.write_text("theirs\n")
    assert desk.ask("refresh_buffer", file_path=str(path), backups=str(backups)) == reloaded(path)


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
def test_a_copy_holds_every_byte(desk: Desk, backups: Path, content: bytes, written: bytes) -> None:
    path = desk.opens(desk.file("a.txt", content))
    path.write_bytes(written)
    (file,) = desk.ask("refresh_buffer", file_path=str(path), backups=str(backups))["reloaded"]
    assert Path(file["backup"]).read_bytes() == content
    assert desk.text(path) == written.decode("utf-8-sig")


def test_a_notebook_is_read_anew_or_left_alone(desk: Desk, backups: Path) -> None:
    path = desk.file("a.ipynb", NOTEBOOK)
    desk.opens_notebook(path)
    path.write_text(NOTEBOOK.replace("one", "theirs"))
    answer: list[Any] = wait_until(  # on a busy machine it takes VS Code longer than a refresh waits
        lambda: desk.ask("refresh_buffer", file_path=str(path), backups=str(backups))["reloaded"], "the new text"
    )
    assert Path(answer[0]["backup"]).read_text() == NOTEBOOK
    cell = "return vscode.workspace.notebookDocuments.find(({ uri }) => uri.fsPath === argument).cellAt(0).document.getText()"
    assert desk.window.run(cell, str(path)) == "theirs"
    desk.edits_notebook(path)
    path.write_text(NOTEBOOK.replace("one", "theirs again"))
    assert desk.ask("refresh_buffer")["kept"] == [{"name": str(path)}]
    assert desk.window.run(cell, str(path)) == "minetheirs"


def test_an_editor_of_another_kind_with_unsaved_changes_is_told(desk: Desk) -> None:
    path = desk.file("a.canvas")
    desk.opens_by_kind(path)
    desk.draws(path)
    assert desk.ask("refresh_buffer") == NOTHING
    path.write_text("theirs")
    assert desk.ask("refresh_buffer", file_path=str(path))["kept"] == [{"name": str(path)}]


def test_a_file_that_is_not_open_is_nothing_to_do(desk: Desk) -> None:
    assert desk.ask("refresh_buffer", file_path=str(desk.file("a.py"))) == NOTHING
