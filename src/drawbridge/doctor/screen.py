"""The findings as text: the most severe first, each with a way to fix it, and at the end one line for each thing that
works."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

from drawbridge.core.terminal_text import Terminal, harmless
from drawbridge.doctor.finding import Finding, Severity
from drawbridge.doctor.fixes import Fix
from drawbridge.text.counts import counted

MARKS: Final[dict[Severity, tuple[str, str, str]]] = {
    "problem": ("✗", "x", "error"),
    "warning": ("!", "!", "warn"),
    "note": ("○", "o", "dim"),
    "ok": ("●", "*", "accepted"),
}
"""A severity's mark, the mark in ASCII, and its style."""

COMMAND: Final = re.compile(r"`[^`]+`")
KEPT_SPACE: Final = "\ue000"
"""The character that replaces a space inside a command while text is wrapped, because a wrapped command can't be
copied."""


def draw(findings: Sequence[Finding], terminal: Terminal) -> str:
    rows = [row for one in findings for row in [*_rows(one, terminal), *([""] if one.todo else [])]]
    return "\n".join([*rows, *([""] if rows and rows[-1] else []), _summary(findings)]) + "\n"


def draw_fixes(fixes: Sequence[Fix], terminal: Terminal) -> str:
    rows = []
    for fix in fixes:
        rows += _wrapped(fix.title, "  ", "  ", terminal)
        rows += [row for line in fix.lines for row in _wrapped(line, "    ", "      ", terminal)]
    return "\n".join(rows) + "\n"


def _rows(one: Finding, terminal: Terminal) -> Iterator[str]:
    drawn, plain, style = MARKS[one.severity]
    mark, arrow = (drawn, "→") if terminal.draws else (plain, ">")
    weight = "agent" if one.severity in ("problem", "warning") else "context"
    first, *rest = _wrapped(one.title, f"{mark} ", "  ", terminal)
    yield terminal.paint(mark, style) + terminal.paint(first.removeprefix(mark), weight)
    yield from (terminal.paint(line, weight) for line in rest)
    yield from (terminal.paint(line, "dim") for line in _wrapped(one.why, "    ", "    ", terminal))
    yield from _wrapped(one.todo, f"  {arrow} ", "    ", terminal)


def _wrapped(text: str, first: str, others: str, terminal: Terminal) -> list[str]:
    """The lines of a text: one if the output is not a terminal, none if the text is empty. A command is never
    wrapped."""
    kept = COMMAND.sub(lambda found: found[0].replace(" ", KEPT_SPACE), harmless(text))
    lines = textwrap.wrap(
        kept,
        terminal.width() if terminal.is_terminal else sys.maxsize,
        initial_indent=first,
        subsequent_indent=others,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(KEPT_SPACE, " ") for line in lines]


def _summary(findings: Sequence[Finding]) -> str:
    counts = {severity: sum(one.severity == severity for one in findings) for severity in MARKS}
    parts = [counted(counts[name], name) for name in ("problem", "warning", "note") if counts[name]]
    return f"{', '.join(parts) or 'Nothing is wrong'}. {counted(counts['ok'], 'check')} passed."
