"""The text that a file would have after a tool call. test_real_claude checks that the real CLI writes the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from drawbridge.agents.base import Proposal
from drawbridge.agents.claude.edits import proposal, shown_fields
from drawbridge.agents.proposals import TEXT_LIMIT
from drawbridge.core.errors import UnusableFile

PATH = "/p/file.txt"


def changed(tool: str, old: str | None, **given: Any) -> str | None:
    """Returns the file's text after the call, or None if it can't be predicted."""
    name = "notebook_path" if tool == "NotebookEdit" else "file_path"
    found = proposal(tool, {name: PATH, **given}, {PATH: old}.get)
    if found is None:
        return None
    assert (found.path, found.old_text) == (PATH, old or "")
    return found.new_text


def edit(old: str | None, before: str, after: str, **more: Any) -> str | None:
    return changed("Edit", old, old_string=before, new_string=after, **more)


def test_a_new_file_has_no_old_text() -> None:
    assert proposal("Write", {"file_path": PATH, "content": "x\ny"}, lambda path: None) == Proposal(PATH, "", "x\ny")
    assert edit(None, "", "fresh\n") == "fresh\n"
    assert edit(" \n", "", "fresh\n") == "fresh\n"
    assert edit("full", "", "fresh\n") is None


def test_a_write_replaces_the_whole_text() -> None:
    assert changed("Write", "one\r\ntwo\r\n", content="x\ny\n") == "x\ny\n"


@pytest.mark.parametrize(
    ("old", "before", "after", "new"),
    [
        ("one\ntwo\n", "two", "2", "one\n2\n"),
        ("one\ntwo\n", "one\ntwo", "", ""),
        ("one\ntwo\nthree\n", "two", "", "one\nthree\n"),
        ("one\ntwo\nthree\n", "two\n", "", "one\nthree\n"),
        ("one two\n", "one", "", " two\n"),
        ("one\r\ntwo\r\n", "two", "a\nb", "one\r\na\r\nb\r\n"),
        ("one\r\ntwo\r\n", "one\ntwo", "1\r\n2", "1\r\n2\r\n"),
        ("one\ntwo\r\nthree\n", "three", "3", "one\ntwo\n3\n"),
        ("\ufeffone\n", "one", "1", "\ufeff1\n"),
    ],
)
def test_an_edit_keeps_the_other_text_and_the_line_endings(old: str, before: str, after: str, new: str) -> None:
    assert edit(old, before, after) == new


@pytest.mark.parametrize(
    ("old", "before"), [("one\n", "two"), ("one one\n", "one"), ("“one”\n", '"one"'), (None, "one"), ("", "one")]
)
def test_an_edit_that_does_not_match_creates_no_proposal(old: str | None, before: str) -> None:
    assert edit(old, before, "x") is None


def test_replace_all_replaces_every_match() -> None:
    assert edit("a b a\n", "a", "c", replace_all=True) == "c b c\n"
    assert edit("b\n", "a", "c", replace_all=True) is None
    assert edit("a b\n", "a", "c", replace_all="odd") == "c b\n"


def test_all_edits_of_a_call_are_combined_into_one_change() -> None:
    edits = [{"old_string": "one", "new_string": "two"}, {"old_string": "two", "new_string": "three"}]
    assert changed("MultiEdit", "one\n", edits=edits) == "three\n"
    assert changed("MultiEdit", "one\n", edits=[*edits, {"old_string": "nine", "new_string": ""}]) is None
    assert changed("MultiEdit", "one\n", edits=[]) is None
    assert changed("MultiEdit", "one\n") is None


@pytest.mark.parametrize(
    ("tool", "given_"),
    [
        ("Bash", {"file_path": PATH, "command": "ls"}),
        ("Read", {"file_path": PATH}),
        ("Write", {"file_path": "relative.txt", "content": ""}),
        ("Write", {"file_path": 5, "content": ""}),
        ("Write", {"content": ""}),
        ("Write", {"file_path": PATH}),
        ("Write", {"file_path": PATH, "content": ["x"]}),
        ("Edit", {"file_path": PATH, "old_string": "one", "new_string": None}),
    ],
)
def test_other_tools_and_invalid_calls_create_no_proposal(tool: str, given_: dict[str, Any]) -> None:
    assert proposal(tool, given_, {PATH: "one\n"}.get) is None


def test_an_unusable_file_creates_no_proposal() -> None:
    def unusable(path: str) -> str:
        raise UnusableFile(f"{path} is binary.")

    assert proposal("Write", {"file_path": PATH, "content": "x"}, unusable) is None


def test_a_change_that_is_too_large_creates_no_proposal() -> None:
    assert changed("Write", None, content="x" * TEXT_LIMIT) is not None
    assert changed("Write", None, content="x" * (TEXT_LIMIT + 1)) is None
    assert edit("a" * 2_000, "a", "x" * 2_000, replace_all=True) is None
    growing = [{"old_string": "a", "new_string": "aa", "replace_all": True}] * 60
    assert changed("MultiEdit", "a", edits=growing) is None


NOTEBOOK = {
    "cells": [
        {
            "cell_type": "code",
            "id": "c1",
            "metadata": {},
            "outputs": [{}],
            "execution_count": 3,
            "source": ["a=1\n", "b"],
        },
        {"cell_type": "markdown", "id": "m1", "metadata": {}, "source": "# t ä"},
    ],
    "metadata": {"kernelspec": {"name": "python3"}},
    "nbformat": 4,
    "nbformat_minor": 5,
}
NOTEBOOK_TEXT = json.dumps(NOTEBOOK) + "\n"


def notebook(**given: Any) -> list[dict[str, Any]] | None:
    """Returns the notebook's cells after the call, or None if they can't be predicted."""
    new = changed("NotebookEdit", NOTEBOOK_TEXT, **given)
    if new is None:
        return None
    assert new == json.dumps(json.loads(new), indent=1, ensure_ascii=False) + "\n"
    found: list[dict[str, Any]] = json.loads(new)["cells"]
    return found


def test_a_new_cell_source_clears_its_outputs() -> None:
    for cell_id in ("c1", "cell-0"):
        cells = notebook(cell_id=cell_id, new_source="z=1")
        assert cells is not None
        assert (cells[0]["source"], cells[0]["outputs"], cells[0]["execution_count"]) == ("z=1", [], None)
    cells = notebook(cell_id="cell-1", new_source="x", cell_type="markdown")
    assert cells is not None
    assert (cells[1]["source"], cells[1]["cell_type"]) == ("x", "markdown")
    # Whether the outputs are kept depends on the version of Claude Code.
    assert notebook(cell_id="cell-1", new_source="x", cell_type="code") is None
    assert notebook(cell_id="c1", new_source="x", cell_type="markdown") is None


def test_a_cell_is_inserted_after_another_or_first() -> None:
    cells = notebook(cell_id="c1", new_source="new", cell_type="markdown", edit_mode="insert")
    assert cells is not None
    assert [cell["source"] for cell in cells] == [["a=1\n", "b"], "new", "# t ä"]
    assert cells[1] == {"cell_type": "markdown", "id": "new", "source": "new", "metadata": {}}
    cells = notebook(new_source="new", cell_type="code", edit_mode="insert")
    assert cells is not None
    assert cells[0]["outputs"] == []


def test_a_cell_is_deleted() -> None:
    cells = notebook(cell_id="m1", new_source="", edit_mode="delete")
    assert cells == NOTEBOOK["cells"][:1]  # type: ignore[index]


@pytest.mark.parametrize(
    "given_",
    [
        {"cell_id": "nine", "new_source": ""},
        {"cell_id": "cell-9", "new_source": ""},
        {"cell_id": "-1", "new_source": ""},
        {"cell_id": ["c1"], "new_source": ""},
        {"cell_id": "c1"},
        {"cell_id": "c1", "new_source": "", "edit_mode": "explode"},
        {"new_source": "", "edit_mode": "insert"},
    ],
)
def test_an_invalid_cell_edit_creates_no_proposal(given_: dict[str, Any]) -> None:
    assert notebook(**given_) is None


@pytest.mark.parametrize("old", [None, "", "no JSON", "[]", "5", '{"cells": 5}', '{"cells": [5]}', "[" * 5000])
def test_an_invalid_notebook_creates_no_proposal(old: str | None) -> None:
    assert changed("NotebookEdit", old, cell_id="c1", new_source="") is None


def shown(tool: str, old: str | None, **given: Any) -> set[str]:
    """Returns the fields of the call that the diff of its proposal shows."""
    name = "notebook_path" if tool == "NotebookEdit" else "file_path"
    given = {name: PATH, **given}
    found = proposal(tool, given, {PATH: old}.get)
    assert found is not None
    return {*shown_fields(tool, given, found)}


def test_the_diff_shows_the_fields_that_change_the_file() -> None:
    change = {"old_string": "a", "new_string": "b", "replace_all": False}
    assert shown("Edit", "a", **change) == {"file_path", *change}
    assert shown("MultiEdit", "a", edits=[change]) == {"file_path", "edits"}
    assert shown("Write", None, content="x") == {"file_path", "content"}
    cell = {"cell_id": "m1", "new_source": "x", "cell_type": "markdown", "edit_mode": "insert"}
    assert shown("NotebookEdit", NOTEBOOK_TEXT, **cell) == {"notebook_path", *cell}


@pytest.mark.parametrize(
    ("tool", "given_", "hidden"),
    [
        ("Write", {"content": "x", "chmod": "4755"}, "chmod"),
        ("Write", {"content": "x", "old_string": "x"}, "old_string"),
        ("Edit", {"old_string": "a", "new_string": "b", "notebook_path": PATH}, "notebook_path"),
        ("Edit", {"old_string": "a", "new_string": "b", "replace_all": {"run": "x"}}, "replace_all"),
        ("MultiEdit", {"edits": [{"old_string": "a", "new_string": "b", "run": "x"}]}, "edits"),
        ("MultiEdit", {"edits": [{"old_string": "a", "new_string": "b", "replace_all": "x"}]}, "edits"),
        ("MultiEdit", {"edits": [{"old_string": "a", "new_string": "b"}, "x"]}, "edits"),
        ("NotebookEdit", {"edit_mode": "delete", "cell_id": "m1", "new_source": "x"}, "new_source"),
        ("NotebookEdit", {"edit_mode": "delete", "cell_id": "m1", "cell_type": "x"}, "cell_type"),
        ("NotebookEdit", {"cell_id": "m1", "new_source": "x", "cell_type": ["x"]}, "cell_type"),
    ],
    ids=str,
)
def test_the_diff_does_not_show_a_field_without_effect(tool: str, given_: dict[str, Any], hidden: str) -> None:
    found = shown(tool, NOTEBOOK_TEXT if tool == "NotebookEdit" else "a", **given_)
    assert hidden not in found
    assert found


@pytest.mark.parametrize(
    "other",
    [Proposal("/p/other.txt", "a", "b"), Proposal(PATH, "a", "c"), Proposal(PATH, "aa", "b")],
    ids=["another file", "another text", "a call that fails"],
)
def test_the_diff_of_another_change_shows_no_fields(other: Proposal) -> None:
    given = {"file_path": PATH, "old_string": "a", "new_string": "b"}
    assert shown_fields("Edit", given, Proposal(PATH, "a", "b"))
    assert shown_fields("Edit", given, other) == ()


def test_the_diff_of_an_unknown_tool_shows_no_fields() -> None:
    given = {"": PATH, "file_path": PATH, "content": "b", "edits": [{"old_string": "a", "new_string": "b"}]}
    assert shown_fields("mcp__files__write", given, Proposal(PATH, "a", "b")) == ()


TEXTS = some.text(some.sampled_from("ab\n\r ä😀"), max_size=12)
FIELDS = ["old_string", "new_string", "replace_all", "content", "edits"]
FIELDS += ["cell_id", "new_source", "cell_type", "edit_mode"]
VALUES = (
    TEXTS | some.none() | some.integers() | some.booleans() | some.lists(some.dictionaries(TEXTS, TEXTS), max_size=2)
)


@given(
    some.sampled_from(["Edit", "MultiEdit", "Write", "NotebookEdit"]),
    some.none() | TEXTS | some.just(NOTEBOOK_TEXT),
    some.dictionaries(
        some.sampled_from(FIELDS),
        VALUES,
    ),
)
def test_any_input_is_handled(tool: str, old: str | None, given_: dict[str, Any]) -> None:
    changed(tool, old, **given_)
