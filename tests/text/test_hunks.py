"""Diffs and merges: correct for every text, readable for small ones, fast for large ones."""

from __future__ import annotations

import random
import time
from itertools import pairwise
from textwrap import dedent

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from drawbridge.text import linediff
from drawbridge.text.hunks import Hunk, Overlap, apply, diff, merge, unified

# Few different lines, so that repeated, moved and shifted lines are common.
some_lines = st.lists(st.sampled_from(["", "a", "b", "  c", "}", "d\r", "e\u2028"]), max_size=30)


def picture(old: str, new: str, context: int = 3) -> str:
    """Returns the unified diff as text, as a user sees it."""
    old_lines, new_lines = dedent(old).split("\n")[1:-1], dedent(new).split("\n")[1:-1]
    signs = {"header": "", "context": " ", "removed": "-", "added": "+"}
    rows = unified(old_lines, new_lines, diff(old_lines, new_lines), context)
    return "\n".join((signs[row.kind] + row.text).rstrip() for row in rows)


def assert_they_turn_old_into_new(hunks: tuple[Hunk, ...], old: list[str], new: list[str]) -> None:
    assert apply(old, new, hunks) == new


def assert_they_are_in_order_and_never_touch(hunks: tuple[Hunk, ...]) -> None:
    assert all(hunk.old_count or hunk.new_count for hunk in hunks)
    for one, next_one in pairwise(hunks):
        assert one.old_end < next_one.old_start
        assert next_one.old_start - one.old_end == next_one.new_start - one.new_end


def assert_they_are_minimal(hunks: tuple[Hunk, ...], old: list[str], new: list[str]) -> None:
    for hunk in hunks:
        if hunk.old_count and hunk.new_count:
            assert old[hunk.old_start] != new[hunk.new_start]
            assert old[hunk.old_end - 1] != new[hunk.new_end - 1]


class TestDiff:
    @given(some_lines, some_lines)
    def test_its_hunks_turn_the_old_text_into_the_new_one(self, old: list[str], new: list[str]) -> None:
        assert_they_turn_old_into_new(diff(old, new), old, new)

    @given(some_lines, some_lines)
    def test_its_hunks_are_in_order_and_never_touch(self, old: list[str], new: list[str]) -> None:
        assert_they_are_in_order_and_never_touch(diff(old, new))

    @given(some_lines, some_lines)
    def test_no_hunk_begins_or_ends_with_a_line_of_both_sides(self, old: list[str], new: list[str]) -> None:
        assert_they_are_minimal(diff(old, new), old, new)

    @pytest.mark.parametrize(
        "limits",
        [
            pytest.param({"LARGE": 0}, id="the shortcut for large texts"),
            pytest.param({"PATH_LIMIT": 2, "STEPS_LIMIT": 30}, id="a search that gives up early"),
            pytest.param({"LARGE": 0, "LOOKS_LIMIT": 0}, id="no search at all"),
        ],
    )
    @given(old=some_lines, new=some_lines)
    @example(old=list("aaaccb"), new=list("bacbc"))
    def test_shortcuts_for_large_texts_keep_these_properties(
        self, limits: dict[str, int], old: list[str], new: list[str]
    ) -> None:
        with pytest.MonkeyPatch.context() as patch:
            for name, limit in limits.items():
                patch.setattr(linediff, name, limit)
            hunks = diff(old, new)
        assert_they_turn_old_into_new(hunks, old, new)
        assert_they_are_in_order_and_never_touch(hunks)
        assert_they_are_minimal(hunks, old, new)

    @given(some_lines)
    def test_a_text_does_not_differ_from_itself(self, lines: list[str]) -> None:
        assert diff(lines, list(lines)) == ()

    @given(some_lines, some_lines)
    def test_it_accepts_any_sequence(self, old: list[str], new: list[str]) -> None:
        assert diff(tuple(old), tuple(new)) == diff(old, new)

    @given(some_lines, st.data())
    def test_some_of_its_hunks_can_be_applied_alone(self, old: list[str], data: st.DataObject) -> None:
        new = data.draw(some_lines)
        hunks = diff(old, new)
        chosen = [hunk for hunk in hunks if data.draw(st.booleans())]
        partly = apply(old, new, chosen)
        assert len(partly) == len(old) + sum(hunk.new_count - hunk.old_count for hunk in chosen)

    def test_a_changed_line_is_one_hunk(self) -> None:
        assert diff(["a", "b", "c"], ["a", "B", "c"]) == (Hunk(1, 1, 1, 1),)

    def test_a_new_file_is_one_hunk(self) -> None:
        assert diff([], ["a", "b"]) == (Hunk(0, 0, 0, 2),)
        assert diff(["a", "b"], []) == (Hunk(0, 2, 0, 0),)


