"""Git operations run one at a time, and if there can be no checkpoint, the reason is shown. The tests use the real
git."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from drawbridge.server.checkpoints import shell
from drawbridge.server.checkpoints.changes import Changes, RunChanges
from drawbridge.server.checkpoints.checkpoints import Checkpoints
from drawbridge.server.checkpoints.errors import NoCheckpoint
from tests.server.checkpoints.rig import RUN
from tests.waiting import PATIENCE, until


async def test_a_run_has_priority_over_requests_of_clients(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many clients send requests, a run waits for at most one of them. Identical requests are executed once."""
    checkpoints, read, done = Checkpoints(project, "proj_1"), list[str](), list[str]()
    runs = [f"run_{number}" for number in range(5)]
    for run in runs:
        await checkpoints.snapshotter.create(run, "before")
        (project / "poem.txt").write_text(run)
        await checkpoints.snapshotter.create(run, "after")
    reads = Changes._read

    async def counted(self: Changes, run_id: str) -> RunChanges:
        read.append(run_id)
        return await reads(self, run_id)

    async def asks(run: str) -> None:
        assert run in (await checkpoints.changes.of(run)).diff
        done.append(run)

    monkeypatch.setattr(Changes, "_read", counted)
    asking = [asyncio.create_task(asks(run)) for run in runs for _ in range(20)]
    await asyncio.sleep(0)
    await checkpoints.snapshotter.begin("run_next")
    done.append("run_next")
    await asyncio.gather(*asking)
    await checkpoints.snapshotter.stored()
    assert set(done[: done.index("run_next")]) <= {runs[0]}
    assert read == runs


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


async def test_without_git_a_missing_checkpoint_is_explained(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    checkpoints = Checkpoints(project, "proj_1")
    assert not await checkpoints.snapshotter.create(RUN, "before")
    with pytest.raises(NoCheckpoint):
        await checkpoints.reverter.revert(RUN)


async def test_outside_git_a_missing_checkpoint_is_explained(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, "proj_1")
    assert not await checkpoints.snapshotter.create(RUN, "before")
    with pytest.raises(NoCheckpoint):
        await checkpoints.changes.of(RUN)
    with pytest.raises(NoCheckpoint):
        await checkpoints.reverter.revert(RUN)
