"""Pages of a history are read with every kind of cursor."""

from __future__ import annotations

import threading
import tracemalloc
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from drawbridge.server.store import log as module
from drawbridge.server.store.index import Report, Segment, read_block
from drawbridge.server.store.log import History, Record
from tests.server.store.rig import NOON, all_seqs, at, fill, message, open_history, seqs
from tests.waiting import PATIENCE


@pytest.fixture(params=["in many files", "in one file"])
def history(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[History]:
    """A history of a thousand records, one second apart, the first of them one second after noon."""
    if request.param == "in many files":
        monkeypatch.setattr(module, "MOST_RECORDS", 70)
    history = open_history(tmp_path)
    fill(history, 1_000)
    yield history
    history.close()


def test_records_after_a_number_are_read(history: History) -> None:
    page = history.read(after_seq=600, limit=300)
    assert (seqs(page), page.has_more) == (list(range(601, 901)), True)
    page = history.read(after_seq=900, limit=100)
    assert (seqs(page), page.has_more) == (list(range(901, 1_001)), False)
    page = history.read(after_seq=1_000)
    assert (seqs(page), page.has_more) == ([], False)
    assert seqs(history.read(after_seq=2**60)) == []
    assert seqs(history.read(after_seq=0, limit=1)) == seqs(history.read(limit=1)) == [1]


def test_the_nearest_records_before_a_number_are_in_order(history: History) -> None:
    page = history.read(before_seq=601, limit=300)
    assert (seqs(page), page.has_more) == (list(range(301, 601)), True)
    page = history.read(before_seq=301, limit=300)
    assert (seqs(page), page.has_more) == (list(range(1, 301)), False)
    assert seqs(history.read(before_seq=2**60, limit=2)) == [999, 1_000]
    assert seqs(history.read(before_seq=1)) == []


def test_records_between_two_numbers_are_read(history: History) -> None:
    page = history.read(after_seq=300, before_seq=400, limit=50)
    assert (seqs(page), page.has_more) == (list(range(301, 351)), True)
    page = history.read(after_seq=350, before_seq=400, limit=50)
    assert (seqs(page), page.has_more) == (list(range(351, 400)), False)


def test_records_after_a_time_exclude_those_at_that_time(history: History) -> None:
    assert seqs(history.read(since=at(990))) == list(range(991, 1_001))
    assert seqs(history.read(since=at(990) - timedelta(microseconds=1))) == list(range(990, 1_001))
    assert seqs(history.read(since=at(1_000))) == []
    page = history.read(since=at(500), limit=100)
    assert (seqs(page), page.has_more) == (list(range(501, 601)), True)
    page = history.read(since=at(500), after_seq=600, limit=1_000)
    assert (seqs(page), page.has_more) == (list(range(601, 1_001)), False)
    assert seqs(history.read(since=at(500), before_seq=503)) == [501, 502]


def test_a_page_stops_at_its_size_after_at_least_one_record(history: History) -> None:
    length = len(history.read(after_seq=500, limit=1).records[0].line)
    page = history.read(after_seq=500, max_bytes=10 * length)
    assert (seqs(page), page.has_more) == (list(range(501, 511)), True)
    page = history.read(after_seq=500, max_bytes=10 * length - 1)
    assert len(page.records) == 9
    assert seqs(history.read(before_seq=500, max_bytes=3 * length)) == [497, 498, 499]
    page = history.read(after_seq=500, max_bytes=1)
    assert (seqs(page), page.has_more) == ([501], True)
    page = history.read(after_seq=999, max_bytes=1)
    assert (seqs(page), page.has_more) == ([1_000], False)


def test_consecutive_pages_contain_every_record_once(history: History) -> None:
    seq, found = 0, []
    while True:
        page = history.read(after_seq=seq, limit=33)
        found += seqs(page)
        if not page.has_more:
            break
        seq = found[-1]
    assert found == list(range(1, 1_001)) == all_seqs(history)


def test_a_page_needs_a_positive_limit_and_a_time_zone(history: History) -> None:
    with pytest.raises(ValueError, match="limit"):
        history.read(limit=0)
    with pytest.raises(ValueError, match="time zone"):
        history.read(since=datetime(2026, 11, 21))


def test_a_time_cursor_misses_no_record_after_a_clock_change(tmp_path: Path) -> None:
    """Each record is written at noon plus its offset in seconds. The clock is set back by more than an hour, and later
    by five minutes within one block.
    """
    history = open_history(tmp_path)
    offsets = [*range(300), *range(-3_600, -3_300), 500, 200, 501]
    for offset in offsets:
        history.append("claude", b"0", at(offset))
    for since in (-3_600, -3_301, -1, 0, 199, 200, 298, 299, 499, 500, 501):
        expected = [seq for seq, offset in enumerate(offsets, 1) if offset > since]
        assert seqs(history.read(since=at(since))) == expected
    history.close()
    again = open_history(tmp_path)
    assert seqs(again.read(since=at(299))) == [601, 603]
    assert (again.first_time, again.last_time) == (at(0), at(501))


def test_records_of_the_same_moment_are_all_read_or_none(tmp_path: Path) -> None:
    history = open_history(tmp_path)
    for _ in range(600):
        history.append("claude", b"0", NOON)
    assert seqs(history.read(since=NOON)) == []
    assert len(history.read(since=NOON - timedelta(microseconds=1)).records) == 600


def test_another_thread_reads_a_growing_history_without_gaps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_RECORDS", 700)
    history = open_history(tmp_path)
    seen: list[int] = []
    failed: list[BaseException] = []

    def read() -> None:
        try:
            while len(seen) < 5_000:
                seen.extend(seqs(history.read(after_seq=seen[-1] if seen else 0, limit=100)))
        except BaseException as error:  # checked in the test's own thread
            failed.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    fill(history, 5_000)
    reader.join(PATIENCE)
    assert not failed
    assert seen == list(range(1, 5_001))


def test_a_page_shows_the_history_at_the_time_of_the_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history = open_history(tmp_path)
    fill(history, 400)

    def read_late(*arguments: Any) -> list[Record]:
        fill(history, 300)
        return read_block(*arguments)

    monkeypatch.setattr(module, "read_block", read_late)
    page = history.read(after_seq=100)
    assert (seqs(page), page.has_more) == (list(range(101, 401)), False)
    assert history.damage == ()


@pytest.mark.parametrize(
    ("cursor", "blocks"),
    [
        ({"after_seq": 900, "limit": 10}, 1),
        ({"before_seq": 100, "limit": 10}, 1),
        ({"since": at(900)}, 1),
        ({"after_seq": 500, "limit": 100}, 2),
        ({"since": at(1_000)}, 0),
    ],
)
def test_a_page_reads_no_more_of_the_files_than_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cursor: dict[str, Any], blocks: int
) -> None:
    history = open_history(tmp_path)
    fill(history, 1_000)
    read: list[int] = []

    def read_and_count(file: int, segment: Segment, block: int, report: Report) -> list[Record]:
        read.append(block)
        return read_block(file, segment, block, report)

    monkeypatch.setattr(module, "read_block", read_and_count)
    history.read(**cursor)
    assert len(read) == blocks


def test_neither_opening_nor_a_page_loads_the_whole_history(tmp_path: Path) -> None:
    history = open_history(tmp_path)
    fill(history, 60, size=1_000_000)
    history.close()

    def peak(act: object) -> int:
        assert callable(act)
        tracemalloc.start()
        try:
            act()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(lambda: open_history(tmp_path)) < 200_000
    assert peak(lambda: open_history(tmp_path).read(after_seq=30, limit=1)) < 10_000_000
    (tmp_path / "index.json").unlink()
    assert peak(lambda: open_history(tmp_path)) < 10_000_000


def test_the_direction_of_each_record_is_stored(tmp_path: Path) -> None:
    history = open_history(tmp_path)
    for direction in ("client", "claude", "server"):
        history.append(direction, message(direction))
    assert [record.direction for record in history.after(0)] == ["client", "claude", "server"]
