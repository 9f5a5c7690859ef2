"""The format of a history's files, and what may be written to them."""

from __future__ import annotations

import json
import os
import stat
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from drawbridge.core.errors import BadMessage
from drawbridge.server.store import log as module
from tests.server.store.rig import NOON, all_seqs, at, files, fill, message, open_history, read_independently


def test_a_record_wraps_the_message_unchanged(tmp_path: Path) -> None:
    history = open_history(tmp_path)
    odd = b'{ "b":1.0,"a" :"\\u0041\\u0000\xc3\xa9\xe2\x80\xa8", "a":2 }'
    record = history.append("claude", odd, datetime(2026, 11, 21, 7, 0, 0, 123456, tzinfo=NOON.tzinfo))
    line = b'{"seq":1,"timestamp":"2026-11-21T07:00:00.123456Z","direction":"claude","message":' + odd + b"}"
    assert record.line == line
    assert (record.seq, record.direction) == (1, "claude")
    assert (tmp_path / "messages_2026-11-21_07-00-00.jsonl").read_bytes() == line + b"\n"
    assert history.read().records == (record,)


def test_a_record_is_in_the_file_when_append_returns(tmp_path: Path) -> None:
    history = open_history(tmp_path)
    for number in range(1, 4):
        history.append("client", message(number), at(number))
        assert [record["message"]["text"] for record in read_independently(tmp_path)] == list(range(1, number + 1))


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (b"", "not a single JSON value"),
        (b"hello", "not a single JSON value"),
        (b'{"a":1} {"b":2}', "not a single JSON value"),
        (b'{"a":1}\n{"b":2}', "not a single JSON value"),
        (b'{"a":NaN}', "not a single JSON value"),
        (b'"a\x00b"', "not a single JSON value"),
        (b'"a\nb"', "not a single JSON value"),
        (b'\xef\xbb\xbf{"a":1}', "not a single JSON value"),
        (b'{"a":"\xff"}', "not valid UTF-8"),
        (b'"\xed\xa0\x80"', "not valid UTF-8"),
        (b'{"a":1', "not a single JSON value"),
        (b"[" * 5000 + b"]" * 5000, "nested too deeply"),
        (b"[" * 700 + b"]" * 700, "nested too deeply"),
    ],
)
def test_an_invalid_message_is_refused_and_changes_nothing(tmp_path: Path, bad: bytes, why: str) -> None:
    history = open_history(tmp_path)
    with pytest.raises(BadMessage, match=why):
        history.append("claude", bad)
    assert list(tmp_path.iterdir()) == []
    history.append("claude", b"1", NOON)
    [file] = tmp_path.glob("messages_*")
    before = file.read_bytes()
    with pytest.raises(BadMessage, match=why):
        history.append("claude", bad)
    assert file.read_bytes() == before
    assert (history.last_seq, history.count) == (1, 1)
    assert history.append("claude", b"2", NOON).seq == 2


def test_deeply_nested_messages_can_be_read_deep_in_the_stack(tmp_path: Path) -> None:
    history = open_history(tmp_path)
    nested = b'{"a":' * 300 + b"1" + b"}" * 300
    history.append("claude", nested)

    def read_from(depth: int) -> list[int]:
        return read_from(depth - 1) if depth else all_seqs(history)

    assert read_from(300) == [1]
    assert history.damage == ()


def test_line_breaks_in_a_message_do_not_break_the_line(tmp_path: Path) -> None:
    history = open_history(tmp_path)
    history.append("claude", b'{\r\n  "a": [1,\n2]\n}\n')
    history.append("claude", b'{"b":"x\\ny"}')
    history.append("claude", b"[3,\n4]")
    first, second, third = read_independently(tmp_path)
    assert (first["message"], second["message"], third["message"]) == ({"a": [1, 2]}, {"b": "x\ny"}, [3, 4])
    assert all_seqs(history) == [1, 2, 3]


