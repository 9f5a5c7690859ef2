"""With the index of the last checkpoint, git is started less often, and checkpoints contain the same files."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from drawbridge.server.checkpoints.checkpoints import Checkpoints
from tests.server.checkpoints.rig import git


async def a_turn(checkpoints: Checkpoints, project: Path, name: str = "first") -> None:
    """Takes the checkpoints of a run that changes a file."""
    assert await checkpoints.snapshotter.begin(name)
    (project / "poem.txt").write_text(f"by {name}\n")
    assert await checkpoints.snapshotter.create(name, "after")


async def changes(checkpoints: Checkpoints, name: str) -> dict[str, str]:
    return {file.path: file.change for file in (await checkpoints.changes.of(name)).files}


async def before_the_turn(checkpoints: Checkpoints, calls: Callable[[], list[str]]) -> list[str]:
    """Begins a second run. Returns the git commands that the run has to wait for."""
    calls()
    storing = asyncio.Event()
    store = checkpoints.snapshotter._store

    async def held(*arguments: object) -> None:
        await storing.wait()
        await store(*arguments)  # type: ignore[arg-type]

    checkpoints.snapshotter._store = held  # type: ignore[assignment, method-assign]
    assert await checkpoints.snapshotter.begin("second")
    found = calls()
    storing.set()
    checkpoints.snapshotter._store = store  # type: ignore[method-assign]
    return found


async def test_with_a_cached_index_a_run_waits_for_one_git_command(
    checkpoints: Checkpoints, project: Path, calls: Callable[[], list[str]]
) -> None:
    await a_turn(checkpoints, project)
    assert len(await before_the_turn(checkpoints, calls)) == 1
    (project / "old.txt").write_text("by the second run\n")
    await checkpoints.snapshotter.create("second", "after")
    assert await changes(checkpoints, "second") == {"old.txt": "changed"}


async def test_after_a_users_edit_a_run_still_waits_for_one_command(
    checkpoints: Checkpoints, project: Path, calls: Callable[[], list[str]]
) -> None:
    await a_turn(checkpoints, project)
    (project / "poem.txt").write_text("by a person\n")
    (project / "letter.txt").write_text("by a person\n")
    (project / "mine.txt").unlink()
    assert len(await before_the_turn(checkpoints, calls)) == 1
    (project / "letter.txt").write_text("by the second run\n")
    await checkpoints.snapshotter.create("second", "after")
    assert await changes(checkpoints, "second") == {"letter.txt": "changed"}
    await checkpoints.reverter.revert("second")
    assert (project / "letter.txt").read_text() == "by a person\n"


async def test_a_refreshed_index_needs_no_additional_command(
    checkpoints: Checkpoints, project: Path, calls: Callable[[], list[str]]
) -> None:
    await a_turn(checkpoints, project)
    git(project, "status")
    assert len(await before_the_turn(checkpoints, calls)) == 1


async def test_a_file_that_a_sparse_checkout_left_out_may_appear(checkpoints: Checkpoints, project: Path) -> None:
    git(project, "update-index", "--skip-worktree", "old.txt", "poem.txt")
    (project / "old.txt").unlink()
    await a_turn(checkpoints, project)
    assert await changes(checkpoints, "first") == {"poem.txt": "changed"}
    for name in ("second", "third"):
        assert await checkpoints.snapshotter.begin(name)
        (project / "old.txt").write_text(f"by {name}\n")
        await checkpoints.snapshotter.create(name, "after")
        assert await changes(checkpoints, name) == {"old.txt": "changed"}


async def test_files_ignored_since_are_not_in_later_checkpoints(checkpoints: Checkpoints, project: Path) -> None:
    await a_turn(checkpoints, project)
    with (project / ".gitignore").open("a") as file:
        file.write("mine.txt\n")
    assert await checkpoints.snapshotter.begin("second")
    (project / "mine.txt").write_text("by the second run\n")
    await checkpoints.snapshotter.create("second", "after")
    assert await changes(checkpoints, "second") == {}


async def test_files_that_a_run_ignores_are_not_in_later_checkpoints(checkpoints: Checkpoints, project: Path) -> None:
    assert await checkpoints.snapshotter.begin("first")
    (project / ".git" / "info" / "exclude").write_text("mine.txt\n")
    await checkpoints.snapshotter.create("first", "after")
    assert await checkpoints.snapshotter.begin("second")
    (project / "mine.txt").write_text("by the second run\n")
    await checkpoints.snapshotter.create("second", "after")
    assert await changes(checkpoints, "second") == {}


async def test_ignored_files_in_a_new_directory_are_left_out(checkpoints: Checkpoints, project: Path) -> None:
    """The directory is new, so it is not one of the directories whose files are listed while git runs."""
    await a_turn(checkpoints, project)
    (project / "new").mkdir()
    (project / "new" / "letter.txt").write_text("by a person\n")
    (project / "new" / "secret.log").write_text("by a person\n")
    assert await checkpoints.snapshotter.begin("second")
    (project / ".gitignore").write_text("")
    await checkpoints.snapshotter.create("second", "after")
    assert await changes(checkpoints, "second") == {".gitignore": "changed"}


async def test_an_ignored_file_that_a_user_adds_is_included(checkpoints: Checkpoints, project: Path) -> None:
    await a_turn(checkpoints, project)
    git(project, "add", "-f", "noise.log")
    assert await checkpoints.snapshotter.begin("second")
    (project / "noise.log").write_text("by the second run\n")
    await checkpoints.snapshotter.create("second", "after")
    assert await changes(checkpoints, "second") == {"noise.log": "changed"}


async def test_a_changed_configuration_is_read(checkpoints: Checkpoints, project: Path) -> None:
    await a_turn(checkpoints, project)
    git(project, "config", "core.autocrlf", "true")
    (project / "letter.txt").write_bytes(b"one\r\ntwo\r\n")
    await checkpoints.snapshotter.create("second", "before")
    assert git(project, "show", "refs/drawbridge/proj_1/second/before:letter.txt") == "one\ntwo\n"


async def test_an_included_configuration_that_is_added_later_is_read(
    checkpoints: Checkpoints, project: Path, tmp_path: Path
) -> None:
    git(project, "config", "include.path", str(tmp_path / "later"))
    await a_turn(checkpoints, project)
    (tmp_path / "later").write_text("[core]\n\tautocrlf = true\n")
    (project / "letter.txt").write_bytes(b"one\r\ntwo\r\n")
    await checkpoints.snapshotter.create("second", "before")
    assert git(project, "show", "refs/drawbridge/proj_1/second/before:letter.txt") == "one\ntwo\n"


async def test_changes_are_shown_although_a_run_adds_a_filter(checkpoints: Checkpoints, project: Path) -> None:
    await a_turn(checkpoints, project)
    (project / ".gitattributes").write_text("*.txt filter=lfs\n")
    assert await checkpoints.snapshotter.begin("second")
    (project / "letter.txt").write_text("by the second run\n")
    await checkpoints.snapshotter.create("second", "after")
    assert await changes(checkpoints, "second") == {"letter.txt": "added"}
    await checkpoints.reverter.revert("second")
    assert not (project / "letter.txt").exists()


@pytest.mark.parametrize("split", [False, True])
async def test_git_is_never_run_in_a_nested_repository(
    checkpoints: Checkpoints, project: Path, tmp_path: Path, split: bool
) -> None:
    git(project, "init", "-q", "inside")
    (project / "inside" / "a.txt").write_text("a\n")
    git(project / "inside", "add", ".")
    git(project / "inside", "commit", "-q", "-m", "first")
    spy, noted = tmp_path / "spy", tmp_path / "noted"
    spy.write_text(f"#!/bin/sh\necho called >>{noted}\n")
    spy.chmod(0o755)
    git(project / "inside", "config", "core.fsmonitor", str(spy))
    git(project, "add", "inside")
    if split:  # the entry of the nested repository is then in another file
        git(project, "update-index", "--split-index")
    noted.unlink(missing_ok=True)
    for name in ("first", "second", "third"):
        await a_turn(checkpoints, project, name)
        (project / "inside" / "a.txt").write_text(f"{name}\n")
    assert not noted.exists()
    git(project / "inside", "status")
    assert noted.exists(), "the spy must be able to run"


async def test_a_lost_index_only_costs_more_commands(checkpoints: Checkpoints, project: Path, tmp_path: Path) -> None:
    await a_turn(checkpoints, project)
    (tmp_path / "data" / "checkpoint.index").unlink()
    await a_turn(checkpoints, project, "second")
    assert await changes(checkpoints, "second") == {"poem.txt": "changed"}
