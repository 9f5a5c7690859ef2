"""Compares a project's history with the least work that could replace it.

``python -m bench.history`` takes about a minute and 1.5 GB.

Appending is compared within the same run with a bare ``os.write`` of the same bytes, and reading with ``json.loads`` of
every line. The other rows are absolute times.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from drawbridge.server.store.log import History
from drawbridge.server.store.syncing import FsyncPolicy

LINE = json.dumps(
    {
        "type": "assistant",
        "message": {"role": "assistant", "content": [{"type": "text", "text": "what an agent says " * 24}]},
        "session_id": "5b1a3f0e-7b1c-4f5e-9a53-1f2d3c4b5a69",
    }
).encode()


def row(what: str, value: str, goal: str = "") -> None:
    print(f"{what:<62} {value:>34}   {goal}", flush=True)


def timed(act: Callable[[], object]) -> float:
    """How long ``act`` takes, in milliseconds."""
    began = time.perf_counter()
    act()
    return (time.perf_counter() - began) * 1000


def spread(act: Callable[[], object], times: int) -> tuple[float, float]:
    """Median and p99, in milliseconds."""
    taken = sorted(timed(act) for _ in range(times))
    return statistics.median(taken), taken[int(times * 0.99)]


def appending(directory: Path) -> None:
    yardstick = os.open(directory / "bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    bare = spread(lambda: os.write(yardstick, LINE + b"\n"), 20_000)
    os.close(yardstick)
    row(f"history: bare os.write of {len(LINE) + 1} bytes (p50, p99)", microseconds(bare))
    policies: tuple[FsyncPolicy, ...] = ("off", "second", "always")
    for policy in policies:
        history = History.open(directory / policy, fsync=policy)
        took = spread(partial(history.append, "claude", LINE), 500 if policy == "always" else 20_000)
        row(
            f"history: append in a burst, fsync {policy} (p50, p99)",
            f"{microseconds(took)}, {took[0] / bare[0]:.0f} x it",
        )
        waits = sorted(at_a_thousand_a_second(history, seconds=5))
        p50, p99, longest = waits[len(waits) // 2], waits[int(len(waits) * 0.99)], waits[-1]
        detail = f"{p50 * 1000:.0f} us, {p99:.2f} ms, {longest:.1f} ms"
        row(f"history: append at 1,000/s, fsync {policy} (p50, p99, longest)", detail, "p99 <= 10 ms")
        history.close()


def at_a_thousand_a_second(history: History, seconds: int) -> Iterator[float]:
    """How long each append took, in milliseconds. Unlike in a burst, the disk has time to write between appends."""
    due = time.perf_counter()
    for _ in range(seconds * 1_000):
        yield timed(partial(history.append, "claude", LINE))
        due += 0.001
        time.sleep(max(0.0, due - time.perf_counter()))


def microseconds(took: tuple[float, float]) -> str:
    return f"{took[0] * 1000:.1f}, {took[1] * 1000:.0f} us"


def filled(directory: Path, count: int, message: bytes) -> None:
    history = History.open(directory, fsync="off")
    for _ in range(count):
        history.append("claude", message)
    history.close()


def lines(directory: Path) -> Iterator[bytes]:
    for path in sorted(directory.glob("messages_*")):
        with path.open("rb") as file:
            yield from file


def reading(directory: Path) -> None:
    filled(directory, 1_000_000, LINE)
    history = History.open(directory)
    middle = history.read(after_seq=500_000, limit=1).records[0]

    def bare() -> None:
        found = [line for line in lines(directory) if json.loads(line)["seq"] > 500_000][:1_000]
        assert len(found) == 1_000

    whole = timed(bare)
    cursors: dict[str, dict[str, Any]] = {
        "after a number": {"after_seq": 500_000},
        "before a number": {"before_seq": 500_000},
        "since a time": {"since": middle.time},
        "the last": {"before_seq": 2_000_000},
    }
    for what, cursor in cursors.items():
        read = partial(history.read, **cursor)
        assert len(read().records) == 1_000
        p50, p99 = spread(read, 100)
        detail = f"{p50:.1f}, {p99:.1f} ms, {whole / p50:,.0f} x faster"
        row(f"history: 1,000 of 1,000,000, {what} (p50, p99, bare json)", detail, "<= 10 ms")
    row("history: open 1,000,000", f"{spread(lambda: History.open(directory), 30)[0]:.1f} ms")
    (directory / "index.json").unlink()
    row("history: open 1,000,000 without an index", f"{timed(lambda: History.open(directory)) / 1000:.1f} s")
    shutil.rmtree(directory)


def projects(directory: Path) -> None:
    """Opens a hundred projects. Their files are links to one project's files, because opening does not read the
    records."""
    template = directory / "0"
    filled(template, 100_000, LINE)
    for number in range(1, 100):
        shutil.copytree(template, directory / str(number), copy_function=os.link, symlinks=True)
    gc.collect()
    histories: list[History] = []

    def open_one(number: int) -> None:
        histories.append(History.open(directory / str(number)))

    took = [timed(partial(open_one, number)) for number in range(100)]
    detail = f"{sum(took):.0f} ms, {max(took):.2f} ms"
    row("history: open 100 projects of 100,000 (all, slowest)", detail, "each well under 10 ms")

    def stats() -> list[tuple[int, int, datetime | None, datetime | None]]:
        return [(each.last_seq, each.count, each.first_time, each.last_time) for each in histories]

    p50, p99 = spread(stats, 200)
    row("history: stats of 100 projects of 100,000 (p50, p99)", f"{p50:.2f}, {p99:.2f} ms", "list <= 5 ms")


def after_a_crash(directory: Path) -> None:
    """Opens the history of a server that was killed at the worst moment: the next record would have saved the index."""
    history = History.open(directory, fsync="off")
    for _ in range(100_999):
        history.append("claude", LINE)
    index = (directory / "index.json").read_bytes()

    def restart() -> None:
        (directory / "index.json").write_bytes(index)
        assert History.open(directory).last_seq == 100_999

    row("history: open 100,000 after kill -9, 999 not in the index", f"{spread(restart, 30)[0]:.1f} ms", "<= 10 ms")
    history.close()


def main() -> None:
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} cores, {datetime.now(UTC):%Y-%m-%d}")
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for measure in (appending, projects, after_a_crash, reading):
            (directory / measure.__name__).mkdir()
            measure(directory / measure.__name__)


if __name__ == "__main__":
    main()
