"""What is in a directory in addition to a checkpoint is found in the same way with git and without it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from drawbridge.server.checkpoints.checkpoints import Checkpoints
from drawbridge.server.checkpoints.git import index as git_index
from drawbridge.server.checkpoints.untracked import Untracked, find_untracked, folders_of, list_folders, without
from tests.server.checkpoints.rig import git


def test_a_path_in_an_untracked_directory_is_untracked() -> None:
    untracked = Untracked(frozenset({"noise.log", "build/", "src/made/"}), {})
    for path in ("noise.log", "build/a", "build/deep/a", "src/made/a"):
        assert untracked.contains(path)
    for path in ("build", "src/a", "building/a", "other/noise.log"):
        assert not untracked.contains(path)


def test_untracked_files_are_those_that_git_lists(project: Path) -> None:
    (project / "sub" / "deep").mkdir(parents=True)
    (project / "sub" / "deep" / "a.txt").write_text("a\n")
    (project / "sub" / "naïve\nname.txt").write_text("b\n")
    git(project, "add", ".")
    for name in ("sub/deep/new.txt", "sub/more/x/y.txt", "logs/one.log", "sub/.gitignore", "logs/.gitignore"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("*.o\n")
    (project / "empty").mkdir()
    (project / "link").symlink_to("sub")
    git(project, "init", "-q", "inside")
    tracked = git(project, "ls-files", "-z").split("\0")[:-1]
    found, ignore_files = without(list_folders(project, folders_of(tracked)), tracked)
    assert found == {path for path in git(project, "ls-files", "--others", "--directory", "-z").split("\0") if path}
    assert ignore_files == {".gitignore", "sub/.gitignore"}


def test_nested_directories_do_not_fill_the_memory() -> None:
    """The names of the 20,000 directories in a path of 40 kB would take 400 MB in total."""
    with pytest.raises(ValueError, match="nested too deeply"):
        folders_of(["a/" * 20_000 + "b"])


async def test_git_is_run_only_if_our_reader_cannot_read_the_index(
    project: Path, checkpoints: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("build/a.log", "src/a.txt", "src/b.log"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(name)
    git(project, "add", "src")
    async with checkpoints.operations.exclusive() as operation:
        shutil.copy2(project / ".git" / "index", operation.index)
        found = await find_untracked(operation, project)
        assert found.paths == {"noise.log", "mine.txt", "build/", "src/b.log"}
        assert found.folders == {"", "src"}
        assert list(found.ignoring or ()) == [str(project / ".gitignore")]
        monkeypatch.setattr(git_index, "scan", lambda file, id_bytes: None)
        by_git = await find_untracked(operation, project)
        assert by_git.paths - {""} == found.paths
        assert by_git.ignoring is None, "the next checkpoint can't rely on it"
