"""If an agent is stopped with ``SIGSTOP`` during its work, other agents continue, and the stopped agent can be ended."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest

from drawbridge.agents.base import AgentLine, Exited
from drawbridge.agents.demo.driver import Demo
from drawbridge.agents.process import Times
from tests.agents.rig import bad_agent, session
from tests.server.processes import Server, serving
from tests.waiting import PATIENCE, until

from .rig import Client, connected


def agents(server: Server) -> list[psutil.Process]:
    """Returns the agents' processes, without their supervisors."""
    found = psutil.Process(server.process.pid).children(recursive=True)
    return [one for one in found if any("demo.script" in word for word in one.cmdline()[:6])]


async def stopped(server: Server, client: Client, root: Path) -> tuple[str, str, psutil.Process]:
    """Starts an agent and stops it during its run. Returns the ids of its project and its run, and its process."""
    project = (await client.ask("project_create", path=str(root), agent="demo", join=True))["project_id"]
    run = (await client.ask("execute", project, prompt="/slow 60"))["data"]["run_id"]
    await client.until("agent_message")
    await until(lambda: agents(server), "the agent's process")
    [process] = agents(server)
    os.kill(process.pid, signal.SIGSTOP)
    return project, run, process


async def test_a_stopped_agent_can_be_ended(tmp_path: Path) -> None:
    quickly = Times(interrupt=0.05, leave=0.05, sigint=0.05, sigterm=0.05)
    async with session(bad_agent(), tmp_path, times=quickly) as agent:
        agent.process.prompt("half")
        await agent.received.next(AgentLine)
        os.kill(agent.process.pid, signal.SIGSTOP)
        await agent.process.kill()
        assert not (await agent.ended()).ok
        assert (await agent.received.next(Exited)).code < 0


async def test_a_continued_agent_ends_like_any_other(tmp_path: Path) -> None:
    async with session(Demo(), tmp_path) as agent:
        agent.process.prompt("/slow 60")
        await agent.received.next(AgentLine)
        os.kill(agent.process.pid, signal.SIGSTOP)
        await agent.process.kill()
        assert (await agent.ended()).interrupted
        assert (await agent.received.next(Exited)).code == 0


@pytest.mark.slow
@pytest.mark.parametrize("way", ["agent_kill", "the idle timeout", "the end of the server"])
async def test_other_agents_continue_and_the_stopped_one_can_be_ended(tmp_path: Path, way: str) -> None:
    roots = [tmp_path / "one", tmp_path / "two"]
    for root in roots:
        root.mkdir()
    idle = "1" if way == "the idle timeout" else "300"
    async with serving(tmp_path / "data", "--no-tls", "--allow", tmp_path, "--idle-timeout", idle) as server:
        async with connected(server) as client:
            project, run, process = await stopped(server, client, roots[0])
            other = (await client.ask("project_create", path=str(roots[1]), agent="demo", join=True))["project_id"]
            quick = (await client.ask("execute", other, prompt="/quick"))["data"]["run_id"]
            assert (await client.until("run_finished", run_id=quick))["outcome"] == "completed"
            if way == "agent_kill":
                await client.ask("agent_kill", project)
                assert (await client.until("run_finished", run_id=run))["outcome"] == "killed"
            elif way == "the idle timeout":
                assert (await client.until("run_finished", PATIENCE, run_id=run))["outcome"] == "timeout"
            else:
                code, output = await server.end()
                assert code == 0, output
        await until(lambda: not process.is_running(), "the end of the stopped process")
        if way != "the end of the server":
            async with connected(server) as client:
                await client.ask("project_join", project)
                again = (await client.ask("execute", project, prompt="/quick"))["data"]["run_id"]
                assert (await client.until("run_finished", run_id=again))["outcome"] == "completed"
