"""Files damaged by a crash, a disk or a user: intact records are read, a torn last line is cut off, and other damage
is reported and left as it is.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from drawbridge.core.errors import HistoryNotWritten, HistoryUnreadable, NotPrivate
from drawbridge.server.store import index as history_index
from drawbridge.server.store import log as module
from drawbridge.server.store.lines import parse
from drawbridge.server.store.log import Damage, Record
from tests.server.store.rig import NOON, all_seqs, at, files, fill, message, open_history, read_independently, seqs


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a closed history of thirty records in three files, in blocks of four."""
    monkeypatch.setattr(module, "MOST_RECORDS", 10)
    monkeypatch.setattr(history_index, "BLOCK_RECORDS", 4)
    history = open_history(tmp_path)
    fill(history, 30)
    history.close()
    return tmp_path


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def replace_line(path: Path, number: int, by: bytes) -> None:
    """Replaces the line ``number``, counted from 0, with ``by``. The next line is joined to it unless ``by`` ends in a
    line break.
    """
    lines = lines_of(path)
    lines[number] = by
    path.write_bytes(b"".join(lines))


def no_index(logs: Path) -> None:
    (logs / "index.json").unlink()


def an_index(logs: Path) -> None:
    """Leaves the index as it was before the damage."""


# the end of a file


@pytest.mark.parametrize("forget", [no_index, an_index])
@pytest.mark.parametrize("end", [b'{"seq":31,"timestamp":"2026', b"\0\0\0\0\0", b"{", b'{"seq":31}', b"\xff"])
def test_a_torn_last_line_is_cut_and_its_number_reused(logs: Path, end: bytes, forget: Callable[[Path], None]) -> None:
    newest = logs / files(logs)[-1]
    whole = newest.read_bytes()
    newest.write_bytes(whole + end)
    forget(logs)
    history = open_history(logs)
    assert newest.read_bytes() == whole
    assert all_seqs(history) == list(range(1, 31))
    assert history.append("claude", b"1", at(31)).seq == 31
    assert [record["seq"] for record in read_independently(logs)] == list(range(1, 32))


@pytest.mark.parametrize("forget", [no_index, an_index])
def test_a_last_line_that_lacks_only_its_line_break_is_kept(logs: Path, forget: Callable[[Path], None]) -> None:
    newest = logs / files(logs)[-1]
    whole = newest.read_bytes()
    newest.write_bytes(whole[:-1])
    forget(logs)
    history = open_history(logs)
    assert newest.read_bytes() == whole
    assert all_seqs(history) == list(range(1, 31))
    assert (history.last_seq, history.damage) == (30, ())


def test_partial_indexes_left_by_a_crash_are_removed(logs: Path) -> None:
    (logs / "index.json.77.12345.tmp").write_bytes(b"{")
    open_history(logs)
    assert not list(logs.glob("*.tmp"))


def test_no_empty_file_is_left_after_a_crash(tmp_path: Path) -> None:
    (tmp_path / "messages_2026-11-21_12-00-01.jsonl").touch()
    history = open_history(tmp_path)
    fill(history, 1)
    assert files(tmp_path) == ["messages_2026-11-21_12-00-01.jsonl"]


# the middle of a file


