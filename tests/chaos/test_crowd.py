"""Many clients follow many projects, and one of the clients has stopped reading. The others are served, and memory
stays bounded.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from pathlib import Path

import psutil
import pytest
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect as visit

from tests.server.processes import Server, files_apart_from_agents, serving
from tests.waiting import until

from .rig import Client, connected, on_disk

MB = 1024 * 1024


async def test_a_few_clients_follow_a_few_projects(tmp_path: Path) -> None:
    await crowd(tmp_path, clients=20, projects=5, lines=300, growth=64 * MB)


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_two_hundred_clients_follow_fifty_projects(tmp_path: Path) -> None:
    await crowd(tmp_path, clients=200, projects=50, lines=300, growth=192 * MB)


async def crowd(directory: Path, clients: int, projects: int, lines: int, growth: int) -> None:
    """Each client follows each project. In each project, an agent writes ``lines`` lines. The server's memory may grow
    by ``growth`` bytes.
    """
    arguments = ("--no-tls", "--allow", directory, "--max-runs", "4", "--log-level", "error", "--max-prompts", "10000")
    async with serving(directory / "data", *arguments) as server, contextlib.AsyncExitStack() as stack:
        owner = await stack.enter_async_context(connected(server))
        made = []
        for number in range(projects):
            (directory / f"p{number}").mkdir()
            answer = await owner.ask("project_create", path=str(directory / f"p{number}"), agent="demo")
            made.append(str(answer["project_id"]))
        stalled = await stack.enter_async_context(connected(server))
        await join(stalled, made)
        stalled.connection.transport.pause_reading()
        listeners = [await stack.enter_async_context(connected(server)) for _ in range(clients - 1)]
        await asyncio.gather(*(join(one, made) for one in listeners))
        memory = psutil.Process(server.process.pid).memory_info().rss

        over = threading.Event()
        visiting = asyncio.create_task(asyncio.to_thread(visits, server, over))
        hearing = [asyncio.create_task(received_records(one, made)) for one in listeners]
        for project in made:
            await owner.ask("execute", project, prompt=f"/lines {lines}")
        try:
            seqs = [await task for task in hearing]
        finally:
            over.set()
        waits = await visiting

        for project in made:
            records = on_disk(server.data, project)
            assert all(seen[project] == list(range(1, len(records) + 1)) for seen in seqs)
        assert max(waits) < 5, "a request had to wait for the client that has stopped reading"
        assert psutil.Process(server.process.pid).memory_info().rss - memory < growth
        assert (await owner.ask("health_check"))["data"]["status"] in ("ok", "degraded")
        stalled.connection.transport.abort()


async def join(client: Client, projects: list[str]) -> None:
    for project in projects:
        await client.ask("project_join", project)


async def received_records(client: Client, projects: list[str]) -> dict[str, list[int]]:
    """Returns the ``seq`` of each record that a client receives, by project, until all projects' runs are over."""
    seen: dict[str, list[int]] = {project: [] for project in projects}
    running = set(projects)
    async with asyncio.timeout(600):
        while running:
            message = json.loads(await client.connection.recv())
            if "seq" in message:
                seen[message["project_id"]].append(message["seq"])
                if message["type"] == "update" and message["data"]["update_type"] == "run_finished":
                    running.discard(message["project_id"])
    return seen


def visits(server: Server, over: threading.Event) -> list[float]:
    """Sends requests until ``over`` is set, but at least five. Returns how many seconds each took. Runs in its own
    thread, because the event loop's thread is busy receiving.
    """
    waits: list[float] = []
    headers = {"Authorization": f"Bearer {server.token}"}
    with visit(server.url, additional_headers=headers, proxy=None) as client:
        while len(waits) < 5 or not over.is_set():
            before = time.perf_counter()
            client.send('{"type": "project_list", "request_id": "visit"}')
            while json.loads(client.recv(timeout=120)).get("request_id") != "visit":
                pass
            waits.append(time.perf_counter() - before)
            over.wait(0.05)
    return waits


@pytest.mark.slow
async def test_memory_stays_flat_for_a_moment(tmp_path: Path) -> None:
    await stay_flat(tmp_path, seconds=1)


@pytest.mark.slow
@pytest.mark.timeout(1_200)
async def test_memory_stays_flat_for_ten_minutes(tmp_path: Path) -> None:
    await stay_flat(tmp_path, seconds=600)


async def stay_flat(directory: Path, seconds: float) -> None:
    """Keeps four projects busy while clients connect and disconnect. Checks that open files and memory hardly grow
    after the warm-up.
    """
    arguments = ("--no-tls", "--allow", directory, "--log-level", "error", "--max-prompts", "10000")
    async with serving(directory / "data", *arguments) as server:
        process = psutil.Process(server.process.pid)
        await load(server, directory, "warm", max(0.5, seconds / 10))
        files, memory = files_apart_from_agents(process), process.memory_info().rss
        await load(server, directory, "long", seconds)
        assert process.memory_info().rss - memory < 24 * MB
        await until(lambda: files_apart_from_agents(process) <= files + 16, "the end of all connections")


async def load(server: Server, directory: Path, name: str, seconds: float) -> None:
    end = time.monotonic() + seconds

    async def one(number: int) -> None:
        root = directory / f"{name}{number}"
        root.mkdir()
        async with connected(server) as client:
            project = (await client.ask("project_create", path=str(root), agent="demo"))["project_id"]
        while time.monotonic() < end:
            with contextlib.suppress(WebSocketException):
                async with connected(server) as client:
                    await client.ask("project_join", project)
                    for prompt in ("/lines 200", "/quick", "/lines 20"):
                        run = (await client.ask("execute", project, prompt=prompt))["data"]["run_id"]
                        await client.until("run_finished", run_id=run)
                    await client.ask("get_messages", project, limit=500, before_seq=2**40)

    await asyncio.gather(*map(one, range(4)))