def test_times_of_all_zones_are_stored_in_utc(tmp_path: Path) -> None:
    history = open_history(tmp_path)
    tokyo = timezone(timedelta(hours=9))
    history.append("client", b"1", datetime(2026, 11, 22, 1, 30, tzinfo=tokyo))
    assert files(tmp_path) == ["messages_2026-11-21_16-30-00.jsonl"]
    assert history.first_time == datetime(2026, 11, 22, 1, 30, tzinfo=tokyo)
    [record] = read_independently(tmp_path)
    assert record["timestamp"] == "2026-11-21T16:30:00.000000Z"
    with pytest.raises(ValueError, match="time zone"):
        history.append("client", b"2", datetime(2026, 11, 22, 1, 30))
    assert history.count == 1


def test_no_file_is_created_before_the_first_record(tmp_path: Path) -> None:
    history = open_history(tmp_path / "logs")
    assert (history.last_seq, history.count, history.first_time, history.last_time) == (0, 0, None, None)
    history.close()
    assert list((tmp_path / "logs").iterdir()) == []


def test_a_new_day_by_utc_begins_a_new_file(tmp_path: Path) -> None:
    history = open_history(tmp_path)
    for second in (-1, 0, 1):
        history.append("claude", message(second), NOON.replace(hour=0) + timedelta(days=1, seconds=second))
    assert files(tmp_path) == ["messages_2026-11-21_23-59-59.jsonl", "messages_2026-11-22_00-00-00.jsonl"]
    assert os.readlink(tmp_path / "latest.jsonl") == "messages_2026-11-22_00-00-00.jsonl"
    assert all_seqs(history) == [1, 2, 3]


def test_ten_thousand_messages_fill_a_file(tmp_path: Path) -> None:
    history = open_history(tmp_path)
    for _ in range(10_001):
        history.append("claude", b"0", NOON)
    assert files(tmp_path) == ["messages_2026-11-21_12-00-00.jsonl", "messages_2026-11-21_12-00-00_2.jsonl"]
    lengths = [len((tmp_path / name).read_bytes().splitlines()) for name in files(tmp_path)]
    assert lengths == [10_000, 1]
    assert [record["seq"] for record in read_independently(tmp_path)] == list(range(1, 10_002))


@pytest.mark.thorough
def test_no_file_grows_beyond_a_hundred_megabytes(tmp_path: Path) -> None:
    """A record of 20 MB is returned whole, and all records are found without the index file."""
    history = open_history(tmp_path)
    big = b'"' + b"x" * (20 * 1024 * 1024) + b'"'
    for number in range(6):
        history.append("claude", big, at(number))
    sizes = [(tmp_path / name).stat().st_size for name in files(tmp_path)]
    assert len(sizes) == 2
    assert max(sizes) <= 100 * 1024 * 1024
    page = history.read(after_seq=4, max_bytes=1024)
    assert page.records[0].line.endswith(big + b"}")
    assert page.has_more
    history.close()
    (tmp_path / "index.json").unlink()
    assert all_seqs(open_history(tmp_path)) == [1, 2, 3, 4, 5, 6]


def test_a_message_larger_than_a_file_is_refused(tmp_path: Path) -> None:
    history = open_history(tmp_path)
    with pytest.raises(BadMessage, match="too long"):
        history.append("claude", b'"' + b"x" * (100 * 1024 * 1024) + b'"')
    assert list(tmp_path.iterdir()) == []