class TestUnifiedDiff:
    def test_a_new_function_is_one_whole_hunk(self) -> None:
        old = """
            def one():
                return 1

            def three():
                return 3
            """
        new = """
            def one():
                return 1

            def two():
                return 2

            def three():
                return 3
            """
        assert picture(old, new) == dedent("""\
            @@ -1,5 +1,8 @@
             def one():
                 return 1

            +def two():
            +    return 2
            +
             def three():
                 return 3""")

    def test_a_new_block_starts_at_its_head_and_ends_at_its_brace(self) -> None:
        old = """
            int main() {
              if (a) {
                b();
              }
            }
            """
        new = """
            int main() {
              if (a) {
                b();
              }
              if (c) {
                d();
              }
            }
            """
        assert picture(old, new) == dedent("""\
            @@ -2,4 +2,7 @@
               if (a) {
                 b();
               }
            +  if (c) {
            +    d();
            +  }
             }""")

    def test_a_moved_function_leaves_the_others_whole(self) -> None:
        old = """
            one {
              1
            }
            two {
              2
            }
            three {
              3
            }
            """
        new = """
            two {
              2
            }
            three {
              3
            }
            one {
              1
            }
            """
        assert picture(old, new, context=1) == dedent("""\
            @@ -1,4 +1 @@
            -one {
            -  1
            -}
             two {
            @@ -9 +6,4 @@
             }
            +one {
            +  1
            +}""")

    def test_close_changes_share_a_header_and_distant_ones_do_not(self) -> None:
        old = [str(number) for number in range(1, 31)]
        new = [{2: "two", 5: "five", 20: "twenty"}.get(number, str(number)) for number in range(1, 31)]
        rows = list(unified(old, new, diff(old, new)))
        headers = [row.text for row in rows if row.kind == "header"]
        assert headers == ["@@ -1,8 +1,8 @@", "@@ -17,7 +17,7 @@"]

    def test_rows_have_their_line_numbers(self) -> None:
        old, new = ["a", "b", "c"], ["a", "x", "y", "c"]
        rows = list(unified(old, new, diff(old, new)))
        assert [(row.kind, row.text, row.old_line, row.new_line) for row in rows] == [
            ("header", "@@ -1,3 +1,4 @@", None, None),
            ("context", "a", 0, 0),
            ("removed", "b", 1, None),
            ("added", "x", None, 1),
            ("added", "y", None, 2),
            ("context", "c", 2, 3),
        ]

    def test_new_and_emptied_files_have_valid_hunk_headers(self) -> None:
        assert [row.text for row in unified([], ["a", "b"], diff([], ["a", "b"]))] == ["@@ -0,0 +1,2 @@", "a", "b"]
        assert [row.text for row in unified(["a"], [], diff(["a"], []))] == ["@@ -1 +0,0 @@", "a"]

    @given(some_lines, some_lines, st.integers(0, 3))
    def test_rows_contain_every_change_once(self, old: list[str], new: list[str], context: int) -> None:
        hunks = diff(old, new)
        rows = list(unified(old, new, hunks, context))
        removed = [row.old_line for row in rows if row.kind == "removed"]
        added = [row.new_line for row in rows if row.kind == "added"]
        assert removed == [line for hunk in hunks for line in range(hunk.old_start, hunk.old_end)]
        assert added == [line for hunk in hunks for line in range(hunk.new_start, hunk.new_end)]
        for row in rows:
            assert row.old_line is None or row.text == old[row.old_line]
            assert row.new_line is None or row.text == new[row.new_line]


