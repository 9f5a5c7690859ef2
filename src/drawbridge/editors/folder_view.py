"""How the folder editor draws proposals on a terminal: as a diff with line numbers."""

from __future__ import annotations

import os
from itertools import islice
from typing import Final

from drawbridge.core.terminal_text import Terminal
from drawbridge.editors.port import Proposal
from drawbridge.text import format_changes, split
from drawbridge.text.counts import counted
from drawbridge.text.hunks import Row, unified

ROWS_LIMIT: Final = 1_000
"""The maximum number of rows of one proposal that are drawn."""

ROW_LIMIT: Final = 1_000
"""The maximum number of characters of one row that are drawn."""

SIGNS: Final = {"added": "+", "removed": "-", "context": " "}


class Canvas(Terminal):
    """A terminal on which proposals are drawn."""

    def proposal(self, proposal: Proposal, shown_path: str, waiting: int) -> str:
        """The drawn proposal: agent and file, notes, changed lines."""
        old_lines, old_form = split(proposal.old_text)
        new_lines, new_form = split(proposal.new_text)
        lines = [self.paint(self.rule * self.width(), "dim"), self._head(proposal, shown_path)]
        notes = [proposal.note] if proposal.note else []
        if proposal.old_text and proposal.kind == "change":
            notes += [f"{change[0].upper()}{change[1:]}." for change in format_changes(old_form, new_form)]
        if waiting:
            notes.append(f"{waiting} more {'is' if waiting == 1 else 'are'} waiting after it.")
        lines += [self.plain(f"  {note}", "warn") for note in notes]
        lines.append("")
        rows = unified(old_lines, new_lines, proposal.hunks)
        next(rows, None)  # the line numbers show what the first header would
        digits = len(str(max(len(old_lines), len(new_lines), 1)))
        lines += [self._row(row, digits) for row in islice(rows, ROWS_LIMIT)]
        hidden = sum(1 for _ in rows)
        if hidden:
            are = "is" if hidden == 1 else "are"
            hint = f"  {counted(hidden, 'more line')} {are} hidden; press e to open the full text."
            lines.append(self.paint(hint, "warn"))
        if not proposal.hunks:
            lines.append(self.paint("  No lines changed.", "dim"))
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
