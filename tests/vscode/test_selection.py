"""What the user has selected in a real VS Code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .rig import wait_until
from .workstation import Workstation

pytestmark = pytest.mark.thorough

SELECT = "vscode.window.activeTextEditor.selection = new vscode.Selection(...argument)"


def selects(rig: Workstation, *positions: int) -> None:
    rig.window.run(SELECT, positions)
    code = "const { start, end } = vscode.window.activeTextEditor.selection; return [start.line, start.character, end.line]"
    wait_until(lambda: rig.window.run(code) == sorted_positions(positions), "the selection")


def sorted_positions(positions: tuple[int, ...]) -> list[int]:
    start, end = sorted([positions[:2], positions[2:]])
    return [*start, end[0]]


def given(rig: Workstation, session: str | None = None) -> Any:
    return rig.snapshot(want=["selection"], **({"session": session} if session else {}))["selection"]


@pytest.fixture
def path(rig: Workstation) -> Path:
    return rig.opens(rig.file("a.py", "one\ntwo\nthree\nfour\n"))


@pytest.mark.parametrize(
    ("positions", "lines", "content"),
    [
        ((1, 0, 1, 3), (2, 2), "two"),
        ((0, 1, 2, 2), (1, 3), "ne\ntwo\nth"),
        ((2, 2, 0, 1), (1, 3), "ne\ntwo\nth"),
        ((1, 0, 3, 0), (2, 3), "two\nthree\n"),
        ((3, 2, 4, 0), (4, 4), "ur\n"),
    ],
    ids=["a word", "across lines", "backwards", "whole lines", "a line's end"],
)
def test_a_selection_is_reported_with_its_lines(
    rig: Workstation, path: Path, positions: Any, lines: tuple[int, int], content: str
) -> None:
    selects(rig, *positions)
    expected = {"file_path": str(path), "start_line": lines[0], "end_line": lines[1], "content": content}
    assert rig.ask("get_visual_selection") == expected
    assert given(rig) == expected | {"language": "python"}


def test_a_selection_contains_unsaved_text(rig: Workstation, path: Path) -> None:
    rig.types("mine ")
    selects(rig, 0, 0, 0, 8)
    assert rig.ask("get_visual_selection")["content"] == "mine one"


def test_without_a_selection_nothing_is_reported(rig: Workstation, path: Path) -> None:
    assert rig.ask("get_visual_selection") is None
    assert given(rig) is None
    rig.does("workbench.action.closeActiveEditor")
    wait_until(lambda: rig.state(path) is None, "closed")
    assert rig.ask("get_visual_selection") is None


def test_a_selection_outside_a_file_is_ignored(rig: Workstation) -> None:
    rig.does("workbench.action.files.newUntitledFile")
    rig.types("text")
    selects(rig, 0, 0, 0, 4)
    assert rig.ask("get_visual_selection") is None


def test_each_session_gets_a_selection_once(rig: Workstation, path: Path) -> None:
    selects(rig, 1, 0, 1, 3)
    assert given(rig, "first")["content"] == "two"
    assert given(rig, "first") is None
    assert given(rig, "second")["content"] == "two"
    assert given(rig)["content"] == "two"
    selects(rig, 2, 0, 2, 5)
    # VS Code may report the previous selection once more before it has confirmed this one.
    wait_until(lambda: rig.ask("get_visual_selection")["content"] == "three", "the confirmed selection")
    wait_until(lambda: (given(rig, "first") or {}).get("content") == "three", "the selection for the first session")


def test_a_huge_selection_is_cut(rig: Workstation) -> None:
    rig.opens(rig.file("large.txt", "x" * 99 + "\n" + ("y" * 99 + "\n") * 1_999))
    rig.does("editor.action.selectAll")
    wait_until(lambda: rig.ask("get_visual_selection"), "the selection")
    found = given(rig)
    assert (len(found["content"]), found["truncated"]) == (100_000, True)
    assert len(rig.ask("get_visual_selection")["content"]) == 200_000
