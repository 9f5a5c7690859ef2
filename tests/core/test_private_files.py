"""Modes and atomic writes of private directories and files, and whether a process is alive or a port is open."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from drawbridge.core.errors import NotPrivate
from drawbridge.core.private_files import (
    make_private_directory,
    port_open,
    process_alive,
    remove_quietly,
    write_private,
)
from tests.waiting import PATIENCE


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(autouse=True)
def _generous_umask() -> Iterator[None]:
    """Sets the umask to 0, because the modes must not depend on the user's umask."""
    before = os.umask(0o000)
    yield
    os.umask(before)


# directories


def test_missing_directories_are_created_private(tmp_path: Path) -> None:
    directory = tmp_path / "a" / "b" / "ide"
    make_private_directory(f"{directory}/")
    for made in (directory, directory.parent, directory.parent.parent):
        assert mode(made) == 0o700, made


def test_an_existing_parent_directory_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a").chmod(0o755)
    make_private_directory(str(tmp_path / "a" / "ide"))
    assert mode(tmp_path / "a") == 0o755


@pytest.mark.parametrize("found", [0o755, 0o777, 0o750, 0o701])
def test_a_directory_that_others_could_enter_is_closed_to_them(tmp_path: Path, found: int) -> None:
    directory = tmp_path / "ide"
    directory.mkdir()
    directory.chmod(found)
    (directory / "kept.lock").write_text("x")
    make_private_directory(str(directory))
    assert mode(directory) == 0o700
    assert (directory / "kept.lock").read_text() == "x"


@pytest.mark.parametrize("found", [0o700, 0o500])
def test_a_private_directory_is_unchanged(tmp_path: Path, found: int) -> None:
    directory = tmp_path / "ide"
    directory.mkdir()
    directory.chmod(found)
    make_private_directory(str(directory))
    assert mode(directory) == found


def test_a_path_that_cannot_be_a_directory_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(NotPrivate, match=r"file/ide can't be made a private directory: not a directory"):
        make_private_directory(str(tmp_path / "file" / "ide"))
    with pytest.raises(NotPrivate, match=r"/file can't be made a private directory: file exists"):
        make_private_directory(str(tmp_path / "file"))
    assert (tmp_path / "file").read_text() == "x"


def test_a_directory_of_another_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = tmp_path / "ide"
    theirs.mkdir(0o755)
    monkeypatch.setattr(os, "getuid", lambda: theirs.stat().st_uid + 1)
    with pytest.raises(NotPrivate, match="belongs to another user"):
        make_private_directory(str(theirs))
    assert mode(theirs) == 0o755


# files


def test_a_file_is_private_and_complete(tmp_path: Path) -> None:
    path = tmp_path / "1.lock"
    data = bytes(range(256)) * 10_000
    write_private(str(path), data)
    assert mode(path) == 0o600
    assert path.read_bytes() == data
    assert os.listdir(tmp_path) == ["1.lock"]


def test_a_file_that_others_could_read_is_replaced_not_reused(tmp_path: Path) -> None:
    path = tmp_path / "1.lock"
    path.write_text("old")
    path.chmod(0o644)
    with path.open() as theirs:
        write_private(str(path), b"new")
        assert theirs.read() == "old"
    assert mode(path) == 0o600
    assert path.read_text() == "new"


def test_a_link_is_replaced_and_its_target_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "1.lock").symlink_to(tmp_path / "precious")
    write_private(str(tmp_path / "1.lock"), b"new")
    assert not (tmp_path / "1.lock").is_symlink()
    assert (tmp_path / "precious").read_text() == "precious"


def test_a_reader_never_sees_a_partly_written_file(tmp_path: Path) -> None:
    path = tmp_path / "1.lock"
    whole = {b"a" * 200_000, b"b" * 100_000}
    write_private(str(path), min(whole))
    seen, stop = set(), threading.Event()

    def read() -> None:
        while not stop.is_set():
            seen.add(path.read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(50):
        for data in whole:
            write_private(str(path), data)
    stop.set()
    reader.join()
    assert seen <= whole


def test_a_failed_write_is_reported_and_leaves_no_file_behind(tmp_path: Path) -> None:
    (tmp_path / "1.lock").mkdir()
    with pytest.raises(NotPrivate, match=r"1\.lock can't be written: is a directory"):
        write_private(str(tmp_path / "1.lock"), b"x")
    with pytest.raises(NotPrivate, match=r"2\.lock can't be written: no such file or directory"):
        write_private(str(tmp_path / "missing" / "2.lock"), b"x")
    assert os.listdir(tmp_path) == ["1.lock"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), SystemExit(0), KeyboardInterrupt()])
def test_an_interrupted_write_leaves_only_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    path = tmp_path / "1.lock"
    path.write_text("old")

    def fail(file: int, data: memoryview) -> int:
        raise error

    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(NotPrivate if isinstance(error, OSError) else type(error)):
        write_private(str(path), b"new")
    assert os.listdir(tmp_path) == ["1.lock"]
    assert path.read_text() == "old"


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:3]))
    write_private(str(tmp_path / "1.lock"), b"0123456789")
    assert (tmp_path / "1.lock").read_bytes() == b"0123456789"


def test_removing_a_missing_file_is_not_an_error(tmp_path: Path) -> None:
    remove_quietly(str(tmp_path / "missing"))
    remove_quietly(str(tmp_path))
    assert tmp_path.is_dir()


# processes and ports


def test_a_process_is_alive_until_it_has_ended() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert process_alive(child.pid)
    assert process_alive(os.getpid())
    assert process_alive(1)
    child.send_signal(signal.SIGKILL)
    child.communicate(timeout=PATIENCE)
    assert not process_alive(child.pid)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
def test_a_zombie_process_is_not_alive() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    child.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not process_alive(child.pid)
    child.communicate(timeout=PATIENCE)


@pytest.mark.parametrize("pid", [0, -1, pytest.param(-os.getpid(), id="minus ours"), 2**31, 2**63, 10**30])
def test_an_invalid_process_id_is_not_alive(pid: int) -> None:
    assert not process_alive(pid)


def test_a_port_is_open_while_a_program_listens() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        assert not port_open(port)
        listener.listen()
        assert port_open(port)
    assert not port_open(port)


def test_a_port_that_may_be_open_counts_as_open() -> None:
    """A server that no longer accepts connections may still be running."""
    with socket.socket() as listener, socket.socket() as waiting:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        waiting.setblocking(False)
        waiting.connect_ex(listener.getsockname())
        assert port_open(listener.getsockname()[1], timeout=0.05)
    assert port_open(99_999)
