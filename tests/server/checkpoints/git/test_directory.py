"""The temporary folders of git's operations do not outlive their server."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from drawbridge.agents.environment import MARK
from drawbridge.server.checkpoints.git import directory as git_directory
from drawbridge.server.checkpoints.git.directory import remove_left_folders
from tests.server.core_rig import serving
from tests.waiting import PATIENCE


def ended_process() -> int:
    """The process id of a process that has ended."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_folders_of_killed_servers_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    gone = ended_process()
    left, mine, other = (tmp_path / f"drawbridge-git-{id}-x" for id in (gone, os.getpid(), "mine"))
    link = tmp_path / f"drawbridge-git-{gone}-link"
    for folder in (left, mine, other):
        folder.mkdir()
        (folder / "index").touch()
    link.symlink_to(mine)
    remove_left_folders()
    assert sorted(tmp_path.glob("drawbridge-*")) == sorted([mine, other, link])
    assert (mine / "index").exists()


def left_git(line: str, mark: str) -> subprocess.Popen[bytes]:
    """Starts a shell like one that a killed server has left running. ``mark`` is the mark of its operation."""
    return subprocess.Popen(["sh", "-c", line], env={**os.environ, MARK: mark}, start_new_session=True)


def test_a_folder_is_kept_until_the_git_in_it_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise git would still write files after the recovery has read them, or fail in the middle of its work."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = tmp_path / f"drawbridge-git-{ended_process()}-finishes"
    folder.mkdir()
    with left_git(f"sleep 0.5; [ -e '{folder}' ]", "finishes") as git:
        remove_left_folders()
        assert git.wait(PATIENCE) == 0, "it was removed too early"
    assert not folder.exists()


def test_a_git_that_does_not_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(git_directory, "LEFT_SECONDS", 0.1)
    folder = tmp_path / f"drawbridge-git-{ended_process()}-hangs"
    folder.mkdir()
    with left_git("exec sleep 600", "hangs") as git, left_git("exec sleep 600", "another") as other:
        try:
            remove_left_folders()
            assert git.poll() == -signal.SIGKILL
            assert other.poll() is None
        finally:
            git.kill()
            other.kill()
    assert not folder.exists()


async def test_a_starting_server_removes_folders_of_killed_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    gone = ended_process()
    left = tmp_path / "temporary" / f"drawbridge-git-{gone}-x"
    left.mkdir()
    async with serving(tmp_path):
        assert not left.exists()
