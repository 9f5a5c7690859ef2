"""Decisions have the form that the server accepts, and the text that is shown is the text that will be written."""

from __future__ import annotations

import asyncio
import pty
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.widgets.text_area import Document

from drawbridge.agents.base import Decision
from drawbridge.server.auth.scopes import Identity, check_answer
from drawbridge.tui import answers, wording
from drawbridge.tui.code import DiffLines
from drawbridge.tui.colors import DARK, LIGHT, background_brightness, theme
from drawbridge.tui.command import attach, decide
from drawbridge.tui.difference import difference
from drawbridge.tui.server_address import Finder

from .rig import described, event


def asked(tool: str, old: str, new: str, given: dict[str, Any] | None = None) -> dict[str, Any]:
    proposal = {"path": "/x/a.py", "old_text": old, "new_text": new}
    return described({"tool_name": tool, "input": given or {"file_path": "/x/a.py"}, "proposal": proposal}, "Claude")


def test_an_edited_write_keeps_line_endings_and_byte_order_mark() -> None:
    request = asked("Write", "", "\ufeffone\r\ntwo\r\n")
    assert answers.draft(request) == "one\ntwo\n"
    assert answers.edited_input(request, "mine\ntwo\n") == {"file_path": "/x/a.py", "content": "\ufeffmine\r\ntwo\r\n"}
    assert answers.edited_text(request, answers.draft(request)) == request["proposal"]["new_text"]


@pytest.mark.parametrize("tool", ["Edit", "MultiEdit"])
@pytest.mark.parametrize("more", [{}, {"replace_all": True}, {"replace_all": False}], ids=str)
def test_an_edited_edit_replaces_the_whole_file(tool: str, more: dict[str, Any]) -> None:
    change = {"old_string": "b", "new_string": "c", **more}
    given = {"file_path": "/x/a.py", **(change if tool == "Edit" else {"edits": [change]})}
    request = asked(tool, "a\r\nb\r\n", "a\r\nc\r\n", given)
    whole = {"old_string": "a\nb\n", "new_string": "mine\n"}
    found = answers.edited_input(request, "mine\n")
    assert found == {**given, **(whole if tool == "Edit" else {"edits": [whole]})}
    assert change["new_string"] == "c", "the request itself stays as it was"


@pytest.mark.parametrize("tool", ["Edit", "MultiEdit", "Write"])
@pytest.mark.parametrize("more", [{}, {"replace_all": True}], ids=str)
def test_a_device_that_only_approves_can_edit_a_file(tool: str, more: dict[str, Any]) -> None:
    change = {"old_string": "b", "new_string": "c", **more}
    given = {"file_path": "/x/a.py", **({"edits": [change]} if tool == "MultiEdit" else change)}
    request = asked(tool, "a\nb\n", "a\nc\n", given)
    found = Decision(allow=True, updated_input=answers.edited_input(request, "mine\n"))
    check_answer(Identity(name="phone", scope="approve", device_id="1"), found, event(request))


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"tool_name": "Bash", "input": {"command": "ls"}}, "can't be edited"),
        (asked("NotebookEdit", "a", "b"), "can't be edited"),
        (asked("Write", "", "x\x1b[31m"), "characters that a terminal can't show"),
        (asked("Write", "", "x\u2028y"), "characters that a terminal can't show"),
        (asked("Write", "", "a\r\nb\n"), "characters that a terminal can't show"),
        (asked("Write", "", "x") | {"truncated": {"blob_id": "b", "bytes": 5}}, "Only part of this request"),
        (asked("Write", "", "x") | {"changeable": False}, "does not accept edits"),
        (asked("Write", "", "x\ty\r\nz é 漢\r\n"), ""),
    ],
)
def test_a_request_that_cannot_be_edited_here_has_a_reason(request_: dict[str, Any], words: str) -> None:
    """For example, a text field would change or hide a part of the text."""
    assert words in answers.why_not_edited(request_)
    assert bool(answers.why_not_edited(request_)) == bool(words)


@given(st.text())
def test_an_editable_text_is_unchanged_by_the_edit_field(text: str) -> None:
    """Texts that the field would change are not editable."""
    request = asked("Write", "", text)
    if not answers.why_not_edited(request):
        field = Document(answers.draft(request))
        assert answers.edited_text(request, field.text) == text


