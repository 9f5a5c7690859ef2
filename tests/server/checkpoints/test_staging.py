"""Which files a checkpoint contains. The tests use the real git."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drawbridge.server.checkpoints.checkpoints import Checkpoints
from drawbridge.server.checkpoints.git import index as git_index
from tests.server.checkpoints.rig import RUN, everything, git


async def test_a_change_in_the_same_second_as_gits_check_is_found(project: Path) -> None:
    """The file's size and times (in seconds) stay the same. git compares the contents if its index isn't newer than the
    file.
    """
    poem, index = project / "poem.txt", project / ".git" / "index"
    text, then = poem.read_text(), 1_700_000_000
    checkpoints = Checkpoints(project, "proj_1")
    await checkpoints.snapshotter.create(RUN, "before")
    for _ in range(100):
        poem.write_text(text)
        os.utime(poem, (then, then))
        git(project, "update-index", "--really-refresh", "-q")
        os.utime(index, (then, then))
        checked = poem.stat()
        poem.write_text(text.replace("line 3", "LINE 3"))
        os.utime(poem, (then, then))
        if int(poem.stat().st_ctime) == int(checked.st_ctime):
            break
    else:
        raise AssertionError("the change was never made in the same second")
    await checkpoints.snapshotter.create(RUN, "after")
    assert [file.path for file in (await checkpoints.changes.of(RUN)).files] == ["poem.txt"]


async def test_settings_do_not_hide_a_change(project: Path) -> None:
    """With these settings, git would compare only the size and the modification time, which stay the same."""
    poem, then = project / "poem.txt", 1_700_000_000
    git(project, "config", "core.checkStat", "minimal")
    git(project, "config", "core.trustctime", "false")
    os.utime(poem, (then, then))
    git(project, "update-index", "--really-refresh", "-q")
    checkpoints = Checkpoints(project, "proj_1")
    await checkpoints.snapshotter.create(RUN, "before")
    new = project / "new.txt"
    new.write_text(poem.read_text().replace("line 3", "LINE 3"))
    os.utime(new, (then, then))
    new.replace(poem)
    await checkpoints.snapshotter.create(RUN, "after")
    assert [file.path for file in (await checkpoints.changes.of(RUN)).files] == ["poem.txt"]


@pytest.mark.parametrize("mark", ["assume-unchanged", "skip-worktree"])
@pytest.mark.parametrize("index", ["", "--split-index", "--index-version=4"])
async def test_a_change_to_a_marked_file_is_found(index: str, mark: str, project: Path) -> None:
    """git itself does not look at files with these marks. The user's index keeps them."""
    before = everything(project)
    checkpoints = Checkpoints(project, "proj_1")
    await checkpoints.snapshotter.create(RUN, "before")
    if index:
        git(project, "update-index", *index.split("="))
    git(project, "update-index", f"--{mark}", "poem.txt", "old.txt")
    (project / "poem.txt").write_text("by the agent\n")
    assert "poem.txt" not in git(project, "status", "--porcelain")
    await checkpoints.snapshotter.create(RUN, "after")
    assert [file.path for file in (await checkpoints.changes.of(RUN)).files] == ["poem.txt"]
    await checkpoints.reverter.revert(RUN)
    assert everything(project) == before
    shown = "S" if mark == "skip-worktree" else "h"
    assert git(project, "ls-files", "-v", "poem.txt", "old.txt") == f"{shown} old.txt\n{shown} poem.txt\n"


async def test_a_change_to_a_marked_file_in_a_subdirectory_is_found(project: Path) -> None:
    (project / "inner").mkdir()
    (project / "inner" / "song.txt").write_text("one\n")
    git(project, "add", ".")
    git(project, "update-index", "--skip-worktree", "inner/song.txt", "poem.txt")
    checkpoints = Checkpoints(project / "inner", "proj_1")
    await checkpoints.snapshotter.create(RUN, "before")
    (project / "inner" / "song.txt").write_text("two\n")
    await checkpoints.snapshotter.create(RUN, "after")
    assert [file.path for file in (await checkpoints.changes.of(RUN)).files] == ["song.txt"]


async def test_a_removed_file_that_is_assumed_unchanged_is_found(project: Path) -> None:
    checkpoints = Checkpoints(project, "proj_1")
    await checkpoints.snapshotter.create(RUN, "before")
    git(project, "update-index", "--assume-unchanged", "old.txt")
    (project / "old.txt").unlink()
    await checkpoints.snapshotter.create(RUN, "after")
    await checkpoints.reverter.revert(RUN)
    assert (project / "old.txt").read_text() == "old\n"


@pytest.mark.parametrize("index", ["", "--split-index", "--index-version=4"])
async def test_an_index_made_by_an_agent_hides_no_change(index: str, project: Path) -> None:
    """With a filter of the agent, the index contains the previous text with the times of the changed file."""
    poem, attributes = project / "poem.txt", project / ".git" / "info" / "attributes"
    before = everything(project)
    if index:
        git(project, "update-index", *index.split("="))
    checkpoints = Checkpoints(project, "proj_1")
    await checkpoints.snapshotter.create(RUN, "before")
    poem.write_text("by the agent\n")
    os.utime(poem, (1, 1))
    attributes.write_text("poem.txt filter=previous\n")
    git(project, "-c", "filter.previous.clean=git show HEAD:poem.txt", "add", "poem.txt")
    attributes.unlink()
    assert "poem.txt" not in git(project, "status", "--porcelain")
    await checkpoints.snapshotter.create(RUN, "after")
    assert [file.path for file in (await checkpoints.changes.of(RUN)).files] == ["poem.txt"]
    await checkpoints.reverter.revert(RUN)
    assert everything(project) == before


