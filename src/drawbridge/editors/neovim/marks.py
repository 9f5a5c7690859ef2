"""The hunks of a proposal as marks for Neovim, and whether Neovim's own diff mode may compute them instead. Does no
I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

from drawbridge.editors.port import Proposal
from drawbridge.text.hunks import Hunk
from drawbridge.text.linediff import common_prefix

DIFF_CHARACTERS: Final = 512 * 1024
DIFF_LINES: Final = 10_000
DIFF_HUNKS: Final = 200
DIFF_CHANGED_LINES: Final = 2_000
DIFF_CHANGED_CHARACTERS: Final = 100_000
"""The limits up to which Neovim's own diff mode may be used. It blocks while it computes, for a time that grows with
lines times hunks and, in 0.12 and newer, with the length of changed lines. Measured on 0.7, 0.10 and 0.12, it stays
below 50 ms at all these limits. Above any of them, the inline view shows the hunks that the bridge computed."""

MARKS_CHUNK: Final = 2_000
"""The number of marks and their lines together at which a call is complete. The next call continues. This is also the
maximum number of added lines of one mark."""

FIRST_MARKS: Final = 200
"""Like ``MARKS_CHUNK``, but for the first call, which the view waits for. It is more than fits on a screen."""

REMOVED_LINES: Final = 200
"""The maximum number of removed lines of one hunk that the inline view shows."""

PAIRED_LINES: Final = 50
"""The maximum number of removed or added lines of a hunk. In a larger one, lines are not compared with each other."""


def fits_diff_mode(proposal: Proposal, old_lines: Sequence[str], new_lines: Sequence[str]) -> bool:
    if (
        max(len(proposal.old_text), len(proposal.new_text)) > DIFF_CHARACTERS
        or max(len(old_lines), len(new_lines)) > DIFF_LINES
        or len(proposal.hunks) > DIFF_HUNKS
    ):
        return False
    changed = [
        line
        for hunk in proposal.hunks
        for line in (*old_lines[hunk.old_start : hunk.old_end], *new_lines[hunk.new_start : hunk.new_end])
    ]
    return len(changed) <= DIFF_CHANGED_LINES and sum(map(len, changed)) <= DIFF_CHANGED_CHARACTERS


def portions(
    found: Sequence[Hunk], old_lines: Sequence[str], new_lines: Sequence[str]
) -> Iterator[list[dict[str, Any]]]:
    """The marks of the inline view, grouped by call. At least one group is yielded, because the first call clears the
    old marks."""
    marks: list[dict[str, Any]] = []
    size, largest = 0, FIRST_MARKS
    for hunk in found:
        for mark in _marks(hunk, old_lines, new_lines):
            marks.append(mark)
            size += 1 + mark["last"] - mark["first"] + len(mark["removed"])
            if size >= largest:
                yield marks
                marks, size, largest = [], 0, MARKS_CHUNK
    yield marks


def hunk_at(found: Sequence[Hunk], line: int, side: str) -> Hunk | None:
    """The hunk at a line of one side ("old" or "new"); None if no hunk is there. A hunk without lines on that side is
    at the lines before and after its gap."""
    for hunk in found:
        start, end = (hunk.old_start, hunk.old_end) if side == "old" else (hunk.new_start, hunk.new_end)
        if start <= line < end or (start == end and line in (start - 1, start)):
            return hunk
    return None


def _marks(hunk: Hunk, old_lines: Sequence[str], new_lines: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The mark of a hunk, or several if it adds many lines. The removed lines are shown above the first one."""
    shown = min(hunk.old_count, REMOVED_LINES)
    removed = old_lines[hunk.old_start : hunk.old_start + shown]
    words = list(_words(hunk, old_lines, new_lines))
    for first in range(hunk.new_start, hunk.new_end, MARKS_CHUNK) or (hunk.new_start,):
        is_first = first == hunk.new_start
        yield {
            "first": first,
            "last": min(hunk.new_end, first + MARKS_CHUNK),
            "removed": removed if is_first else (),
            "hidden": hunk.old_count - shown if is_first else 0,
            "words": [new for _, new in words] if is_first else (),
            "removed_words": [old for old, _ in words] if is_first else (),
        }


_Word: TypeAlias = tuple[int, int, int]
"""A line's number, and the start and end of a changed part in it, in bytes."""


def _words(hunk: Hunk, old_lines: Sequence[str], new_lines: Sequence[str]) -> Iterator[tuple[_Word, _Word]]:
    """The changed parts of lines that were replaced by similar lines, in pairs: the part of the removed line, which is
    numbered within the hunk, and the part of the new line, which is numbered within the text."""
    if max(hunk.old_count, hunk.new_count) > PAIRED_LINES:
        return
    in_pairs = hunk.old_count == hunk.new_count
    ahead = 0
    for offset in range(hunk.new_count):
        new = new_lines[hunk.new_start + offset]
        for old_offset in (offset,) if in_pairs else range(ahead, hunk.old_count):
            old = old_lines[hunk.old_start + old_offset]
            start = common_prefix(old, new)
            common_end = common_prefix(old[start:][::-1], new[start:][::-1])
            # Lines that share little were replaced as a whole. If both begin with "if", for example, that means
            # nothing.
            if 2 * (start + common_end) < max(len(old), len(new), 1):
                continue
            yield (
                (old_offset, *_span(old, start, common_end)),
                (hunk.new_start + offset, *_span(new, start, common_end)),
            )
            ahead = old_offset + 1
            break


def _span(line: str, start: int, common_end: int) -> tuple[int, int]:
    before = _bytes(line[:start])
    return before, before + _bytes(line[start : len(line) - common_end])


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))
