"""What a person has selected in a real VS Code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .desk import Desk
from .rig import wait_until

pytestmark = pytest.mark.thorough

SELECT = "vscode.window.activeTextEditor.selection = new vscode.Selection(...argument)"


def selects(desk: Desk, *positions: int) -> None:
    desk.window.run(SELECT, positions)
    code = "const { start, end } = vscode.window.activeTextEditor.selection; return [start.line, start.character, end.line]"
    wait_until(lambda: desk.window.run(code) == sorted_positions(positions), "the selection")


def sorted_positions(positions: tuple[int, ...]) -> list[int]:
    start, end = sorted([positions[:2], positions[2:]])
    return [*start, end[0]]


def given(desk: Desk, session: str | None = None) -> Any:
    return desk.snapshot(want=["selection"], **({"session": session} if session else {}))["selection"]


@pytest.fixture
def path(desk: Desk) -> Path:
    return desk.opens(desk.file("a.py", "one\ntwo\nthree\nfour\n"))


@pytest.mark.parametrize(
    ("positions", "lines", "content"),
    [
        ((1, 0, 1, 3), (2, 2), "two"),
        ((0, 1, 2, 2), (1, 3), "ne\ntwo\nth"),
        ((2, 2, 0, 1), (1, 3), "ne\ntwo\nth"),
        ((1, 0, 3, 0), (2, 3), "two\nthree\n"),
        ((3, 2, 4, 0), (4, 4), "ur\n"),
    ],
    ids=["a word", "over lines", "backwards", "whole lines", "a line's end"],
)
def test_the_selection(desk: Desk, path: Path, positions: Any, lines: tuple[int, int], content: str) -> None:
    selects(desk, *positions)
    expected = {"file_path": str(path), "start_line": lines[0], "end_line": lines[1], "content": content}
    assert desk.ask("get_visual_selection") == expected
    assert given(desk) == expected | {"language": "python"}


def test_unsaved_text_is_selected_as_it_stands_there(desk: Desk, path: Path) -> None:
    desk.types("mine ")
    selects(desk, 0, 0, 0, 8)
    assert desk.ask("get_visual_selection")["content"] == "mine one"


def test_nothing_is_selected(desk: Desk, path: Path) -> None:
    assert desk.ask("get_visual_selection") is None
    assert given(desk) is None
    desk.does("workbench.action.closeActiveEditor")
    wait_until(lambda: desk.state(path) is None, "closed")
    assert desk.ask("get_visual_selection") is None


def test_a_selection_in_what_is_no_file_is_none(desk: Desk) -> None:
    desk.does("workbench.action.files.newUntitledFile")
    desk.types("text")
    selects(desk, 0, 0, 0, 4)
    assert desk.ask("get_visual_selection") is None


def test_a_selection_is_given_once_to_a_session_and_to_each(desk: Desk, path: Path) -> None:
    selects(desk, 1, 0, 1, 3)
    assert given(desk, "first")["content"] == "two"
    assert given(desk, "first") is None
    assert given(desk, "second")["content"] == "two"
    assert given(desk)["content"] == "two"
    selects(desk, 2, 0, 2, 5)
    assert given(desk, "first")["content"] == "three"
    assert desk.ask("get_visual_selection")["content"] == "three"


def test_a_huge_selection_is_cut(desk: Desk) -> None:
    desk.opens(desk.file("large.txt", "x" * 99 + "\n" + ("y" * 99 + "\n") * 1_999))
    desk.does("editor.action.selectAll")
    wait_until(lambda: desk.ask("get_visual_selection"), "the selection")
    found = given(desk)
    assert (len(found["content"]), found["truncated"]) == (100_000, True)
    assert len(desk.ask("get_visual_selection")["content"]) == 200_000
