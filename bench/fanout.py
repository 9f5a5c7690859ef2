"""An agent's line to many clients, compared in one run with Node.js's ``ws`` and with bare writes of the same bytes."""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.rig import ROOT
from drawbridge.server.auth.tls import own_certificate
from drawbridge.server.protocol.frames import agent_message

PROGRAMS = ROOT / ".cache" / "programs"
BYTES = 725
"""The size of a frame's message, in bytes: about the size of a typical line from an agent."""

ROUNDS = 3
FRAMES = 2_000

Row = Callable[[str, str, str], None]


class Run:
    """The result of one server with its clients in another process: the CPU time for each delivered frame, and how long
    delivery took (``p50`` and ``p99``, in milliseconds; 0 if not measured)."""

    def __init__(self, cpu: float, frames: int, clients: int, took: dict[str, float]) -> None:
        self.cost = cpu / frames / clients * 1e6
        """Microseconds of CPU for each frame to each client."""
        self.p50, self.p99 = took.get("p50", 0.0), took.get("p99", 0.0)


async def run(what: str, clients: int, frames: int, turn: int, *tls: str) -> Run:
    """Runs one server, which sends 1,000 frames per second to each of its clients, ``turn`` frames at a time."""
    pause = turn
    size = BYTES - overhead() if what.startswith("ours") else BYTES
    numbers = [str(number) for number in (clients, frames, size, turn, pause)]
    if what == "node":
        command = [
            str(PROGRAMS / "node" / "node"),
            str(ROOT / "bench" / "broadcast.js"),
            str(PROGRAMS / "ws"),
            *numbers,
        ]
    else:
        side, _, loop = what.partition(" ")
        command = [sys.executable, "-m", "bench.broadcast", side, loop or "uvloop", *numbers, *tls]
    server = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, cwd=ROOT)
    ready = await line_of(server)
    hello = {"type": "project_join", "project_id": ready.get("project")} if "project" in ready else None
    listening = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.listeners", str(ready["port"]), str(clients)),
        *(json.dumps(hello) if hello else "", *tls[:1]),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    used = await line_of(server)
    took = await line_of(listening)
    await asyncio.gather(server.wait(), listening.wait())
    return Run(used["cpu"], frames, clients, took)


async def line_of(process: asyncio.subprocess.Process) -> dict[str, Any]:
    assert process.stdout is not None
    async with asyncio.timeout(120):
        found: dict[str, Any] = json.loads(await process.stdout.readline())
    return found


def overhead() -> int:
    """The number of bytes that our message adds to an agent's line."""
    at = "2026-01-01T00:00:00.000000Z"
    return len(agent_message(b"", project_id="p" * 21, session_id="", seq=1_000, timestamp=at))


async def rows(row: Row, directory: Path) -> None:
    made = own_certificate(directory / "tls", ["localhost", "127.0.0.1"])
    tls = str(made.certificate), str(made.key)
    for label, turn, goal in (("one frame per turn", 1, "<= 0.6 x"), ("saturated, 20 per turn", 20, "<= 0.3 x")):
        kinds: dict[str, list[float]] = {"node": [], "bare": [], "ours": [], "ours asyncio": [], "ours TLS": []}
        for _ in range(ROUNDS):
            for kind, costs in kinds.items():
                secured = tls if kind == "ours TLS" else ()
                costs.append((await run(kind.removesuffix(" TLS"), 100, FRAMES, turn, *secured)).cost)
        cost = {kind: statistics.median(costs) for kind, costs in kinds.items()}
        what = f"fan-out to 100, {label}: CPU a frame, against Node ws"
        row(what, f"{cost['ours']:.2f} us, {cost['ours'] / cost['node']:.2f} x", goal)
        others = f"ws {cost['node']:.2f}, bare writes {cost['bare']:.2f}, asyncio {cost['ours asyncio']:.2f}"
        row("  beside it (us)", f"{others}, TLS {cost['ours TLS']:.2f}", "")


async def latency(row: Row) -> None:
    """Measures the latency at 1,000 messages per second. Each p99 is the median of several runs, because a single delay
    can determine it."""
    ours = [await run("ours", 2, 3_000, 1) for _ in range(ROUNDS)]
    p50, p99 = (statistics.median(getattr(one, name) for one in ours) for name in ("p50", "p99"))
    row("routing at 1,000 messages/s to 2 clients (p50, p99)", f"{p50:.2f}, {p99:.2f} ms", "p99 <= 2 ms")
    pairs = [(await run("ours", 100, 3_000, 1), await run("bare", 100, 3_000, 1)) for _ in range(ROUNDS)]
    p99 = statistics.median(one.p99 for one, _ in pairs)
    ratio = statistics.median(one.p99 / other.p99 for one, other in pairs)
    row("routing to 100 clients (p99, against bare writes)", f"{p99:.2f} ms, {ratio:.2f} x", "<= 1.5 x")