def test_a_diff_counts_skipped_lines_and_marks_changed_words() -> None:
    """The diff also has line numbers, and a note if the last line loses its newline."""
    old = "".join(f"line {number}\n" for number in range(1, 21))
    found = difference(old, old.replace("line 10\n", "line ten\n").replace("line 20\n", "line 20"))
    shown = [(line.kind, line.number, line.text) for line in found.lines]
    assert shown[0] == ("skipped", 6, "")
    assert shown[4:6] == [("removed", 10, "line 10"), ("added", 10, "line ten")]
    assert [line.marks for line in found.lines[4:6]] == [((5, 7),), ((5, 8),)]
    assert shown[-1] == ("skipped", 7, "")
    assert (found.added, found.removed, found.notes) == (1, 1, ["the newline is removed from the end of the file"])


@given(st.lists(st.sampled_from("abcd"), max_size=12), st.lists(st.sampled_from("abcd"), max_size=12))
def test_a_diff_accounts_for_every_line_of_both_texts(old: list[str], new: list[str]) -> None:
    found = difference("".join(f"{one}\n" for one in old), "".join(f"{one}\n" for one in new))
    assert [line.text for line in found.lines if line.kind == "removed"] == [
        old[line.number - 1] for line in found.lines if line.kind == "removed"
    ]
    assert all(new[line.number - 1] == line.text for line in found.lines if line.kind == "added")
    context = sum(line.kind == "context" for line in found.lines)
    skipped = sum(line.number for line in found.lines if line.kind == "skipped")
    if found.lines:
        assert context + skipped + found.removed == len(old)
        assert context + skipped + found.added == len(new)


@pytest.mark.parametrize("width", [24, 60])
def test_a_long_line_of_a_diff_is_wrapped_without_losing_text(width: int) -> None:
    texts = "/x/a.py", "", 'name = "' + "漢字 and more " * 12 + '"\n\treturn 1\n'
    lines = DiffLines(difference(*texts[1:]), texts, DARK, width)
    shown = [lines[at] for at in range(len(lines))]
    assert all(strip.cell_length == width for strip in shown)
    assert "".join(strip.text[5:] for strip in shown).replace(" ", "") == texts[2].replace(" ", "").expandtabs(
        0
    ).replace("\n", "")


def test_the_terminals_background_determines_the_theme() -> None:
    assert background_brightness(b"\x1b]11;rgb:ffff/ffff/ffff\x1b\\\x1b[?62;c") == pytest.approx(1.0)
    assert background_brightness(b"\x1b]11;rgb:14/18/1b\x07") == pytest.approx(0.09, abs=0.01)
    assert background_brightness(b"\x1b[?62;c") is None
    assert (theme(DARK).dark, theme(LIGHT).dark) == (True, False)


@pytest.mark.parametrize("command", ["attach", "review"])
def test_bidirectional_reordering_is_off_while_drawing(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    """Reordering is turned on again at the end, even after an error."""

    async def begun(*_: Any) -> None:
        return None

    async def draw(_: Any) -> None:
        print("drawn", end="", file=sys.__stdout__, flush=True)
        raise OSError("no disk")

    monkeypatch.setenv("TERM", "xterm")
    finder = Finder("ws://127.0.0.1:1")
    runs = attach(finder, None, "", DARK) if command == "attach" else decide(finder, "", DARK, ends_server=False)
    monkeypatch.setattr("drawbridge.tui.command.begin", begun)
    monkeypatch.setattr("drawbridge.tui.command.begin_review", begun)
    monkeypatch.setattr("drawbridge.tui.app.AttachApp.run_async", draw)
    ours, theirs = pty.openpty()
    with open(ours, "rb", buffering=0) as terminal, open(theirs, "w") as output:
        monkeypatch.setattr(sys, "__stdout__", output)
        with pytest.raises(OSError, match="disk"):
            asyncio.run(runs)
        drawn = b""
        while not drawn.endswith(b"\x1b[8h"):  # one read may return only part of the output
            drawn += terminal.read(100)
        assert drawn == b"\x1b[8ldrawn\x1b[8h"


def test_a_blocked_project_shows_why() -> None:
    """The reason is not shown while a run is active or waits for an answer. It is shown as harmless text."""
    project = {"state": "IDLE", "problem": "It is outside\x1b[2J of --allow."}
    assert wording.project_state(project) == "It is outside\\x1b[2J of --allow."
    assert "outside" not in wording.project_state(project | {"state": "EXECUTING"})
    assert wording.project_state(project | {"approvals": [{}]}) == "Needs you"
