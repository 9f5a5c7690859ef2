"""When a server starts, it ends the processes that a crashed server and its supervisors left behind, and never any
other process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import psutil
import pytest

from drawbridge.agents import process_tree
from drawbridge.agents.environment import MARK
from drawbridge.core.process_start import started_at
from drawbridge.server.sessions.processes.processes import FILE, Entry, RunningProcesses
from tests.agents.rig import eventually, lives
from tests.server.bad_claude import bad_claude, project, words
from tests.server.processes import serving
from tests.waiting import PATIENCE, until

Start = Callable[..., int]
SLEEP = [sys.executable, "-I", "-S", "-c", "print(flush=True); import time; time.sleep(600)"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Yields a function that starts an idle process, with a mark if one is given, and returns its process id."""
    started: list[subprocess.Popen[bytes]] = []

    def one(mark: str | None = None) -> int:
        environment = {**os.environ, **({MARK: mark} if mark else {})}
        process = subprocess.Popen(SLEEP, env=environment, stdout=subprocess.PIPE, start_new_session=True)
        assert process.stdout
        process.stdout.readline()
        started.append(process)
        return process.pid

    yield one
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def mark() -> str:
    return uuid.uuid4().hex


def entry(mark: str, pid: int) -> Entry:
    return Entry(mark, pid, started_at(pid))


def write(directory: Path, *entries: Entry) -> None:
    (directory / FILE).write_bytes(msgspec.json.encode(entries))


def test_leftovers_are_ended_and_logged(
    tmp_path: Path, start: Start, mark: str, caplog: pytest.LogCaptureFixture
) -> None:
    pid = start(mark)
    write(tmp_path, entry(mark, pid))
    RunningProcesses(tmp_path).end_leftovers()
    assert not lives(pid)
    assert f"process {pid} (python" in caplog.text
    assert (tmp_path / FILE).read_bytes() == b"[]\n"


def test_children_of_an_ended_agent_are_ended(tmp_path: Path, start: Start, mark: str) -> None:
    """The children are found by their mark, even if the agent's own process has ended."""
    gone, child = start(), start(mark)
    os.kill(gone, signal.SIGKILL)
    write(tmp_path, Entry(mark, gone, 5.0))
    RunningProcesses(tmp_path).end_leftovers()
    assert not lives(child)


def test_a_process_with_a_reused_id_is_left_alone(tmp_path: Path, start: Start, mark: str) -> None:
    stranger = start()
    write(tmp_path, Entry(mark, stranger, "an earlier start"))
    RunningProcesses(tmp_path).end_leftovers()
    assert lives(stranger)


def test_a_forged_file_does_not_end_other_processes(tmp_path: Path, start: Start, mark: str) -> None:
    """The file contains the right process ids and start times of a process without a mark and of an agent process of
    another server, and invalid entries.
    """
    stranger, others = start(), start(uuid.uuid4().hex)
    write(
        tmp_path, entry(mark, stranger), entry("", others), Entry("", os.getpid()), Entry("", 1), Entry("", -5, -1e300)
    )
    RunningProcesses(tmp_path).end_leftovers()
    assert lives(stranger)
    assert lives(others)


@pytest.mark.parametrize("same", [True, False], ids=["the same start", "another start"])
def test_the_start_time_is_used_if_the_environment_is_hidden(
    tmp_path: Path, start: Start, mark: str, monkeypatch: pytest.MonkeyPatch, same: bool
) -> None:
    pid = start(mark)

    def denied(process: psutil.Process) -> dict[str, str]:
        raise psutil.AccessDenied(process.pid)

    monkeypatch.setattr(psutil.Process, "environ", denied)
    write(tmp_path, entry(mark, pid) if same else Entry(mark, pid, "another start"))
    RunningProcesses(tmp_path).end_leftovers()
    assert lives(pid) != same


def test_a_server_started_by_an_agent_does_not_end_itself(tmp_path: Path, mark: str) -> None:
    """The server ends neither itself nor the agent."""
    code = (
        "import os, subprocess, sys\n"
        "from pathlib import Path\n"
        "if len(sys.argv) > 2: sys.exit(subprocess.call([sys.executable, __file__, sys.argv[1]]))\n"
        "from drawbridge.server.sessions.processes.processes import RunningProcesses\n"
        "RunningProcesses(Path(sys.argv[1])).end_leftovers()\n"
        "print('alive')\n"
    )
    (tmp_path / "server.py").write_text(code)
    write(tmp_path, Entry(mark))
    done = subprocess.run(
        [sys.executable, tmp_path / "server.py", tmp_path, "as an agent"],
        env={**os.environ, MARK: mark},
        capture_output=True,
        timeout=PATIENCE,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"alive\n", b"")


@pytest.mark.parametrize("content", [b"", b"{", b'[{"pid": "x"}]', b"\xff\xfe", b'[{"mark": "m", "pid": 1e400}]'])
def test_an_invalid_file_does_not_prevent_a_start(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE).write_bytes(content)
    RunningProcesses(tmp_path).end_leftovers()
    assert "running.json can't be read" in caplog.text


def test_leftovers_that_cannot_be_ended_are_logged_and_kept(
    tmp_path: Path, start: Start, mark: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pid = start(mark)
    write(tmp_path, entry(mark, pid))
    with monkeypatch.context() as patch:
        patch.setattr(process_tree, "END_SECONDS", 0.05)
        patch.setattr(psutil.Process, "send_signal", lambda process, number: None)
        RunningProcesses(tmp_path).end_leftovers()
    assert f"processes [{pid}], which were left behind by an agent of a crashed server" in caplog.text
    RunningProcesses(tmp_path).end_leftovers()
    assert not lives(pid)


async def test_a_restart_ends_what_a_crashed_server_left_running(tmp_path: Path) -> None:
    """The agent's child has its own process session and ignores signals, so it can only be found through the file."""
    data, flags = tmp_path / "data", bad_claude(tmp_path)
    async with serving(data, *flags) as server:
        async with server.client() as client:
            id = await project(server, client)
            await client.ask("execute", {"prompt": "child"}, id)
            child = int(await words(client))
            await client.receive("update", "run_finished")
        (running,) = msgspec.json.decode((data / FILE).read_bytes(), type=list[Entry])
        assert stat.S_IMODE((data / FILE).stat().st_mode) == 0o600
        assert running.started == started_at(running.pid)
        supervisor = psutil.Process(running.pid).ppid()
        with contextlib.suppress(ProcessLookupError):
            os.kill(supervisor, signal.SIGSTOP)
        await server.end(signal.SIGKILL)
        os.kill(supervisor, signal.SIGKILL)
    await until(lambda: not lives(supervisor), "the end of the supervisor")
    assert lives(child)
    async with serving(data, *flags) as server:
        await eventually(lambda: not lives(child) and not lives(running.pid), "the end of both")
        assert f"process {child} (python" in server.errors
        assert (data / FILE).read_bytes() == b"[]\n"


async def test_ended_processes_are_removed_from_the_file(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with serving(data, *bad_claude(tmp_path), "--warm", "0") as server, server.client() as client:
        id = await project(server, client)
        await client.ask("execute", {"prompt": "say hello"}, id)
        await client.receive("update", "run_finished")
        await until(lambda: (data / FILE).read_bytes() == b"[]\n", "the end")