@pytest.mark.parametrize("forget", [no_index, an_index])
@pytest.mark.parametrize("line", [0, 3, 4, 5, 9])
@pytest.mark.parametrize("how", ["garbage", "nul", "half", "not UTF-8", "another seq", "an earlier seq", "a huge seq"])
def test_a_damaged_line_hides_only_itself(
    logs: Path, how: str, line: int, forget: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    path = logs / files(logs)[1]
    old = lines_of(path)[line]
    new = {
        "garbage": b"x" * (len(old) - 1) + b"\n",
        "nul": b"\0" * (len(old) - 1) + b"\n",
        "half": b" " * (len(old) // 2) + old[len(old) // 2 :],
        "not UTF-8": old.replace(b"rest", b"\xff\xfe\xfd\xfc"),
        "another seq": old.replace(b'"seq":', b'"seq":9'),
        "an earlier seq": old.replace(b'"seq":%d' % (11 + line), b'"seq":02'),
        "a huge seq": old.replace(b'"seq":', b'"seq":888888888888'),
    }[how]
    replace_line(path, line, new)
    damaged = path.read_bytes()
    forget(logs)
    with caplog.at_level(logging.WARNING):
        history = open_history(logs)
        expected = [seq for seq in range(1, 31) if seq != 11 + line]
        assert all_seqs(history) == expected
    assert seqs(history.read(before_seq=31)) == expected
    assert seqs(history.read(since=NOON)) == expected
    offset = sum(map(len, lines_of(path)[:line]))
    assert history.damage == (Damage(path.name, offset, len(new)),)
    assert f"{len(new)} bytes at offset {offset}" in caplog.text
    assert path.read_bytes() == damaged
    assert history.append("claude", b"1", at(31)).seq == 31


def test_a_lost_line_break_hides_only_the_two_joined_lines(logs: Path) -> None:
    path = logs / files(logs)[1]
    replace_line(path, 5, lines_of(path)[5].replace(b"\n", b"#"))
    for forget in (an_index, no_index):
        forget(logs)
        assert all_seqs(open_history(logs)) == [seq for seq in range(1, 31) if seq not in (16, 17)]


def test_an_additional_empty_line_is_harmless(logs: Path) -> None:
    path = logs / files(logs)[1]
    replace_line(path, 5, b"\n" + lines_of(path)[5])
    history = open_history(logs)
    assert all_seqs(history) == list(range(1, 31))


def test_a_line_with_added_spaces_is_still_a_record(logs: Path) -> None:
    path = logs / files(logs)[1]
    replace_line(path, 5, b'{ "direction": "server", "message": {}, "timestamp": "2026-11-21T12:00:16Z", "seq": 16 }\n')
    history = open_history(logs)
    assert all_seqs(history) == list(range(1, 31))
    assert history.read(after_seq=15, limit=1).records[0].direction == "server"


@pytest.mark.parametrize("order", [(1, 4, 2, 3), (3, 1, 2, 4), (4, 3, 2, 1)])
def test_records_after_moved_lines_are_read(tmp_path: Path, order: tuple[int, ...]) -> None:
    history = open_history(tmp_path)
    fill(history, 4)
    history.close()
    file = tmp_path / files(tmp_path)[0]
    lines = lines_of(file)
    file.write_bytes(b"".join(lines[number - 1] for number in order))

    history = open_history(tmp_path)
    assert history.append("server", message(5), at(5)).seq == 5
    assert all_seqs(history)[-1] == 5
    history.close()
    assert all_seqs(open_history(tmp_path))[-1] == 5


def test_the_number_of_a_damaged_last_record_is_not_reused(logs: Path) -> None:
    path = logs / files(logs)[-1]
    replace_line(path, 9, b"x\n")
    no_index(logs)
    history = open_history(logs)
    assert (history.last_seq, history.count) == (30, 29)
    assert history_index.load(str(logs)).segments[-1].size == path.stat().st_size, (
        "the next start does not need to read it again"
    )
    assert history.append("claude", b"1", at(31)).seq == 31
    assert all_seqs(history) == [*range(1, 30), 31]
    history.close()
    no_index(logs)
    assert all_seqs(open_history(logs)) == [*range(1, 30), 31]


def test_a_record_after_lost_ones_is_found_without_an_index(logs: Path) -> None:
    path = logs / files(logs)[-1]
    path.write_bytes(b"".join(lines_of(path)[:7]))
    history = open_history(logs)
    assert history.append("claude", b"1", at(31)).seq == 31
    history.close()
    no_index(logs)
    assert all_seqs(open_history(logs)) == [*range(1, 28), 31]


@pytest.mark.parametrize("forget", [no_index, an_index])
def test_numbers_of_a_fully_damaged_file_are_not_reused(logs: Path, forget: Callable[[Path], None]) -> None:
    path = logs / files(logs)[-1]
    path.write_bytes(b"x\n" * 10)
    forget(logs)
    history = open_history(logs)
    assert all_seqs(history) == list(range(1, 21))
    assert history.append("claude", b"1", at(31)).seq > 30
    assert path.read_bytes() == b"x\n" * 10


# the index


def cut_index(index: Path) -> None:
    index.write_bytes(index.read_bytes()[:-20])


def flip_a_digit(index: Path) -> None:
    index.write_bytes(index.read_bytes().replace(b'"last_seq":30', b'"last_seq":31', 1))


def empty_index(index: Path) -> None:
    index.write_bytes(b"")


def binary_index(index: Path) -> None:
    index.write_bytes(os.urandom(500))


def index_of_another_version(index: Path) -> None:
    index.write_bytes(index.read_bytes().replace(b'"version":1', b'"version":9'))


def index_is_a_directory(index: Path) -> None:
    index.unlink()
    index.mkdir()


def index_is_a_pipe(index: Path) -> None:
    index.unlink()
    os.mkfifo(index)


def index_is_a_link(index: Path) -> None:
    elsewhere = index.with_name("elsewhere")
    index.rename(elsewhere)
    index.symlink_to(elsewhere)


def index_disagrees_with_itself(index: Path) -> None:
    loaded = history_index.load(str(index.parent))
    loaded.segments[1].block_offsets.pop()
    history_index.save(str(index.parent), loaded)


DAMAGES = [
    Path.unlink, cut_index, flip_a_digit, empty_index, binary_index, index_of_another_version, index_is_a_directory,
    index_is_a_pipe, index_is_a_link, index_disagrees_with_itself,
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_an_index_that_cannot_be_trusted_is_rebuilt(logs: Path, damage: Callable[[Path], None]) -> None:
    damage(logs / "index.json")
    history = open_history(logs)
    assert (history.last_seq, history.count) == (30, 30)
    assert (history.first_time, history.last_time) == (at(1), at(30))
    assert all_seqs(history) == list(range(1, 31))
    if not (logs / "index.json").is_dir():
        assert not (logs / "index.json").is_symlink()
        assert history_index.load(str(logs)).last_seq == 30
        assert json.loads((logs / "index.json").read_bytes())["version"] == 1
    assert history.append("claude", b"1", at(31)).seq == 31


def test_an_old_index_is_brought_up_to_date(logs: Path) -> None:
    old = (logs / "index.json").read_bytes()
    history = open_history(logs)
    fill(history, 25)
    history.close()
    (logs / "index.json").write_bytes(old)
    history = open_history(logs)
    assert all_seqs(history) == list(range(1, 56))
    assert (history.count, history.last_time) == (55, at(55))


def test_the_index_of_another_history_is_not_used(logs: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    history = open_history(other)
    for number in range(100):
        history.append("claude", b"1", NOON + timedelta(days=5, seconds=number))
    history.close()
    shutil.copy(other / "index.json", logs / "index.json")
    history = open_history(logs)
    assert (history.last_seq, all_seqs(history)) == (30, list(range(1, 31)))


@pytest.mark.parametrize("cursor", [{"after_seq": 10}, {"before_seq": 31}, {"since": at(10)}])
def test_a_wrong_index_is_detected_when_it_is_used(logs: Path, cursor: dict[str, Any]) -> None:
    """The file has the same length as before, but the second block begins three bytes later."""
    path = logs / files(logs)[1]
    lines = lines_of(path)
    longer, shorter = lines[3].replace(b"}\n", b"   }\n"), lines[4].replace(b": ", b":")
    assert len(longer) + len(shorter) == len(lines[3]) + len(lines[4])
    path.write_bytes(b"".join([*lines[:3], longer, shorter, *lines[5:]]))
    history = open_history(logs)
    assert set(range(11, 31)) <= set(seqs(history.read(**cursor)))
    assert all_seqs(history) == list(range(1, 31))
    assert history.damage == ()


def test_with_a_good_index_opening_reads_no_file(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_index, "scan", None)
    assert open_history(logs).count == 30


def test_after_a_crash_only_unindexed_records_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_and_forgotten = open_history(tmp_path)
    fill(open_and_forgotten, 1_500)
    read: list[bytes] = []

    def parse_and_count(line: bytes) -> Record | None:
        read.append(line)
        return parse(line)

    monkeypatch.setattr(history_index, "parse", parse_and_count)
    assert open_history(tmp_path).last_seq == 1_500
    assert len(read) == 500


# changes to the directory by other programs


def test_deleting_a_file_loses_only_the_records_in_it(logs: Path) -> None:
    history = open_history(logs)
    (logs / files(logs)[1]).unlink()
    assert all_seqs(history) == [*range(1, 11), *range(21, 31)]
    assert history.append("claude", b"1", at(31)).seq == 31
    assert history.count == 21


def test_numbers_continue_after_files_were_deleted(logs: Path) -> None:
    (logs / files(logs)[-1]).unlink()
    history = open_history(logs)
    assert history.append("claude", b"1", at(31)).seq == 31
    history.close()
    for name in files(logs):
        (logs / name).unlink()
    history = open_history(logs)
    assert (history.last_seq, history.count, history.first_time) == (31, 0, None)
    assert history.append("claude", b"1", at(32)).seq == 32
    assert all_seqs(history) == [32]


def test_a_file_deleted_while_it_is_written_is_created_again(tmp_path: Path) -> None:
    history = open_history(tmp_path)
    fill(history, 2)
    (tmp_path / files(tmp_path)[0]).unlink()
    fill(history, 1)
    assert [record["seq"] for record in read_independently(tmp_path)] == all_seqs(history) == [3]


@pytest.mark.parametrize("read_first", [True, False])
def test_emptying_a_file_in_use_loses_only_its_content(tmp_path: Path, read_first: bool) -> None:
    history = open_history(tmp_path)
    fill(history, 2)
    os.truncate(tmp_path / files(tmp_path)[0], 0)
    if read_first:
        assert all_seqs(history) == []
    fill(history, 2)
    assert [record["seq"] for record in read_independently(tmp_path)] == all_seqs(history) == [3, 4]


def test_the_records_of_a_copied_file_are_not_read_twice(logs: Path) -> None:
    shutil.copy(logs / files(logs)[1], logs / "messages_2026-11-21_13-00-00.jsonl")
    for forget in (an_index, no_index):
        forget(logs)
        assert all_seqs(open_history(logs)) == list(range(1, 31))


def test_a_backup_made_of_hard_links_does_not_grow(tmp_path: Path) -> None:
    history = open_history(tmp_path / "logs")
    fill(history, 2)
    [name] = files(tmp_path / "logs")
    os.link(tmp_path / "logs" / name, tmp_path / "backup")
    before = (tmp_path / "backup").read_bytes()
    fill(history, 2)
    assert (tmp_path / "backup").read_bytes() == before
    assert all_seqs(history) == [1, 2, 3, 4]


def test_a_torn_end_is_not_cut_in_a_hard_linked_file(logs: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    newest = logs / files(logs)[-1]
    with newest.open("ab") as file:
        file.write(b"torn")
    os.link(newest, other := tmp_path_factory.mktemp("elsewhere") / "other")
    before = other.read_bytes()
    history = open_history(logs)
    assert history.append("claude", b"1", at(31)).seq == 31
    assert all_seqs(history) == list(range(1, 32))
    assert other.read_bytes() == before


def test_links_and_pipes_instead_of_files_are_left_alone(
    tmp_path: Path, logs: Path, caplog: pytest.LogCaptureFixture, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "secret"
    elsewhere.write_bytes(b'{"seq":31,"timestamp":"2026-11-21T12:00:31Z","direction":"client","message":1}\ntorn')
    secret = elsewhere.read_bytes()
    (logs / "messages_2026-11-21_12-00-31.jsonl").symlink_to(elsewhere)
    os.mkfifo(logs / "messages_2026-11-21_12-00-32.jsonl")
    (logs / "messages_2026-11-21_12-00-33.jsonl").mkdir()
    for forget in (an_index, no_index):
        forget(logs)
        history = open_history(logs)
        assert all_seqs(history) == list(range(1, 31))
    assert history.append("claude", b"1", at(31)).seq == 31
    assert (logs / "messages_2026-11-21_12-00-31_2.jsonl").is_file()
    assert elsewhere.read_bytes() == secret
    assert "messages_2026-11-21_12-00-32.jsonl is not a regular file" in caplog.text


@pytest.mark.parametrize("already_open", [True, False])
def test_a_file_that_becomes_a_link_is_not_followed(
    logs: Path, already_open: bool, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_RECORDS", 20)  # so that the newest file would be written to
    history = open_history(logs)
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "secret"
    newest = logs / files(logs)[-1]
    shutil.copy(newest, elsewhere)
    secret = elsewhere.read_bytes()
    newest.unlink()
    newest.symlink_to(elsewhere)
    if already_open:
        with pytest.raises(HistoryUnreadable):
            history.read(after_seq=20)
        with pytest.raises(HistoryNotWritten):
            fill(history, 1)
    history = open_history(logs)
    assert all_seqs(history) == list(range(1, 21))
    fill(history, 1)
    assert all_seqs(history) == [*range(1, 21), 31]
    assert elsewhere.read_bytes() == secret


def test_a_directory_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "logs").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NotPrivate, match="is a symbolic link"):
        open_history(tmp_path / "logs")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_file_is_written_by_only_one_server_at_a_time(tmp_path: Path) -> None:
    first = open_history(tmp_path)
    fill(first, 2)
    second = open_history(tmp_path)
    before = read_independently(tmp_path)
    with pytest.raises(HistoryNotWritten, match="another program is writing to it"):
        second.append("claude", b"1", at(3))
    assert read_independently(tmp_path) == before
    assert first.append("claude", message(3), at(3)).seq == 3
    first.close()
    assert second.append("claude", b"1", at(4)).seq == 4
    assert all_seqs(second) == [1, 2, 3, 4]
