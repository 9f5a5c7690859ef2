"""The checkpoints of a project are removed only with the project, and no other checkpoints are. The tests use the real
git."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from drawbridge.server.checkpoints.checkpoints import Checkpoints
from drawbridge.server.sessions.options.limits import Limits
from tests.server.checkpoints.rig import RUN, a_run, git, refs
from tests.server.core_rig import Client, Server, serving
from tests.waiting import until


async def test_the_checkpoints_of_a_project_can_be_removed(project: Path) -> None:
    other = Checkpoints(project, "proj_10")
    await other.snapshotter.create(RUN, "before")
    await (await a_run(project)).remove()
    assert refs(project) == [f"refs/drawbridge/proj_10/{RUN}/before"]


REFS = 5
"""The number of refs of a project with one run: two checkpoints, and the three trees of the review."""


async def deleted_project(server: Server) -> tuple[Path, Path]:
    """Deletes a project that has the checkpoints of one run. Returns its directory, and the directory of its data in
    the trash.
    """
    phone = Client()
    id = await server.project(phone, "one")
    project = server.root / "one"
    git(project, "init", "-q")
    (project / "poem.txt").write_text("one\n")
    (await server.running(phone, id)).ends()
    await until(lambda: len(refs(project)) == REFS, "the checkpoints")
    await server.does(phone, "project_delete", id)
    [deleted] = (server.folder / "data" / "trash").iterdir()
    return project, deleted


async def after_seven_days(server: Server, deleted: Path) -> None:
    os.utime(deleted, (0, 0))
    await server.core.maintenance.clean()
    assert not deleted.exists()


async def test_a_deleted_project_leaves_no_checkpoints(tmp_path: Path) -> None:
    async with serving(tmp_path, Limits()) as server:
        project, deleted = await deleted_project(server)
        await server.core.maintenance.clean()
        assert len(refs(project)) == REFS, "a deleted project can be restored for 7 days"
        await after_seven_days(server, deleted)
        assert refs(project) == []


async def test_a_restored_project_keeps_its_checkpoints(tmp_path: Path) -> None:
    """The owner has copied the project's data back from the trash."""
    async with serving(tmp_path, Limits()) as server:
        project, deleted = await deleted_project(server)
    shutil.copytree(deleted, tmp_path / "data" / "projects" / deleted.name.rpartition("-")[0])
    async with serving(tmp_path, Limits()) as server:
        await after_seven_days(server, deleted)
        assert len(refs(project)) == REFS


async def test_a_repository_that_is_no_longer_allowed_is_left_alone(tmp_path: Path) -> None:
    async with serving(tmp_path, Limits()) as server:
        project, deleted = await deleted_project(server)
    async with serving(tmp_path, Limits(), tmp_path / "other") as server:
        await after_seven_days(server, deleted)
        assert len(refs(project)) == REFS


async def test_a_repository_that_git_cannot_read_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The project's data is still removed from the trash."""
    async with serving(tmp_path, Limits()) as server:
        project, deleted = await deleted_project(server)
        (project / ".git" / "config").write_text("[broken")
        await after_seven_days(server, deleted)
        [warning] = [one.message for one in caplog.records if "could not remove the checkpoints" in one.message]
        assert deleted.name.rpartition("-")[0] in warning
