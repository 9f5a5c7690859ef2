"""Draws the folder editor's proposals on a terminal, as diffs with line numbers, in pages that fit it."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator
from itertools import groupby, islice
from typing import Final, NamedTuple

from drawbridge.core.terminal_text import Terminal, harmless_pieces
from drawbridge.editors.port import Proposal
from drawbridge.text import format_changes, split
from drawbridge.text.hunks import Row, unified

LOG_COLUMNS: Final = 1_000
"""The maximum number of characters in one line if the output is not a terminal."""

QUESTION_LINES: Final = 3
"""The number of the terminal's lines that a page leaves free for the question below it."""

SIGNS: Final = {"added": "+", "removed": "-", "context": " "}

_DEFAULT_SIZE: Final = os.terminal_size((80, 24))

# A long row is read this many characters at a time, with some neighbors, because these determine whether a character is
# escaped.
_CHUNK: Final = 1_000
_NEIGHBORS: Final = 8


class Place(NamedTuple):
    """The beginning of a page: a row of the drawn proposal, and a character of its text."""

    row: int = 0
    character: int = 0


START: Final = Place()


class Page(NamedTuple):
    """A drawn page. ``next``: the beginning of the next page; None after the last one. ``left``: the number of the
    proposal's lines that have not been drawn completely yet."""

    text: str
    next: Place | None
    left: int


class _Row(NamedTuple):
    """A row before it is folded. ``texts``: each with its style. ``gutter``: the text to the left of them. ``is_line``:
    whether the row counts as a line of the proposal."""

    texts: tuple[tuple[str, str], ...]
    gutter: str = ""
    is_line: bool = True


class Canvas(Terminal):
    """A terminal on which proposals are drawn."""

    def size(self) -> os.terminal_size:
        """The columns and lines of this stream's terminal, which may be a different one from stdout's; 80 and 24 if
        they are not known."""
        try:
            size = os.get_terminal_size(self._stream.fileno())
        except (OSError, ValueError):
            return _DEFAULT_SIZE
        return size if size.columns > 1 and size.lines else _DEFAULT_SIZE

    def page_lines(self) -> int:
        """The number of lines of one page."""
        return max(self.size().lines - QUESTION_LINES, 1)

    def page(
        self, proposal: Proposal, shown_path: str, waiting: int, start: Place = START, limit: int | None = None
    ) -> Page:
        """The drawn proposal (agent and file, notes, changed lines) from ``start``: at most ``limit`` lines, or all of
        them if ``limit`` is None. A row that is longer than a line is continued on the next one."""
        columns = self.size().columns - 1 if self.is_terminal else LOG_COLUMNS
        drawn: list[str] = []
        rows = enumerate(islice(self._rows(proposal, shown_path, waiting, columns), start.row, None), start.row)
        for number, row in rows:
            at = start.character if number == start.row else 0
            for end, line in self._folded(row, columns, at):
                if len(drawn) == limit:
                    left = 1 + sum(row.is_line for _, row in rows)
                    return Page("\n".join(drawn) + "\n\n", Place(number, at), left)
                drawn.append(line)
                at = end
        return Page("\n".join(drawn) + "\n\n", None, 0)

    def _rows(self, proposal: Proposal, shown_path: str, waiting: int, columns: int) -> Iterator[_Row]:
        old_lines, old_form = split(proposal.old_text)
        new_lines, new_form = split(proposal.new_text)
        yield _Row(((self.rule * min(self.width(), columns), "dim"),))
        yield self._head(proposal, shown_path)
        notes = [proposal.note] if proposal.note else []
        if old_lines and new_lines and proposal.kind == "change":
            notes += [f"{change[0].upper()}{change[1:]}." for change in format_changes(old_form, new_form)]
        if waiting:
            notes.append(f"{waiting} more {'proposal is' if waiting == 1 else 'proposals are'} waiting.")
        for note in notes:
            yield _Row(((f"  {note}", "warn"),))
        yield _Row(())
        rows = unified(old_lines, new_lines, proposal.hunks)
        next(rows, None)  # the line numbers already show what the first header would show
        digits = len(str(max(len(old_lines), len(new_lines), 1)))
        has_room = columns > 4 * digits + 10
        for row in rows:
            yield self._line(row, digits, has_numbers=has_room)
        if not proposal.hunks:
            yield _Row((("  No lines changed.", "dim"),))

    def _head(self, proposal: Proposal, shown_path: str) -> _Row:
        added = sum(hunk.new_count for hunk in proposal.hunks)
        removed = sum(hunk.old_count for hunk in proposal.hunks)
        if proposal.kind == "code":
            what = " wants to run this code"
        else:
            what = " proposes to change " if os.path.lexists(proposal.path) else " proposes the new file "
        path = shown_path if proposal.kind == "change" else ""
        counts = ("  ", "context"), (f"+{added}", "added"), (" ", "context"), (f"-{removed}", "removed")
        return _Row(((proposal.agent, "agent"), (what, "context"), (path, "path"), *counts))

    def _line(self, row: Row, digits: int, *, has_numbers: bool) -> _Row:
        if row.kind == "header":
            return _Row(((f"{'···':>{2 * digits + 2}}" if has_numbers else "···", "dim"),), is_line=False)
        old = "" if row.old_line is None else str(row.old_line + 1)
        new = "" if row.new_line is None else str(row.new_line + 1)
        gutter = f" {old:>{digits}} {new:>{digits}} {self.bar} " if has_numbers else ""
        return _Row(((f"{SIGNS[row.kind]} {row.text.expandtabs(8)}", row.kind),), gutter)

    def _folded(self, row: _Row, columns: int, start: int) -> Iterator[tuple[int, str]]:
        """The lines of a row from its character ``start``, each with the number of the character after its end."""
        gutter = row.gutter
        continued = " " * (len(gutter) - 2) + gutter[-2:]
        line: list[tuple[str, str]] = []
        end, left = start, columns - len(gutter)
        for character, shown, style in _characters(row.texts, start):
            width = len(shown) if shown != character else 1 + (unicodedata.east_asian_width(character) in "WF")
            if line and width > left and not unicodedata.category(character).startswith("M"):
                yield end, self._drawn(continued if start else gutter, line)
                line, left, start = [], columns - len(gutter), end
            line.append((shown, style))
            end, left = end + 1, left - width
        yield end, self._drawn(continued if start else gutter, line)

    def _drawn(self, gutter: str, line: list[tuple[str, str]]) -> str:
        runs = groupby(line, key=lambda part: part[1])
        return self.paint(gutter, "dim") + "".join(self.paint("".join(s for s, _ in run), style) for style, run in runs)


def _characters(texts: tuple[tuple[str, str], ...], start: int) -> Iterator[tuple[str, str, str]]:
    """Each character from ``start`` on, how it is shown, and its style."""
    for text, style in texts:
        for at in range(start, len(text), _CHUNK):
            before = max(at - _NEIGHBORS, 0)
            pieces = harmless_pieces(text[before : at + _CHUNK + _NEIGHBORS])[at - before :]
            for character, shown in zip(text[at : at + _CHUNK], pieces, strict=False):
                yield character, shown, style if shown == character else "strange"
        start = max(start - len(text), 0)
