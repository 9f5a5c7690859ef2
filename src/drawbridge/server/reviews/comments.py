"""Finds the lines of comments on a review after the file has changed, and composes the prompt that sends the comments.
Pure.

A comment is anchored to one version of its file. Lines that have changed, or that may no longer be the same code, are
not found, because an outdated comment is better than one in the wrong place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from drawbridge.server.events import ReviewComment
from drawbridge.text.hunks import Hunk as Span

SELF_EVIDENT: Final = 3
"""The minimum number of lines with words that are recognized as the same code even if no unchanged line around them
contains a word."""

SHORTEST_FENCE: Final = 3


class Range(Struct, frozen=True):
    """The lines ``first`` to ``last`` of a text, from 1."""

    first: int
    last: int

    @property
    def start(self) -> int:
        """The 0-based number of the first line."""
        return self.first - 1


def followed(old: Sequence[str], changes: Sequence[Span], lines: Range) -> Range | None:
    """The place of ``lines`` of ``old`` after these changes. None if they have changed. Also None if fewer than
    ``SELF_EVIDENT`` of them contain words and no unchanged line around them does, because other code may have the same
    lines.
    """
    if not changes:
        return lines
    block_start, shift, block_end = 0, 0, len(old)
    for span in changes:
        if span.old_end <= lines.start:
            block_start, shift = span.old_end, shift + span.new_count - span.old_count
        elif span.old_start >= lines.last:
            block_end = span.old_start
            break
        else:
            return None
    around = [*old[block_start : lines.start], *old[lines.last : block_end]]
    if not any(map(_has_word, around)) and sum(map(_has_word, old[lines.start : lines.last])) < SELF_EVIDENT:
        return None
    return Range(lines.first + shift, lines.last + shift)


def touching(changes: Sequence[Span], lines: Range) -> list[Span]:
    """The changes in these lines of the old text, or right before or after them where lines were inserted."""
    return [span for span in changes if meet(span.old_start, span.old_end, lines.start, lines.last)]


def meet(start: int, end: int, other_start: int, other_end: int) -> bool:
    """Whether two ranges of lines (0-based, ends exclusive) have a line in common. An empty range is between two lines,
    and meets a range that contains one of them."""
    if start == end or other_start == other_end:
        return start <= other_end and other_start <= end
    return start < other_end and other_start < end


def prompt_of(comments: Sequence[ReviewComment], text: str = "") -> str:
    """One prompt with all comments. ``text``: the beginning of the prompt.

    No content can end a fence or imitate the heading and the fence of a comment, because fences are longer than any run
    of backticks in the contents.
    """
    contents = [text, *(part for one in comments for part in (one.path, one.quote, one.text, one.suggestion or ""))]
    longest = max((len(run) for part in contents for run in re.findall("`+", part)), default=0)
    fence = "`" * max(SHORTEST_FENCE, longest + 1)
    count = f"{len(comments)} comments" if len(comments) != 1 else "one comment"
    parts = [text] if text else []
    parts.append(f"I have reviewed your changes and have {count}. Address each one.")
    for number, one in enumerate(comments, 1):
        parts.append(f"### {number}. {_line_reference(one)}\n{_fenced(fence, one.quote)}")
        if one.text:
            parts.append(one.text)
        if one.suggestion is not None:
            what = "Replace these lines with:" if one.suggestion else "Remove these lines:"
            parts.append(f"{what}\n{_fenced(fence, one.suggestion, 'suggestion')}")
    return "\n\n".join(parts)


def _line_reference(comment: ReviewComment) -> str:
    path = comment.path
    named = f"`{path}`" if path.isprintable() and "`" not in path else json.dumps(path)
    lines = f"line {comment.line}" if comment.line == comment.end_line else f"lines {comment.line}-{comment.end_line}"
    side = " before your changes" if comment.side == "old" else ""
    since = " (these lines have changed or moved since)" if comment.outdated else ""
    return f"{named}, {lines}{side}{since}"


def _fenced(fence: str, text: str, language: str = "") -> str:
    end = "" if not text or text.endswith("\n") else "\n"
    return f"{fence}{language}\n{text}{end}{fence}"


def _has_word(line: str) -> bool:
    return any(map(str.isalnum, line))
