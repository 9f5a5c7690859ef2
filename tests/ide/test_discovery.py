"""The lock file: what it contains, who may read it, when it is removed, and which lock files are never touched."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from drawbridge.core.errors import NotPrivate
from drawbridge.ide.discovery import LockFile, lock_directory, sweep
from tests.waiting import PATIENCE

PORT = 41_923


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "claude" / "ide"


@pytest.fixture
def lock(directory: Path) -> LockFile:
    return LockFile(str(directory), PORT, "the-token")


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def open_port() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


@pytest.fixture
def dead_pid() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait(timeout=PATIENCE)
    return child.pid


def test_the_lock_is_in_claudes_own_directory(home: Path) -> None:
    assert lock_directory({"CLAUDE_CONFIG_DIR": "/else/where"}) == "/else/where/ide"
    assert lock_directory({}) == str(home / ".claude" / "ide")
    assert lock_directory({"CLAUDE_CONFIG_DIR": ""}) == str(home / ".claude" / "ide")


def test_the_lock_contains_what_agents_need_and_the_pid(directory: Path, lock: LockFile) -> None:
    lock.write(4711, "Neovim", ["/home/ada/project", "/home/ada/größe"])
    path = directory / f"{PORT}.lock"
    assert lock.path == str(path)
    assert json.loads(path.read_bytes()) == {
        "pid": 4711,
        "workspaceFolders": ["/home/ada/project", "/home/ada/größe"],
        "ideName": "Neovim",
        "transport": "ws",
        "runningInWindows": False,
        "authToken": "the-token",
        "drawbridgePid": os.getpid(),
    }


def test_only_the_user_can_read_the_lock_file(directory: Path, lock: LockFile) -> None:
    lock.write(1, "Neovim", ["/"])
    assert stat.S_IMODE(os.stat(lock.path).st_mode) == 0o600
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_a_directory_readable_by_others_is_made_private(directory: Path, lock: LockFile) -> None:
    directory.mkdir(parents=True, mode=0o755)
    lock.write(1, "Neovim", ["/"])
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_a_change_of_folders_keeps_port_and_token(directory: Path, lock: LockFile) -> None:
    lock.write(1, "Neovim", ["/a"])
    before = json.loads(Path(lock.path).read_bytes())
    lock.write(1, "Neovim", ["/b", "/c"])
    assert os.listdir(directory) == [f"{PORT}.lock"]
    assert json.loads(Path(lock.path).read_bytes()) == {**before, "workspaceFolders": ["/b", "/c"]}


def test_a_removed_lock_file_is_not_written_again(directory: Path, lock: LockFile) -> None:
    lock.write(1, "Neovim", ["/a"])
    lock.remove()
    assert os.listdir(directory) == []
    lock.write(1, "Neovim", ["/b"])
    assert os.listdir(directory) == []
    lock.remove()


def test_an_unusable_directory_is_reported_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "claude").write_text("a file")
    with pytest.raises(NotPrivate, match=r"claude/ide can't be made a private directory: not a directory"):
        LockFile(str(tmp_path / "claude" / "ide"), PORT, "t").write(1, "Neovim", ["/"])


# the sweep


def put(directory: Path, port: object, content: object, *, suffix: str = ".lock") -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{port}{suffix}"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def ours(pid: int) -> dict[str, object]:
    return {"pid": 1, "ideName": "Neovim", "authToken": "t", "drawbridgePid": pid}


def test_the_lock_file_of_a_killed_bridge_is_removed(directory: Path, dead_pid: int, closed_port: int) -> None:
    stale = put(directory, closed_port, ours(dead_pid))
    assert sweep(str(directory)) == [str(stale)]
    assert not stale.exists()


def test_the_lock_file_of_a_running_bridge_is_never_removed(
    directory: Path, dead_pid: int, closed_port: int, open_port: int
) -> None:
    put(directory, closed_port, ours(os.getpid()))  # may be busy or just starting
    put(directory, open_port, ours(dead_pid))  # in another namespace, so its process can't be seen from here
    assert sweep(str(directory)) == []
    assert len(os.listdir(directory)) == 2


def test_files_of_other_programs_are_never_removed(directory: Path, dead_pid: int, closed_port: int) -> None:
    put(directory, closed_port, {"pid": dead_pid, "ideName": "Visual Studio Code", "authToken": "t"})
    put(directory, 1, {"pid": dead_pid, "ideName": "Neovim"})  # another Neovim plugin's
    put(directory, 2, ours(dead_pid), suffix=".json")
    put(directory, 3, ours(dead_pid), suffix=".lock.bak")
    put(directory, "notes", ours(dead_pid))
    put(directory, "123456", ours(dead_pid))
    put(directory, "-1", ours(dead_pid))
    before = sorted(os.listdir(directory))
    assert sweep(str(directory)) == []
    assert sorted(os.listdir(directory)) == before


@pytest.mark.parametrize(
    "content",
    [
        *["", "{", "[]", "null", '"text"', "5", "{} {}", "[" * 60_000, " " * 100_000 + "{}"],
        *['{"drawbridgePid": "1"}', '{"drawbridgePid": null}', '{"drawbridgePid": 4.5}', '{"drawbridgePid": [4]}'],
    ],
)
def test_lock_files_with_unknown_content_are_never_removed(directory: Path, closed_port: int, content: str) -> None:
    path = put(directory, closed_port, content)
    assert sweep(str(directory)) == []
    assert path.read_text() == content


def test_a_lock_that_is_not_a_regular_file_is_never_removed(
    directory: Path, tmp_path: Path, dead_pid: int, closed_port: int
) -> None:
    (directory / f"{closed_port}.lock").mkdir(parents=True)
    (directory / "20000.lock").symlink_to(tmp_path / "nowhere")
    os.mkfifo(directory / "20001.lock")
    assert sweep(str(directory)) == []
    assert len(os.listdir(directory)) == 3


def test_a_stale_link_is_removed_with_its_file(directory: Path, dead_pid: int, closed_port: int) -> None:
    """A link to another program's file is not removed."""
    stale = put(directory, f"gemini-ide-server-1-{closed_port}", ours(dead_pid), suffix=".json")
    (directory / "workspace-00000001-latest.json").symlink_to(stale)
    (directory / "workspace-00000002-latest.json").symlink_to(directory / "of-somebody-else.json")
    put(directory, "workspace-00000003-latest", ours(dead_pid), suffix=".json")
    assert sweep(str(directory)) == [str(stale), str(directory / "workspace-00000001-latest.json")]
    assert sorted(os.listdir(directory)) == ["workspace-00000002-latest.json", "workspace-00000003-latest.json"]


def test_sweeping_a_missing_directory_does_nothing(directory: Path) -> None:
    assert sweep(str(directory)) == []
    assert not directory.exists()
