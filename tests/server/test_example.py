"""The client in examples/ does what its documentation promises, even if the server is killed in the meantime."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.server.processes import Server, serving
from tests.waiting import PATIENCE

CLIENT = Path(__file__).resolve().parent.parent.parent / "examples" / "client.py"


@pytest.fixture
def code(tmp_path: Path) -> Path:
    directory = tmp_path / "roots" / "code"
    directory.mkdir(parents=True)
    return directory


@contextlib.asynccontextmanager
async def example(server: Server, code: Path, prompt: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-u", str(CLIENT), server.url, str(server.data), str(code), "demo", prompt),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def until_asked(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE):
        return (await process.stdout.readuntil(b"[y/n] ")).decode()


def test_the_example_is_short() -> None:
    _, code = CLIENT.read_text().split('"""\n', 1)
    assert len([line for line in code.splitlines() if line.strip()]) <= 70


@pytest.mark.slow_for("n-False")
@pytest.mark.parametrize(("answer", "changed"), [("y", True), pytest.param("n", False, marks=pytest.mark.thorough)])
async def test_the_example_runs_a_prompt_and_asks_the_user(
    tmp_path: Path, code: Path, answer: str, changed: bool
) -> None:
    async with (
        serving(tmp_path / "data", "--allow", code.parent) as server,
        example(server, code, "please change something") as process,
    ):
        await until_asked(process)
        assert list(code.iterdir()) == []
        async with asyncio.timeout(PATIENCE):
            output, _ = await process.communicate(f"{answer}\n".encode())
        assert output.decode().splitlines()[-1] == "completed"
        assert bool(list(code.iterdir())) is changed


@pytest.mark.thorough
async def test_the_example_reconnects_after_the_server_was_killed(tmp_path: Path, code: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    arguments = (tmp_path / "data", "--allow", code.parent, "--port", str(port))
    async with serving(*arguments) as server, example(server, code, "please change") as process:
        await until_asked(process)
        await server.end(signal.SIGKILL)
        async with serving(*arguments):
            async with asyncio.timeout(PATIENCE):
                output, _ = await process.communicate(b"y\n")
        assert output.decode().splitlines()[-1] == "interrupted"
