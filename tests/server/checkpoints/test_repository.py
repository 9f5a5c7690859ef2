"""Where the repository is, and the files in it for which git would wait. The tests use the real git."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from drawbridge.server.checkpoints.checkpoints import Checkpoints
from drawbridge.server.checkpoints.errors import NoCheckpoint
from drawbridge.server.checkpoints.git import program as git_program
from drawbridge.server.checkpoints.git.program import GitProgram
from tests.server.checkpoints.rig import RUN, git


async def test_there_is_no_checkpoint_if_a_git_pointer_is_invalid(project: Path) -> None:
    (project / ".git" / "commondir").write_bytes(b"\0")
    assert not await Checkpoints(project, "proj_1").snapshotter.create(RUN, "before")


async def test_there_is_no_checkpoint_if_the_repository_is_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".git")
    assert not await Checkpoints(tmp_path, "proj_1").snapshotter.create(RUN, "before")


OF_GIT = [
    *(".git/" + name for name in ("config", "HEAD", "packed-refs", "info/exclude", "info/attributes")),
    *(".git/objects/info/alternates", ".gitignore", ".gitattributes"),
]


OF_OBJECTS = [
    *(".git/objects/pack/" + name for name in (f"pack-{40 * '1'}.idx", "multi-pack-index")),
    *(".git/objects/info/commit-graph", f".git/sharedindex.{40 * '1'}"),
]
"""Git's own files that may have any size."""


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((name, kind) for name in OF_GIT for kind in ("pipe", "large")),
        *((name, "pipe") for name in (".git/commondir", *OF_OBJECTS)),
    ],
)
async def test_a_pipe_or_huge_file_in_place_of_gits_own_is_reported(name: str, kind: str, project: Path) -> None:
    file = project / name
    file.parent.mkdir(exist_ok=True)
    file.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(file)
    else:
        with file.open("wb") as made:
            made.truncate(200_000_000)
    with pytest.raises(NoCheckpoint, match=f"{name.removeprefix('.git/')} is too large, or is not a regular file"):
        await Checkpoints(project, "proj_1").snapshotter.create(RUN, "before")


@pytest.mark.parametrize("name", [".gitignore", ".gitattributes"])
async def test_a_pipe_in_a_directory_delays_only_one_operation(
    name: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints = Checkpoints(project, "proj_1")
    assert await checkpoints.snapshotter.create(RUN, "before")
    file = project / "a" / "b" / name
    file.parent.mkdir(parents=True)
    (file.parent / "main.py").write_text("")
    os.mkfifo(file)
    with monkeypatch.context() as patched:
        patched.setattr(git_program, "SECONDS", 0.5)
        with pytest.raises(NoCheckpoint, match=f"a/b/{name} is too large, or is not a regular file"):
            await checkpoints.snapshotter.create(RUN, "after")
    with monkeypatch.context() as patched:
        patched.setattr(GitProgram, "run", None)  # the next operation does not start git
        with pytest.raises(NoCheckpoint, match=f"a/b/{name} is too large, or is not a regular file"):
            await checkpoints.changes.of(RUN)
    file.unlink()
    assert await checkpoints.snapshotter.create(RUN, "after")


@pytest.mark.parametrize("what", ["objects", "a ref", "the alternates of an alternate"])
async def test_a_pipe_in_the_git_directory_delays_only_one_operation(
    what: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints = Checkpoints(project, "proj_1")
    assert await checkpoints.snapshotter.create(RUN, "before")
    data = project / ".git"
    match what:
        case "objects":
            files, name = [*data.glob("objects/??/*")], "objects/../[0-9a-f]+"
        case "a ref":
            name = "refs/drawbridge/proj_1/run_2/before"
            files = [data / name]
        case _:
            name = "other/info/alternates"
            files = [data / name]
            (data / "objects" / "info" / "alternates").write_text(f"{data / 'other'}\n")
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        os.mkfifo(file)
    with monkeypatch.context() as patched:
        patched.setattr(git_program, "SECONDS", 0.5)
        with pytest.raises(NoCheckpoint, match=f"git's file {name} is too large, or is not a regular file"):
            await checkpoints.snapshotter.create("run_2", "before")
    with monkeypatch.context() as patched:
        patched.setattr(GitProgram, "run", None)  # the next operation does not start git
        with pytest.raises(NoCheckpoint, match=f"git's file {name} is too large, or is not a regular file"):
            await checkpoints.snapshotter.create("run_2", "before")


@pytest.mark.parametrize("place", [".git", ".git/objects", "bare", "nowhere"])
async def test_a_directory_outside_a_work_tree_starts_no_process(
    place: str, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No process is started for such a directory."""
    git(project, "init", "-q", "--bare", "bare")
    (tmp_path / "nowhere").mkdir()
    directory = tmp_path / "nowhere" if place == "nowhere" else project / place
    monkeypatch.setattr("asyncio.create_subprocess_exec", None)
    monkeypatch.setattr(subprocess, "Popen", None)
    assert not await Checkpoints(directory, "proj_1").snapshotter.create(RUN, "before")
