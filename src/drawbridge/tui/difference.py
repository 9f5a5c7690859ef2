"""The diff of two texts, line by line, with the words that differ in changed lines. Does no I/O."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from drawbridge.text import format_changes, split
from drawbridge.text.hunks import Row, diff, unified
from drawbridge.text.linediff import changed_lines

WORD: Final = re.compile(r"\w+|\s+|[^\w\s]")

LONGEST_LINE: Final = 1_000
"""The maximum length of a line in which words are compared, in characters."""

Kind: TypeAlias = Literal["skipped", "context", "removed", "added"]
Mark: TypeAlias = tuple[int, int]


class Line(NamedTuple):
    """A line of a diff. ``number``: its number from 1, in the old text if it was removed, otherwise in the new text;
    for ``skipped``, the number of unchanged lines that are left out.

    ``marks``: the ranges in which the line differs from its counterpart (the line that it replaces or is replaced by).
    Empty without a counterpart, if one of the two is too long, or if they have hardly anything in common.
    """

    kind: Kind
    text: str
    number: int
    marks: tuple[Mark, ...] = ()


class Difference(NamedTuple):
    """A diff. ``added``, ``removed``: the numbers of added and removed lines. ``notes``: what changes besides lines, in
    clauses for the user."""

    lines: list[Line]
    added: int
    removed: int
    notes: list[str]


def difference(old_text: str, new_text: str) -> Difference:
    (old, old_form), (new, new_form) = split(old_text), split(new_text)
    hunks = diff(old, new)
    marks = {}
    for hunk in hunks:
        for offset in range(min(hunk.old_count, hunk.new_count)):
            pair = hunk.old_start + offset, hunk.new_start + offset
            marks["removed", pair[0]], marks["added", pair[1]] = marked_words(old[pair[0]], new[pair[1]])
    lines = [*_lines(unified(old, new, hunks), marks, len(old))]
    return Difference(
        lines,
        added=sum(hunk.new_count for hunk in hunks),
        removed=sum(hunk.old_count for hunk in hunks),
        notes=format_changes(old_form, new_form) if old and new else [],
    )


def _lines(rows: Iterator[Row], marks: dict[tuple[str, int], tuple[Mark, ...]], total: int) -> Iterator[Line]:
    """The lines of a diff. Unchanged lines that are left out become one line with their count."""
    passed = 0  # lines of the old text so far
    for row in rows:
        if row.old_line is not None:
            if row.old_line > passed:
                yield Line("skipped", "", row.old_line - passed)
            passed = row.old_line + 1
        at = row.old_line if row.new_line is None else row.new_line
        if row.kind != "header" and at is not None:
            yield Line(row.kind, row.text, at + 1, marks.get((row.kind, at), ()))
    if 0 < passed < total:
        yield Line("skipped", "", total - passed)


def marked_words(old: str, new: str) -> tuple[tuple[Mark, ...], tuple[Mark, ...]]:
    """The ranges in which the words of two lines differ; empty if the lines have hardly anything in common, or if one
    is too long."""
    if len(old) > LONGEST_LINE or len(new) > LONGEST_LINE:
        return (), ()
    left, right = WORD.findall(old), WORD.findall(new)
    gone, come = changed_lines(left, right)
    same = sum(len(word.strip()) for word, changed in zip(left, gone, strict=True) if not changed)
    if same * 3 < max(len(old.strip()), len(new.strip())):
        return (), ()
    return tuple(_spans(left, gone)), tuple(_spans(right, come))


def _spans(words: Sequence[str], changed: bytearray) -> Iterator[Mark]:
    at, start = 0, -1
    for word, mark in zip(words, changed, strict=True):
        if mark and start < 0:
            start = at
        elif not mark and start >= 0:
            yield start, at
            start = -1
        at += len(word)
    if start >= 0:
        yield start, at
