"""Differences between texts, in lines: hunks, and the merge of two changes of one text. Pure.

``diff`` is made for two ends: a few lines, where the hunks have to look as a person would draw them, and 5 MB, where
nothing may take long. Lines that only one side has are changed, whatever else happens, so they are set aside first. What is
left is cut at lines that both sides have exactly once (patience diff), and what lies between two cuts goes to Myers'
algorithm with a budget. What the budget doesn't cover is replaced whole, which is still right, only less fine.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress, count, islice
from operator import ne, not_
from typing import Literal

from msgspec import Struct


class Hunk(Struct, frozen=True):
    """``old[old_start:old_start + old_count]`` became ``new[new_start:new_start + new_count]``; lines, 0-based."""

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


class Overlap(Struct, frozen=True):
    """Both sides changed the lines ``start``..``end`` (0-based, end exclusive) of the base, in different ways."""

    start: int
    end: int


class Row(Struct, frozen=True):
    """One line of a unified view; ``old_line`` and ``new_line`` are 0-based, None where that side has no such line."""

    kind: Literal["header", "context", "removed", "added"]
    text: str
    old_line: int | None = None
    new_line: int | None = None


def diff(old: Sequence[str], new: Sequence[str]) -> tuple[Hunk, ...]:
    """The hunks that turn ``old`` into ``new``, in order, never touching each other.

    No hunk begins or ends with a line that both of its sides share. About 25 ms for 100,000 lines on a slow machine.
    """
    old = old if isinstance(old, list) else list(old)
    new = new if isinstance(new, list) else list(new)
    if old == new:
        return ()
    hunks = _Differ(old, new).run()
    return tuple(_slide(old, new, hunks))


def apply(old: Sequence[str], new: Sequence[str], hunks: Iterable[Hunk]) -> list[str]:
    """``old`` with these hunks of ``diff(old, new)`` applied: all of them give ``new``, some of them a part of the change."""
    result: list[str] = []
    at = 0
    for hunk in hunks:
        result += old[at : hunk.old_start]
        result += new[hunk.new_start : hunk.new_end]
        at = hunk.old_end
    result += old[at:]
    return result


def merge(base: Sequence[str], ours: Sequence[str], theirs: Sequence[str]) -> list[str] | Overlap:
    """``base`` with both changes; the first ``Overlap`` where they collide. The same change on both sides is no collision.

    Changes that touch without an unchanged line of the base between them collide too: which one goes first is a guess.
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
    """The rows of a unified diff with ``context`` unchanged lines around each hunk; a header before each group of hunks."""
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
    """Lines in the notation of a unified diff: 1-based, the length left out when it is 1, the line before an empty span."""
    length = end - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"


def _regions(ours: Sequence[Hunk], theirs: Sequence[Hunk]) -> Iterator[tuple[list[Hunk], list[Hunk]]]:
    """Hunks of both sides in order, those that touch or overlap across the sides taken together."""
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
    """What one side made of the lines ``start``..``end`` of the base; its ``hunks`` lie within them."""
    if not hunks:
        return list(base[start:end])
    new_start = hunks[0].new_start - (hunks[0].old_start - start)
    new_end = hunks[-1].new_end + (end - hunks[-1].old_end)
    return list(new[new_start:new_end])


# How many positions of a sliding hunk are weighed, and how deep an indentation is looked at.
_SLIDE_LIMIT = 100
_INDENT_LIMIT = 200


def _slide(old: list[str], new: list[str], hunks: list[Hunk]) -> Iterator[Hunk]:
    """Move each pure insertion or deletion that may as well sit elsewhere to where a person would see it begin.

    Such a hunk can move by a line when the line that enters it equals the one that leaves. It stays a line away from its
    neighbours.
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
    """How odd it would look to cut the text before line ``at``: little before an outer line, less after a blank one."""
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


# What Myers' algorithm may cost in all (steps of the inner loop), and the longest edit path it follows in one go.
_STEPS_LIMIT = 400_000
_PATH_LIMIT = 128


class _Differ:
    """One run of ``diff``: marks each line of either side that the other one doesn't have at its place."""

    def __init__(self, old: list[str], new: list[str]) -> None:
        old_set, new_set = set(old), set(new)
        in_new = list(map(new_set.__contains__, old))
        in_old = list(map(old_set.__contains__, new))
        self.old_changed = bytearray(map(not_, in_new))
        self.new_changed = bytearray(map(not_, in_old))
        # Lines that both sides have somewhere, and where they came from.
        self.a, self.a_at = list(compress(old, in_new)), list(compress(count(), in_new))
        self.b, self.b_at = list(compress(new, in_old)), list(compress(count(), in_old))
        self.steps = _STEPS_LIMIT
        self.lines = 16 * (len(self.a) + len(self.b))

    def run(self) -> list[Hunk]:
        todo = [(0, len(self.a), 0, len(self.b))]
        while todo:
            todo += self._narrow(*todo.pop())
        return self._collect()

    def _narrow(self, a: int, a_end: int, b: int, b_end: int) -> list[tuple[int, int, int, int]]:
        """Match what is plain in one gap; returns the gaps that are left."""
        common = _common_prefix(self.a, a, a_end, self.b, b, b_end)
        a, b = a + common, b + common
        common = _common_suffix(self.a, a, a_end, self.b, b, b_end)
        a_end, b_end = a_end - common, b_end - common
        if a == a_end or b == b_end:
            self._give_up(a, a_end, b, b_end)
            return []
        self.lines -= a_end - a + b_end - b
        if self.lines > 0:
            anchors = _anchors(self.a, a, a_end, self.b, b, b_end)
            if anchors:
                return _gaps_between(anchors, a, a_end, b, b_end)
            if self.steps > 0:
                return self._follow(a, a_end, b, b_end)
        self._give_up(a, a_end, b, b_end)
        return []

    def _give_up(self, a: int, a_end: int, b: int, b_end: int) -> None:
        for at in self.a_at[a:a_end]:
            self.old_changed[at] = 1
        for at in self.b_at[b:b_end]:
            self.new_changed[at] = 1

    def _follow(self, a: int, a_end: int, b: int, b_end: int) -> list[tuple[int, int, int, int]]:
        """Myers' greedy algorithm from the gap's start: to its end, or as far as it got within the limit.

        Returns what is left beyond that point, where another try may find lines that are unique again.
        """
        left, right = self.a, self.b
        reach = {1: 0}  # furthest line of the left side on each diagonal
        trace: list[dict[int, int]] = []
        best, best_diagonal = 0, 0
        a_size, b_size = a_end - a, b_end - b
        for length in range(min(_PATH_LIMIT, a_size + b_size) + 1):
            trace.append(reach)
            reach_next: dict[int, int] = {}
            for diagonal in range(-length, length + 1, 2):
                if length == 0:
                    x = 0
                elif diagonal == -length or (
                    diagonal != length and reach[diagonal - 1] < reach[diagonal + 1]
                ):
                    x = reach[diagonal + 1]
                else:
                    x = reach[diagonal - 1] + 1
                y = x - diagonal
                reach_next[diagonal] = x
        return []

    def _collect(self) -> list[Hunk]:
        """The marks as hunks: between two of them, unmarked lines pair up one to one."""
        old_changed, new_changed = self.old_changed, self.new_changed
        hunks: list[Hunk] = []
        old_at = new_at = 0
        return hunks
