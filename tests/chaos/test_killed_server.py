"""The server is killed with ``kill -9`` at random moments. Nothing that a client received is lost, nothing is received
twice, and every run ends once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
from websockets.exceptions import WebSocketException

from tests.waiting import until

from .rig import Follower, Mortal, connected, mortal, on_disk, same, seeded

PROMPTS = ("/lines 400", "/quick", "/lines 30", "Fix the typo", "/fail", "/crash", "/slow 1")


class AcceptedPrompt(NamedTuple):
    """A prompt that the server accepted."""

    prompt: str
    run_id: str


async def test_nothing_is_lost_when_the_server_is_killed(tmp_path: Path) -> None:
    await rounds(tmp_path, 2)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
async def test_nothing_is_lost_when_the_server_is_killed_200_times(tmp_path: Path) -> None:
    await rounds(tmp_path, 200)


async def rounds(directory: Path, count: int) -> None:
    data, root = directory / "data", directory / "root"
    root.mkdir()
    asked: dict[str, AcceptedPrompt] = {}
    with seeded() as random:
        async with mortal(data, "--allow", root) as server:
            assert await server.is_ready()
            async with connected(server) as client:
                project = (await client.ask("project_create", path=str(root), agent="demo"))["project_id"]
        follower = Follower(project)
        for _ in range(count):
            async with mortal(data, "--allow", root) as server:
                await one_life(server, follower, asked, random)
            check(data, follower)
        async with mortal(data, "--allow", root) as server:
            assert await server.is_ready()
            following = asyncio.create_task(follower.follow(server))
            async with connected(server) as client:
                await client.ask("project_join", project)
                await client.ask("execute", project, prompt="/quick", request_id="the last one")
                await client.until("run_finished", outcome="completed")
            await until(lambda: len(follower.seen) == len(on_disk(data, project)), "the last record")
            await server.kill()
            await following
        check(data, follower, asked)


async def one_life(server: Mortal, follower: Follower, asked: dict[str, AcceptedPrompt], random: Random) -> None:
    """Works with a server that was just started, and kills it at a random moment, possibly before it is ready."""
    working = asyncio.create_task(work(server, follower, asked, random))
    await asyncio.wait([working], timeout=random.choice([random.uniform(0, 0.5), random.uniform(0.5, 2.0)]))
    await server.kill()
    await working


async def work(server: Mortal, follower: Follower, asked: dict[str, AcceptedPrompt], random: Random) -> None:
    """Sends ten prompts, repeats up to three that were accepted before, and then waits until the server is killed.
    Adds the accepted prompts to ``asked``, by request id.
    """
    if not await server.is_ready():
        return
    following = asyncio.create_task(follower.follow(server))
    with contextlib.suppress(WebSocketException, OSError, EOFError):
        async with connected(server) as client:
            again = list(asked.items())[-3:]
            for number in range(10):
                request, prompt = f"r{len(asked)}", random.choice(PROMPTS)
                options = {"partial_messages": True}
                answer = await client.ask("execute", follower.project, request, prompt=prompt, options=options)
                if answer["type"] == "accepted":
                    asked[request] = AcceptedPrompt(prompt, answer["data"]["run_id"])
                if number < len(again):
                    known, (prompt, run_id) = again[number]
                    repeated = await client.ask("execute", follower.project, known, prompt=prompt)
                    assert repeated["data"]["run_id"] == run_id, "a request that was accepted was run again"
                await asyncio.sleep(random.uniform(0, 0.1))
            while True:
                await client.next(60)
    await following


def check(data: Path, follower: Follower, asked: dict[str, AcceptedPrompt] | None = None) -> None:
    """Checks that the records on disk have no gaps and match those that the follower has received so far. If ``asked``
    is given, which requires that all runs are over, also checks that each prompt was recorded and that each run ended
    once.
    """
    records = on_disk(data, follower.project)
    assert [record["seq"] for record in records] == list(range(1, len(records) + 1))
    assert len(records) >= len(follower.seen), "a client has received a record that is not on disk"
    assert all(map(same, records, follower.seen))
    if asked is None:
        return
    assert len(records) == len(follower.seen)
    begun = [one["message"] for one in records if one["direction"] == "client"]
    ends = Counter(
        one["message"]["message"]["run_id"]
        for one in records
        if one["direction"] == "server" and one["message"]["subtype"] == "run_finished"
    )
    assert ends == Counter(one["run_id"] for one in begun), "each run ends exactly once"
    kept = {one["request_id"]: one["run_id"] for one in begun if "request_id" in one}
    accepted = {request: run_id for request, (_, run_id) in asked.items()}
    assert accepted.items() <= kept.items(), "every accepted prompt is recorded"
