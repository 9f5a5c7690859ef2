"""The temporary folders of git's operations do not outlive their server."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from drawbridge.server.checkpoints.git_directory import remove_left_folders
from tests.server.core_rig import serving


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
