"""Which changes of a review are new to the user."""

from __future__ import annotations

from drawbridge.text.review_visits import ReviewVisits


def test_on_the_first_visit_nothing_is_new() -> None:
    visits = ReviewVisits()
    visits.begin()
    visits.saw(["a"])
    assert visits.new(["a", "b"]) == frozenset()


def test_an_unseen_change_is_new_until_the_next_visit() -> None:
    visits = ReviewVisits(["a"])
    visits.begin()
    visits.saw(["b"])
    assert visits.new(["a", "b", "c"]) == {"b", "c"}
    visits.begin()
    assert visits.new(["a", "b", "c"]) == {"c"}


def test_if_everything_is_new_nothing_is_marked() -> None:
    visits = ReviewVisits(["a"])
    visits.begin()
    assert visits.new(["b", "c"]) == frozenset()


def test_it_reports_whether_any_change_is_new() -> None:
    visits = ReviewVisits(["a"])
    visits.begin()
    assert visits.has_new(["a", "b"])
    assert not visits.has_new(["a"])
