"""The shell of a git operation ends with the operation. Its limits and its confinement are tested in
``git/test_program.py`` and ``test_confined.py``."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from drawbridge.server.checkpoints import shell
from drawbridge.server.checkpoints.checkpoints import Checkpoints
from drawbridge.server.checkpoints.errors import GitFailed, TookTooLong
from tests.server.checkpoints.rig import hanging, time_ends_at
from tests.waiting import PATIENCE, until


async def test_an_operation_canceled_at_its_start_leaves_nothing(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shell starts only after the operation was canceled. Its processes end without it."""
    checkpoints = Checkpoints(project, "proj_1")
    start, begun, may_start = shell._start, threading.Event(), threading.Event()
    started: list[subprocess.Popen[bytes]] = []

    def slow(*given: Any) -> subprocess.Popen[bytes]:
        begun.set()
        assert may_start.wait(PATIENCE)
        started.append(start(*given))
        return started[0]

    async def operate() -> None:
        async with checkpoints.operations.exclusive():
            raise AssertionError("the operation was canceled")

    monkeypatch.setattr(shell, "_start", slow)
    operation = asyncio.create_task(operate())
    await until(begun.is_set, "the start of the shell")
    operation.cancel()
    may_start.set()
    with contextlib.suppress(asyncio.CancelledError):
        await operation
    await checkpoints.close()
    assert started[0].returncode is not None


@pytest.mark.parametrize("is_canceled", [True, False])
async def test_nothing_runs_after_a_command_that_has_not_ended(
    is_canceled: bool, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, the next command would receive the reply to the one that has not ended."""
    monkeypatch.setattr(shell, "LEAVE_SECONDS", 0.1)
    started = hanging(tmp_path, monkeypatch, "add")
    if not is_canceled:
        time_ends_at(started, monkeypatch)
    async with Checkpoints(project, "proj_1").operations.exclusive() as git:
        adding = asyncio.create_task(git.read("add", "."))
        if is_canceled:
            await until(started.exists, "git's start")
            adding.cancel()
        with pytest.raises(asyncio.CancelledError if is_canceled else TookTooLong):
            await adding
        with pytest.raises(GitFailed, match=r"^git was not started for: version\. An earlier command"):
            await git.read("version")