def test_files_begun_in_the_same_second_have_their_own_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the index file, their records are still read in order."""
    monkeypatch.setattr(module, "MOST_RECORDS", 1)
    history = open_history(tmp_path)
    for _ in range(12):
        history.append("claude", b"0", NOON)
    assert len(files(tmp_path)) == 12
    history.close()
    (tmp_path / "index.json").unlink()
    again = open_history(tmp_path)
    assert all_seqs(again) == list(range(1, 13))
    assert again.append("claude", b"0", NOON).seq == 13


def test_a_restart_continues_the_file_of_the_day(tmp_path: Path) -> None:
    for _ in range(3):
        history = open_history(tmp_path)
        fill(history, 2)
        history.close()
    assert files(tmp_path) == ["messages_2026-11-21_12-00-01.jsonl"]
    open_history(tmp_path).append("claude", b"0", NOON + timedelta(days=1))
    assert files(tmp_path)[1:] == ["messages_2026-11-22_12-00-00.jsonl"]
    assert [record["seq"] for record in read_independently(tmp_path)] == [1, 2, 3, 4, 5, 6, 7]


def test_a_clock_that_was_set_back_to_yesterday_keeps_the_order(tmp_path: Path) -> None:
    history = open_history(tmp_path)
    for moment in (NOON, NOON - timedelta(days=1), NOON - timedelta(days=1, seconds=1), NOON + timedelta(days=1)):
        history.append("claude", b"0", moment)
    assert len(files(tmp_path)) == 3
    assert history.first_time == NOON
    assert history.last_time == NOON + timedelta(days=1)
    history.close()
    (tmp_path / "index.json").unlink()
    assert all_seqs(open_history(tmp_path)) == [1, 2, 3, 4]


def test_the_latest_file_is_linked_and_the_link_is_repaired(tmp_path: Path) -> None:
    history = open_history(tmp_path)
    fill(history, 1)
    history.close()
    link = tmp_path / "latest.jsonl"
    assert json.loads(link.read_bytes())["seq"] == 1
    link.unlink()
    fill(open_history(tmp_path), 1)
    assert os.readlink(link) == files(tmp_path)[0]


@pytest.mark.parametrize("error", [OSError("no links here"), NotImplementedError()])
def test_without_links_a_text_file_names_the_latest_file(tmp_path: Path, error: Exception) -> None:
    def no_links(target: str, link: str) -> None:
        raise error

    history = open_history(tmp_path, symlink=no_links)
    fill(history, 1)
    assert (tmp_path / "latest.txt").read_text() == "messages_2026-11-21_12-00-01.jsonl\n"
    history.append("claude", b"0", NOON + timedelta(days=1))
    assert (tmp_path / "latest.txt").read_text() == "messages_2026-11-22_12-00-00.jsonl\n"
    assert not (tmp_path / "latest.jsonl").exists()


def test_a_directory_named_latest_is_harmless(tmp_path: Path) -> None:
    (tmp_path / "latest.jsonl").mkdir()
    (tmp_path / "latest.txt").mkdir()
    history = open_history(tmp_path)
    fill(history, 1)
    assert all_seqs(history) == [1]
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".tmp")]


def test_only_the_owner_can_read_directory_and_files(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        history = open_history(tmp_path / "project" / "logs")
        fill(history, 1)
        history.close()
    finally:
        os.umask(old)
    logs = tmp_path / "project" / "logs"
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in [logs, *logs.glob("*.json*")]}
    assert modes.pop("logs") == 0o700
    assert set(modes.values()) == {0o600}


def test_a_closed_history_can_only_be_read(tmp_path: Path) -> None:
    history = open_history(tmp_path)
    fill(history, 2)
    history.close()
    history.close()
    with pytest.raises(ValueError, match="closed"):
        history.append("claude", b"1")
    assert all_seqs(history) == [1, 2]


def test_each_history_keeps_only_one_file_open(tmp_path: Path) -> None:
    def open_files() -> int:
        return len(os.listdir("/proc/self/fd"))

    before = open_files()
    histories = [open_history(tmp_path / str(number), fsync="second") for number in range(100)]
    assert open_files() == before
    for history in histories:
        fill(history, 2)
        history.read(limit=1)
    waiting = 2 * len(histories)  # files that wait to be synced: each history's file and its directory
    assert open_files() <= before + len(histories) + waiting
    for history in histories:
        history.close()
    assert open_files() == before
