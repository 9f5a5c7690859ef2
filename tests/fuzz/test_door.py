"""Many bad peers attack a real bridge. It keeps running, leaks nothing, and serves a good peer throughout.

``make test`` runs a short campaign, ``make slow`` a long one. A failing campaign reports its seed, which can be set in
``DRAWBRIDGE_TEST_SEED``.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from pathlib import Path
from random import Random
from typing import Any

import psutil
import pytest
from websockets.asyncio.client import ClientConnection

from tests import seeds
from tests.fuzz.attacks import Attacker
from tests.ide.gemini.rig import Cli
from tests.ide.processes import Bridge, bridge
from tests.waiting import PATIENCE, until

ATTACKERS = 6
"""The number of parallel attackers."""

LONGEST_WAIT = PATIENCE
USUAL_WAIT, SLOWER = 0.5, 20
"""The limit for the median time of a good peer's visit: ``USUAL_WAIT`` seconds plus ``SLOWER`` times the time of a
visit before the attacks. A visit takes a few milliseconds on an idle machine, but the attackers use the same cores.
"""
ENOUGH = 5
"""The number of visits that makes their median meaningful. On a busy machine, a short attack is repeated until then."""

MEMORY_GROWTH = 64 * 1024 * 1024


@pytest.mark.slow_for("600")
@pytest.mark.parametrize("attacks", [200, pytest.param(600, marks=pytest.mark.thorough)])
async def test_the_bridge_withstands_a_short_attack(tmp_path: Path, attacks: int) -> None:
    await besiege(tmp_path, attacks)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
async def test_the_bridge_withstands_a_long_attack(tmp_path: Path) -> None:
    await besiege(tmp_path, 30_000)


async def besiege(folder: Path, attacks: int) -> None:
    seed = seeds.seed()
    log = folder / "bridge.log"
    try:
        async with bridge(
            "--folder", folder, "--decide", "reject", "--log-level", "info", "--log-file", log
        ) as besieged:
            await withstand(besieged, folder / "poem.txt", attacks, seed)
            code, printed = await besieged.end()
        assert code == 0
        assert not besieged.lock.exists()
        for text in (printed, log.read_text()):
            assert "Traceback" not in text
            assert "never awaited" not in text
    except BaseException as error:
        error.add_note(f"DRAWBRIDGE_TEST_SEED={seed}")
        raise


async def withstand(besieged: Bridge, path: Path, attacks: int, seed: int) -> None:
    process = psutil.Process(besieged.process.pid)
    await siege(besieged, 100, seed - 1)  # loads all modules and fills caches before the measurement
    async with besieged.dial() as client:
        calm = statistics.median([await seconds_of_a_visit(besieged, client, path) for _ in range(5)])
        files, memory = process.num_fds(), process.memory_info().rss
        waits: list[float] = []
        while len(waits) < ENOUGH:
            besieging = asyncio.create_task(siege(besieged, attacks, seed))
            while not besieging.done():
                waits.append(await seconds_of_a_visit(besieged, client, path))
            await besieging
        assert max(waits) < LONGEST_WAIT
        assert statistics.median(waits) < USUAL_WAIT + SLOWER * calm
        await until(lambda: process.num_fds() <= files, "the end of all connections")
        assert process.memory_info().rss - memory < MEMORY_GROWTH


async def siege(besieged: Bridge, attacks: int, seed: int) -> None:
    async def one_after_the_other(attacker: Attacker) -> None:
        for _ in range(attacks // ATTACKERS):
            await attacker.attack()

    attackers = [Attacker(besieged.port, besieged.token, Random(f"{seed} {n}")) for n in range(ATTACKERS)]
    await asyncio.gather(*map(one_after_the_other, attackers))


async def seconds_of_a_visit(besieged: Bridge, client: ClientConnection, path: Path) -> float:
    """Visits the bridge as a good peer, on the open connection ``client`` and on new ones. Returns the seconds until
    all answers have arrived.
    """
    before = time.perf_counter()
    diff = {"old_file_path": str(path), "new_file_path": str(path), "new_file_contents": "x\n", "tab_name": "t"}
    assert await call(client, "openDiff", **diff) == ["DIFF_REJECTED", "t"]
    async with besieged.dial() as newcomer:
        assert await call(newcomer, "getOpenEditors") == ['{"tabs":[]}']
    cli = await Cli(besieged.port, besieged.token).greet()
    async with await cli.listen() as stream:
        await cli.open_diff(str(path), "x\n")
        assert await stream.receive("ide/diffRejected") == {"filePath": str(path)}
        await cli.delete()
    return time.perf_counter() - before


async def call(client: ClientConnection, tool: str, **arguments: Any) -> list[str]:
    request = {"jsonrpc": "2.0", "id": 0, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    await client.send(json.dumps(request))
    async with asyncio.timeout(PATIENCE):
        answer = json.loads(await client.recv())
    return [item["text"] for item in answer["result"]["content"]]
