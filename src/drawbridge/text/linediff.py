"""Finds the lines that two texts do not share, for ``hunks.diff``. Does no I/O.

It serves two cases: a few lines, where the result should look as if a person had made it, and texts of 5 MB, which must
be compared quickly. Large texts are first compared side by side, which skips equal parts. In each remaining gap, lines
that occur on only one side have certainly changed, so they are set aside. The rest is cut at lines that both sides have
exactly once, in the longest sequence of them that has the same order on both sides (patience diff). The part between
two cuts is compared by Myers' algorithm with a budget. Whatever exceeds the budget is replaced as a whole, which is
still correct, only less precise.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import compress, count, islice, pairwise
from operator import lt, ne, not_
from typing import TypeAlias

LARGE = 5_000
"""Two texts that have at least this number of lines together are first compared side by side, which is fast but less
precise."""

# In that comparison, the number of lines ahead in which the other side is searched for a line, and the number of equal
# lines in a row that are a match.
AHEAD = 64
IN_STEP = 4

# The limits of one comparison: steps of Myers' algorithm, and lines that are examined to find cuts (as a multiple of
# the number of lines). Only texts with many equal lines in a different order reach them. Together they limit the time.
STEPS_LIMIT = 400_000
LOOKS_LIMIT = 8
PATH_LIMIT = 128
"""The maximum number of edits on a path that is followed before another search for lines that have become unique in
the rest."""

Gap: TypeAlias = tuple[int, int, int, int]
"""The start and end on the left, then the start and end on the right."""


def changed_lines(old: list[str], new: list[str]) -> tuple[bytearray, bytearray]:
    """A mark (1) for each removed line of ``old`` and each added line of ``new``. Unmarked lines pair up in order."""
    if len(old) + len(new) < LARGE:
        return _Comparison(old, new).run()
    old_changed, new_changed = bytearray(len(old)), bytearray(len(new))
    for a, a_end, b, b_end in _walk_side_by_side(old, new):
        if a_end - a + b_end - b <= 2:
            marks = bytearray(b"\1" * (a_end - a)), bytearray(b"\1" * (b_end - b))
        else:
            marks = _Comparison(old[a:a_end], new[b:b_end]).run()
        old_changed[a:a_end], new_changed[b:b_end] = marks
    return old_changed, new_changed


def _walk_side_by_side(old: list[str], new: list[str]) -> Iterator[Gap]:
    """The gaps between equal parts. Once no common lines are found, or too many lines were skipped, the whole rest is
    one gap."""
    a = b = 0
    patience = (len(old) + len(new)) // 8
    while patience > 0:
        common = _common_ahead(old, a, new, b)
        a, b = a + common, b + common
        skip = _skip_to_common(old[a : a + AHEAD], new[b : b + AHEAD])
        if skip is None:
            break
        yield a, a + skip[0], b, b + skip[1]
        a, b = a + skip[0], b + skip[1]
        patience -= skip[0]
    yield a, len(old), b, len(new)


def _skip_to_common(left: list[str], right: list[str]) -> tuple[int, int] | None:
    """The number of lines to skip on each side until both are equal again; None if no match is found within the
    limits."""
    for at, line in enumerate(left):
        if line in right:
            place = right.index(line)
            stretch = right[place : place + IN_STEP]
            # A run of blank lines or braces is too common to be a match.
            if left[at : at + IN_STEP] == stretch and len(set(stretch)) > IN_STEP // 2:
                return at, place
    return None


def _common_ahead(old: list[str], a: int, new: list[str], b: int) -> int:
    """``common_prefix`` of the parts that begin at ``a`` and ``b``, without a copy of the rest."""
    start, size = a, 16
    while True:
        left, right = old[a : a + size], new[b : b + size]
        if left != right or not left:
            return a - start + common_prefix(left, right)
        a, b, size = a + size, b + size, min(2 * size, 4096)


class _Comparison:
    def __init__(self, old: list[str], new: list[str]) -> None:
        kept_left = list(map(set(new).__contains__, old))
        kept_right = list(map(set(old).__contains__, new)) if any(kept_left) else [False] * len(new)
        self.old_changed = bytearray(map(not_, kept_left))
        self.new_changed = bytearray(map(not_, kept_right))
        # The lines that both sides have somewhere, and their positions. Equal lines get equal numbers, so that strings
        # are compared only once.
        numbers: defaultdict[str, int] = defaultdict(count().__next__)
        self.left = list(map(numbers.__getitem__, compress(old, kept_left)))
        self.left_at = list(compress(count(), kept_left))
        self.right = list(map(numbers.__getitem__, compress(new, kept_right)))
        self.right_at = list(compress(count(), kept_right))
        self.steps = STEPS_LIMIT
        self.looks = LOOKS_LIMIT * (len(self.left) + len(self.right))

    def run(self) -> tuple[bytearray, bytearray]:
        todo: list[Gap] = [(0, len(self.left), 0, len(self.right))]
        while todo:
            todo += self._narrow(*todo.pop())
        return self.old_changed, self.new_changed

    def _narrow(self, a: int, a_end: int, b: int, b_end: int) -> list[Gap]:
        """Matches the unambiguous lines of one gap, and returns the remaining gaps."""
        left, right = self.left, self.right
        common = common_prefix(left[a:a_end], right[b:b_end])
        a, b = a + common, b + common
        common = common_prefix(left[a:a_end][::-1], right[b:b_end][::-1])
        a_end, b_end = a_end - common, b_end - common
        size = a_end - a + b_end - b
        if a < a_end and b < b_end and size > 2 and self.looks > 0:
            self.looks -= size
            cuts = _cuts(left[a:a_end], right[b:b_end])
            if cuts:
                return list(_gaps_between(cuts, a, a_end, b, b_end))
            if self.steps > 0:
                return [self._follow(a, a_end, b, b_end)]
        self._mark(a, a_end, b, b_end)
        return []

    def _mark(self, a: int, a_end: int, b: int, b_end: int) -> None:
        for at in self.left_at[a:a_end]:
            self.old_changed[at] = 1
        for at in self.right_at[b:b_end]:
            self.new_changed[at] = 1

    def _follow(self, a: int, a_end: int, b: int, b_end: int) -> Gap:
        """Marks a shortest edit path from the gap's start, up to the limit, and returns the rest."""
        path, cost = _shortest_path(self.left[a:a_end], self.right[b:b_end])
        self.steps -= cost
        for (x, y), (next_x, next_y) in pairwise(path):
            if next_x - x > next_y - y:
                self.old_changed[self.left_at[a + x]] = 1
            elif next_y - y > next_x - x:
                self.new_changed[self.right_at[b + y]] = 1
        x, y = path[-1]
        return a + x, a_end, b + y, b_end