async def test_a_staged_file_is_read_again_only_once(
    project: Path, checkpoints: Checkpoints, calls: Callable[[], list[str]]
) -> None:
    """Even if it is then changed again."""

    async def is_one_command_more() -> bool:
        calls()
        async with checkpoints.operations.exclusive() as git:
            await checkpoints.work_tree.current(git, f"refs/drawbridge/proj_1/{RUN}/before")
        return any("--index-info" in words for words in calls())

    await checkpoints.snapshotter.create(RUN, "before")
    assert not await is_one_command_more()
    for name in ("poem.txt", "old.txt"):
        (project / name).write_text("staged\n")
        git(project, "add", name)
        assert await is_one_command_more()
        assert not await is_one_command_more()
        (project / name).write_text("not staged\n")
        assert not await is_one_command_more()


async def test_a_changed_index_is_scanned_only_once(
    project: Path, checkpoints: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    scanned: list[str] = []
    scan = git_index.scan

    def counted(file: Path, *words: Any) -> git_index.Scanned | None:
        scanned.append(file.name)
        return scan(file, *words)

    async def scans() -> int:
        async with checkpoints.operations.exclusive() as git:
            await checkpoints.work_tree.current(git, f"refs/drawbridge/proj_1/{RUN}/before")
        count = len(scanned)
        scanned.clear()
        return count

    await checkpoints.snapshotter.create(RUN, "before")
    monkeypatch.setattr(git_index, "scan", counted)
    await scans()
    assert await scans() == 0
    git(project, "rm", "-q", "--cached", "old.txt")
    assert await scans() == 1
    assert await scans() == 0


async def test_a_staged_file_that_does_not_exist_is_unchanged(project: Path) -> None:
    """A sparse checkout leaves it out of the work tree."""
    checkpoints = Checkpoints(project, "proj_1")
    (project / "left.txt").write_text("left out\n")
    git(project, "add", "left.txt")
    git(project, "update-index", "--skip-worktree", "left.txt")
    (project / "left.txt").unlink()
    await checkpoints.snapshotter.create(RUN, "before")
    git(project, "reset", "-q", "--", "staged.txt")
    (project / "poem.txt").write_text("by the agent\n")
    await checkpoints.snapshotter.create(RUN, "after")
    assert [file.path for file in (await checkpoints.changes.of(RUN)).files] == ["poem.txt"]
    before = f"refs/drawbridge/proj_1/{RUN}/before"
    assert git(project, "show", f"{before}:left.txt") == "left out\n"


async def test_files_ignored_before_a_run_are_never_removed(project: Path) -> None:
    """A run may make git track such a file, but did not create it."""
    (project / "build").mkdir()
    (project / "build" / "result.log").write_text("mine\n")
    checkpoints = Checkpoints(project, "proj_1")
    await checkpoints.snapshotter.create(RUN, "before")
    (project / ".gitignore").write_text("")
    (project / "made.log").write_text("by the run\n")
    git(project, "add", "-f", "noise.log")
    await checkpoints.snapshotter.create(RUN, "after")
    changed = {(file.path, file.change) for file in (await checkpoints.reverter.revert(RUN)).files}
    assert changed == {(".gitignore", "changed"), ("made.log", "added")}
    assert (project / "noise.log").read_text() == "noise\n"
    assert (project / "build" / "result.log").read_text() == "mine\n"
    assert not (project / "made.log").exists()


async def test_files_that_a_run_makes_git_ignore_are_restored(project: Path) -> None:
    before = everything(project)
    checkpoints = Checkpoints(project, "proj_1")
    await checkpoints.snapshotter.create(RUN, "before")
    (project / ".gitignore").write_text("mine.txt\n")
    (project / "mine.txt").write_text("not mine any more\n")
    await checkpoints.snapshotter.create(RUN, "after")
    assert {file.path for file in (await checkpoints.reverter.revert(RUN)).files} == {".gitignore", "mine.txt"}
    assert everything(project) == before


async def test_nested_repositories_are_left_alone(project: Path, tmp_path: Path) -> None:
    for name in ("sub", "new"):
        (tmp_path / name).mkdir()
        git(tmp_path / name, "init", "-q")
        (tmp_path / name / "text").write_text("text\n")
        git(tmp_path / name, "add", ".")
        git(tmp_path / name, "commit", "-q", "-m", "one")
    git(project, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(tmp_path / "sub"), "sub")
    (project / "empty").mkdir()
    git(project / "empty", "init", "-q")
    checkpoints = Checkpoints(project, "proj_1")
    assert await checkpoints.snapshotter.create(RUN, "before")
    (project / "sub" / "text").write_text("changed\n")
    git(project / "sub", "commit", "-q", "-a", "-m", "two")
    (tmp_path / "new").rename(project / "new")
    (project / "poem.txt").write_text("changed\n")
    assert await checkpoints.snapshotter.create(RUN, "after")
    assert [file.path for file in (await checkpoints.reverter.revert(RUN)).files] == ["poem.txt"]
    assert (project / "poem.txt").read_text().startswith("line 1\n")
    assert (project / "sub" / "text").read_text() == "changed\n"
    assert (project / "new" / "text").read_text() == "text\n"
