"""When a history whose index is lost is opened, only the first and last lines of large files are read. The rest is read
in the background by ``scan_next``; a file that a request needs is read by that request.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from drawbridge.server.store import index, log
from drawbridge.server.store.log import History, rebuild
from tests.server.store.rig import all_seqs, at, files, fill, message, open_history, read_independently, seqs
from tests.waiting import PATIENCE

RECORDS = 1_000
EACH = 100
"""Records in each file of these tests."""


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "SCANNED_AT_OPENING", 0)
    monkeypatch.setattr(log, "MOST_RECORDS", EACH)


@pytest.fixture
def scanned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that ``index.scan`` has read, in order."""
    names: list[str] = []
    scan = index.scan

    def noted(path: str, segment: index.Segment, report: index.Report) -> int:
        names.append(segment.name)
        return scan(path, segment, report)

    monkeypatch.setattr(index, "scan", noted)
    return names


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """The directory of a closed history whose index was deleted."""
    history = open_history(tmp_path / "logs")
    fill(history, RECORDS)
    history.close()
    (tmp_path / "logs" / "index.json").unlink()
    return tmp_path / "logs"


@pytest.fixture
def history(directory: Path, scanned: list[str]) -> Iterator[History]:
    history = open_history(directory)
    yield history
    history.close()


def test_numbers_and_times_are_known_before_files_are_read(
    history: History, scanned: list[str], directory: Path
) -> None:
    assert scanned == []
    assert (history.first_seq, history.last_seq, history.count) == (1, RECORDS, RECORDS)
    assert (history.first_time, history.last_time) == (at(1), at(RECORDS))
    assert history.size == sum(path.stat().st_size for path in directory.glob("messages_*.jsonl"))


def test_a_page_reads_only_the_files_that_it_is_in(history: History, scanned: list[str], directory: Path) -> None:
    assert seqs(history.read(before_seq=RECORDS + 1, limit=20)) == list(range(RECORDS - 19, RECORDS + 1))
    assert scanned == files(directory)[-1:]
    assert seqs(history.read(after_seq=EACH - 10, limit=20)) == list(range(EACH - 9, EACH + 11))
    assert sorted(scanned) == [*files(directory)[:2], *files(directory)[-1:]]


def test_every_page_is_correct_before_the_index_is_built(history: History) -> None:
    assert all_seqs(history) == list(range(1, RECORDS + 1))
    page = history.read(since=at(RECORDS - 5))
    assert seqs(page) == list(range(RECORDS - 4, RECORDS + 1))


def test_new_records_keep_their_order(history: History, scanned: list[str], directory: Path) -> None:
    fill(history, 3)
    assert scanned == []
    assert all_seqs(history) == list(range(1, RECORDS + 4))
    assert [record["seq"] for record in read_independently(directory)] == list(range(1, RECORDS + 4))


def test_a_rebuilt_index_is_used_by_the_next_start(directory: Path, history: History, scanned: list[str]) -> None:
    while history.scan_next():
        pass
    assert sorted(scanned) == files(directory)
    history.close()
    scanned.clear()
    again = open_history(directory)
    assert all_seqs(again) == list(range(1, RECORDS + 1))
    assert scanned == []
    again.close()


def test_a_kill_during_rebuilding_loses_no_records(directory: Path, history: History) -> None:
    for _ in range(3):
        history.scan_next()
    fill(history, 5)  # the history is not closed, as when the server is killed
    again = open_history(shutil.copytree(directory, directory.with_name("left"), symlinks=True))
    fill(again, 1)
    assert all_seqs(again) == list(range(1, RECORDS + 7))
    again.close()


def test_closing_during_rebuilding_loses_no_records(directory: Path, history: History) -> None:
    history.scan_next()
    fill(history, 5)
    history.close()
    again = open_history(directory)
    fill(again, 1)
    assert all_seqs(again) == list(range(1, RECORDS + 7))
    again.close()


def test_a_torn_end_is_cut(directory: Path) -> None:
    with (directory / files(directory)[-1]).open("ab") as file:
        file.write(b'{"seq":1001,"timest')
    history = open_history(directory)
    assert history.last_seq == RECORDS
    fill(history, 1)
    assert all_seqs(history) == list(range(1, RECORDS + 2))
    history.close()


def test_damaged_files_are_read_the_same_with_the_shortcut(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(7)
    for number in range(60):
        damaged = shutil.copytree(directory, directory.with_name(f"damaged{number}"), symlinks=True)
        for name in chance.sample(files(damaged), 3):
            data = bytearray((damaged / name).read_bytes())
            if chance.random() < 0.5:  # damages the record number in a line that ``index.sketch`` parses
                lines = [0, *(at + 1 for at, byte in enumerate(data[:-1]) if byte == ord("\n"))]
                data[chance.choice((*lines[:2], *lines[-2:])) + len(b'{"seq":') + 1] = chance.choice(b"0123456789")
            else:
                near_an_end = chance.choice((range(400), range(len(data) - 400, len(data)), range(len(data))))
                for _ in range(chance.randint(1, 3)):
                    data[chance.choice(near_an_end)] = chance.choice(b"0123456789\n{}x")
            (damaged / name).write_bytes(data)
        slowly = shutil.copytree(damaged, directory.with_name(f"slowly{number}"), symlinks=True)
        monkeypatch.setattr(index, "SCANNED_AT_OPENING", 2**40)
        expected = open_history(slowly)
        monkeypatch.setattr(index, "SCANNED_AT_OPENING", 0)
        found = open_history(damaged)
        assert found.last_seq == expected.last_seq, number
        assert all_seqs(found) == all_seqs(expected), number
        while found.scan_next():
            pass
        assert (found.count, found.first_seq, found.last_seq) == (expected.count, expected.first_seq, expected.last_seq)
        for history in (found, expected):
            history.close()


def test_reading_and_writing_work_during_rebuilding(history: History) -> None:
    failed: list[BaseException] = []

    def read() -> None:
        try:
            chance = random.Random(threading.get_ident())
            for _ in range(60):
                first = chance.randrange(RECORDS - 50)
                assert seqs(history.read(after_seq=first, limit=50)) == list(range(first + 1, first + 51))
        except BaseException as error:  # checked below
            failed.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    more = 0
    while history.scan_next():
        history.append("claude", message("meanwhile"), at(RECORDS + more))
        more += 1
    for reader in readers:
        reader.join(PATIENCE)
    assert failed == []
    assert all_seqs(history) == list(range(1, RECORDS + more + 1))


async def test_the_last_used_history_is_rebuilt_first(tmp_path: Path, scanned: list[str]) -> None:
    histories = []
    for name, moment in (("old", 0), ("newest", 2_000), ("older", 1_000)):
        made = open_history(tmp_path / name)
        for number in range(5):
            made.append("claude", message(name), at(moment + number))
        made.close()
        (tmp_path / name / "index.json").unlink()
        histories.append(open_history(tmp_path / name))
    assert scanned == []
    async with asyncio.timeout(PATIENCE):
        await rebuild(histories)
    assert scanned == [*files(tmp_path / "newest"), *files(tmp_path / "older"), *files(tmp_path / "old")]
    for one in histories:
        one.close()
