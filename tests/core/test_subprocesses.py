"""A program's time and output are limited, even if it hangs, floods its output or leaves processes behind."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import sys
import termios
import time
from pathlib import Path
from typing import Any

import pytest

from drawbridge.core import subprocesses
from drawbridge.core.private_files import process_alive
from drawbridge.core.subprocesses import Finished
from tests import programs
from tests.waiting import PATIENCE, until


async def run(code: str, *, seconds: float = 20, limit: int = 1000, drain: bool = False) -> Finished:
    command = [sys.executable, "-c", code]
    return await subprocesses.run(command, directory="/", seconds=seconds, limit=limit, drain=drain)


async def test_output_and_status_are_returned() -> None:
    code = "import sys; print('out', flush=True); print('err', file=sys.stderr); sys.exit(3)"
    assert await run(code) == (b"out\nerr\n", 0, 3)


async def test_input_is_read() -> None:
    finished = await subprocesses.run(
        [sys.executable, "-"], directory="/", seconds=20, limit=100, input=b"import os; print(os.getcwd())"
    )
    assert finished == (b"/\n", 0, 0)


PRINTS_FIRST = """
import sys
print('x' * 1_000_000, flush=True)
print(len(sys.stdin.read()))
"""


async def test_output_is_read_while_input_is_written() -> None:
    """Both are larger than a pipe. Handled one after the other, they would block the program until the time limit."""
    finished = await subprocesses.run(
        [sys.executable, "-c", PRINTS_FIRST], directory="/", seconds=20, limit=2_000_000, input=b"y" * 1_000_000
    )
    assert (finished.output.split(), finished.status) == ([b"x" * 1_000_000, b"1000000"], 0)


async def test_a_flood_ends_a_program_that_reads_nothing() -> None:
    finished = await subprocesses.run(
        [sys.executable, "-c", "while True: print('x' * 1000)"],
        directory="/", seconds=20, limit=10, input=b"y" * 1_000_000,
    )  # fmt: skip
    assert (finished.output, finished.status) == (b"x" * 10, None)


async def test_input_that_is_not_read_is_dropped() -> None:
    finished = await subprocesses.run(
        [sys.executable, "-c", "print('done')"], directory="/", seconds=20, limit=100, input=b"y" * 1_000_000
    )
    assert finished == (b"done\n", 0, 0)


async def test_a_flood_ends_the_program() -> None:
    finished = await run("while True: print('x' * 1000)", limit=10)
    assert (finished.output, finished.status) == (b"x" * 10, None)
    assert finished.dropped > 0


def wait_until_full(process: asyncio.subprocess.Process) -> None:
    """Returns once the pipe with the program's output no longer becomes fuller, which the program always fills."""
    pipe: Any = process._transport.get_pipe_transport(1)  # type: ignore[attr-defined]
    end, sizes = time.monotonic() + PATIENCE, [0]
    while sizes[-1] == 0 or len(set(sizes[-20:])) > 1:
        assert time.monotonic() < end, "the program did not fill its pipe"
        time.sleep(0.01)
        waiting = fcntl.ioctl(pipe.get_extra_info("pipe").fileno(), termios.FIONREAD, bytes(4))
        sizes.append(int.from_bytes(waiting, sys.byteorder))


async def test_a_flood_that_fills_the_buffer_ends_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """asyncio pauses reading after 2,000 bytes here, and the program has filled its pipe again when it is killed."""
    started: list[asyncio.subprocess.Process] = []
    create, kill = asyncio.create_subprocess_exec, os.killpg

    async def start(*command: str, **options: Any) -> asyncio.subprocess.Process:
        started.append(await create(*command, limit=1_000, **options))
        return started[-1]

    def kill_late(group: int, number: int) -> None:
        wait_until_full(started[0])  # blocks the event loop, so that nothing is read in the meantime
        kill(group, number)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start)
    monkeypatch.setattr(os, "killpg", kill_late)
    async with asyncio.timeout(PATIENCE):
        assert (await run("while True: print('x' * 1_000_000)", limit=10)).status is None


async def test_a_flood_can_be_drained() -> None:
    assert await run("print('x' * 100_000, end='')", limit=10, drain=True) == (b"x" * 10, 99_990, 0)


async def test_a_program_that_hangs_is_killed() -> None:
    command = [
        "/bin/sh",
        "-c",
        "echo here; exec sleep 600",
    ]  # starts fast enough to print within a second, unlike Python
    for seconds in (1, 5, 20):  # on a busy machine, the program may start late
        finished = await subprocesses.run(command, directory="/", seconds=seconds, limit=1000)
        if finished[0]:
            break
    assert finished == (b"here\n", 0, None)


LEAVES_ONE = """
import subprocess, sys
child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL)
print(child.pid)
"""


async def test_children_of_the_program_are_killed() -> None:
    finished = await run(LEAVES_ONE)
    assert finished.status == 0
    await until(lambda: not process_alive(int(finished.output)), "the end of the child")


async def test_canceling_a_run_kills_the_program(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    code = f"import os, time; open({str(file)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    running = asyncio.ensure_future(run(code))
    await until(lambda: file.exists() and file.read_text(), "the program")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    with pytest.raises(ProcessLookupError):
        os.kill(int(file.read_text()), signal.SIGCONT)


async def test_a_program_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        await subprocesses.run(["/nowhere/program"], directory="/", seconds=1, limit=1)


STARTS_AT_THE_LIMIT = """
import asyncio, os, resource, uvloop
from drawbridge.core import subprocesses

def open_files():
    return len(os.listdir("/proc/self/fd"))

async def failures():
    await subprocesses.run(["true"], directory="/", seconds=20, limit=10)
    before = open_files()
    for left in range(1, 14):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + left, 1000))
        try:
            await subprocesses.run(["true"], directory="/", seconds=20, limit=10)
            print("started")
        except OSError as error:
            print(error.strerror)
        resource.setrlimit(resource.RLIMIT_NOFILE, (1000, 1000))
        if open_files() != before:
            print("left open:", open_files() - before)

with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
    runner.run(failures())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts the open files in /proc")
async def test_a_start_without_descriptors_leaves_none_open() -> None:
    programs.uvloop()
    finished = await run(STARTS_AT_THE_LIMIT, seconds=PATIENCE)
    assert set(finished.output.decode().splitlines()) == {"Too many open files", "started"}
    assert finished.status == 0


ENDS_EARLY = """
import asyncio, uvloop
from drawbridge.core import subprocesses

async def runs():
    for _ in range(20):
        await subprocesses.run(["true"], directory="/", seconds=20, limit=10, input=b"x" * 1_000_000)

with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
    runner.run(runs())
"""


async def test_a_program_may_end_before_its_input_is_written() -> None:
    programs.uvloop()
    finished = await run(ENDS_EARLY, seconds=PATIENCE)
    assert (finished.output, finished.status) == (b"", 0)
