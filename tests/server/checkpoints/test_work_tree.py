"""Either all files are written or none, and an error names the files that prevented it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from drawbridge.server.checkpoints.checkpoints import Checkpoints
from drawbridge.server.checkpoints.errors import Changed
from drawbridge.server.checkpoints.unsaved import UnsavedChanges, not_written_over
from drawbridge.server.checkpoints.work_tree import WorkTree, named_files
from tests.server.checkpoints.rig import RUN, everything


def permissions(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_the_files_that_git_complains_about_are_listed() -> None:
    complaint = (
        "error: patch failed: inner/poem.txt:3\nerror: inner/poem.txt: patch does not apply\n"
        "error: inner/new.txt: already exists in working directory\n"
    )
    known = ["poem.txt", "new.txt", "other.txt"]
    assert named_files(complaint, "inner/", known) == ["new.txt", "poem.txt"]


def test_all_files_are_listed_if_git_names_none() -> None:
    assert named_files("error: something else\n", "", ["b.txt", "a.txt"]) == ["a.txt", "b.txt"]


async def test_files_that_no_longer_match_are_not_written(project: Path, checkpoints: Checkpoints) -> None:
    await checkpoints.snapshotter.create(RUN, "before")
    async with checkpoints.operations.exclusive() as git:
        since = f"refs/drawbridge/proj_1/{RUN}/before"
        wanted, _ = await checkpoints.work_tree.current(git, since)
        (project / "poem.txt").write_text("one\n")
        (project / "old.txt").write_text("two\n")
        now, _ = await checkpoints.work_tree.current(git, since)
        (project / "poem.txt").write_text("by a person\n")
        before = everything(project)
        with pytest.raises(Changed, match=r"^poem\.txt$"):
            await checkpoints.work_tree.write(git, now, wanted, ["poem.txt", "old.txt"])
        assert everything(project) == before


async def test_a_file_that_is_unsaved_in_an_editor_is_not_written(project: Path) -> None:
    poem = str(project / "poem.txt")
    checkpoints = Checkpoints(project, "proj_1", find_unsaved=lambda paths: dict.fromkeys({poem} & {*paths}, "Neovim"))
    await checkpoints.snapshotter.create(RUN, "before")
    async with checkpoints.operations.exclusive() as git:
        since = f"refs/drawbridge/proj_1/{RUN}/before"
        wanted, _ = await checkpoints.work_tree.current(git, since)
        (project / "poem.txt").write_text("one\n")
        now, _ = await checkpoints.work_tree.current(git, since)
        with pytest.raises(UnsavedChanges) as refused:
            await checkpoints.work_tree.write(git, now, wanted, ["poem.txt"])
        assert refused.value.found == {"poem.txt": "Neovim"}
        assert (project / "poem.txt").read_text() == "one\n"


def test_unsaved_changes_are_reported_with_all_their_editors() -> None:
    found = {"a.txt": "Neovim", "b.txt": "VS Code", "c.txt": "Neovim"}
    assert (
        "a.txt and 2 other files have unsaved changes in Neovim and VS Code."
        in not_written_over(UnsavedChanges(found)).text
    )


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o700])
async def test_an_undo_keeps_the_permissions_of_a_file(
    mode: int, project: Path, checkpoints: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    """git itself gives the file the permissions of a new file. They must not be wider even for a moment."""
    poem, text = project / "poem.txt", (project / "poem.txt").read_text()
    poem.chmod(mode)
    await checkpoints.snapshotter.create(RUN, "before")
    poem.write_text("by the agent\n")
    await checkpoints.snapshotter.create(RUN, "after")
    written: list[int] = []

    def observed(*given: Any) -> None:
        written.append(permissions(poem))
        set_modes(*given)

    set_modes = WorkTree._set_modes
    monkeypatch.setattr(WorkTree, "_set_modes", observed)
    await checkpoints.reverter.revert(RUN)
    assert poem.read_text() == text
    assert permissions(poem) == mode
    assert [one & ~mode for one in written] == [0]


async def test_other_files_of_an_undo_get_the_usual_permissions(project: Path, checkpoints: Checkpoints) -> None:
    """The permissions of a file that no longer exists are not known."""
    for name in ("usual", "usual/deep"):
        (project / name).mkdir()
    (project / "usual" / "deep" / "text").write_text("text\n")
    (project / "usual" / "script").write_text("#!/bin/sh\n")
    (project / "usual" / "script").chmod(permissions(project / "usual"))
    (project / "poem.txt").chmod(0o600)
    before = {path: permissions(path) for path in project.rglob("*") if ".git" not in path.parts}
    await checkpoints.snapshotter.create(RUN, "before")
    shutil.rmtree(project / "usual")
    (project / "poem.txt").write_text("by the agent\n")
    (project / "old.txt").write_text("by the agent\n")
    await checkpoints.snapshotter.create(RUN, "after")
    await checkpoints.reverter.revert(RUN)
    assert {path: permissions(path) for path in before} == before


@pytest.mark.parametrize(("before", "after"), [(0o640, 0o750), (0o750, 0o640), (0o600, 0o700), (0o700, 0o600)])
async def test_an_undo_of_a_chmod_restores_the_permissions(
    before: int, after: int, project: Path, checkpoints: Checkpoints
) -> None:
    poem = project / "poem.txt"
    poem.chmod(before)
    await checkpoints.snapshotter.create(RUN, "before")
    poem.chmod(after)
    await checkpoints.snapshotter.create(RUN, "after")
    await checkpoints.reverter.revert(RUN)
    assert permissions(poem) == before
