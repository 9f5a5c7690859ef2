"""Line-based diffs of texts: hunks, and the merge of two changes to one text. Does no I/O."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from drawbridge.text.linediff import changed_lines, common_prefix


class Hunk(NamedTuple):
    """``old[old_start:old_start + old_count]`` became ``new[new_start:new_start + new_count]`` (lines, 0-based)."""

    old_start: int
    old_count: int
    new_start: int
    new_count: int

    @property
    def old_end(self) -> int:
        return self.old_start + self.old_count

    @property
    def new_end(self) -> int:
        return self.new_start + self.new_count


class Overlap(NamedTuple):
    """Both sides changed the lines ``start``..``end`` (0-based, end exclusive) of the base, in different ways."""

    start: int
    end: int


class Row(NamedTuple):
    """One line of a unified view. ``old_line`` and ``new_line`` are 0-based, None if that side does not have the
    line."""

    kind: Literal["header", "context", "removed", "added"]
    text: str
    old_line: int | None = None
    new_line: int | None = None


def diff(old: Sequence[str], new: Sequence[str]) -> tuple[Hunk, ...]:
    """The hunks that turn ``old`` into ``new``, in order. No two of them are adjacent.

    No hunk begins or ends with a line that both of its sides share.
    """
    old = old if isinstance(old, list) else list(old)
    new = new if isinstance(new, list) else list(new)
    if old == new:
        return ()
    before = common_prefix(old, new)
    old_rest, new_rest = old[before:], new[before:]
    after = common_prefix(old_rest[::-1], new_rest[::-1])
    marks = changed_lines(old_rest[: len(old_rest) - after], new_rest[: len(new_rest) - after])
    return tuple(_slide(old, new, list(_collect(*marks, before))))


def traits(old: Sequence[str], new: Sequence[str], hunks: Iterable[Hunk]) -> list[tuple[str, ...]]:
    """What identifies each of the hunks, wherever it is: the removed and the added text, the unchanged lines right before
    and after it, and which of all equal places in ``old`` it is.

    An id made of this never passes to the same change at another place. As long as ``old`` has such places, one more or
    one less of them gives new ids to the hunks there.
    """
    hunks = list(hunks)
    starts = list(
        zip(["", *old], [*old, ""], [*old[1:], "", ""], strict=False)
    )  # by old_start, from the line before it
    places: dict[tuple[str, str, str], list[int]] = {starts[hunk.old_start]: [] for hunk in hunks}
    for at, start in enumerate(starts):
        if start in places:
            places[start].append(at)
    found: list[tuple[str, ...]] = []
    for hunk in hunks:
        equal = places[starts[hunk.old_start]]
        found.append(
            (
                "".join(old[hunk.old_start : hunk.old_end]),
                "".join(new[hunk.new_start : hunk.new_end]),
                "".join(old[max(0, hunk.old_start - 1) : hunk.old_start]),
                "".join(old[hunk.old_end : hunk.old_end + 1]),
                f"{bisect_left(equal, hunk.old_start)} of {len(equal)}",
            )
        )
    return found


def apply(old: Sequence[str], new: Sequence[str], hunks: Iterable[Hunk]) -> list[str]:
    """``old`` with some hunks of ``diff(old, new)`` applied. With all of them, the result is ``new``."""
    result: list[str] = []
    at = 0
    for hunk in hunks:
        result += old[at : hunk.old_start]
        result += new[hunk.new_start : hunk.new_end]
        at = hunk.old_end
    result += old[at:]
    return result


def merge(base: Sequence[str], ours: Sequence[str], theirs: Sequence[str]) -> list[str] | Overlap:
    """``base`` with both changes, or the first ``Overlap`` if they conflict.

    The same change on both sides is not a conflict. Adjacent changes, without an unchanged line of the base between
    them, count as one, because their order would be a guess.
    """
    our_hunks, their_hunks = diff(base, ours), diff(base, theirs)
    result: list[str] = []
    at = 0
    for our_part, their_part in _regions(our_hunks, their_hunks):
        start = min(hunk.old_start for hunk in our_part + their_part)
        end = max(hunk.old_end for hunk in our_part + their_part)
        result += base[at:start]
        our_text = _region_text(base, ours, our_part, start, end)
        if our_part and their_part and our_text != _region_text(base, theirs, their_part, start, end):
            return Overlap(start, end)
        result += our_text if our_part else _region_text(base, theirs, their_part, start, end)
        at = end
    result += base[at:]
    return result


def unified(old: Sequence[str], new: Sequence[str], hunks: Sequence[Hunk], context: int = 3) -> Iterator[Row]:
    """The rows of a unified diff: ``context`` unchanged lines around each hunk, a header before each group of hunks."""
    group: list[Hunk] = []
    for hunk in hunks:
        if group and hunk.old_start - group[-1].old_end > 2 * context:
            yield from _group_rows(old, new, group, context)
            group = []
        group.append(hunk)
    if group:
        yield from _group_rows(old, new, group, context)


def _group_rows(old: Sequence[str], new: Sequence[str], group: list[Hunk], context: int) -> Iterator[Row]:
    first, last = group[0], group[-1]
    before = min(context, first.old_start)
    after = min(context, len(old) - last.old_end)
    old_span = _span(first.old_start - before, last.old_end + after)
    new_span = _span(first.new_start - before, last.new_end + after)
    yield Row("header", f"@@ -{old_span} +{new_span} @@")
    old_at, new_at = first.old_start - before, first.new_start - before
    for hunk in group:
        for line in old[old_at : hunk.old_start]:
            yield Row("context", line, old_at, new_at)
            old_at, new_at = old_at + 1, new_at + 1
        for old_at, line in enumerate(old[hunk.old_start : hunk.old_end], hunk.old_start):
            yield Row("removed", line, old_line=old_at)
        for new_at, line in enumerate(new[hunk.new_start : hunk.new_end], hunk.new_start):
            yield Row("added", line, new_line=new_at)
        old_at, new_at = hunk.old_end, hunk.new_end
    for line in old[old_at : old_at + after]:
        yield Row("context", line, old_at, new_at)
        old_at, new_at = old_at + 1, new_at + 1


def _span(start: int, end: int) -> str:
    """A range as in a unified diff, counted from 1. A length of 1 is omitted, and an empty range is given by the line
    before it."""
    length = end - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"


def _regions(ours: Sequence[Hunk], theirs: Sequence[Hunk]) -> Iterator[tuple[list[Hunk], list[Hunk]]]:
    """The hunks of both sides in order. Hunks of the two sides that touch or overlap form one group."""
    our_at = their_at = 0
    while our_at < len(ours) or their_at < len(theirs):
        our_from, their_from = our_at, their_at
        end = min(hunk.old_start for hunk in (*ours[our_at : our_at + 1], *theirs[their_at : their_at + 1]))
        grown = True
        while grown:
            grown = False
            if our_at < len(ours) and ours[our_at].old_start <= end:
                end, our_at, grown = max(end, ours[our_at].old_end), our_at + 1, True
            if their_at < len(theirs) and theirs[their_at].old_start <= end:
                end, their_at, grown = max(end, theirs[their_at].old_end), their_at + 1, True
        yield list(ours[our_from:our_at]), list(theirs[their_from:their_at])


def _region_text(base: Sequence[str], new: Sequence[str], hunks: list[Hunk], start: int, end: int) -> list[str]:
    """One side's text for the lines ``start``..``end`` of the base, which contain its ``hunks``."""
    if not hunks:
        return list(base[start:end])
    new_start = hunks[0].new_start - (hunks[0].old_start - start)
    new_end = hunks[-1].new_end + (end - hunks[-1].old_end)
    return list(new[new_start:new_end])


