"""Either all files are written or none, and an error names the files that prevented it."""

from __future__ import annotations

from pathlib import Path

import pytest

from drawbridge.server.checkpoints.checkpoints import Checkpoints
from drawbridge.server.checkpoints.errors import Changed
from drawbridge.server.checkpoints.unsaved import UnsavedChanges, not_written_over
from drawbridge.server.checkpoints.work_tree import named_files
from tests.server.checkpoints.rig import RUN, everything


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