class TestMerge:
    @given(some_lines, some_lines)
    def test_an_unchanged_side_gets_the_changes_of_the_other(self, base: list[str], other: list[str]) -> None:
        assert merge(base, other, base) == other
        assert merge(base, base, other) == other

    @given(some_lines, some_lines)
    def test_the_same_change_on_both_sides_is_made_once(self, base: list[str], both: list[str]) -> None:
        assert merge(base, both, both) == both

    @given(some_lines, some_lines, some_lines)
    def test_a_merge_does_not_depend_on_the_order(self, base: list[str], ours: list[str], theirs: list[str]) -> None:
        assert merge(base, ours, theirs) == merge(base, theirs, ours)

    @given(
        st.lists(st.sampled_from(["keep", "ours", "theirs"]), max_size=20),
        st.lists(st.text("xyz", max_size=2), min_size=20, max_size=20),
    )
    @example(["ours", "theirs"], [""] * 20)
    def test_changes_separated_by_an_unchanged_line_are_both_made(self, plan: list[str], words: list[str]) -> None:
        base, ours, theirs, both = [], [], [], []
        for number, (side, word) in enumerate(zip(plan, words, strict=False)):
            fence, line = f"unchanged {number}", f"line {number}"
            base += [fence, line]
            ours += [fence, line if side != "ours" else f"ours {word}"]
            theirs += [fence, line if side != "theirs" else f"theirs {word}"]
            both += [fence, line if side == "keep" else f"{side} {word}"]
        assert merge(base, ours, theirs) == both

    def test_different_changes_to_a_line_overlap(self) -> None:
        base = ["a", "b", "c", "d"]
        assert merge(base, ["a", "B", "c", "d"], ["a", "x", "c", "d"]) == Overlap(1, 2)

    def test_the_first_overlap_is_returned(self) -> None:
        base = [str(number) for number in range(9)]
        ours = [*base[:2], "our 2", *base[3:6], "our 6", *base[7:]]
        theirs = [*base[:2], "their 2", *base[3:6], "their 6", *base[7:]]
        assert merge(base, ours, theirs) == Overlap(2, 3)

    def test_changes_to_adjacent_lines_overlap(self) -> None:
        assert merge(["a", "b", "c", "d"], ["a", "B", "c", "d"], ["a", "b", "C", "d"]) == Overlap(1, 3)

    def test_different_lines_inserted_at_the_same_position_overlap(self) -> None:
        assert merge(["a", "b"], ["a", "ours", "b"], ["a", "theirs", "b"]) == Overlap(1, 1)

    def test_a_line_inserted_next_to_a_removed_one_overlaps(self) -> None:
        assert merge(["a", "b", "c"], ["a", "c"], ["a", "b", "new", "c"]) == Overlap(1, 2)

    def test_a_change_that_both_sides_made_does_not_overlap(self) -> None:
        base = ["a", "b", "c", "d", "e"]
        ours, theirs = ["A", "b", "c", "d", "E"], ["A", "b", "c", "d", "e"]
        assert merge(base, ours, theirs) == ours


def changed(lines: list[str], share: float, chance: random.Random) -> list[str]:
    return [f"changed {number}" if chance.random() < share else line for number, line in enumerate(lines)]


def shuffled(lines: list[str], chance: random.Random) -> list[str]:
    return chance.sample(lines, len(lines))


CHANCE = random.Random(2)
LARGE = [f"    line {number} of a file of five megabytes ........" for number in range(100_000)]
BRACES = [CHANCE.choice("{}") for _ in range(100_000)]


class TestFiveMegabytes:
    """The time limits are ten times what a slow machine needs. They catch quadratic cases, which take minutes."""

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            pytest.param(LARGE, changed(LARGE, 0.01, CHANCE), id="a hundredth changed"),
            pytest.param(LARGE, changed(LARGE, 0.1, CHANCE), id="a tenth changed"),
            pytest.param(LARGE, [line.upper() for line in LARGE], id="rewritten"),
            pytest.param(LARGE, shuffled(LARGE, CHANCE), id="shuffled"),
            pytest.param(LARGE, LARGE[::-1], id="reversed"),
            pytest.param(LARGE, LARGE[50_000:] + LARGE[:50_000], id="halves swapped"),
            pytest.param([""] * 100_000, [""] * 90_000, id="blank lines"),
            pytest.param(BRACES, shuffled(BRACES, CHANCE), id="braces shuffled"),
            pytest.param(["a", "b"] * 50_000, ["a", "b", "b"] * 33_000, id="another pattern"),
            pytest.param(["a"] * 50_000 + ["b"] * 50_000, ["b"] * 50_000 + ["a"] * 50_000, id="two blocks swapped"),
            pytest.param([], LARGE, id="a new file"),
        ],
    )
    def test_are_compared_quickly(self, old: list[str], new: list[str]) -> None:
        start = time.process_time()
        hunks = diff(old, new)
        assert time.process_time() - start < 3
        assert apply(old, new, hunks) == new

    def test_each_of_a_thousand_changed_lines_is_a_hunk(self) -> None:
        new = list(LARGE)
        new[::100] = [f"changed {number}" for number in range(1000)]
        assert diff(LARGE, new) == tuple(Hunk(at, 1, at, 1) for at in range(0, 100_000, 100))

    def test_lines_inserted_among_equal_ones_are_found(self) -> None:
        new = [""] * 100_000
        new[50::1000] = [f"text {number}" for number in range(100)]
        assert diff([""] * 99_900, new) == tuple(
            Hunk(at - number, 0, at, 1) for number, at in enumerate(range(50, 100_000, 1000))
        )
