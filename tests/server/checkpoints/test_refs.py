"""Which checkpoints are kept. The tests use the real git."""

from __future__ import annotations

from pathlib import Path

import pytest

from drawbridge.server.checkpoints import commits
from drawbridge.server.checkpoints import refs as refs_module
from drawbridge.server.checkpoints.checkpoints import Checkpoints
from tests.server.checkpoints.rig import RUN, refs


async def test_a_run_without_an_end_leaves_no_checkpoint(project: Path) -> None:
    """For example, the server is killed during the run, or the checkpoint after the run fails."""
    checkpoints = Checkpoints(project, "proj_1")
    await checkpoints.snapshotter.create("run_0", "before")
    await Checkpoints(project, "proj_2").snapshotter.create("run_9", "before")
    await checkpoints.snapshotter.create(RUN, "before")
    assert len(refs(project)) == 3
    await checkpoints.snapshotter.create(RUN, "after")
    own = f"refs/drawbridge/proj_1/{RUN}"
    assert refs(project) == [f"{own}/after", f"{own}/before", "refs/drawbridge/proj_2/run_9/before"]


async def ended(checkpoints: Checkpoints, run: str) -> None:
    for when in ("before", "after"):
        await checkpoints.snapshotter.create(run, when)


async def test_the_latest_runs_keep_their_checkpoints(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They include the last run, even if the clock was set back before it."""
    monkeypatch.setattr(refs_module, "KEPT_RUNS", 2)
    checkpoints = Checkpoints(project, "proj_1")
    for second, run in ((1, "run_a"), (3, "run_b"), (2, "run_c"), (0, "run_d")):
        at = {"GIT_COMMITTER_DATE": f"{1_800_000_000 + second} +0000"}
        monkeypatch.setattr(commits, "AUTHOR", commits.AUTHOR | at)
        await ended(checkpoints, run)
    assert {ref.split("/")[3] for ref in refs(project)} == {"run_b", "run_c", "run_d"}


async def test_the_checkpoints_of_active_runs_are_kept(project: Path) -> None:
    """Several sessions share a directory, so another run may still be active when a run ends."""
    active = ["run_a"]
    checkpoints = Checkpoints(project, "proj_1", active=lambda: active)
    await checkpoints.snapshotter.create("run_a", "before")
    await ended(checkpoints, "run_b")
    assert "refs/drawbridge/proj_1/run_a/before" in refs(project)
    active.clear()
    await ended(checkpoints, "run_c")
    assert {ref.split("/")[3] for ref in refs(project)} == {"run_b", "run_c"}