def _collect(old_changed: bytearray, new_changed: bytearray, before: int) -> Iterator[Hunk]:
    """Turns the marks into hunks: the unmarked lines between them pair up. ``before`` lines precede the first mark."""
    old_at = new_at = 0
    while old_at < len(old_changed) or new_at < len(new_changed):
        common = min(_until(old_changed, 1, old_at), _until(new_changed, 1, new_at))
        old_at, new_at = old_at + common, new_at + common
        old_count, new_count = _until(old_changed, 0, old_at), _until(new_changed, 0, new_at)
        if old_count or new_count:
            yield Hunk(before + old_at, old_count, before + new_at, new_count)
        old_at, new_at = old_at + old_count, new_at + new_count


def _until(marks: bytearray, mark: int, start: int) -> int:
    """The distance from ``start`` to the next ``mark``, or to the end."""
    at = marks.find(mark, start)
    return (at if at >= 0 else len(marks)) - start


# The maximum number of lines by which a hunk is moved in each direction, and the maximum indentation, in columns, that
# is considered.
_SLIDE_LIMIT = 100
_INDENT_LIMIT = 200


def _slide(old: list[str], new: list[str], hunks: list[Hunk]) -> Iterator[Hunk]:
    """Moves each pure insertion or deletion with several equivalent positions to the one that a person would choose.

    Such a hunk can move by a line if the line that enters it equals the one that leaves it. At least one line stays
    between it and its neighbors.
    """
    floor = 0
    for number, hunk in enumerate(hunks):
        if hunk.old_count and hunk.new_count:
            floor = hunk.new_end + 1
            yield hunk
            continue
        inserted = hunk.new_count > 0
        lines = new if inserted else old
        start, size = (hunk.new_start, hunk.new_count) if inserted else (hunk.old_start, hunk.old_count)
        up = min(hunk.new_start - floor, _SLIDE_LIMIT)
        following = hunks[number + 1] if number + 1 < len(hunks) else None
        down = (following.new_start - 1 if following else len(new)) - hunk.new_end
        shift = _best_shift(lines, start, size, up, min(down, _SLIDE_LIMIT))
        moved = Hunk(hunk.old_start + shift, hunk.old_count, hunk.new_start + shift, hunk.new_count)
        floor = moved.new_end + 1
        yield moved


def _best_shift(lines: list[str], start: int, size: int, up: int, down: int) -> int:
    low = high = 0
    while -low < up and lines[start + low - 1] == lines[start + low + size - 1]:
        low -= 1
    while high < down and lines[start + high] == lines[start + high + size]:
        high += 1
    if low == high:
        return 0
    return min(
        range(high, low - 1, -1),
        key=lambda shift: _break_cost(lines, start + shift) + _break_cost(lines, start + shift + size),
    )


def _break_cost(lines: list[str], at: int) -> int:
    """The cost of a cut before line ``at``: lower before a line with little indentation, and lower after a blank
    line."""
    if at >= len(lines):
        return 0
    after_blank = at == 0 or not lines[at - 1].strip()
    line = lines[at]
    stripped = line.lstrip()
    if not stripped:
        return _INDENT_LIMIT if after_blank else 2 * _INDENT_LIMIT
    indent = min(len(line.expandtabs(8)) - len(stripped.expandtabs(8)), _INDENT_LIMIT)
    closing = stripped[0] in ")]}" or stripped.startswith(("end", "else", "elif", "except"))
    return 4 * indent + (0 if after_blank else 2) + (1 if closing else 0)
