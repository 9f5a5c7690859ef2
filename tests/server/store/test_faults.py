"""Full, failing, and read-only disks, and a server that is killed."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from drawbridge.core.errors import HistoryNotWritten, HistoryUnreadable, NotPrivate
from drawbridge.server.store import index as history_index
from drawbridge.server.store import log as module
from drawbridge.server.store import syncing
from tests import seeds
from tests.server.store.rig import NOON, all_seqs, at, files, fill, open_history, read_independently
from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[3]


IN_A_WORLD_OF_ITS_OWN = ["unshare", "--mount", *([] if os.getuid() == 0 else ["--user", "--map-root-user"])]


def child(act: str, directory: Path) -> list[str]:
    return [sys.executable, "-m", "tests.server.store.child", act, str(directory)]


def can_mount() -> bool:
    command = [*IN_A_WORLD_OF_ITS_OWN, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return shutil.which("unshare") is not None and subprocess.run(command, capture_output=True).returncode == 0


needs_mount = pytest.mark.skipif(not can_mount(), reason="this user may not mount a small disk")


def run(command: list[str]) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout == "ok\n", done.stderr


@needs_mount
@pytest.mark.parametrize("act", ["full", "full_at_a_new_day", "read_only"])
def test_a_full_or_read_only_disk_loses_only_the_record(tmp_path: Path, act: str) -> None:
    run([*IN_A_WORLD_OF_ITS_OWN, *child(act, tmp_path)])


def test_a_write_that_is_cut_short_leaves_no_part_of_the_record(tmp_path: Path) -> None:
    run(child("limited", tmp_path))


def test_a_directory_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotPrivate):
        open_history(tmp_path / "file")
    with pytest.raises(NotPrivate):
        open_history(tmp_path / "file" / "logs")
    assert (tmp_path / "file").read_bytes() == b""


Writer = Callable[[int, bytes], int]


def failing_write(monkeypatch: pytest.MonkeyPatch, after: int, error: BaseException) -> None:
    """Makes ``os.write`` write the first ``after`` bytes, and then raise ``error`` once."""
    write = os.write
    left = [after]

    def fail(file: int, data: bytes) -> int:
        if not left:
            return write(file, data)
        if left[0]:
            done = write(file, bytes(data[: left[0]]))
            left[0] = 0
            return done
        left.clear()
        raise error

    monkeypatch.setattr(os, "write", fail)


@pytest.mark.parametrize("after", [0, 1, 50, 100])
@pytest.mark.parametrize("first", [True, False], ids=["in a new file", "in a file with records"])
@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt()])
def test_a_write_that_fails_anywhere_stores_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: bool, after: int, error: BaseException
) -> None:
    history = open_history(tmp_path)
    fill(history, 0 if first else 2)
    before = read_independently(tmp_path)
    with monkeypatch.context() as patch:
        failing_write(patch, after, error)
        with pytest.raises((HistoryNotWritten, KeyboardInterrupt)):
            fill(history, 1)
    assert read_independently(tmp_path) == before
    assert len(files(tmp_path)) == (0 if first else 1)
    assert history.last_seq == history.count == len(before)
    fill(history, 2)
    assert all_seqs(history) == [record["seq"] for record in read_independently(tmp_path)]
    assert all_seqs(history) == list(range(1, len(before) + 3))


def test_a_partial_record_is_cut_before_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(file: int, length: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    history = open_history(tmp_path)
    fill(history, 2)
    with monkeypatch.context() as patch:
        patch.setattr(os, "ftruncate", fail)
        failing_write(patch, 30, OSError(errno.ENOSPC, "No space left on device"))
        with pytest.raises(HistoryNotWritten) as caught:
            fill(history, 1)
    assert caught.value.disk_full
    assert "no space left on device. It is unchanged" in str(caught.value)
    assert len(read_independently(tmp_path, torn_end=True)) == 2
    assert all_seqs(history) == [1, 2]
    fill(history, 1)
    assert [record["seq"] for record in read_independently(tmp_path)] == [1, 2, 3] == all_seqs(history)
    assert len(files(tmp_path)) == 1


def test_a_partial_record_that_cannot_be_cut_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(file: int, length: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    history = open_history(tmp_path)
    fill(history, 2)
    monkeypatch.setattr(os, "ftruncate", fail)
    failing_write(monkeypatch, 30, OSError(errno.EIO, "Input/output error"))
    with pytest.raises(HistoryNotWritten):
        fill(history, 1)
    fill(history, 2)
    assert len(files(tmp_path)) == 2
    assert [record["seq"] for record in read_independently(tmp_path, torn_end=True)] == [1, 2, 3, 4]
    history.close()
    (tmp_path / "index.json").unlink()
    assert all_seqs(open_history(tmp_path)) == [1, 2, 3, 4]


def test_an_index_that_cannot_be_saved_loses_no_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHECKPOINT_RECORDS", 2)

    def fail(path: str, data: bytes) -> None:
        raise NotPrivate("no room")

    monkeypatch.setattr(history_index, "write_private", fail)
    history = open_history(tmp_path)
    fill(history, 7)
    history.close()
    assert not (tmp_path / "index.json").exists()
    assert all_seqs(open_history(tmp_path)) == [1, 2, 3, 4, 5, 6, 7]


def test_a_failed_read_is_reported_and_may_be_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history = open_history(tmp_path)
    fill(history, 3)

    def fail(*arguments: object) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pread", fail)
        with pytest.raises(HistoryUnreadable, match=r"input/output error\. The files were not changed"):
            history.read()
    assert all_seqs(history) == [1, 2, 3]


def test_a_removed_directory_is_reported(tmp_path: Path) -> None:
    history = open_history(tmp_path / "logs")
    fill(history, 3)
    (tmp_path / "logs").rename(tmp_path / "trash")
    with pytest.raises(HistoryUnreadable):
        history.read()
    with pytest.raises(HistoryNotWritten):
        fill(history, 1)
    (tmp_path / "trash").rename(tmp_path / "logs")
    fill(history, 1)
    assert all_seqs(history) == [1, 2, 3, 4]


# when records reach the disk


def test_policy_always_syncs_before_append_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(syncing, "sync", lambda file: synced.append(os.readlink(f"/proc/self/fd/{file}")))
    history = open_history(tmp_path, fsync="always")
    fill(history, 3)
    file = str(tmp_path / files(tmp_path)[0])
    assert synced == [str(tmp_path), file, file, file]


@pytest.mark.parametrize("written", [0, 2])
@pytest.mark.parametrize("fails_at", ["file", "directory"])
def test_policy_always_drops_records_that_cannot_be_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int, fails_at: str
) -> None:
    history = open_history(tmp_path, fsync="always")
    fill(history, written)
    monkeypatch.setattr(module, "MOST_RECORDS", 2)  # so that a new file is begun

    def fail(file: int) -> None:
        if stat.S_ISDIR(os.fstat(file).st_mode) == (fails_at == "directory"):
            raise OSError(errno.EIO, "Input/output error")

    before = files(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(syncing, "sync", fail)
        with pytest.raises(HistoryNotWritten):
            fill(history, 1)
    assert files(tmp_path) == before
    assert len(read_independently(tmp_path)) == history.count == written
    fill(history, 1)
    assert all_seqs(history) == list(range(1, written + 2))


def test_policy_second_syncs_in_one_thread_a_moment_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[tuple[str, str]] = []

    def sync(file: int) -> None:
        synced.append((threading.current_thread().name, os.readlink(f"/proc/self/fd/{file}")))

    monkeypatch.setattr(syncing, "sync", sync)
    monkeypatch.setattr(syncing, "syncer", syncing.Syncer(delay=0.05))
    histories = [open_history(tmp_path / str(number), fsync="second") for number in range(3)]
    for history in histories:
        fill(history, 10)
    end = time.monotonic() + PATIENCE
    while len(synced) < 6 and time.monotonic() < end:
        time.sleep(0.005)
    wanted = {str(path) for path in tmp_path.iterdir()} | {str(path) for path in tmp_path.glob("*/messages_*")}
    assert {path for _, path in synced} == wanted
    assert {name for name, _ in synced} == {"drawbridge-history-sync"}
    assert len(synced) == 6
    fill(histories[0], 1)
    histories[0].close()
    assert synced[6:] == [("MainThread", str(next((tmp_path / "0").glob("messages_*"))))]


def test_a_failed_sync_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(file: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(syncing, "sync", fail)
    history = open_history(tmp_path, fsync="second")
    fill(history, 1)
    history.close()
    assert "may not have reached the disk: Input/output error" in caplog.text


def test_a_history_can_be_read_while_closing_waits_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting, disk = threading.Event(), threading.Event()

    def sync(file: int) -> None:
        waiting.set()
        disk.wait(PATIENCE)

    monkeypatch.setattr(syncing, "sync", sync)
    monkeypatch.setattr(syncing, "syncer", syncing.Syncer(delay=60))
    history = open_history(tmp_path, fsync="second")
    fill(history, 3)
    closing = threading.Thread(target=history.close)
    closing.start()
    assert waiting.wait(PATIENCE)
    assert history.closed
    assert all_seqs(history) == [1, 2, 3]
    assert closing.is_alive(), "reading waited for the disk"
    disk.set()
    closing.join(PATIENCE)
    assert not closing.is_alive()


def test_policy_off_never_waits_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syncing, "sync", None)
    history = open_history(tmp_path, fsync="off")
    fill(history, 3)
    history.append("claude", b"1", NOON.replace(day=22))
    history.close()
    assert all_seqs(history) == [1, 2, 3, 4]


# kill -9


@pytest.mark.thorough
def test_records_appended_before_a_kill_have_no_gap(tmp_path: Path) -> None:
    seed = seeds.seed()
    random = Random(seed)
    seen = 0
    for round_ in range(4):
        with subprocess.Popen(child("forever", tmp_path), cwd=ROOT, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            first = int(process.stdout.readline())
            assert first == seen + 1 or first == seen + 2, (
                "the next number, or the one after a record that was written but not printed"
            )
            time.sleep(random.uniform(0.02, 0.2))  # the process may be killed at any moment
            process.kill()
            printed = [first, *map(int, process.stdout.read().splitlines())]
        assert printed == list(range(first, printed[-1] + 1))
        written = [record["seq"] for record in read_independently(tmp_path, torn_end=True)]
        assert written == list(range(1, len(written) + 1))
        assert len(written) in (printed[-1], printed[-1] + 1), (f"{seeds.VARIABLE}={seed}", round_)
        history = open_history(tmp_path)
        assert all_seqs(history) == written == [record["seq"] for record in read_independently(tmp_path)]
        seen = printed[-1]
    history.append("server", b"{}", at(0))
    assert history.count == history.last_seq
