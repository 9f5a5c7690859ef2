"""The statistics and health of the server and its descendants: every ten seconds to clients that follow them, and on
request."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import psutil

from drawbridge.server.app.clients import Clients
from drawbridge.server.protocol.messages import State, Stats
from drawbridge.server.protocol.replies import Health
from drawbridge.server.sessions.metrics import Metrics

EVERY_SECONDS: Final = 10.0

LOW_DISK: Final = 500 * 1024 * 1024
"""Free bytes on the disk with the data, below which health is "degraded"."""


class Monitor:
    """``states``: each project's. ``clients``: how many are connected. ``problems``: other problems, as sentences for people.
    ``subscriptions``: how many all clients have together.
    """

    def __init__(
        self,
        data: Path,
        version: str,
        states: Callable[[], Mapping[str, State]],
        clients: Callable[[], int],
        problems: Callable[[], list[str]] = list,
        subscriptions: Callable[[], int] = int,
        metrics: Metrics | None = None,
    ) -> None:
        self._data = data
        self._version = version
        self._states = states
        self._clients = clients
        self._problems = problems
        self._subscriptions = subscriptions
        self.metrics = metrics or Metrics()
        self._began = time.monotonic()
        self._process = psutil.Process()
        self._used: dict[tuple[int, float], float] = {}
        self._looked = time.monotonic()

    async def run(self, clients: Clients) -> None:
        """Sends statistics until it is cancelled. Nothing is measured while no client follows them."""
        while True:
            if clients.follows("stats"):
                cpu, memory = await asyncio.to_thread(self._measure)
                states = self._states()
                stats = Stats(len(states), self._clients(), dict(states), cpu, memory)
                clients.send_stats(stats)
            await asyncio.sleep(EVERY_SECONDS)

    def health(self) -> Health:
        free = shutil.disk_usage(self._data).free
        low = ["The disk is nearly full: less than 500 MB are free."] if free < LOW_DISK else []
        problems = low + self._problems()
        states = self._states()
        return Health(
            status="degraded" if problems else "ok",
            version=self._version,
            uptime_seconds=int(time.monotonic() - self._began),
            clients=self._clients(),
            projects=len(states),
            running=sum(state == "EXECUTING" for state in states.values()),
            disk_free_mb=free // (1024 * 1024),
            problems=problems,
            subscriptions=self._subscriptions(),
            runs=self.metrics.shown(),
        )

    def _measure(self) -> tuple[float, int]:
        """CPU use in percent of one core since the last call, and resident memory in MB, of the server and its descendants."""
        used: dict[tuple[int, float], float] = {}
        memory = 0
        with contextlib.suppress(psutil.Error):
            for process in [self._process, *self._process.children(recursive=True)]:
                with contextlib.suppress(psutil.Error), process.oneshot():
                    times = process.cpu_times()
                    used[process.pid, process.create_time()] = times.user + times.system
                    memory += process.memory_info().rss
        now = time.monotonic()
        # A new process counts from its start; one that has ended is not counted.
        spent = sum(seconds - self._used.get(which, 0.0) for which, seconds in used.items()) if self._used else 0.0
        percent = round(100 * spent / max(now - self._looked, 0.001), 1)
        self._used, self._looked = used, now
        return percent, memory // (1024 * 1024)
