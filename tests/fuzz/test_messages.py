"""A million messages, most of them invalid, are sent to a real server. None crashes it, and its memory hardly grows.

``make test`` sends 2,000 of them, and ``make slow`` all. A failing campaign reports its seed
(``DRAWBRIDGE_TEST_SEED``).
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import psutil
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.chaos.rig import seeded
from tests.fuzz.server_attacks import ServerAttacker
from tests.server.processes import Server, serving

BATCH = 100
"""The number of messages that are sent before their answers are read."""

NOISE = ["", "\x00", '"', "{", "}", "[" * 200, "\u2028", "1e999"]

MEMORY_GROWTH = 48 * 1024 * 1024


@pytest.mark.parametrize(
    "count", [2_000, pytest.param(1_000_000, marks=[pytest.mark.slow, pytest.mark.timeout(3_000)])]
)
async def test_no_message_crashes_the_server(tmp_path: Path, count: int) -> None:
    (tmp_path / "root").mkdir()
    flags = ("--no-tls", "--allow", tmp_path / "root", "--log-level", "warning")
    with seeded() as random:
        async with serving(tmp_path / "data", *flags) as server:
            process = psutil.Process(server.process.pid)
            await campaign(server, random, 1_000)  # loads all modules before the measurement
            before = process.memory_info().rss
            await campaign(server, random, count)
            assert process.memory_info().rss - before < MEMORY_GROWTH
            code, output = await server.end()
        assert (code, "Traceback" in output, "internal error" in output) == (0, False, False), output[-2_000:]


async def campaign(server: Server, random: Random, count: int) -> None:
    """Sends ``count`` messages, none of which is for an existing project. ``test_server`` tests messages
    that start runs.
    """
    attacker = ServerAttacker(0, server.token, random, ["proj_0123456789abcdef"], "/nowhere")
    sent = 0
    while sent < count:
        async with connect(
            server.url, additional_headers={"Authorization": f"Bearer {server.token}"}, proxy=None
        ) as socket:
            try:
                while sent < count:
                    await batch(socket, [damaged(attacker._message(), random) for _ in range(BATCH)], sent)
                    sent += BATCH
            except ConnectionClosed:  # some messages end the connection, with a reason in the close frame
                assert socket.close_code not in (None, 1006, 1011), (
                    "the connection ended abnormally or with an internal error"
                )
                sent += BATCH


async def batch(socket: ClientConnection, messages: list[str], number: int) -> None:
    for message in messages:
        await socket.send(message)
    last = f"after {number}"
    await socket.send(json.dumps({"type": "health_check", "request_id": last}))
    while json.loads(await socket.recv()).get("request_id") != last:
        pass


def damaged(message: bytes, random: Random) -> str:
    text = message.decode("utf-8", "replace")
    if random.random() < 0.5:
        return text
    at = random.randrange(len(text))
    return text[:at] + random.choice(NOISE) + text[at + random.randrange(3) :]
