"""How long git may take. The tests use the real git."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from drawbridge.server.checkpoints.checkpoints import Checkpoints
from drawbridge.server.checkpoints.errors import GitFailed, TookTooLong
from drawbridge.server.checkpoints.git import git as git_module
from drawbridge.server.checkpoints.git import program as git_program
from drawbridge.server.checkpoints.shell import Shell
from tests.server.checkpoints.rig import RUN, a_run, git, hanging, time_ends_at
from tests.waiting import PATIENCE


async def test_only_the_first_wait_for_a_blocked_git_is_long(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once git has taken too long, it gets less time in this repository for a few minutes, and then its usual time
    again.
    """
    time = 1_000.0
    monkeypatch.setattr(git_program, "now", lambda: time)
    (tmp_path / "info").mkdir()
    pipe = tmp_path / "info" / "alternates"
    os.mkfifo(pipe)
    checkpoints = Checkpoints(project, "proj_1")
    assert await checkpoints.snapshotter.create("run_0", "before")
    (project / ".git" / "objects" / "info" / "alternates").write_text(f"{tmp_path}\n")
    monkeypatch.setattr(git_program, "SECONDS", 0.6)
    monkeypatch.setattr(git_program, "SECONDS_AFTER", 0.3)
    for run, seconds in (("run_1", "0.6"), ("run_2", "0.3"), ("run_3", "0.3")):
        with pytest.raises(GitFailed, match=f"git took more than {seconds} s for"):
            await checkpoints.snapshotter.create(run, "before")
    time += git_program.HURRIED_SECONDS
    for run, seconds in (("run_4", "0.6"), ("run_5", "0.3")):
        with pytest.raises(GitFailed, match=f"git took more than {seconds} s for"):
            await checkpoints.snapshotter.create(run, "before")
    monkeypatch.setattr(git_program, "SECONDS_AFTER", PATIENCE)
    pipe.unlink()
    assert await checkpoints.snapshotter.create("run_6", "before")


async def test_git_has_its_usual_time_to_write_files(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If git were killed partway through, some files would be reverted and others not."""
    checkpoints = await a_run(project)
    monkeypatch.setitem(git_program._late_at, project, git_program.now())
    run, given = Shell.run, dict[str, float]()

    async def noted(shell: Shell, line: str, seconds: float, what: str, **more: bool) -> int:
        given[line] = seconds
        return await run(shell, line, PATIENCE, what, **more)

    monkeypatch.setattr(Shell, "run", noted)
    await checkpoints.reverter.revert(RUN)
    assert {seconds for line, seconds in given.items() if " apply " in line} == {git_program.SECONDS}


async def test_only_what_a_run_waits_for_gets_less_time(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person who reads or decides gets the usual time, even if git was slow for a run a moment ago."""
    checkpoints = await a_run(project)
    monkeypatch.setitem(git_program._late_at, project, git_program.now())
    monkeypatch.setattr(git_program, "SECONDS_AFTER", 0.0)
    (project / "new.txt").write_text("new\n")
    with pytest.raises(GitFailed, match="git took more than 0 s for"):
        await checkpoints.snapshotter.create("run_2", "before")
    assert await checkpoints.changes.of(RUN)


async def test_a_command_with_its_own_time_limit_is_ended(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its limit is not shortened, other commands keep their limits, and they can run in the same shell."""
    late = git_program.now() - 1.0
    monkeypatch.setitem(git_program._late_at, project, late)
    time_ends_at(hanging(tmp_path, monkeypatch, "count-objects"), monkeypatch)
    async with Checkpoints(project, "proj_1").operations.exclusive() as git:
        with pytest.raises(TookTooLong, match=r"^git took more than 40 s for: count-objects"):
            await git.read("count-objects", within=40.0)
        assert (await git.read("version")).startswith("git version ")
    assert git_program._late_at[project] == late


async def test_a_configuration_that_includes_a_pipe_is_reported(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_module, "SETTINGS_SECONDS", 0.2)
    os.mkfifo(tmp_path / "pipe")
    git(project, "config", "include.path", str(tmp_path / "pipe"))
    monkeypatch.setattr(git_program, "SECONDS_AFTER", 0.1)
    for seconds in ("0.2", "0.1"):  # the second attempt gets less time
        with pytest.raises(GitFailed, match=f"git took more than {seconds} s for: config --list"):
            await Checkpoints(project, "proj_1").snapshotter.create(RUN, "before")


def test_an_error_names_the_command_without_its_settings() -> None:
    assert git_program._named(["-c", "gc.auto=0", "-c", "core.eol=lf", "add", "--all"]) == "add --all"
