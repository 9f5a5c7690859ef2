"""Checkpoints before and after runs, which never touch the user's own git state. The tests use the real git."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from drawbridge.server.checkpoints.checkpoints import Checkpoints
from drawbridge.server.checkpoints.errors import GitFailed
from tests.server.checkpoints.rig import RUN, a_run, everything, git


def own_git(project: Path) -> list[str]:
    questions = ("status --porcelain", "branch -v", "stash list", "diff --cached", "log --oneline")
    return [git(project, *words.split(" ")) for words in questions]


async def test_the_users_index_branches_and_stash_are_never_touched(project: Path) -> None:
    checkpoints = Checkpoints(project, "proj_1")
    before = own_git(project)
    await checkpoints.snapshotter.create(RUN, "before")
    await checkpoints.snapshotter.create(RUN, "after")
    assert own_git(project) == before


async def test_no_hook_of_the_repository_runs(project: Path) -> None:
    for name in ("pre-commit", "post-commit", "reference-transaction", "post-index-change"):
        hook = project / ".git" / "hooks" / name
        hook.write_text(f"#!/bin/sh\ntouch {project}/ran-{name}\n")
        hook.chmod(0o755)
    await a_run(project)
    assert list(project.glob("ran-*")) == []


async def test_a_repository_without_a_commit_has_checkpoints(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "poem.txt").write_text("line 3\n")
    (tmp_path / "old.txt").write_text("old\n")
    before = everything(tmp_path)
    await (await a_run(tmp_path)).reverter.revert(RUN)
    assert everything(tmp_path) == before


async def test_outside_a_work_tree_git_is_not_started(tmp_path: Path, calls: Callable[[], list[str]]) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    checkpoints = Checkpoints(plain, "proj_1")
    assert not await checkpoints.snapshotter.begin("first")
    assert not await checkpoints.snapshotter.create("first", "after")
    assert calls() == []


async def test_a_run_may_write_before_its_checkpoint_is_stored(checkpoints: Checkpoints, project: Path) -> None:
    assert await checkpoints.snapshotter.begin("first")
    (project / "poem.txt").write_text("by the run\n")  # the checkpoint is not stored yet
    await checkpoints.snapshotter.create("first", "after")
    await checkpoints.reverter.revert("first")
    assert (project / "poem.txt").read_text().startswith("line 1\n")


async def test_closing_ends_storing_in_the_background(checkpoints: Checkpoints, project: Path) -> None:
    assert await checkpoints.snapshotter.begin("first")
    await checkpoints.close()
    assert not checkpoints.operations._lock.locked()


async def test_no_checkpoint_begins_after_closing(checkpoints: Checkpoints, calls: Callable[[], list[str]]) -> None:
    await checkpoints.close()
    with pytest.raises(GitFailed):
        await checkpoints.snapshotter.begin("first")
    assert calls() == []
