"""Server-sent events: their bytes, and what a reader that was away is sent again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbridge.protocols import sse


def test_an_event_is_one_line_of_data_with_its_id() -> None:
    assert sse.event(b'{"a":1}', 7) == b'event: message\nid: 7\ndata: {"a":1}\n\n'


@pytest.mark.parametrize("data", [b"", b"a\nb"])
def test_what_would_break_the_reader_is_never_an_event(data: bytes) -> None:
    with pytest.raises(AssertionError):
        sse.event(data, 1)


@pytest.mark.parametrize(
    ("header", "id"),
    [
        *[("0", 0), ("7", 7), ("007", 7), ("999999999999999999", 999_999_999_999_999_999)],
        *[(None, 0), ("", 0), ("-1", 0), ("1.5", 0), ("x", 0), ("٣", 0), (" 7", 0), ("9" * 19, 0), ("9" * 10_000, 0)],
    ],
)
def test_an_id_that_can_not_be_ours_is_none(header: str | None, id: int) -> None:
    assert sse.last_event_id(header) == id


def kept(backlog: sse.Backlog, last_id: int = 0) -> list[int]:
    return [id for id, _ in backlog.after(last_id)]


def test_a_reader_is_sent_what_came_after_the_last_that_it_saw() -> None:
    backlog = sse.Backlog(10, 1_000, last_id=100)
    backlog.keep(b"one", "a")
    assert backlog.number() == 102, "an event that is not kept has an id too"
    backlog.keep(b"two", "b")
    assert list(backlog.after(0)) == [(101, sse.event(b"one", 101)), (103, sse.event(b"two", 103))]
    assert kept(backlog, 101) == kept(backlog, 102) == [103]
    assert kept(backlog, 103) == []
    assert kept(backlog, 104) == [101, 103], "that id is none of ours"


def test_what_nobody_wants_any_more_is_not_sent() -> None:
    backlog = sse.Backlog(10, 1_000)
    for about in ("a", "b", "a"):
        backlog.keep(b"x", about)
    backlog.forget("a")
    assert kept(backlog) == [2]
    backlog.forget("never heard of")
    assert kept(backlog) == [2]


@given(st.lists(st.integers(1, 50), min_size=1), st.integers(1, 5), st.integers(1, 100))
def test_it_holds_the_newest_within_both_bounds(sizes: list[int], limit: int, size_limit: int) -> None:
    backlog = sse.Backlog(limit, size_limit)
    for size in sizes:
        backlog.keep(b"x" * size, "")
    ids = kept(backlog)
    assert ids == list(range(len(sizes) - len(ids) + 1, len(sizes) + 1)), "the newest, without a gap"
    fits = len(ids) <= limit and sum(sizes[-len(ids) :]) <= size_limit
    assert fits or len(ids) == 1, "the very newest is kept in any case"
    if len(ids) < len(sizes):
        more = sizes[-len(ids) - 1 :]
        assert len(more) > limit or sum(more) > size_limit, "nothing was dropped without need"
