"""An agent that writes as fast as it can does not make the server's memory grow, however long it writes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psutil
import pytest

from drawbridge.agents.memory import MB
from tests.server.bad_claude import bad_claude, project
from tests.server.processes import Server, serving

FLAT = 24 * MB


async def grown(server: Server, seconds: float) -> int:
    """The largest growth of the server's resident memory within ``seconds`` seconds, in bytes. The measurement begins
    one second after the call.
    """
    process = psutil.Process(server.process.pid)
    await asyncio.sleep(1)
    first = largest = process.memory_info().rss
    for _ in range(int(seconds * 20)):
        await asyncio.sleep(0.05)
        largest = max(largest, process.memory_info().rss)
    return int(largest - first)


@pytest.mark.thorough
@pytest.mark.parametrize("seconds", [2, pytest.param(60, marks=[pytest.mark.slow, pytest.mark.timeout(300)])])
async def test_a_flood_of_output_does_not_use_up_the_servers_memory(tmp_path: Path, seconds: int) -> None:
    flags = [*bad_claude(tmp_path), "--max-history", "100000", "--max-data", "100000"]
    async with serving(tmp_path / "data", *flags) as server, server.client() as client, server.client() as stalled:
        id = await project(server, client)
        await stalled.ask("project_join", project_id=id)
        await client.ask("project_leave", project_id=id)
        stalled.connection.transport.pause_reading()
        began = (await client.ask("project_list"))["data"]["projects"][0]["message_count"]
        await client.ask("execute", {"prompt": "flood"}, id)
        growth = await grown(server, seconds)
        assert growth < FLAT, f"{growth // MB} MB"
        count = (await client.ask("project_list"))["data"]["projects"][0]["message_count"] - began
        assert count > 1_000 * seconds, "it was a flood"
        await client.ask("agent_kill", project_id=id)
        stalled.connection.transport.abort()
