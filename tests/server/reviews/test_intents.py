"""The outcome of an interrupted decision, determined only from the states of its files."""

from __future__ import annotations

import pytest

from drawbridge.server.reviews.intents import State, Verdict, state_of, verdict

NONE = "000000 " + "0" * 40
OLD, NEW, OTHER = "100644 aa", "100644 bb", "100644 cc"


@pytest.mark.parametrize(
    ("before", "after", "now", "is_part", "state"),
    [
        (OLD, NEW, OLD, False, "before"),
        (OLD, NEW, NEW, False, "after"),
        (OLD, NEW, NONE, False, "torn"),  # git removes a file before it writes it
        (OLD, NEW, OTHER, True, "torn"),
        (OLD, NEW, OTHER, False, "changed"),
        (NONE, NEW, NONE, False, "before"),
        (NONE, NEW, OTHER, True, "torn"),
        (OLD, NONE, NONE, False, "after"),
        (OLD, NONE, OLD, False, "before"),
        (OLD, NONE, OTHER, False, "changed"),
        (OLD, "100755 aa", "100755 aa", False, "after"),
    ],
)
def test_a_files_content_shows_whether_its_change_was_made(
    before: str, after: str, now: str, is_part: bool, state: State
) -> None:
    assert state_of(before, after, now, is_part=is_part) == state


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ({}, Verdict("not_done")),
        ({"a": "before", "b": "before"}, Verdict("not_done")),
        ({"a": "after", "b": "after"}, Verdict("done")),
        ({"a": "before", "b": "after"}, Verdict("done", "after", ("a",))),
        ({"a": "torn", "b": "before"}, Verdict("done", "after", ("b", "a"))),
        ({"a": "torn"}, Verdict("done", "after", ("a",))),
        ({"a": "changed"}, Verdict("unknown", changed=("a",))),
        ({"a": "changed", "b": "after"}, Verdict("done", changed=("a",))),
        ({"a": "changed", "b": "before"}, Verdict("not_done", changed=("a",))),
        ({"a": "changed", "b": "before", "c": "after"}, Verdict("not_done", "before", ("c",), ("a",))),
        ({"a": "changed", "b": "torn"}, Verdict("not_done", "before", ("b",), ("a",))),
    ],
)
def test_a_decision_that_was_partly_written_has_one_outcome(states: dict[str, State], expected: Verdict) -> None:
    assert verdict(states, is_in_review=False) == expected


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ({}, Verdict("done")),
        ({"a": "after", "b": "torn"}, Verdict("done", "after", ("b",))),
        ({"a": "before"}, Verdict("done")),
        ({"a": "changed"}, Verdict("done", changed=("a",))),
    ],
)
def test_a_decision_that_the_review_contains_was_made(states: dict[str, State], expected: Verdict) -> None:
    """All files are written before the review, so if one is not complete, it was damaged by a power failure."""
    assert verdict(states, is_in_review=True) == expected
