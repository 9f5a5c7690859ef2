"""A repository that the real git creates, for tests of checkpoints."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from drawbridge.server.checkpoints.checkpoints import Checkpoints
from drawbridge.server.checkpoints.shell import Shell
from tests import programs
from tests.waiting import until

RUN = "run_1"


def git(directory: Path, *words: str) -> str:
    name = ["-c", "user.name=me", "-c", "user.email=me@localhost", "-c", "init.defaultBranch=main"]
    return subprocess.run(
        [programs.git(), *name, *words], cwd=directory, check=True, capture_output=True, text=True
    ).stdout


def make_project(directory: Path) -> Path:
    """Creates a repository with a commit and with a staged, an untracked and an ignored file. Returns its directory."""
    directory.mkdir()
    git(directory, "init", "-q")
    (directory / ".gitignore").write_text("*.log\n")
    (directory / "poem.txt").write_text("".join(f"line {number}\n" for number in range(1, 21)))
    (directory / "old.txt").write_text("old\n")
    git(directory, "add", ".")
    git(directory, "commit", "-q", "-m", "first")
    (directory / "staged.txt").write_text("staged\n")
    git(directory, "add", "staged.txt")
    (directory / "mine.txt").write_text("mine, not added\n")
    (directory / "noise.log").write_text("noise\n")
    return directory


async def a_run(project: Path) -> Checkpoints:
    """Takes the checkpoints of a run that changes one file, adds one and deletes one. Returns them."""
    checkpoints = Checkpoints(project, "proj_1")
    assert await checkpoints.snapshotter.create(RUN, "before")
    text = (project / "poem.txt").read_text()
    (project / "poem.txt").write_text(text.replace("line 3\n", "LINE 3\n"))
    (project / "new.bin").write_bytes(b"\0\xff\n")
    (project / "old.txt").unlink()
    assert await checkpoints.snapshotter.create(RUN, "after")
    return checkpoints


def everything(project: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in project.iterdir() if file.is_file()}


async def a_run_that_writes(project: Path, files: dict[str, bytes]) -> tuple[Checkpoints, str]:
    """Takes the checkpoints of a run that writes these files. Returns them and the diff."""
    checkpoints = Checkpoints(project, "proj_1")
    await checkpoints.snapshotter.create(RUN, "before")
    for name, data in files.items():
        (project / name).write_bytes(data)
    await checkpoints.snapshotter.create(RUN, "after")
    return checkpoints, (await checkpoints.changes.of(RUN)).diff


def refs(project: Path) -> list[str]:
    """The refs of Drawbridge in the project's repository."""
    return git(project, "for-each-ref", "--format=%(refname)", "refs/drawbridge").split()


def hanging(folder: Path, monkeypatch: pytest.MonkeyPatch, word: str, first: str = ":") -> Path:
    """Replaces git with one that hangs in each command with the argument ``word``. ``first``: a line of a shell script
    that runs before it hangs. Returns the path of a file that exists once git hangs."""
    program, started = folder / "bin" / "git", folder / "started"
    program.parent.mkdir()
    does = f"{first}; : >{started}; exec sleep 600"
    program.write_text(f'#!/bin/sh\ncase " $* " in *" {word} "*) {does} ;; esac\nexec {programs.git()} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    return started


def time_ends_at(started: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the time limit of a git command end as soon as it hangs. ``started``: as returned by ``hanging``."""
    reply = Shell._reply

    async def reply_or_nothing(shell: Shell, seconds: float) -> bytes | None:
        replying = asyncio.create_task(reply(shell, seconds))
        await until(lambda: replying.done() or started.exists(), "a reply of git")
        if not replying.done():
            started.unlink()
            replying.cancel()
            await asyncio.wait([replying])
            return None
        return await replying

    monkeypatch.setattr(Shell, "_reply", reply_or_nothing)
