"""What Gemini CLI receives about the workspace, in the form that its schema requires."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbridge.editors.port import Position, Range, Selection
from drawbridge.ide.context import MEMORY, Context, Recent
from drawbridge.ide.gemini import notices as gemini_notices
from drawbridge.ide.gemini.notices import (
    SELECTION_LIMIT,
    ContextUpdate,
    Cursor,
    DiffAccepted,
    DiffRejected,
    OpenFile,
    WorkspaceState,
    cut,
)


def selection(path: str, text: str = "", *, line: int = 0, character: int = 0) -> Selection:
    return Selection(path, text, Range(Position(0, 0), Position(line, character)))


def files(context: Context) -> list[Any]:
    """Returns the open files of a context update, as they are sent."""
    message = json.loads(gemini_notices.encode(context.notice()))
    assert message["method"] == "ide/contextUpdate"
    open_files: list[Any] = message["params"]["workspaceState"]["openFiles"]
    return open_files


def after(*paths: str) -> Recent:
    recent = Recent()
    for at, path in enumerate(paths):
        recent.saw(path, 1_000 + at)
    return recent


def test_the_current_file_is_active_and_has_a_cursor() -> None:
    """The cursor's line and character are counted from 1."""
    recent = after("/a", "/b")
    selected = selection("/b", "two", line=1, character=3)
    assert files(recent.context(selected, ["/a", "/b"])) == [
        {
            "path": "/b",
            "timestamp": 1_001,
            "isActive": True,
            "cursor": {"line": 2, "character": 4},
            "selectedText": "two",
        },
        {"path": "/a", "timestamp": 1_000},
    ]


def test_a_cursor_without_a_selection_has_no_selected_text() -> None:
    [file] = files(after("/a").context(selection("/a"), ["/a"]))
    assert file == {"path": "/a", "timestamp": 1_000, "isActive": True, "cursor": {"line": 1, "character": 1}}


def test_without_open_files_the_list_is_empty() -> None:
    assert files(Context()) == []
    assert files(Recent().context(None, [])) == []


def test_closed_or_never_viewed_files_are_left_out() -> None:
    recent = after("/a", "/b", "/c")
    assert [file["path"] for file in files(recent.context(None, ["/c", "/a", "/never"]))] == ["/c", "/a"]


def test_no_file_is_active_if_the_current_one_is_left_out() -> None:
    recent = after("/a", "/new")
    assert files(recent.context(selection("/new"), ["/a"])) == [{"path": "/a", "timestamp": 1_000}]


def test_the_ten_newest_files_are_sent_newest_first() -> None:
    paths = [f"/{number}" for number in range(15)]
    sent = files(after(*paths, "/3").context(selection("/3"), paths))
    assert [file["path"] for file in sent] == ["/3", *(f"/{number}" for number in range(14, 5, -1))]
    times = [file["timestamp"] for file in sent]
    assert times == sorted(set(times), reverse=True)


def test_timestamps_increase_even_if_the_clock_does_not() -> None:
    recent = Recent()
    for path, now in (("/a", 500), ("/b", 500), ("/c", 3)):
        recent.saw(path, now)
    assert recent.context(None, ["/a", "/b", "/c"]).files == (("/c", 502), ("/b", 501), ("/a", 500))


def test_a_file_that_stays_current_does_not_change_the_context() -> None:
    recent = after("/a", "/b")
    before = recent.context(selection("/b"), ["/a", "/b"])
    recent.saw("/b", 9_999)
    assert recent.context(selection("/b"), ["/a", "/b"]) == before


def test_only_the_most_recent_files_are_remembered() -> None:
    recent = after(*(f"/{number}" for number in range(MEMORY + 5)))
    assert recent.context(None, ["/0", "/4", "/5"]).files == (("/5", 1_005),)
    assert len(recent._seen) == MEMORY


# the selected text


@given(st.text(st.characters(codec=None), max_size=50), st.sampled_from(["", "a", "a" * (SELECTION_LIMIT - 25)]))
def test_a_selection_is_cut_at_16384_units_on_a_whole_character(end: str, start: str) -> None:
    text = start + end
    shortened = cut(text)
    units = len(shortened.encode("utf-16-le", "surrogatepass")) // 2
    assert text.startswith(shortened)
    assert units <= SELECTION_LIMIT
    assert shortened == text or units >= SELECTION_LIMIT - 1


@pytest.mark.parametrize("filler", ["", "a"])
def test_a_cut_selection_never_ends_with_half_an_emoji(filler: str) -> None:
    [file] = files(after("/a").context(selection("/a", filler + "😀" * SELECTION_LIMIT), ["/a"]))
    assert file["selectedText"] == filler + "😀" * ((SELECTION_LIMIT - len(filler)) // 2)


def test_undecodable_bytes_are_replaced_in_the_message() -> None:
    selected = selection("/caf\udce9", "b\udcff")
    [file] = files(after("/caf\udce9").context(selected, ["/caf\udce9"]))
    assert (file["path"], file["selectedText"]) == ("/caf\ufffd", "b\ufffd")


# the check before a notification is sent


def test_decision_notices_have_the_expected_format() -> None:
    assert json.loads(gemini_notices.encode(DiffAccepted("/a b", ""))) == {
        "jsonrpc": "2.0",
        "method": "ide/diffAccepted",
        "params": {"filePath": "/a b", "content": ""},
    }
    assert json.loads(gemini_notices.encode(DiffRejected("/ü")))["params"] == {"filePath": "/ü"}


@pytest.mark.parametrize(
    "file",
    [
        OpenFile("", 1),
        OpenFile("/a", -1),
        OpenFile("/a", 1, cursor=Cursor(0, 1)),
        OpenFile("/a", 1, cursor=Cursor(1, 0)),
        OpenFile("/a", 1, selected_text=""),
        OpenFile("/a", 1, selected_text="x" * (SELECTION_LIMIT + 1)),
        OpenFile("/a", None),  # type: ignore[arg-type]
        OpenFile("/a", 1, cursor=None),  # type: ignore[arg-type]
        OpenFile("/a", 1.5),  # type: ignore[arg-type]
    ],
)
def test_a_file_that_would_break_the_cli_is_not_sent(file: OpenFile) -> None:
    with pytest.raises(msgspec.ValidationError):
        gemini_notices.encode(ContextUpdate(WorkspaceState((file,))))


def test_more_than_ten_files_or_a_decision_without_text_fail() -> None:
    with pytest.raises(msgspec.ValidationError):
        gemini_notices.encode(ContextUpdate(WorkspaceState((OpenFile("/a", 1),) * 11)))
    with pytest.raises(msgspec.ValidationError):
        gemini_notices.encode(DiffAccepted("/a", None))  # type: ignore[arg-type]
