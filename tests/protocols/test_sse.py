"""Server-sent events: their bytes, and the events that a reconnecting reader is sent again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbridge.protocols import sse


def test_an_event_is_one_line_of_data_with_its_id() -> None:
    assert sse.event(b'{"a":1}', 7) == b'event: message\nid: 7\ndata: {"a":1}\n\n'


@pytest.mark.parametrize("data", [b"", b"a\nb"])
def test_data_that_would_break_the_reader_is_never_sent(data: bytes) -> None:
    with pytest.raises(AssertionError):
        sse.event(data, 1)


@pytest.mark.parametrize(
    ("header", "id"),
    [
        *[("0", 0), ("7", 7), ("007", 7), ("999999999999999999", 999_999_999_999_999_999)],
        *[(None, 0), ("", 0), ("-1", 0), ("1.5", 0), ("x", 0), ("٣", 0), (" 7", 0), ("9" * 19, 0), ("9" * 10_000, 0)],
    ],
)
def test_an_invalid_last_event_id_is_ignored(header: str | None, id: int) -> None:
    assert sse.last_event_id(header) == id


def kept(backlog: sse.Backlog, last_id: int = 0) -> list[int]:
    return [id for id, _ in backlog.after(last_id)]


def test_a_reader_is_sent_all_events_after_its_last_one() -> None:
    backlog = sse.Backlog(10, 1_000, last_id=100)
    backlog.keep(b"one", "a")
    assert backlog.number() == 102, "an event that is not kept has an id too"
    backlog.keep(b"two", "b")
    assert list(backlog.after(0)) == [(101, sse.event(b"one", 101)), (103, sse.event(b"two", 103))]
    assert kept(backlog, 101) == kept(backlog, 102) == [103]
    assert kept(backlog, 103) == []
    assert kept(backlog, 104) == [101, 103], "the id is unknown, so all events are sent"


def test_forgotten_events_are_not_sent() -> None:
    backlog = sse.Backlog(10, 1_000)
    for about in ("a", "b", "a"):
        backlog.keep(b"x", about)
    backlog.forget("a")
    assert kept(backlog) == [2]
    backlog.forget("never heard of")
    assert kept(backlog) == [2]


@given(st.lists(st.integers(1, 50), min_size=1), st.integers(1, 5), st.integers(1, 100))
def test_it_keeps_the_newest_events_within_both_limits(sizes: list[int], limit: int, size_limit: int) -> None:
    backlog = sse.Backlog(limit, size_limit)
    for size in sizes:
        backlog.keep(b"x" * size, "")
    ids = kept(backlog)
    assert ids == list(range(len(sizes) - len(ids) + 1, len(sizes) + 1)), "the newest events, without a gap"
    fits = len(ids) <= limit and sum(sizes[-len(ids) :]) <= size_limit
    assert fits or len(ids) == 1, "the newest event is always kept"
    if len(ids) < len(sizes):
        more = sizes[-len(ids) - 1 :]
        assert len(more) > limit or sum(more) > size_limit, "no event was dropped without need"
