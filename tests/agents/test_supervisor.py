"""No agent outlives its server, and no child process outlives its agent, tested with real processes that refuse to end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import py_compile
import signal
import sys
from collections.abc import AsyncIterator
from importlib.machinery import ModuleSpec
from pathlib import Path

import psutil
import pytest

from drawbridge.agents import supervisor, supervisor_pipe
from drawbridge.agents.base import AgentLine, Exited
from tests.agents.rig import bad_agent, eventually, lives, session
from tests.server.bad_claude import kept
from tests.waiting import PATIENCE, until

linux = pytest.mark.skipif(sys.platform != "linux", reason="only there a process finds children that have left it")

SERVER = Path(__file__).with_name("server_to_kill.py")


class Killable:
    """A server to kill, its agent, and the child process that the agent reports (0: none)."""

    def __init__(self, process: asyncio.subprocess.Process, agent: int, words: str) -> None:
        self.process = process
        self.agent = agent
        self.child = int(words) if words.isdigit() else 0

    @property
    def supervisor(self) -> int:
        return psutil.Process(self.agent).ppid()

    async def die(self) -> None:
        self.process.kill()
        await self.process.communicate()


@contextlib.asynccontextmanager
async def server(prompt: str, directory: Path) -> AsyncIterator[Killable]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(SERVER), prompt, str(directory), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    ours: list[int] = []
    try:
        async with asyncio.timeout(PATIENCE):
            started = Killable(
                process, int(await process.stdout.readline()), (await process.stdout.readline()).decode().strip()
            )
        ours = [started.agent, started.child]
        yield started
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
        for pid in filter(None, ours):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("prompt", ["half", "say hello", pytest.param("stubborn", marks=pytest.mark.thorough)])
async def test_killing_the_server_ends_its_agent(tmp_path: Path, prompt: str) -> None:
    async with server(prompt, tmp_path) as killed:
        assert lives(killed.agent)
        await killed.die()
        await eventually(lambda: not lives(killed.agent), "the end of the agent")


async def test_a_waiting_agent_does_not_continue_without_its_server(tmp_path: Path) -> None:
    """The agent must not treat the end of its input as an answer."""
    async with server("ask-and-continue", tmp_path) as killed:
        await killed.die()
        await eventually(lambda: not lives(killed.agent), "the end of the agent")
        assert not (tmp_path / "continued").exists()


@pytest.mark.parametrize(
    "prompt", ["child", pytest.param("escape", marks=linux), pytest.param("escape-and-die", marks=linux)]
)
async def test_killing_the_server_ends_the_agents_child_processes(tmp_path: Path, prompt: str) -> None:
    async with server(prompt, tmp_path) as killed:
        assert lives(killed.child) or prompt == "escape-and-die"
        await killed.die()
        await eventually(lambda: not lives(killed.child) and not lives(killed.agent), "the end of both")


@pytest.mark.parametrize("stopped", [False, True], ids=["running", "stopped"])
async def test_a_supervisor_exits_as_soon_as_its_agent_exits(tmp_path: Path, stopped: bool) -> None:
    async with server("half", tmp_path) as killed:
        its_supervisor = killed.supervisor
        if stopped:
            os.kill(killed.agent, signal.SIGSTOP)
        await killed.die()
        began = asyncio.get_running_loop().time()
        await until(lambda: not lives(its_supervisor), "the end of the supervisor")
        assert asyncio.get_running_loop().time() - began < supervisor.LEAVE_SECONDS / 2


@linux
@pytest.mark.parametrize("words", ["escape", "child"])
async def test_an_agent_ends_when_its_supervisor_is_killed(tmp_path: Path, words: str) -> None:
    """Child processes that still have the agent's environment are found through it and ended. The owner has to end the
    others."""
    async with session(bad_agent(), tmp_path) as agent:
        await agent.turn(words)
        child, its_supervisor = int(agent.received.words), psutil.Process(agent.process.pid).ppid()
        try:
            os.kill(its_supervisor, signal.SIGKILL)
            exited = await agent.received.next(Exited)
            assert exited.code == -signal.SIGKILL
            await until(lambda: not lives(agent.process.pid), "the end of the agent")
            assert lives(child) == (words == "escape")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)


@linux
async def test_an_agent_that_stops_its_supervisor_can_be_killed(tmp_path: Path) -> None:
    async with session(bad_agent(), tmp_path) as agent:
        agent.process.times = type(agent.process.times)(0.1, 0.1, 0.1, 0.1, 0.1, 0.1)
        agent.process.prompt("stubborn")
        await agent.received.next(AgentLine)
        os.kill(psutil.Process(agent.process.pid).ppid(), signal.SIGSTOP)
        await agent.process.kill()
        assert not lives(agent.process.pid)


@linux
async def test_the_agents_orphaned_zombies_are_reaped(tmp_path: Path) -> None:
    async with session(bad_agent(), tmp_path) as agent:
        await agent.turn("escape")
        child = int(agent.received.words)
        os.kill(child, signal.SIGKILL)
        await until(lambda: not psutil.pid_exists(child), "the burial")


@linux
@pytest.mark.parametrize("ignored", [signal.SIGPIPE, signal.SIGQUIT, signal.SIGHUP], ids=lambda number: number.name)
def test_an_agent_starts_with_default_signal_handling(ignored: signal.Signals) -> None:
    """A broken pipe, Ctrl-\\ or a hangup must end its commands, although Python, a background shell or ``nohup``
    ignores these signals."""
    before = signal.signal(ignored, signal.SIG_IGN)
    try:
        code, output = kept("grep -E 'SigBlk|SigIgn' /proc/self/status")
    finally:
        signal.signal(ignored, before)
    own = 0b11 << 31  # 32 and 33 belong to the C library and can't be changed
    assert (code, [int(line.split()[1], 16) & ~own for line in output.splitlines()]) == (0, [0, 0])


def test_an_agent_inherits_no_file_of_its_supervisor() -> None:
    code, output = kept("ls /dev/fd")
    assert (code, set(output.split()) - {"0", "1", "2", "3"}) == (0, set())  # 3: the directory that ls lists


@pytest.mark.parametrize(("script", "code"), [("exit 7", 7), ("kill -TERM $$", -15), ("kill -SEGV $$", -11)])
def test_a_supervisor_exits_with_its_agents_exit_status(script: str, code: int) -> None:
    assert kept(script) == (code, "")


def test_a_supervisor_ignores_signals_meant_for_its_agent() -> None:
    assert kept("kill -TERM $PPID; kill -INT $PPID; kill -HUP $PPID; sleep 0.1; echo on") == (0, "on\n")


@linux
async def test_a_supervisor_uses_less_than_8_mb_of_memory(tmp_path: Path) -> None:
    async with session(bad_agent(), tmp_path) as agent:
        await agent.turn("say hello")
        used = psutil.Process(agent.process.pid).parent()
        assert used is not None
        assert used.memory_full_info().uss < 8_000_000


async def test_an_agent_starts_if_the_compiled_files_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor_pipe, "_SCRIPT", str(tmp_path / "removed.pyc"))
    async with session(bad_agent(), tmp_path) as agent:
        assert lives(agent.process.pid)


def test_only_a_current_compiled_supervisor_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, compiled = tmp_path / "supervisor.py", tmp_path / "supervisor.pyc"
    source.write_text("pass\n")
    py_compile.compile(str(source), cfile=str(compiled), invalidation_mode=py_compile.PycInvalidationMode.TIMESTAMP)
    spec = ModuleSpec("supervisor", None)
    spec.cached = str(compiled)
    monkeypatch.setattr(supervisor, "__file__", str(source))
    monkeypatch.setattr(supervisor, "__spec__", spec)
    assert supervisor_pipe._compiled() == str(compiled)
    source.write_text("print('changed')\n")
    assert supervisor_pipe._compiled() == str(source)
