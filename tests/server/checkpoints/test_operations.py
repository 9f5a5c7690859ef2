"""Git operations run one at a time, and if there can be no checkpoint, the reason is shown. The tests use the real
git."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from drawbridge.server.checkpoints.changes import Changes, RunChanges
from drawbridge.server.checkpoints.checkpoints import Checkpoints
from drawbridge.server.checkpoints.errors import NoCheckpoint
from tests.server.checkpoints.rig import RUN


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
