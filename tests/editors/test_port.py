"""One suite for the behavior of every real editor, and of the fake editor that other tests use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from drawbridge.core.errors import EditorGone, EditorHung, Refused
from drawbridge.editors.port import (
    SELECTION_LIMIT,
    Accepted,
    BridgeState,
    BufferStatus,
    Decided,
    Diagnostic,
    FileDiagnostics,
    FoldersChanged,
    Gone,
    Mentioned,
    OpenRequest,
    Position,
    Range,
    Rejected,
    Selection,
    SelectionChanged,
    Tab,
)
from tests.editors.rigs import BUFFERS, HANGS, LEAVES, Rig, having, lacking, proposal
from tests.waiting import until

OLD, NEW = "one\ntwo\nthree\n", "one\nTWO\nthree\nfour\n"

# An old text, the proposed text, and a version of it that a person edited.
TEXTS = {
    "lf": (OLD, NEW, "one\n2\n"),
    "crlf": ("a\r\nb\r\n", "a\r\nB\r\n", "a\r\nb2\r\n"),
    "mixed": ("a\r\nb\nc\n", "a\r\nb\nC\r\n\n", "a\r\nb2\nC\n"),
    "bom": ("\ufeffa\n", "\ufeffa\nb\n", "\ufeffa\nb2\n"),
    "bom and crlf": ("\ufeffa\r\n", "\ufeffa\r\nb\r\n", "\ufeffa\r\nb2\r\n"),
    "no final newline": ("a\nb", "a\nB", "a\nb2"),
    "a final newline": ("a\nb", "a\nb\n", "a\nb2\n"),
    "a new file": ("", "a\n", "b\n"),
    "emptied": ("a\n", "", "b\n"),
    "blank lines": ("\n", "\n\n", "\n\n\n"),
    "emoji": ("😀\n", "😀 👩‍🚀 e\u0301\n", "👩‍🚀\n"),
    "odd characters": ("a\u2028b\x85c\fd\te\n", "a\u2028b\x85c\fD\te\x1b[31m\n", "a\u2028\x1b\n"),
}
# The texts that a person could type over an open file without also changing its format.
TYPED = {
    name: (old, edited)
    for name, (old, _, edited) in TEXTS.items()
    if old and old.endswith("\n") == edited.endswith("\n")
}
each_text = pytest.mark.parametrize(("old", "new", "edited"), TEXTS.values(), ids=TEXTS)


def at(line: int, character: int, end_line: int, end_character: int) -> Range:
    return Range(Position(line, character), Position(end_line, end_character))


class TestProposals:
    @each_text
    async def test_an_accepted_proposal_is_reported_once_byte_for_byte(
        self, editor_rig: Rig, old: str, new: str, edited: str
    ) -> None:
        """The editor does not write the file."""
        path = a_file(editor_rig, "file.txt", old)
        await editor_rig.editor.show(proposal(path, old, new))
        await editor_rig.accept("1")
        assert editor_rig.decisions == [("1", Accepted(new))]
        assert path.read_bytes() == old.encode()
        await nothing_more_is_reported(editor_rig)

    @each_text
    async def test_an_edited_proposal_is_accepted_as_edited(
        self, editor_rig: Rig, old: str, new: str, edited: str
    ) -> None:
        path = a_file(editor_rig, "file.txt", old)
        await editor_rig.editor.show(proposal(path, old, new))
        await editor_rig.edit("1", edited)
        assert await editor_rig.editor.proposed_text("1") == edited
        assert editor_rig.decisions == []
        await editor_rig.accept("1")
        assert editor_rig.decisions == [("1", Accepted(edited))]
        assert path.read_bytes() == old.encode()

    async def test_the_proposed_text_can_be_read_until_the_decision(self, editor_rig: Rig) -> None:
        path = a_file(editor_rig, "file.txt", OLD)
        await editor_rig.editor.show(proposal(path, OLD, NEW, id="first"))
        await editor_rig.editor.show(proposal(path, OLD, "other\n", id="second"))
        assert await editor_rig.editor.proposed_text("first") == NEW
        assert await editor_rig.editor.proposed_text("second") == "other\n"
        await editor_rig.accept("first")
        assert await editor_rig.editor.proposed_text("first") is None
        assert await editor_rig.editor.proposed_text("unknown") is None

    async def test_a_rejected_proposal_is_reported_once(self, editor_rig: Rig) -> None:
        path = a_file(editor_rig, "file.txt", OLD)
        await editor_rig.editor.show(proposal(path, OLD, NEW))
        await editor_rig.reject("1")
        assert editor_rig.decisions == [("1", Rejected())]
        assert path.read_text() == OLD
        await nothing_more_is_reported(editor_rig)

    async def test_closing_the_view_rejects_the_proposal(self, editor_rig: Rig) -> None:
        path = a_file(editor_rig, "file.txt", OLD)
        await editor_rig.editor.show(proposal(path, OLD, NEW))
        await editor_rig.close_view("1")
        assert editor_rig.decisions == [("1", Rejected())]
        await nothing_more_is_reported(editor_rig)

    async def test_accepting_a_new_file_does_not_create_it(self, editor_rig: Rig) -> None:
        path = editor_rig.folder / "not yet" / "new.txt"
        await editor_rig.editor.show(proposal(path, "", NEW))
        await editor_rig.accept("1")
        assert editor_rig.decisions == [("1", Accepted(NEW))]
        assert not path.parent.exists()

    async def test_code_is_accepted_like_a_change(self, editor_rig: Rig) -> None:
        await editor_rig.editor.show(proposal("", "", "print(1)\n", kind="code"))
        await editor_rig.accept("1")
        assert editor_rig.decisions == [("1", Accepted("print(1)\n"))]

    async def test_each_decision_is_reported_under_its_proposals_id(self, editor_rig: Rig) -> None:
        path = a_file(editor_rig, "file.txt", OLD)
        await editor_rig.editor.show(proposal(path, OLD, NEW, id="first"))
        await editor_rig.editor.show(proposal(path, OLD, "other\n", id="second"))
        await editor_rig.reject("first")
        await editor_rig.accept("second")
        assert editor_rig.decisions == [("first", Rejected()), ("second", Accepted("other\n"))]

    async def test_a_withdrawn_proposal_is_closed_without_a_decision(self, editor_rig: Rig) -> None:
        path = a_file(editor_rig, "file.txt", OLD)
        await editor_rig.editor.show(proposal(path, OLD, NEW))
        await editor_rig.until_asked()
        await editor_rig.editor.withdraw("1")
        await editor_rig.until_asked(False)
        await nothing_more_is_reported(editor_rig)

    async def test_a_proposal_withdrawn_while_it_waits_is_never_shown(self, editor_rig: Rig) -> None:
        path = a_file(editor_rig, "file.txt", OLD)
        await editor_rig.editor.show(proposal(path, OLD, NEW, id="first"))
        await editor_rig.editor.show(proposal(path, OLD, NEW, id="second"))
        await editor_rig.editor.withdraw("second")
        await editor_rig.accept("first")
        await editor_rig.until_asked(False)
        assert editor_rig.decisions == [("first", Accepted(NEW))]

    async def test_withdrawing_an_unknown_or_decided_proposal_is_ignored(self, editor_rig: Rig) -> None:
        path = a_file(editor_rig, "file.txt", OLD)
        await editor_rig.editor.show(proposal(path, OLD, NEW))
        await editor_rig.editor.withdraw("never heard of")
        await editor_rig.accept("1")
        await editor_rig.editor.withdraw("1")
        assert editor_rig.decisions == [("1", Accepted(NEW))]

    async def test_disconnecting_with_an_open_proposal_reports_nothing(self, editor_rig: Rig) -> None:
        path = a_file(editor_rig, "file.txt", OLD)
        await editor_rig.editor.show(proposal(path, OLD, NEW))
        await editor_rig.until_asked()
        await editor_rig.editor.close()
        assert not [event for event in editor_rig.events if isinstance(event, Decided | Gone)]
        assert path.read_text() == OLD


class TestSelection:
    @having(BUFFERS)
    @pytest.mark.parametrize(
        ("content", "start", "end", "selected", "text"),
        [
            pytest.param("one\ntwo\n", (0, 1), (0, 3), at(0, 1, 0, 3), "ne", id="letters"),
            pytest.param("one\ntwo\n", (0, 1), (1, 2), at(0, 1, 1, 2), "ne\ntw", id="two lines"),
            pytest.param("one\r\ntwo\r\n", (0, 1), (1, 2), at(0, 1, 1, 2), "ne\ntw", id="crlf"),
            pytest.param("\ufeffone\n", (0, 0), (0, 2), at(0, 0, 0, 2), "on", id="bom"),
            pytest.param("\t\ta\n", (0, 1), (0, 3), at(0, 1, 0, 3), "\ta", id="tabs"),
            pytest.param("größe\n", (0, 2), (0, 4), at(0, 2, 0, 4), "öß", id="two bytes a letter"),
            pytest.param("a😀b😀c\n", (0, 2), (0, 5), at(0, 3, 0, 7), "b😀c", id="emoji"),
            pytest.param("xe\u0301y\n", (0, 1), (0, 4), at(0, 1, 0, 4), "e\u0301y", id="combining mark"),
            pytest.param("no newline", (0, 3), (0, 10), at(0, 3, 0, 10), "newline", id="no final newline"),
            pytest.param("a😀b\n", (0, 2), (0, 2), at(0, 3, 0, 3), "", id="a bare cursor"),
        ],
    )
    async def test_columns_count_utf16_code_units(
        self, editor_rig: Rig, content: str, start: tuple[int, int], end: tuple[int, int], selected: Range, text: str
    ) -> None:
        path = a_file(editor_rig, "file.txt", content)
        await editor_rig.open(path)
        await editor_rig.select(path, start, end)
        expected = Selection(str(path), text, selected)
        assert await editor_rig.editor.selection() == expected
        await until(lambda: SelectionChanged(expected) in editor_rig.events, "the report of the selection")

    @having(BUFFERS)
    async def test_only_the_text_of_a_long_selection_is_truncated(self, editor_rig: Rig) -> None:
        lines = 2 + SELECTION_LIMIT // 100
        path = a_file(editor_rig, "file.txt", ("x" * 99 + "\n") * lines)
        await editor_rig.open(path)
        await editor_rig.select(path, (0, 0), (lines - 1, 99))
        selection = await editor_rig.editor.selection()
        assert selection is not None
        assert len(selection.text) == SELECTION_LIMIT
        assert selection.range == at(0, 0, lines - 1, 99)

    @having(BUFFERS)
    async def test_without_an_open_file_the_selection_is_empty(self, editor_rig: Rig) -> None:
        assert await editor_rig.editor.selection() is None

    @lacking(BUFFERS)
    async def test_an_editor_without_buffers_has_no_selection(self, editor_rig: Rig) -> None:
        a_file(editor_rig, "file.txt", OLD)
        assert await editor_rig.editor.selection() is None


class TestFiles:
    @having(BUFFERS)
    async def test_open_files_are_listed_with_their_state(self, editor_rig: Rig) -> None:
        first, second = a_file(editor_rig, "first.py", "a\nb\n"), a_file(editor_rig, "sp ace #2 100%.txt", "")
        await editor_rig.open(first)
        await editor_rig.type(first, "a\nb\nc\n")
        await editor_rig.open(second)
        tabs = {tab.path: tab for tab in await editor_rig.editor.tabs()}
        language = tabs[str(second)].language
        assert tabs == {
            str(first): Tab(str(first), active=False, modified=True, language="python", line_count=3),
            str(second): Tab(str(second), active=True, modified=False, language=language, line_count=1),
        }

    @having(BUFFERS)
    async def test_an_open_file_is_modified_until_it_is_saved(self, editor_rig: Rig) -> None:
        path = a_file(editor_rig, "file.txt", OLD)
        await editor_rig.open(path)
        assert await editor_rig.editor.status(str(path)) == BufferStatus(modified=False, untitled=False)
        await editor_rig.type(path, NEW)
        assert await editor_rig.editor.status(str(path)) == BufferStatus(modified=True, untitled=False)
        assert path.read_text() == OLD
        await editor_rig.editor.save(str(path))
        assert await editor_rig.editor.status(str(path)) == BufferStatus(modified=False, untitled=False)
        assert path.read_text() == NEW

    @having(BUFFERS)
    async def test_a_file_that_was_never_saved_is_untitled(self, editor_rig: Rig) -> None:
        path = editor_rig.folder / "new.txt"
        await editor_rig.open(path)
        await editor_rig.type(path, NEW)
        assert await editor_rig.editor.status(str(path)) == BufferStatus(modified=True, untitled=True)

    async def test_an_unopened_file_has_no_status_and_no_unsaved_text(self, editor_rig: Rig) -> None:
        path = a_file(editor_rig, "file.txt", OLD)
        assert await editor_rig.editor.status(str(path)) is None
        assert await editor_rig.editor.unsaved_text(str(path)) is None
        assert str(path) not in [tab.path for tab in await editor_rig.editor.tabs()]

    async def test_a_file_that_is_not_open_is_not_saved(self, editor_rig: Rig) -> None:
        path = a_file(editor_rig, "file.txt", OLD)
        with pytest.raises(Refused, match=r"file\.txt"):
            await editor_rig.editor.save(str(path))
        assert path.read_text() == OLD

    @having(BUFFERS)
    async def test_a_file_that_cannot_be_written_keeps_its_changes(self, editor_rig: Rig) -> None:
        """The save is refused, and the error names the file."""
        path = a_file(editor_rig, "folder/file.txt", OLD)
        await editor_rig.open(path)
        await editor_rig.type(path, NEW)
        path.unlink()
        path.parent.rmdir()
        path.parent.touch()
        with pytest.raises(Refused, match=r"file\.txt"):
            await editor_rig.editor.save(str(path))
        assert await editor_rig.editor.unsaved_text(str(path)) == NEW

    @having(BUFFERS)
    @pytest.mark.parametrize(("old", "edited"), TYPED.values(), ids=TYPED)
    async def test_unsaved_text_is_what_saving_would_write(self, editor_rig: Rig, old: str, edited: str) -> None:
        path = a_file(editor_rig, "file.txt", old)
        await editor_rig.open(path)
        assert await editor_rig.editor.unsaved_text(str(path)) is None
        await editor_rig.type(path, edited)
        unsaved = await editor_rig.editor.unsaved_text(str(path))
        assert unsaved is not None
        assert unsaved in (edited, edited + "\n")  # Neovim adds the final newline ('fixendofline')
        await editor_rig.editor.save(str(path))
        assert path.read_bytes() == unsaved.encode()
        assert await editor_rig.editor.unsaved_text(str(path)) is None

    async def test_opening_a_file_returns_its_path_language_and_length(self, editor_rig: Rig) -> None:
        path = a_file(editor_rig, "sp ace #2 100%.py", OLD)
        opened = await editor_rig.editor.open_file(OpenRequest(str(path)))
        assert (opened.path, opened.language, opened.line_count, opened.found) == (str(path), "python", 3, True)

    async def test_a_text_that_is_not_in_the_file_is_reported_as_missing(self, editor_rig: Rig) -> None:
        path = a_file(editor_rig, "file.txt", OLD)
        request = OpenRequest(str(path), start_text="three")
        assert (await editor_rig.editor.open_file(request)).found
        request = OpenRequest(str(path), start_text="four")
        assert not (await editor_rig.editor.open_file(request)).found

    @having(BUFFERS)
    @pytest.mark.parametrize(
        ("request_", "selected"),
        [
            pytest.param(OpenRequest("", start_text="two"), at(1, 3, 1, 6), id="one text"),
            pytest.param(OpenRequest("", start_text="two", end_text="three"), at(1, 3, 2, 5), id="to another"),
            pytest.param(OpenRequest("", start_text="two", end_text="nowhere"), at(1, 3, 1, 6), id="to nowhere"),
            pytest.param(
                OpenRequest("", start_text="one", to_end_of_line=True), at(0, 0, 0, 7), id="to the line's end"
            ),
            pytest.param(OpenRequest("", start_text="end\n😀 two"), at(0, 4, 1, 6), id="across lines"),
        ],
    )
    async def test_the_requested_text_is_selected(
        self, editor_rig: Rig, request_: OpenRequest, selected: Range
    ) -> None:
        path = a_file(editor_rig, "file.txt", "one end\n😀 two!\nthree two\n")
        fields = {name: getattr(request_, name) for name in ("start_text", "end_text", "to_end_of_line")}
        await editor_rig.editor.open_file(OpenRequest(str(path), **fields))
        selection = await editor_rig.editor.selection()
        assert selection is not None
        assert selection.range == selected

    @having(BUFFERS)
    async def test_opening_a_file_without_focus_does_not_move_the_user(self, editor_rig: Rig) -> None:
        here, there = a_file(editor_rig, "here.txt", OLD), a_file(editor_rig, "there.txt", NEW)
        await editor_rig.open(here)
        before = await editor_rig.editor.selection()
        await editor_rig.editor.open_file(OpenRequest(str(there), focus=False))
        assert await editor_rig.editor.selection() == before
        assert [tab.path for tab in await editor_rig.editor.tabs() if tab.active] == [str(here)]


class TestWhatTheAgentWrote:
    @having(BUFFERS)
    async def test_an_unmodified_file_is_shown_as_it_is_on_disk(self, editor_rig: Rig) -> None:
        path = a_file(editor_rig, "file.txt", OLD)
        await editor_rig.open(path)
        await editor_rig.editor.show(proposal(path, OLD, NEW))
        await editor_rig.accept("1")
        path.write_text(NEW)
        await editor_rig.editor.written(str(path), NEW, "1")
        assert await editor_rig.text_of(path) == NEW
        assert await editor_rig.editor.status(str(path)) == BufferStatus(modified=False, untitled=False)

    @having(BUFFERS)
    async def test_unsaved_changes_in_the_proposal_become_saved(self, editor_rig: Rig) -> None:
        path = a_file(editor_rig, "file.txt", OLD)
        await editor_rig.open(path)
        await editor_rig.type(path, "unsaved\n" + OLD)
        assert await editor_rig.editor.unsaved_text(str(path)) == "unsaved\n" + OLD
        await editor_rig.editor.show(proposal(path, "unsaved\n" + OLD, "unsaved\n" + NEW))
        await editor_rig.accept("1")
        path.write_text("unsaved\n" + NEW)
        await editor_rig.editor.written(str(path), "unsaved\n" + NEW, "1")
        assert await editor_rig.text_of(path) == "unsaved\n" + NEW
        assert await editor_rig.editor.status(str(path)) == BufferStatus(modified=False, untitled=False)

    @having(BUFFERS)
    @pytest.mark.parametrize("unsaved", ["", "unsaved\n"])
    async def test_text_typed_while_a_proposal_is_made_is_never_lost(self, editor_rig: Rig, unsaved: str) -> None:
        """The proposal is made from the text that the bridge has read, and does not contain what was typed since."""
        path = a_file(editor_rig, "file.txt", OLD)
        await editor_rig.open(path)
        if unsaved:
            await editor_rig.type(path, unsaved + OLD)
        assert await editor_rig.editor.unsaved_text(str(path)) == (unsaved + OLD if unsaved else None)
        await editor_rig.type(path, "typed since\n" + unsaved + OLD)
        await editor_rig.editor.show(proposal(path, unsaved + OLD, unsaved + NEW))
        await editor_rig.accept("1")
        path.write_text(unsaved + NEW)
        await editor_rig.editor.written(str(path), unsaved + NEW, "1")
        assert await editor_rig.text_of(path) == "typed since\n" + unsaved + OLD
        assert (await editor_rig.editor.status(str(path))) == BufferStatus(modified=True, untitled=False)

    @having(BUFFERS)
    async def test_text_typed_into_a_file_opened_meanwhile_is_kept(self, editor_rig: Rig) -> None:
        """The file was opened while the proposal was made."""
        path = a_file(editor_rig, "file.txt", OLD)
        assert await editor_rig.editor.unsaved_text(str(path)) is None
        await editor_rig.open(path)
        await editor_rig.type(path, "typed since\n" + OLD)
        await editor_rig.editor.show(proposal(path, OLD, NEW))
        await editor_rig.accept("1")
        path.write_text(NEW)
        await editor_rig.editor.written(str(path), NEW, "1")
        assert await editor_rig.text_of(path) == "typed since\n" + OLD

    @having(BUFFERS)
    async def test_text_typed_after_the_decision_is_never_lost(self, editor_rig: Rig) -> None:
        path = a_file(editor_rig, "file.txt", OLD)
        await editor_rig.open(path)
        await editor_rig.editor.show(proposal(path, OLD, NEW))
        await editor_rig.accept("1")
        await editor_rig.type(path, "typed since\n" + OLD)
        path.write_text(NEW)
        await editor_rig.editor.written(str(path), NEW, "1")
        assert await editor_rig.text_of(path) == "typed since\n" + OLD
        assert (await editor_rig.editor.status(str(path))) == BufferStatus(modified=True, untitled=False)

    async def test_a_file_that_is_not_open_is_not_opened(self, editor_rig: Rig) -> None:
        path = a_file(editor_rig, "file.txt", NEW)
        await editor_rig.editor.written(str(path), NEW, "unknown")
        assert await editor_rig.editor.status(str(path)) is None


class TestDiagnostics:
    async def test_a_file_without_diagnostics_has_one_empty_entry(self, editor_rig: Rig) -> None:
        """It is left out when the diagnostics of all files are requested."""
        path = a_file(editor_rig, "file.txt", OLD)
        assert await editor_rig.editor.diagnostics(str(path)) == [FileDiagnostics(str(path), ())]
        assert await editor_rig.editor.diagnostics(None) == []

    @having(BUFFERS)
    async def test_diagnostics_are_returned_for_one_file_and_for_all(self, editor_rig: Rig) -> None:
        path, other = a_file(editor_rig, "file.txt", OLD), a_file(editor_rig, "other.txt", OLD)
        problem = Diagnostic("two is no number", "Warning", at(1, 0, 1, 3), source="counter", code="W2")
        await editor_rig.open(path)
        await editor_rig.diagnose(path, problem)
        found = [FileDiagnostics(str(path), (problem,))]
        assert await editor_rig.editor.diagnostics(str(path)) == found
        assert await editor_rig.editor.diagnostics(None) == found
        assert await editor_rig.editor.diagnostics(str(other)) == [FileDiagnostics(str(other), ())]


class TestLifecycle:
    async def test_the_editor_has_a_folder_a_name_and_a_process_id(self, editor_rig: Rig) -> None:
        assert await editor_rig.editor.folders() == (str(editor_rig.folder),)
        assert editor_rig.editor.name
        assert editor_rig.editor.pid > 0

    @having(BUFFERS)
    async def test_a_change_of_the_folder_is_reported(self, editor_rig: Rig) -> None:
        other = editor_rig.folder / "other"
        other.mkdir()
        await editor_rig.change_folder(other)
        await until(lambda: FoldersChanged((str(other),)) in editor_rig.events, "the report of the folder")
        assert await editor_rig.editor.folders() == (str(other),)

    @having(BUFFERS)
    @pytest.mark.parametrize("lines", [(1, 2), (0, 0), None])
    async def test_a_mention_is_reported(self, editor_rig: Rig, lines: tuple[int, int] | None) -> None:
        path = a_file(editor_rig, "file.txt", OLD)
        await editor_rig.mention(path, lines)
        await until(lambda: Mentioned(str(path), lines) in editor_rig.events, "the report of the mention")

    async def test_notices_and_the_bridges_state_cause_no_decision(self, editor_rig: Rig) -> None:
        await editor_rig.editor.announce(BridgeState(4711, "a token"))
        await editor_rig.editor.announce(BridgeState(4711, "a token", ("Claude Code",)))
        await editor_rig.editor.announce(BridgeState(4711, "a token"))
        await editor_rig.editor.notify("Look at this.\nAnd this.")
        await editor_rig.editor.notify("Something is wrong.", "error")
        await nothing_more_is_reported(editor_rig)

    async def test_a_prompt_to_a_missing_terminal_is_refused(self, editor_rig: Rig) -> None:
        with pytest.raises(Refused, match="terminal"):
            await editor_rig.editor.type_prompt(os.getpid(), "Do it")

    async def test_closing_twice_is_allowed_and_not_reported_as_gone(self, editor_rig: Rig) -> None:
        await editor_rig.editor.close()
        await editor_rig.editor.close()
        assert Gone() not in editor_rig.events

    @having(LEAVES)
    async def test_gone_is_the_last_event_and_later_calls_fail(self, editor_rig: Rig) -> None:
        path = a_file(editor_rig, "file.txt", OLD)
        await editor_rig.editor.show(proposal(path, OLD, NEW))
        await editor_rig.leave()
        await until(lambda: Gone() in editor_rig.events, "the report of the end")
        with pytest.raises(EditorGone):
            await editor_rig.editor.tabs()
        with pytest.raises(EditorGone):
            await editor_rig.editor.show(proposal(path, OLD, NEW, id="2"))
        await editor_rig.editor.close()
        assert editor_rig.events[-1] == Gone()
        assert editor_rig.events.count(Gone()) == 1

    @having(HANGS)
    async def test_an_editor_that_hung_answers_again_later(self, editor_rig: Rig) -> None:
        await editor_rig.hang()
        with pytest.raises(EditorHung):
            await editor_rig.editor.tabs()
        await editor_rig.recover()
        assert await editor_rig.editor.tabs() == []


def a_file(rig: Rig, name: str, content: str) -> Path:
    path = rig.folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content.encode())
    return path


async def nothing_more_is_reported(rig: Rig) -> None:
    """Events arrive in order, so once a later proposal is decided, everything before it has been reported."""
    before = len(rig.decisions)
    await rig.editor.show(proposal(rig.folder / "last.txt", "", "last\n", id="last"))
    await rig.accept("last")
    assert rig.decisions[before:] == [("last", Accepted("last\n"))]
