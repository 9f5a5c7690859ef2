"""Old history is deleted only if the owner has enabled this, one whole file at a time, and never the newest file.

Clients see where the history begins.
"""

from __future__ import annotations

import errno
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from drawbridge.core.errors import HistoryNotWritten
from drawbridge.server.sessions.projects import Maintenance, Retention
from drawbridge.server.store import log as module
from drawbridge.server.store.log import History
from tests.server.core_rig import Client, serving
from tests.server.store.rig import all_seqs, at, files, fill, message, open_history, read_independently
from tests.waiting import until


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> History:
    """A history of 35 records in four files: three with ten records, the newest with five."""
    monkeypatch.setattr(module, "MOST_RECORDS", 10)
    opened = open_history(tmp_path)
    fill(opened, 35)
    return opened


def test_records_within_the_limits_are_kept(history: History, tmp_path: Path) -> None:
    assert history.drop(None, None) == 0
    assert history.drop(at(0), 10**9) == 0
    assert all_seqs(history) == list(range(1, 36))
    assert history.first_seq == 1
    assert history.size == sum(path.stat().st_size for path in tmp_path.glob("messages_*"))


def test_old_records_are_dropped_in_whole_files(history: History, tmp_path: Path) -> None:
    assert history.drop(at(25), None) == 2
    assert (history.first_seq, history.last_seq, history.count, len(files(tmp_path))) == (21, 35, 15, 2)
    assert all_seqs(history) == list(range(21, 36))


def test_records_above_the_size_are_dropped_oldest_first(history: History, tmp_path: Path) -> None:
    assert history.drop(None, history.size - 1) == 1
    assert history.first_seq == 11
    assert history.size == sum(path.stat().st_size for path in tmp_path.glob("messages_*"))


def test_the_newest_file_always_stays(history: History, tmp_path: Path) -> None:
    assert history.drop(at(10**6), 0) == 3
    assert all_seqs(history) == [31, 32, 33, 34, 35]
    assert history.drop(at(10**6), 0) == 0


def test_numbers_continue_after_records_were_dropped(history: History, tmp_path: Path) -> None:
    history.drop(at(25), None)
    fill(history, 7)
    history.close()
    again = open_history(tmp_path)
    assert all_seqs(again) == list(range(21, 43))
    assert (again.first_seq, again.last_seq) == (21, 42)
    (tmp_path / "index.json").unlink()
    assert all_seqs(open_history(tmp_path)) == [record["seq"] for record in read_independently(tmp_path)]


def test_the_next_start_repairs_an_interrupted_drop(history: History, tmp_path: Path) -> None:
    """The file is gone, but the index still contains it."""
    history.close()
    (tmp_path / files(tmp_path)[0]).unlink()
    assert open_history(tmp_path).first_seq == 11


def test_a_reader_during_a_deletion_gets_the_rest(history: History) -> None:
    reading = history.after(0)
    assert next(reading).seq == 1
    history.drop(at(25), None)
    assert [record.seq for record in history.read(after_seq=3, limit=2).records] == [21, 22]
    assert [record.seq for record in history.read(before_seq=23).records] == [21, 22]
    assert history.read(before_seq=21).records == ()


def test_a_file_that_cannot_be_dropped_stays_and_is_logged(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: str) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", fail)
        with pytest.raises(HistoryNotWritten, match="permission denied"):
            history.drop(at(25), None)
    assert all_seqs(history) == list(range(1, 36))
    assert history.drop(at(25), None) == 2


async def test_a_client_sees_where_the_history_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_RECORDS", 10)
    phone = Client()
    async with serving(tmp_path) as server:
        id = await server.project(phone, join=False)
        session = server.core.projects.get(id)
        for number in range(35):
            session.history.append("claude", message(number), datetime.now(UTC) - timedelta(days=39 - number, hours=23))
        assert "first_seq" not in (await server.does(phone, "project_list"))["data"]["projects"][0]
        await Maintenance(server.core.disk, server.core.all_sessions, server.core.projects, Retention(days=15)).clean()
        (shown,) = (await server.does(phone, "project_list"))["data"]["projects"]
        assert (shown["first_seq"], shown["last_seq"], shown["message_count"]) == (26, 35, 10)
        page = (await server.does(phone, "get_messages", id, after_seq=2, limit=3))["data"]
        assert (page["first_seq"], [record["seq"] for record in page["messages"]]) == (26, [26, 27, 28])
        joined = (await server.does(phone, "project_join", id, after_seq=2))["data"]["data"]
        assert (joined["first_seq"], joined["last_seq"]) == (26, 35)
        await until(lambda: len(phone.seqs) == 10, "the rest")
        assert phone.seqs == list(range(26, 36))


async def test_without_a_setting_nothing_is_ever_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_RECORDS", 10)
    phone = Client()
    async with serving(tmp_path) as server:
        session = server.core.projects.get(await server.project(phone))
        for number in range(35):
            session.history.append("claude", message(number), datetime.now(UTC) - timedelta(days=4_000 - number))
        await server.core.maintenance.clean()
        assert session.history.first_seq == 1
