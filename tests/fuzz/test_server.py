"""Many bad clients attack a real agent server. It keeps running, leaks nothing, and serves good clients throughout.

``make test`` runs a short campaign, ``make slow`` a long one. A failing campaign reports its seed, which can be set in
``DRAWBRIDGE_TEST_SEED``.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from pathlib import Path
from random import Random

import psutil
import pytest

from tests import seeds
from tests.fuzz.server_attacks import ServerAttacker
from tests.server.processes import Server, files_apart_from_agents, serving
from tests.server.wire_client import WireClient
from tests.waiting import PATIENCE, until

ATTACKERS = 6
"""The number of parallel attackers."""

LONGEST_WAIT = PATIENCE
USUAL_WAIT, SLOWER = 1.0, 20
"""The limit for the median time of a good client's visit: ``USUAL_WAIT`` seconds plus ``SLOWER`` times the time of a
visit before the attacks. The attackers and their runs use the same cores.
"""
ENOUGH = 5
"""The number of visits that makes their median meaningful. On a busy machine, a short attack is repeated until then."""

MEMORY_GROWTH = 96 * 1024 * 1024


@pytest.mark.slow_for("400")
@pytest.mark.parametrize("attacks", [150, pytest.param(400, marks=pytest.mark.thorough)])
async def test_the_server_withstands_a_short_attack(tmp_path: Path, attacks: int) -> None:
    await besiege(tmp_path, attacks)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
async def test_the_server_withstands_a_long_attack(tmp_path: Path) -> None:
    await besiege(tmp_path, 20_000)


async def besiege(directory: Path, attacks: int) -> None:
    seed = seeds.seed()
    roots = directory / "roots"
    for name in ("good", "bad", "worse"):
        (roots / name).mkdir(parents=True)
    try:
        async with serving(directory / "data", "--no-tls", "--allow", roots, "--log-level", "warning") as besieged:
            await withstand(besieged, roots, attacks, seed)
            code, output = await besieged.end()
        assert code == 0, output
        assert "Traceback" not in output
        assert "never awaited" not in output
        assert "internal error" not in output
    except BaseException as error:
        error.add_note(f"DRAWBRIDGE_TEST_SEED={seed}")
        raise


async def withstand(besieged: Server, roots: Path, attacks: int, seed: int) -> None:
    process = psutil.Process(besieged.process.pid)
    async with besieged.client() as client:
        good = await created(client, roots / "good")
        await client.ask("project_join", project_id=good)
        bad = await created(client, roots / "bad")
        await siege(besieged, 60, seed - 1, [bad], roots)  # loads all modules and fills caches before the measurement
        visits, files = [], 0
        for _ in range(5):
            visits.append(await seconds_of_a_visit(besieged, client, good))
            files = max(files, files_apart_from_agents(process))  # files of a run may still be open for a moment
        calm, memory = statistics.median(visits), process.memory_info().rss
        waits: list[float] = []
        while len(waits) < ENOUGH:
            besieging = asyncio.create_task(siege(besieged, attacks, seed, [bad], roots))
            while not besieging.done():
                waits.append(await seconds_of_a_visit(besieged, client, good))
            await besieging
        assert max(waits) < LONGEST_WAIT
        assert statistics.median(waits) < USUAL_WAIT + SLOWER * calm
        await until(lambda: files_apart_from_agents(process) <= files + 8, "the end of all connections")
        assert process.memory_info().rss - memory < MEMORY_GROWTH
        seen = [message["seq"] for message in client.received if message.get("project_id") == good and "seq" in message]
        assert seen == list(range(1, len(seen) + 1))


async def created(client: WireClient, path: Path) -> str:
    answer = await client.ask("project_create", {"path": str(path), "agent": "demo"})
    return str(answer["project_id"])


async def siege(besieged: Server, attacks: int, seed: int, projects: list[str], roots: Path) -> None:
    port = int(besieged.url.rpartition(":")[2].partition("/")[0])

    async def one_after_the_other(attacker: ServerAttacker) -> None:
        for _ in range(attacks // ATTACKERS):
            await attacker.attack()

    attackers = [
        ServerAttacker(port, besieged.token, Random(f"{seed} {n}"), projects, str(roots / "worse"))
        for n in range(ATTACKERS)
    ]
    await asyncio.gather(*map(one_after_the_other, attackers))


async def seconds_of_a_visit(besieged: Server, client: WireClient, project: str) -> float:
    """Visits the server as a good client, on the open connection ``client`` and on a new one. Returns the seconds until
    all answers have arrived, without the time of the run.
    """
    before = time.perf_counter()
    assert (await client.ask("health_check"))["type"] == "health"
    answer = await client.ask("execute", {"prompt": "/quick"}, project)
    async with besieged.client() as newcomer:
        assert (await newcomer.ask("project_list"))["type"] == "project_list"
    took = time.perf_counter() - before
    if answer["type"] == "accepted":
        await client.receive("update", "run_finished", run_id=answer["data"]["run_id"])
    else:  # there were more visits than the rate limit allows
        assert answer["data"]["code"] == "RATE_LIMITED"
    return took
