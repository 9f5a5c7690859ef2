"""The git that takes checkpoints has no more privileges than an agent, and leaves no process behind. The tests use a
misbehaving git.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from drawbridge.agents.base import Confinement
from drawbridge.agents.memory import MB, MemoryWatch
from drawbridge.server.checkpoints.checkpoints import Checkpoints
from drawbridge.server.checkpoints.errors import GitFailed
from drawbridge.server.checkpoints.git import program as git_program
from tests.server.checkpoints.rig import RUN, a_run, everything, make_project
from tests.waiting import until

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="needs features of the Linux kernel")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "ws")


@pytest.fixture
def misbehaves(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Returns a function that replaces git with one that runs a shell script before it adds files. The project was
    created with the normal git.
    """
    real = git_program.program()

    def misbehaves(script: str) -> None:
        program = tmp_path / "bin" / "git"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f'#!/bin/sh\ncase "$*" in *" add "*)\n{script}\n;; esac\nexec {real} "$@"\n')
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")

    return misbehaves


def written(file: Path) -> str:
    return file.read_text() if file.exists() else ""


@ON_LINUX
@pytest.mark.parametrize("confined", [True, False])
async def test_git_gains_no_privileges(
    confined: bool, project: Path, misbehaves: Callable[[str], None], tmp_path: Path
) -> None:
    misbehaves(f"cat /proc/self/status >{tmp_path}/status; ulimit -n >{tmp_path}/files; ulimit -c >{tmp_path}/core")
    checkpoints = Checkpoints(project, "proj_1", Confinement(open_files=100, confined=confined))
    await checkpoints.snapshotter.create(RUN, "before")
    assert f"NoNewPrivs:\t{int(confined)}\n" in written(tmp_path / "status")
    assert (written(tmp_path / "files"), written(tmp_path / "core")) == ("100\n", "0\n")


async def test_git_leaves_no_process_behind(project: Path, misbehaves: Callable[[str], None], tmp_path: Path) -> None:
    stays = "import os, time; os.setsid(); print(os.getpid(), flush=True); time.sleep(600)"
    misbehaves(
        f"env -i {sys.executable} -c '{stays}' >{tmp_path}/pid &\nwhile ! [ -s {tmp_path}/pid ]; do sleep 0.01; done"
    )
    assert await Checkpoints(project, "proj_1").snapshotter.create(RUN, "before")
    assert not psutil.pid_exists(int(written(tmp_path / "pid")))


async def test_git_that_hangs_is_ended(
    project: Path, misbehaves: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_program, "SECONDS", 0.5)
    misbehaves(f"echo $$ >{tmp_path}/pid; exec sleep 600")
    with pytest.raises(GitFailed, match=r"more than 0\.5 s"):
        await Checkpoints(project, "proj_1").snapshotter.create(RUN, "before")
    assert not psutil.pid_exists(int(written(tmp_path / "pid")))


async def test_a_canceled_git_is_ended(project: Path, misbehaves: Callable[[str], None], tmp_path: Path) -> None:
    misbehaves(f"echo $$ >{tmp_path}/pid; exec sleep 600")
    taking = asyncio.create_task(Checkpoints(project, "proj_1").snapshotter.create(RUN, "before"))
    await until(lambda: written(tmp_path / "pid"), "git's start")
    taking.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await taking
    assert not psutil.pid_exists(int(written(tmp_path / "pid")))


async def test_git_that_takes_too_much_memory_is_ended(project: Path, misbehaves: Callable[[str], None]) -> None:
    misbehaves(f"exec {sys.executable} -c 'import time; taken = bytearray(300_000_000); time.sleep(600)'")
    checkpoints = Checkpoints(project, "proj_1", memory=MemoryWatch(100 * MB, every=0.05))
    with pytest.raises(GitFailed):
        await checkpoints.snapshotter.create(RUN, "before")


TAKES = f"""
import asyncio, pathlib, sys
from drawbridge.server.checkpoints.checkpoints import Checkpoints
asyncio.run(Checkpoints(pathlib.Path(sys.argv[1]), "proj_1").snapshotter.create({RUN!r}, "before"))
"""


@pytest.mark.thorough
async def test_git_ends_with_a_server_that_is_killed(
    project: Path, misbehaves: Callable[[str], None], tmp_path: Path
) -> None:
    misbehaves(f"echo $$ >{tmp_path}/pid; exec sleep 600")
    server = await asyncio.create_subprocess_exec(sys.executable, "-c", TAKES, str(project))
    try:
        await until(lambda: written(tmp_path / "pid"), "git's start")
    finally:
        server.kill()
        await server.wait()
    await until(lambda: not psutil.pid_exists(int(written(tmp_path / "pid"))), "git's end")


REVERTS = f"""
import asyncio, pathlib, sys
from drawbridge.server.checkpoints.checkpoints import Checkpoints
asyncio.run(Checkpoints(pathlib.Path(sys.argv[1]), "proj_1").reverter.revert({RUN!r}))
"""


async def test_a_revert_completes_if_the_server_is_killed(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """git writes the files one by one. If the server is killed, the supervisor gives git three seconds to finish."""
    before = everything(project)
    await a_run(project)
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\ncase "$*" in *" apply "*) echo $$ >{tmp_path}/pid; read word <{tmp_path}/go ;; esac\n'
        f'exec {git_program.program()} "$@"\n'
    )
    program.chmod(0o755)
    os.mkfifo(tmp_path / "go")
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    server = await asyncio.create_subprocess_exec(sys.executable, "-c", REVERTS, str(project))
    try:
        await until(lambda: written(tmp_path / "pid"), "git's start")
        apply = psutil.Process(int(written(tmp_path / "pid")))
    finally:
        server.kill()
        await server.wait()
    (tmp_path / "go").write_text("go\n")
    await until(lambda: not apply.is_running(), "git's end")
    assert everything(project) == before


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GIT_EXTERNAL_DIFF", "SPY"),
        ("GIT_OBJECT_DIRECTORY", "/nowhere"),
        ("GIT_CONFIG_PARAMETERS", "'core.fsmonitor=SPY'"),
        ("GIT_TRACE", "/dev/stdout"),
    ],
)
async def test_git_variables_of_the_server_are_not_inherited(
    name: str, value: str, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = tmp_path / "spy"
    spy.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    spy.chmod(stat.S_IRWXU)
    before = everything(project)
    monkeypatch.setenv(name, value.replace("SPY", str(spy)))
    checkpoints = await a_run(project)
    assert "+LINE 3" in (await checkpoints.changes.of(RUN)).diff
    await checkpoints.reverter.revert(RUN)
    assert everything(project) == before
    assert not (tmp_path / "ran").exists()


async def test_a_git_in_the_project_is_not_run(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program is not run even if PATH contains the current directory."""
    (project / "git").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (project / "git").chmod(0o755)
    monkeypatch.chdir(project)
    monkeypatch.setenv("PATH", f".:{os.environ['PATH']}")
    await Checkpoints(project, "proj_1").snapshotter.create(RUN, "before")
    assert not (tmp_path / "ran").exists()


async def test_a_configuration_that_is_too_large_is_not_read(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_program, "LARGEST_OUTPUT", 100_000)
    with (project / ".git" / "config").open("a") as file:
        file.write("[x]\n" + f"\ty = {'z' * 1000}\n" * 200)
    with pytest.raises(GitFailed, match="printed more than"):
        await Checkpoints(project, "proj_1").snapshotter.create(RUN, "before")
