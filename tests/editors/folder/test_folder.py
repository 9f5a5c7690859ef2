"""The terminal as an editor: what the user reads in it, what counts as an answer, and what is never shown."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import re
import shlex
import sys
import unicodedata
from collections.abc import AsyncIterator
from pathlib import Path
from textwrap import dedent
from typing import Any, TextIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbridge.core.errors import Refused, UnusableFile
from drawbridge.editors.folder.folder import READING_SECONDS, UNATTENDED_LINES, Folder
from drawbridge.editors.folder.view import LOG_COLUMNS, Canvas
from drawbridge.editors.port import (
    Accepted,
    BridgeState,
    Decided,
    EditorEvent,
    OpenRequest,
    Proposal,
    Rejected,
)
from tests.editors.rigs import FolderRig, folder_in_a_terminal, proposal
from tests.waiting import until

OLD, NEW = "one\ntwo\nthree\n", "one\nTWO\nthree\nfour\n"
QUESTION = "Accept it? [y]es, [n]o, [e]dit: "


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[FolderRig]:
    """A person at a terminal."""
    async with folder_in_a_terminal(tmp_path) as made:
        yield made


@contextlib.asynccontextmanager
async def piped(folder: Path, sent: bytes | TextIO | None, **options: Any) -> AsyncIterator[Piped]:
    """Yields an editor without a terminal. ``sent``: all of its input, read from a pipe, or its stdin object."""
    if isinstance(sent, bytes):
        reading, writing = os.pipe()
        os.write(writing, sent)
        os.close(writing)
        sent = os.fdopen(reading)
    made = Piped(folder, sent, options)
    await made.editor.start(made.events.append)
    try:
        yield made
    finally:
        await made.editor.close()
        if sent is not None:
            sent.close()


class Piped:
    """The folder editor without a terminal. A script sends the answers, and ``log`` contains the output."""

    def __init__(self, folder: Path, sent: TextIO | None, options: dict[str, Any]) -> None:
        self.log = io.StringIO()
        self.editor = Folder(str(folder), input=sent, output=self.log, **options)
        self.events: list[EditorEvent] = []

    async def decided(self, *proposals: Proposal) -> list[Accepted | Rejected]:
        """The decisions, in the order of the proposals."""
        for proposed in proposals:
            await self.editor.show(proposed)
        await until(lambda: len(self.events) == len(proposals), "a decision")
        decisions = {event.proposal_id: event.decision for event in self.events if isinstance(event, Decided)}
        return [decisions[proposed.id] for proposed in proposals]


def source(kind: str, folder: Path) -> TextIO | None:
    """One of the kinds of stdin that a program may have, or None. Each contains "y", except for "/dev/null"."""
    (folder / "answers").write_text("y\n")
    if kind == "none":
        return None
    if kind == "no descriptor":
        return io.StringIO("y\n")
    opened = Path(os.devnull if kind == "/dev/null" else folder / "answers").open()  # noqa: SIM115  `piped` closes it
    if kind == "closed":
        opened.close()
    return opened


class TestWhatTheUserReads:
    async def test_a_proposal_is_a_diff_with_line_numbers_and_a_question(self, tmp_path: Path) -> None:
        path = tmp_path / "src" / "app.py"
        path.parent.mkdir()
        old = "".join(f"line {number}\n" for number in range(1, 31))
        path.write_text(old)
        new = old.replace("line 5\n", "line five\nand more\n").replace("line 20\n", "")
        async with piped(tmp_path, b"y\n") as at:
            await at.decided(proposal(path, old, new, note="Your unsaved changes are part of this text."))
            rule, _, rest = at.log.getvalue().partition("\n")
            assert rule == "─" * len(rule)
            assert rest == dedent("""\
                Claude Code proposes to change src/app.py  +2 -2
                  Your unsaved changes are part of this text.

                  2  2 │   line 2
                  3  3 │   line 3
                  4  4 │   line 4
                  5    │ - line 5
                     5 │ + line five
                     6 │ + and more
                  6  7 │   line 6
                  7  8 │   line 7
                  8  9 │   line 8
                   ···
                 17 18 │   line 17
                 18 19 │   line 18
                 19 20 │   line 19
                 20    │ - line 20
                 21 21 │   line 21
                 22 22 │   line 22
                 23 23 │   line 23

                Accept it? [y]es, [n]o, [e]dit: y
                Accepted.
                """).replace("\n                ", "\n")

    @pytest.mark.parametrize(
        ("old", "new", "expected"),
        [
            ("a\n", "a\r\n", "Proposed with CRLF line endings."),
            ("a\n", "\ufeffa\n", "A byte-order mark is added."),
            ("a\n", "a", "The newline is removed from the end of the file."),
        ],
    )
    async def test_a_change_that_lines_cannot_show_is_reported(
        self, tmp_path: Path, old: str, new: str, expected: str
    ) -> None:
        async with piped(tmp_path, b"y\n") as at:
            assert await at.decided(proposal(tmp_path / "file.txt", old, new)) == [Accepted(new)]
            assert expected in at.log.getvalue()
            assert "No lines changed." in at.log.getvalue()

    async def test_a_new_file_is_described_as_new(self, tmp_path: Path) -> None:
        async with piped(tmp_path, b"y\n") as at:
            await at.decided(proposal(tmp_path / "new.txt", "", "a\n"))
            assert "Claude Code proposes the new file new.txt  +1 -0" in at.log.getvalue()

    async def test_code_has_its_own_title_and_question(self, tmp_path: Path) -> None:
        async with piped(tmp_path, b"y\n") as at:
            await at.decided(proposal("", "", "print(1)\n", kind="code"))
            assert "Claude Code wants to run this code  +1 -0" in at.log.getvalue()
            assert "Run it? [y]es, [n]o, [e]dit: y" in at.log.getvalue()

    async def test_the_number_of_waiting_proposals_is_shown(self, rig: FolderRig) -> None:
        for number in range(3):
            await rig.editor.show(proposal(rig.folder / "file.txt", OLD, NEW, id=str(number)))
        await rig.accept("0")
        await rig.accept("1")
        assert "2 more proposals are waiting." in rig.terminal.screen
        assert "1 more proposal is waiting." in rig.terminal.screen

    async def test_notices_appear_above_an_open_question(self, rig: FolderRig) -> None:
        await rig.editor.show(proposal(rig.folder / "file.txt", OLD, NEW))
        await rig.until_asked()
        await rig.editor.notify("First line.\nSecond line.", "warn")
        await rig.terminal.shows("Second line.")
        assert uncolored(rig.terminal.screen).endswith(
            f"\n{QUESTION}\r\x1b[KFirst line.\n{QUESTION}\r\x1b[KSecond line.\n{QUESTION}"
        )
        await rig.accept("1")

    async def test_agents_that_connect_or_disconnect_are_reported(self, tmp_path: Path) -> None:
        async with piped(tmp_path, b"") as at:
            for agents in ((), ("Claude Code",), ("Claude Code", "Gemini CLI"), ("Gemini CLI",)):
                await at.editor.announce(BridgeState(4711, "secret-token", agents))
            assert at.log.getvalue().splitlines() == [
                f"Agents in {tmp_path} can connect (port 4711).",
                "Claude Code is connected.",
                "Gemini CLI is connected.",
                "Claude Code disconnected.",
            ]

    async def test_a_file_that_an_agent_shows_is_reported_with_the_line(self, tmp_path: Path) -> None:
        path = tmp_path / "file.txt"
        path.write_text(OLD)
        async with piped(tmp_path, b"") as at:
            await at.editor.open_file(OpenRequest(str(path), start_text="two"))
            await at.editor.announce(BridgeState(4711, "", ("Claude Code",)))
            await at.editor.open_file(OpenRequest(str(path)))
            await at.editor.open_file(OpenRequest(str(path), focus=False))
            await at.editor.written(str(path), OLD, "1")
            lines = at.log.getvalue().splitlines()
            assert lines[0] == "An agent shows you file.txt:2"
            assert lines[3:] == ["Claude Code shows you file.txt", "file.txt was written."]

    async def test_a_missing_file_or_directory_cannot_be_shown(self, tmp_path: Path) -> None:
        async with piped(tmp_path, b"") as at:
            for path in (tmp_path, tmp_path / "missing"):
                with pytest.raises(UnusableFile):
                    await at.editor.open_file(OpenRequest(str(path)))
            assert at.log.getvalue() == ""

    async def test_saving_is_refused_with_the_reason(self, tmp_path: Path) -> None:
        async with piped(tmp_path, b"") as at:
            with pytest.raises(Refused, match="not open in an editor here"):
                await at.editor.save("/a")


class TestWhatIsDrawn:
    async def test_only_terminals_get_colors(self, rig: FolderRig, tmp_path: Path) -> None:
        await rig.editor.show(proposal(rig.folder / "file.txt", OLD, NEW))
        await rig.until_asked()
        assert "\x1b[31m- two\x1b[0m" in rig.terminal.screen
        assert "\x1b[32m+ TWO\x1b[0m" in rig.terminal.screen
        await rig.reject("1")
        async with piped(tmp_path, b"y\n") as at:
            await at.decided(proposal(tmp_path / "file.txt", OLD, NEW))
            assert "\x1b" not in at.log.getvalue()

    @pytest.mark.parametrize(("variable", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
    async def test_colors_can_be_turned_off(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
    ) -> None:
        monkeypatch.setenv(variable, value)
        async with folder_in_a_terminal(tmp_path) as rig:
            await rig.editor.show(proposal(tmp_path / "file.txt", OLD, NEW))
            await rig.reject("1")
            assert not re.search(r"\x1b\[[\d;]*m", rig.terminal.screen)

    async def test_a_terminal_draws_text_in_the_order_it_was_written(self, tmp_path: Path) -> None:
        """This applies to right-to-left text too, until the bridge ends."""
        async with folder_in_a_terminal(tmp_path) as rig:
            await rig.editor.show(proposal(tmp_path / "file.txt", OLD, NEW))
            await rig.until_asked()
            assert rig.terminal.screen.startswith("\x1b[8l")
            assert "\x1b[8h" not in rig.terminal.screen
            await rig.editor.close()
            await rig.terminal.shows("\x1b[8h")

    @given(st.text(st.characters(blacklist_categories=()), max_size=200))
    def test_text_from_an_agent_cannot_control_the_terminal(self, text: str) -> None:
        canvas = Canvas(io.StringIO())
        drawn = canvas.page(proposal(f"/a{text}", "", text, agent=text, note=text), text, 0).text
        assert not [character for character in drawn.replace("\n", "") if drives(character)]
        assert drawn.count("\n") <= 7 + 2 * text.count("\n")

    def test_control_and_invisible_characters_are_escaped(self) -> None:
        canvas = Canvas(io.StringIO())
        every = "".join(chr(number) for number in range(sys.maxunicode + 1))
        assert not [f"{ord(character):x}" for character in canvas.plain(every) if drives(character)]

    def test_joined_emoji_and_foreign_scripts_are_left_alone(self) -> None:
        text = "👩‍🚀 نمی‌خواهم ðŸ e\u0301 ❤️"
        assert Canvas(io.StringIO()).plain(text) == text

    def test_escaped_characters_are_shown_as_code_points(self) -> None:
        drawn = Canvas(io.StringIO()).plain("a\x1b[31m\r\u202e\udce9\U000e0041")
        assert drawn == "a\\x1b[31m\\x0d\\u202e\\udce9\\U000e0041"

    async def test_a_script_gets_all_of_a_long_change(self, tmp_path: Path) -> None:
        new = "".join(f"line {number}\n" for number in range(20_000))
        async with piped(tmp_path, b"y\n") as at:
            assert await at.decided(proposal(tmp_path / "file.txt", "", new)) == [Accepted(new)]
            assert re.findall(r"\+ (line \d+)\n", at.log.getvalue()) == new.splitlines()

    async def test_a_long_line_is_continued_on_the_next(self, tmp_path: Path) -> None:
        async with piped(tmp_path, b"y\n") as at:
            await at.decided(proposal(tmp_path / "file.txt", "", "x" * 100_000 + "end"))
            lines = at.log.getvalue().splitlines()
            assert max(map(len, lines)) == LOG_COLUMNS
            assert "".join(line[7:] for line in lines if line[5:6] == "│").removeprefix("+ ") == "x" * 100_000 + "end"

    async def test_an_unattended_long_change_is_truncated_with_a_note(self, tmp_path: Path) -> None:
        new = "".join(f"line {number}\n" for number in range(20_000))
        async with piped(tmp_path, None, decide="accept") as at:
            assert await at.decided(proposal(tmp_path / "file.txt", "", new)) == [Accepted(new)]
            assert at.log.getvalue().count("\n") < UNATTENDED_LINES + 10
            assert "19,003 more lines not shown." in at.log.getvalue()

    async def test_a_terminal_without_unicode_gets_only_what_it_can_show(self, tmp_path: Path) -> None:
        output = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
        reading, writing = os.pipe()
        os.close(writing)
        with os.fdopen(reading) as nothing:
            editor = Folder(str(tmp_path), input=nothing, output=output)
            await editor.notify("größe 😀")
            await editor.close()
        output.seek(0)
        assert output.read() == "gr\\xf6\\xdfe \\U0001f600\n"


class TestWhatCountsAsAnAnswer:
    @pytest.mark.parametrize(
        ("keys", "decision"),
        [("y", Accepted(NEW)), ("YES", Accepted(NEW)), (" y ", Accepted(NEW)), ("n", Rejected()), ("No", Rejected())],
    )
    async def test_yes_and_no_are_answers(self, rig: FolderRig, keys: str, decision: Accepted | Rejected) -> None:
        await rig.editor.show(proposal(rig.folder / "file.txt", OLD, NEW))
        await rig.until_asked()
        rig.terminal.type(keys + "\n")
        await rig.reported(0)
        assert rig.decisions == [("1", decision)]

    @pytest.mark.parametrize("keys", ["", "yy", "ja", "accept it", "\x1b[A", "y" * 4000])
    async def test_any_other_input_repeats_the_question(self, rig: FolderRig, keys: str) -> None:
        await rig.editor.show(proposal(rig.folder / "file.txt", OLD, NEW))
        await rig.until_asked()
        rig.terminal.type(keys + "\n")
        await until(lambda: rig.terminal.screen.count(QUESTION) == 2, "the question again")
        assert rig.decisions == []
        await rig.reject("1")

    async def test_input_typed_before_the_question_is_ignored(self, rig: FolderRig) -> None:
        rig.terminal.type("y\n")
        await rig.editor.show(proposal(rig.folder / "file.txt", OLD, NEW))
        await rig.until_asked()
        await rig.reject("1")
        assert rig.decisions == [("1", Rejected())]

    async def test_a_half_typed_answer_is_discarded_on_withdrawal(self, rig: FolderRig) -> None:
        """It does not count as an answer to the next proposal."""
        await rig.editor.show(proposal(rig.folder / "file.txt", OLD, NEW, id="first"))
        await rig.editor.show(proposal(rig.folder / "file.txt", OLD, "other\n", id="second"))
        await rig.until_asked()
        rig.terminal.type("y")
        await rig.editor.withdraw("first")
        await until(lambda: rig.terminal.screen.count(QUESTION) == 2, "the second question")
        assert "The proposal was withdrawn: it was decided elsewhere or is no longer needed." in rig.terminal.screen
        rig.terminal.type("\n")
        await until(lambda: rig.terminal.screen.count(QUESTION) == 3, "the second question again")
        assert rig.decisions == []
        await rig.accept("second")
        assert rig.decisions == [("second", Accepted("other\n"))]

    async def test_ctrl_d_at_a_terminal_rejects_only_one_proposal(self, rig: FolderRig) -> None:
        await rig.editor.show(proposal(rig.folder / "file.txt", OLD, NEW, id="first"))
        await rig.close_view("first")
        await rig.editor.show(proposal(rig.folder / "file.txt", OLD, NEW, id="second"))
        await rig.accept("second")
        assert rig.decisions == [("first", Rejected()), ("second", Accepted(NEW))]

    async def test_a_script_may_send_its_answers_in_advance(self, tmp_path: Path) -> None:
        async with piped(tmp_path, b"y\nn\r\ny") as at:
            proposals = [proposal(tmp_path / "file.txt", OLD, NEW, id=id) for id in "123"]
            assert await at.decided(*proposals) == [Accepted(NEW), Rejected(), Accepted(NEW)]

    async def test_each_proposal_after_the_end_of_input_is_rejected(self, tmp_path: Path) -> None:
        """This applies to input from a pipe, and the reason is reported each time."""
        async with piped(tmp_path, b"y\n") as at:
            proposals = [proposal(tmp_path / "file.txt", OLD, NEW, id=id) for id in "123"]
            assert await at.decided(*proposals) == [Accepted(NEW), Rejected(), Rejected()]
            assert (
                at.log.getvalue().count("The input has ended, so no answer can be read. The proposal is rejected.") == 2
            )

    @pytest.mark.parametrize(
        ("kind", "decision"),
        [
            ("file", Accepted(NEW)),
            ("/dev/null", Rejected()),
            ("closed", Rejected()),
            ("none", Rejected()),
            ("no descriptor", Rejected()),
        ],
    )
    async def test_answers_can_come_from_a_file_or_be_missing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, decision: Accepted | Rejected
    ) -> None:
        monkeypatch.setattr(sys, "stdin", None)
        async with piped(tmp_path, source(kind, tmp_path)) as at:
            assert await at.decided(proposal(tmp_path / "file.txt", OLD, NEW)) == [decision]

    @pytest.mark.parametrize(("decide", "decision"), [("accept", Accepted(NEW)), ("reject", Rejected())])
    async def test_decide_answers_every_proposal_without_asking(
        self, tmp_path: Path, decide: str, decision: Accepted | Rejected
    ) -> None:
        async with piped(tmp_path, b"n\ny\n", decide=decide) as at:
            proposals = [proposal(tmp_path / "file.txt", OLD, NEW, id=id) for id in "12"]
            assert await at.decided(*proposals) == [decision, decision]
            assert "[y]es" not in at.log.getvalue()
            assert "+ four" in at.log.getvalue()

    async def test_a_decision_is_possible_after_the_log_is_closed(self, tmp_path: Path) -> None:
        async with piped(tmp_path, b"y\n") as at:
            at.log.close()
            assert await at.decided(proposal(tmp_path / "file.txt", OLD, NEW)) == [Accepted(NEW)]

    async def test_an_undecided_proposal_is_reported_when_the_bridge_stops(self, rig: FolderRig) -> None:
        await rig.editor.show(proposal(rig.folder / "file.txt", OLD, NEW))
        await rig.until_asked()
        await rig.editor.close()
        await rig.terminal.shows("The bridge is stopping. Nobody has decided on the proposal.")
        assert rig.events == []


LONG = "".join(f"line {number}\n" for number in range(250)) + "the end\n"


class TestPages:
    """A proposal that is longer than the terminal is accepted only after its last page."""

    async def answered(self, rig: FolderRig, answer: str) -> None:
        """Answers, and waits for the next question."""
        asked = rig.terminal.screen.count("[e]dit:")
        rig.terminal.type(f"{answer}\n")
        await until(lambda: rig.terminal.screen.count("[e]dit:") > asked, "the next question")

    async def pages(self, rig: FolderRig, answer: str = "m") -> list[list[str]]:
        """The lines of each page, from the first page to the last."""
        await rig.until_asked()
        while "[m]ore" in (screen := uncolored(rig.terminal.screen)).rpartition("\n")[2]:
            assert rig.events == []
            await self.answered(rig, answer)
        return [page.splitlines() for page in re.split(r"\n[^\n]*\[e\]dit: (?:more|m)?\n?", screen)[:-1]]

    async def test_a_change_is_not_accepted_before_its_last_page(self, rig: FolderRig) -> None:
        rig.terminal.resize(80, 100)
        await rig.editor.show(proposal(rig.folder / "file.txt", "", LONG))
        for keys, left in zip(("y", "YES"), (157, 60), strict=True):
            await rig.terminal.shows(f"{left} more lines not shown yet. [m]ore, [n]o, [e]dit: ")
            await rig.until_asked()
            assert "the end" not in rig.terminal.screen
            await self.answered(rig, keys)
            after = uncolored(rig.terminal.screen).rpartition(f"{keys}\n")[2]
            assert after.startswith("Not accepted: parts of it have not been shown.\n")
            await self.answered(rig, "m")
        await rig.terminal.shows("the end")
        await rig.accept("1")
        assert rig.decisions == [("1", Accepted(LONG))]

    @pytest.mark.parametrize(("columns", "lines"), [(80, 24), (40, 12), (13, 30), (200, 7)])
    async def test_each_page_fits_the_terminal_and_nothing_is_left_out(
        self, rig: FolderRig, columns: int, lines: int
    ) -> None:
        new = "\n".join(("short", "", "long " * 60 + "end", "宽" * 50, "e\u0301" * 50, "\ttab\u202e", "last\n"))
        rig.terminal.resize(columns, lines)
        await rig.editor.show(proposal(rig.folder / f"{'name' * 20}.txt", "", new, note="Noted. " * 20))
        pages = await self.pages(rig, "more")
        for page in pages:
            assert len(page) + 2 <= lines
            assert max(map(cells, page)) < columns
        drawn = re.sub(r"[\d│─\s]", "", "".join(line for page in pages for line in page))
        shown = new.replace("\u202e", r"\u202e").replace("\n", "+").removesuffix("+")
        assert re.sub(r"[\d\s]", "", f"{'name' * 20}.txt") in drawn
        assert re.sub(r"\s", "", "Noted. " * 20) in drawn
        assert drawn.endswith(re.sub(r"[\d\s]", "", f"+{shown}"))
        await rig.accept("1")
        assert rig.decisions == [("1", Accepted(new))]

    async def test_enter_shows_the_next_page_and_accepts_nothing(self, rig: FolderRig) -> None:
        await rig.editor.show(proposal(rig.folder / "file.txt", "", LONG[:400]))
        assert len(await self.pages(rig, "")) > 1
        await self.answered(rig, "")
        assert rig.decisions == []
        await rig.reject("1")

    async def test_a_change_can_be_rejected_on_any_page(self, rig: FolderRig) -> None:
        await rig.editor.show(proposal(rig.folder / "file.txt", "", LONG))
        await rig.reject("1")
        assert rig.decisions == [("1", Rejected())]

    async def test_an_edited_change_is_shown_from_its_first_page(
        self, rig: FolderRig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("VISUAL", " ")
        monkeypatch.setenv("EDITOR", "sed -i '1s/.*/edited/'")
        await rig.editor.show(proposal(rig.folder / "file.txt", "", LONG[:300]))
        await self.pages(rig)
        rig.terminal.type("e\n")
        await rig.terminal.shows("+ edited")
        await rig.until_asked()
        assert "[m]ore" in rig.terminal.screen.rpartition("\n")[2]
        await self.pages(rig)
        await rig.accept("1")

    async def test_keys_typed_in_the_first_half_second_are_ignored(self, rig: FolderRig) -> None:
        """During that time, the question is not visible either, and a notice does not move the text."""
        loop = asyncio.get_running_loop()
        await rig.editor.show(proposal(rig.folder / "file.txt", OLD, NEW))
        await rig.terminal.shows("+ four")
        drawn = loop.time()
        rig.terminal.type("y\n")
        await rig.editor.notify("By the way.")
        await rig.until_asked()
        assert loop.time() - drawn > READING_SECONDS - 0.1
        after = uncolored(rig.terminal.screen).partition("+ four\n")[2]
        assert after.replace("\r", "") == f"\ny\nBy the way.\n{QUESTION}"
        assert rig.events == []
        await rig.reject("1")
        assert rig.decisions == [("1", Rejected())]


class TestEditing:
    def editor(self, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
        """Makes a shell script the user's editor. ``$1`` is the file."""
        path = Path(os.environ["TMPDIR"], "my editor")
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o700)
        monkeypatch.setenv("VISUAL", shlex.quote(str(path)))
        monkeypatch.setenv("EDITOR", "false")

    async def test_the_edited_text_is_shown_before_it_can_be_accepted(
        self, rig: FolderRig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.editor(monkeypatch, "sed -i s/TWO/zwei/ $1")
        await rig.editor.show(proposal(rig.folder / "file.txt", OLD, NEW))
        await rig.until_asked()
        rig.terminal.type("e\n")
        await rig.terminal.shows("+ zwei")
        await rig.accept("1")
        assert rig.decisions == [("1", Accepted("one\nzwei\nthree\nfour\n"))]

    async def test_the_editor_gets_a_private_copy_with_the_same_name(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The copy and its directory are removed after the editor has ended."""
        seen = tmp_path / "seen"
        self.editor(monkeypatch, f'cp "$1" {seen}; stat -c %a "$(dirname "$1")" > {seen}.mode; echo "$1" > {seen}.path')
        async with piped(tmp_path, b"e\ny\n") as at:
            assert await at.decided(proposal(tmp_path / "sp ace #1.py", OLD, NEW)) == [Accepted(NEW)]
        edited = Path(Path(f"{seen}.path").read_text().strip())
        assert seen.read_text() == NEW
        assert edited.name == "sp ace #1.py"
        assert Path(f"{seen}.mode").read_text() == "700\n"
        assert not edited.parent.exists()
        assert not (tmp_path / "sp ace #1.py").exists()

    async def test_the_editor_runs_in_the_terminal(self, rig: FolderRig, monkeypatch: pytest.MonkeyPatch) -> None:
        self.editor(monkeypatch, 'test -t 0 && test -t 1 && echo "type:" && read line && echo "$line" > "$1"')
        await rig.editor.show(proposal(rig.folder / "file.txt", OLD, NEW))
        await rig.until_asked()
        rig.terminal.type("e\n")
        await rig.terminal.shows("type:")
        rig.terminal.type("typed in the editor\n")
        await rig.terminal.shows("+ typed in the editor")
        await rig.accept("1")
        assert rig.decisions == [("1", Accepted("typed in the editor\n"))]

    @pytest.mark.parametrize(
        ("script", "reason"),
        [
            ("echo changed > $1; exit 3", "exited with code 3"),
            ("rm $1", "The edited file was removed"),
            (r"printf 'a\000b' > $1", "is binary (it contains NUL bytes). The proposal is unchanged."),
            (r"printf 'caf\351' > $1", "is not UTF-8"),
        ],
    )
    async def test_a_failed_edit_is_reported_and_changes_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, reason: str
    ) -> None:
        self.editor(monkeypatch, script)
        async with piped(tmp_path, b"e\ny\n") as at:
            assert await at.decided(proposal(tmp_path / "file.txt", OLD, NEW)) == [Accepted(NEW)]
            assert reason in at.log.getvalue()
            assert at.log.getvalue().count("Claude Code proposes") == 1

    @pytest.mark.parametrize("command", ["/no/such/editor", "'unbalanced"])
    async def test_an_editor_that_cannot_be_started_is_reported(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
    ) -> None:
        monkeypatch.setenv("VISUAL", command)
        async with piped(tmp_path, b"e\ny\n") as at:
            assert await at.decided(proposal(tmp_path / "file.txt", OLD, NEW)) == [Accepted(NEW)]
            assert "can't be started" in at.log.getvalue()
            assert "Set $VISUAL or $EDITOR" in at.log.getvalue()

    async def test_notices_and_withdrawals_wait_until_the_editor_exits(
        self, rig: FolderRig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.editor(monkeypatch, "echo begin; read line; echo end")
        await rig.editor.show(proposal(rig.folder / "file.txt", OLD, NEW, id="first"))
        await rig.editor.show(proposal(rig.folder / "file.txt", OLD, NEW, id="second"))
        await rig.until_asked()
        rig.terminal.type("e\n")
        await rig.terminal.shows("begin")
        await rig.editor.notify("By the way.")
        await rig.editor.withdraw("first")
        assert "By the way." not in rig.terminal.screen
        rig.terminal.type("\n")
        await rig.accept("second")
        after = uncolored(rig.terminal.screen).partition("begin")[2]
        assert (
            after.index("end\n")
            < after.index("By the way.\n")
            < after.index("The proposal was withdrawn:")
            < after.index(QUESTION)
        )
        assert rig.decisions == [("second", Accepted(NEW))]

    async def test_an_editor_does_not_outlive_the_bridge(self, rig: FolderRig, monkeypatch: pytest.MonkeyPatch) -> None:
        note = rig.folder / "note"
        self.editor(monkeypatch, f'echo "$$ $1" > {note}.new; mv {note}.new {note}; exec sleep 60')
        await rig.editor.show(proposal(rig.folder / "file.txt", OLD, NEW))
        await rig.until_asked()
        rig.terminal.type("e\n")
        await until(note.exists, "the editor")
        await rig.editor.close()
        pid, file = note.read_text().split()
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)
        assert not Path(file).parent.exists()
        assert rig.events == []


def cells(line: str) -> int:
    """The number of columns that a line takes up on a terminal."""
    return sum(
        0 if unicodedata.combining(character) else 1 + (unicodedata.east_asian_width(character) == "W")
        for character in line
    )


def uncolored(screen: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*[ml]", "", screen)


# Format characters that have a visible shape, or that are needed to write words.
SHAPED = re.compile("ARABIC (?!LETTER MARK)|SYRIAC|KAITHI|EGYPTIAN|ZERO WIDTH (NON-)?JOINER")


def drives(character: str) -> bool:
    """Whether the character can have an invisible effect on a terminal or on a reader."""
    if unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp"):
        return False
    return not SHAPED.match(unicodedata.name(character, ""))