def common_prefix(left: Sequence[object], right: Sequence[object]) -> int:
    """The number of equal lines at the start of both."""
    if left and right and left[0] != right[0]:
        return 0
    return next(compress(count(), map(ne, left, right)), min(len(left), len(right)))


def _cuts(left: list[int], right: list[int]) -> list[tuple[int, int]]:
    """The positions of lines that each side has exactly once: the longest selection that increases on both sides."""
    left_count, right_count = Counter(left), Counter(right)
    once = {line for line, times in left_count.items() if times == 1 and right_count.get(line) == 1}
    if not once:
        return []
    right_at = {line: at for at, line in enumerate(right) if line in once}
    pairs = [(at, right_at[line]) for at, line in enumerate(left) if line in once]
    places = [place for _, place in pairs]
    if all(map(lt, places, islice(places, 1, None))):
        return pairs
    return [pairs[at] for at in _longest_rise(places)]


def _longest_rise(values: list[int]) -> list[int]:
    """The indices of a longest increasing subsequence of distinct ``values``."""
    tops: list[int] = []  # for each length, the smallest last value of an increasing sequence, and its index
    tops_at: list[int] = []
    before: list[int] = []
    for at, value in enumerate(values):
        length = len(tops) if not tops or value > tops[-1] else bisect_left(tops, value)
        before.append(tops_at[length - 1] if length else -1)
        tops[length : length + 1] = [value]
        tops_at[length : length + 1] = [at]
    rise = []
    at = tops_at[-1]
    while at >= 0:
        rise.append(at)
        at = before[at]
    return rise[::-1]


def _gaps_between(cuts: list[tuple[int, int]], a: int, a_end: int, b: int, b_end: int) -> list[Gap]:
    gaps = []
    a_from, b_from = a, b
    for x, y in [*((a + x, b + y) for x, y in cuts), (a_end, b_end)]:
        if x != a_from or y != b_from:
            gaps.append((a_from, x, b_from, y))
        a_from, b_from = x + 1, y + 1
    return gaps


def _shortest_path(left: list[int], right: list[int]) -> tuple[list[tuple[int, int]], int]:
    """Myers' greedy search from (0, 0): the points of a shortest edit path and what it cost to find it.

    From one point to the next at most one line is removed or added. Common lines may follow it. The path ends at
    (len(left), len(right)), or after the last common line of the path that got furthest within ``PATH_LIMIT`` edits.
    """
    width, height = len(left), len(right)
    longest = min(PATH_LIMIT, width + height)
    reach = [-1] * (2 * longest + 3)  # the furthest x on each diagonal x - y; index 0 is the middle, others wrap around
    trace: list[list[int]] = []
    cost = 0
    for length in range(longest + 1):
        trace.append(reach[:])
        for diagonal in range(-length, length + 1, 2):
            below, above = reach[diagonal - 1], reach[diagonal + 1]
            x = max(above, below + 1) if length else 0
            start = x
            y = x - diagonal
            if x <= width and y <= height:
                while left[x : x + 32] == right[y : y + 32] and x + 32 <= width and y + 32 <= height:
                    x, y = x + 32, y + 32
                while x < width and y < height and left[x] == right[y]:
                    x, y = x + 1, y + 1
            reach[diagonal] = x
            cost += 2 + (x - start) // 8
            if x == width and y == height:
                return _backtrack(trace, x, y), cost
    ends = ((reach[diagonal], reach[diagonal] - diagonal) for diagonal in range(-longest, longest + 1, 2))
    x, y = max(((x, y) for x, y in ends if x <= width and y <= height), key=sum)
    path = _backtrack(trace, x, y)
    while len(path) > 1 and (path[-1][0] == path[-2][0] or path[-1][1] == path[-2][1]):
        path.pop()
    return path, cost


def _backtrack(trace: list[list[int]], x: int, y: int) -> list[tuple[int, int]]:
    path = [(x, y)]
    for length in range(len(trace) - 1, 0, -1):
        reach = trace[length]
        diagonal = x - y
        below, above = reach[diagonal - 1], reach[diagonal + 1]
        diagonal, x = (diagonal + 1, above) if above > below else (diagonal - 1, below)
        y = x - diagonal
        path.append((x, y))
    if path[-1] != (0, 0):
        path.append((0, 0))
    return path[::-1]
