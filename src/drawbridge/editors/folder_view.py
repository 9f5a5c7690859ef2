"""How the folder editor draws on a terminal: proposals as a diff with line numbers, and everything as harmless text."""

from __future__ import annotations

import os
import re
import shutil
from itertools import islice
from typing import Final, TextIO

from drawbridge.editors.port import Proposal
from drawbridge.text import format_changes, split
from drawbridge.text.hunks import Row, unified

ROWS_LIMIT: Final = 1_000
"""Rows of one proposal that are drawn; nobody reads more in a terminal."""

ROW_LIMIT: Final = 1_000
"""Characters of one row that are drawn."""

COLOURS: Final = {
    "accepted": "1;32",
    "added": "32",
    "agent": "1",
    "context": "",
    "dim": "2",
    "path": "1;36",
    "question": "1",
    "rejected": "1;31",
    "removed": "31",
    "strange": "7",
    "warn": "33",
    "error": "1;31",
    "info": "",
}
SIGNS: Final = {"added": "+", "removed": "-", "context": " "}

# What would drive a terminal, reorder what is read, or can't be seen: controls, bidirectional and invisible format
# characters, separators, lone surrogates, tags. Joiners stay: emoji and several scripts are written with them.
_STRANGE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


class Canvas:
    """A text stream, with colour where a person looks at it. A stream that broke swallows what is drawn."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        try:
            self.is_terminal = stream.isatty()
        except ValueError:  # closed
            self.is_terminal = False
        self.colour = self.is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._encoding = getattr(stream, "encoding", None) or "utf-8"
        self.rule, self.bar = "─│" if self._encoding.lower().startswith("utf") else "-|"

    def write(self, text: str) -> None:
        try:
            self._stream.write(text.encode(self._encoding, "backslashreplace").decode(self._encoding))
            self._stream.flush()
        except (OSError, ValueError):
            return

    def line_start(self) -> str:
        """Where a line can be written while a question is open: in its place on a terminal, else below it."""
        return "\r\x1b[K" if self.is_terminal else "\n"

    def width(self) -> int:
        return min(shutil.get_terminal_size().columns, 100)

    def paint(self, text: str, style: str) -> str:
        code = COLOURS[style]
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour and code and text else text

    def plain(self, text: str, style: str = "context") -> str:
        """Text from outside, in one line, with what is strange in it written out as in a string of Python."""
        pieces = []
        at = 0
        for found in _STRANGE.finditer(text):
            pieces.append(self.paint(text[at : found.start()], style))
            pieces.append(self.paint(_escaped(found[0]), "strange"))
            at = found.end()
        pieces.append(self.paint(text[at:], style))
        return "".join(pieces)

    def proposal(self, proposal: Proposal, shown_path: str, waiting: int) -> str:
        """The whole picture of a proposal: what and where, notes, the changed lines."""
        old_lines, old_form = split(proposal.old_text)
        new_lines, new_form = split(proposal.new_text)
        lines = [self.paint(self.rule * self.width(), "dim"), self._head(proposal, shown_path)]
        notes = [proposal.note] if proposal.note else []
        if proposal.old_text and proposal.kind == "change":
            notes += [f"{change[0].upper()}{change[1:]}." for change in format_changes(old_form, new_form)]
        if waiting:
            notes.append(f"{waiting} more {'waits' if waiting == 1 else 'wait'} behind it.")
        lines += [self.plain(f"  {note}", "warn") for note in notes]
        lines.append("")
        rows = unified(old_lines, new_lines, proposal.hunks)
        next(rows, None)  # the first header says nothing that the numbers don't
        digits = len(str(max(len(old_lines), len(new_lines), 1)))
        lines += [self._row(row, digits) for row in islice(rows, ROWS_LIMIT)]
        hidden = sum(1 for _ in rows)
        if hidden:
            lines.append(self.paint(f"  {hidden:,} more rows are not drawn; e opens the whole text.", "warn"))
        if not proposal.hunks:
            lines.append(self.paint("  No line changes.", "dim"))
        return "\n".join(lines) + "\n\n"

    def _head(self, proposal: Proposal, shown_path: str) -> str:
        added = sum(hunk.new_count for hunk in proposal.hunks)
        removed = sum(hunk.old_count for hunk in proposal.hunks)
        if proposal.kind == "code":
            what = " wants to run this code"
        else:
            what = " proposes to change " if os.path.lexists(proposal.path) else " proposes the new file "
        counts = f"  {self.paint(f'+{added}', 'added')} {self.paint(f'-{removed}', 'removed')}"
        path = self.plain(shown_path, "path") if proposal.kind == "change" else ""
        return self.plain(proposal.agent, "agent") + what + path + counts

    def _row(self, row: Row, digits: int) -> str:
        if row.kind == "header":
            return self.paint(f"{'···':>{2 * digits + 2}}", "dim")
        old = "" if row.old_line is None else str(row.old_line + 1)
        new = "" if row.new_line is None else str(row.new_line + 1)
        gutter = self.paint(f" {old:>{digits}} {new:>{digits}} {self.bar} ", "dim")
        text = row.text.expandtabs(8)
        more = self.paint(f" … {len(text) - ROW_LIMIT:,} more characters", "warn") if len(text) > ROW_LIMIT else ""
        return gutter + self.plain(f"{SIGNS[row.kind]} {text[:ROW_LIMIT]}", row.kind) + more


def _escaped(character: str) -> str:
    number = ord(character)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
