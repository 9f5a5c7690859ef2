"""Measures the guard and the bridge. ``python -m bench.bridge`` takes about two minutes, and needs what ``make
programs`` fetches."""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path

import psutil
from tests.ide.gemini.rig import Cli
from tests.programs import nvim, nvim_version

from bench import guard
from bench.rig import Agent, BridgedNeovim, ready_line, start_bridge

ROUNDS = 15


def row(what: str, value: str, goal: str) -> None:
    print(f"{what:<62} {value:>28}   {goal}", flush=True)


async def start_ratio(directory: Path) -> None:
    """Measures the time from process start until the lock file is on disk, alternating with the bare interpreter."""
    bare, ours = [], []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        process = await asyncio.create_subprocess_exec(sys.executable, "-I", "-c", "pass")
        await process.wait()
        bare.append(time.perf_counter() - began)
        began = time.perf_counter()
        process = await start_bridge(directory, "--folder", str(directory))
        ready = await ready_line(process.stdout)
        ours.append(time.perf_counter() - began)
        assert os.path.exists(ready["lock_file"])
        process.terminate()
        await process.wait()
    ratio = statistics.median(ours) / statistics.median(bare)
    detail = f"{ratio:.1f} x ({statistics.median(ours) * 1000:.0f} ms)"
    row("bridge: start -> lock file, against python -I -c pass", detail, "<= 10 x")


async def memory(rig: BridgedNeovim) -> None:
    rss = psutil.Process(rig.bridge.pid).memory_info().rss / 1e6
    row("bridge: memory at rest, one agent connected", f"{rss:.0f} MB", "<= 45 MB")


async def selection_latency(rig: BridgedNeovim, agent: Agent) -> None:
    """Measures the time from a key to the frame, minus the debounce in Neovim, as the median of three runs, because a
    single delay can determine a p99."""
    await rig.edit("lines.txt", "".join(f"line {number}\n" for number in range(500)))
    await agent.settle()
    middles, tails = [], []
    for run in range(3):
        delays = []
        for number in range(100):
            began = time.perf_counter()
            await rig.keys("j")
            await agent.notification("selection_changed", line=run * 100 + number + 1)
            delays.append((time.perf_counter() - began) * 1000 - rig.debounce_ms)
        middles.append(statistics.median(delays))
        tails.append(sorted(delays)[98])
    detail = f"{statistics.median(middles):.1f}, {statistics.median(tails):.1f} ms"
    row("selection: key -> frame, beyond the debounce (p50, p99)", detail, "p99 <= 5 ms")


async def context_latency(rig: BridgedNeovim) -> None:
    """Measures the time from a key to Gemini CLI's event, minus the debounce. In that time, the bridge asks Neovim
    which files are open."""
    cli = await Cli(rig.port, rig.token).greet()
    async with await cli.listen() as stream:
        await stream.files()
        delays = []
        for number in range(60):
            began = time.perf_counter()
            await rig.keys("k" if number % 2 else "j")
            await stream.files()
            delays.append((time.perf_counter() - began) * 1000 - rig.debounce_ms)
    row("context: key -> event, beyond the debounce (p50, p99)", percentiles(delays), "p99 <= 10 ms")


async def memory_of_sessions(rig: BridgedNeovim, number: int) -> None:
    process = psutil.Process(rig.bridge.pid)
    before = process.memory_info().rss
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(number):
            cli = await Cli(rig.port, rig.token).greet()
            stream = await stack.enter_async_context(await cli.listen())
            await stream.files()
        after = process.memory_info().rss
    detail = f"{after / 1e6:.0f} MB (+{(after - before) / 1e6:.1f})"
    row(f"bridge: memory with {number} sessions of Gemini CLI", detail, "<= 45 MB")


def percentiles(delays: list[float]) -> str:
    p99 = sorted(delays)[int(len(delays) * 0.99)]
    return f"{statistics.median(delays):.1f}, {p99:.1f} ms"


async def open_diff(rig: BridgedNeovim, agent: Agent, label: str, lines: int, changed: float) -> None:
    """Measures the time from the agent's frame to the view on the screen, while another connection measures how long
    Neovim is blocked. Each of the three rounds first measures how long Neovim alone takes to open the same file and to
    put the proposed text into a buffer."""
    old = [f"line {number} of a file that an agent wants to change\n" for number in range(lines)]
    step = max(1, int(1 / changed))
    new = [line.upper() if number % step == 0 else line for number, line in enumerate(old)]
    path = rig.directory / "big.txt"
    path.write_text("".join(old))
    shown, blocked, bare = [], [], []
    for _ in range(3):
        bare.append(await rig.open_and_fill(path, new) * 1000)
        watch = asyncio.create_task(rig.longest_round_trip())
        began = time.perf_counter()
        call = agent.open_diff(path, "".join(new))
        await rig.shown()
        shown.append((time.perf_counter() - began) * 1000)
        await asyncio.sleep(0.5)  # what Neovim draws afterwards counts, too
        watch.cancel()
        blocked.append(await watch)
        await rig.reject()
        await agent.answer(call)
    size = sum(map(len, old))
    what = f"openDiff {label} ({size / 1e6:.3g} MB, {len(range(0, lines, step))} hunks): shown, longest block"
    row(what, f"{statistics.median(shown):.0f} ms, {statistics.median(blocked):.0f} ms", "<= 150 ms, <= 50 ms")
    ratio = f"{statistics.median(shown) / statistics.median(bare):.1f} x ({statistics.median(bare):.0f} ms)"
    row("  against Neovim: open the file, fill a buffer with the text", ratio, "no goal")
    rss = psutil.Process(rig.bridge.pid).memory_info().rss / 1e6
    row("  the bridge's memory afterwards", f"{rss:.0f} MB", "<= 60 MB")


async def main() -> None:
    binary = nvim()
    version = ".".join(map(str, nvim_version(binary)))
    print(f"Python {platform.python_version()}, Neovim {version}, {os.cpu_count()} cores, {time.strftime('%Y-%m-%d')}")
    guard.rows(binary, row)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        await start_ratio(directory)
        async with BridgedNeovim(binary, directory) as rig, Agent(rig.port, rig.token) as agent:
            await memory(rig)
            await memory_of_sessions(rig, 10)
            await selection_latency(rig, agent)
            await context_latency(rig)
            await open_diff(rig, agent, "1 kB", 20, 0.1)
            await open_diff(rig, agent, "1 MB, 1 %", 20_000, 0.01)
            await open_diff(rig, agent, "5 MB, 10 lines", 100_000, 0.0001)
            await open_diff(rig, agent, "5 MB, 1 %", 100_000, 0.01)
            await open_diff(rig, agent, "5 MB, rewritten", 100_000, 1)


if __name__ == "__main__":
    asyncio.run(main())
