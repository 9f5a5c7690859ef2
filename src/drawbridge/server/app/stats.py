"""Measures the server: its health on request, statistics every ten seconds for clients that follow them, and metrics
for Prometheus on a separate port of the loopback interface, without a token.

The metrics do not contain the names of projects or clients, or any paths.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from itertools import accumulate
from pathlib import Path
from typing import Final

import psutil
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from drawbridge.protocols.gate import LOOPBACK_HOSTS, Head, Refusal, check_place
from drawbridge.server.app.clients import Clients
from drawbridge.server.protocol.messages import State, Stats
from drawbridge.server.protocol.replies import Health
from drawbridge.server.sessions.disk import LOW_FREE
from drawbridge.server.sessions.runs.metrics import BOUNDS, Metrics
from drawbridge.transport.http_server import Exchange, HttpServer, Peer, ServerOptions, WebSocket

EVERY_SECONDS: Final = 10.0


class ServerMonitor:
    """Measures the server. ``states`` returns each project's state, ``clients`` the number of connected clients,
    ``problems`` the problems of other parts as human-readable sentences, and ``subscriptions`` the number of all
    clients' subscriptions.
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
        self._used: dict[psutil.Process, float] = {}
        self._measured_at = time.monotonic()

    async def report(self, clients: Clients) -> None:
        """Sends the statistics to the clients that follow them. If no client does, nothing is measured."""
        if clients.follows("stats"):
            cpu, memory = await asyncio.to_thread(self._measure)
            states = self._states()
            stats = Stats(len(states), self._clients(), dict(states), cpu, memory)
            clients.send_stats(stats)

    def health(self) -> Health:
        free = shutil.disk_usage(self._data).free
        low = ["The disk is nearly full: less than 500 MB is free."] if free < LOW_FREE else []
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
        """CPU use in percent of one core since the last call (0 in the first one), and resident memory in MB, of the
        server's process tree."""
        used: dict[psutil.Process, float] = {}
        memory = 0
        with contextlib.suppress(psutil.Error):
            for process in [self._process, *self._process.children(recursive=True)]:
                with contextlib.suppress(psutil.Error), process.oneshot():
                    times = process.cpu_times()
                    used[process] = times.user + times.system
                    memory += process.memory_info().rss
        now = time.monotonic()
        # The time of a new process counts from its start. A process that has ended is not counted.
        spent = sum(seconds - self._used.get(which, 0.0) for which, seconds in used.items()) if self._used else 0.0
        percent = round(100 * spent / max(now - self._measured_at, 0.001), 1)
        self._used, self._measured_at = used, now
        return percent, memory // (1024 * 1024)


METRICS_HOST: Final = "127.0.0.1"
METRICS_PATH: Final = "/metrics"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

NOT_HERE: Final = Refusal(404, "Not found. Only GET /metrics is available here.")

GAUGES: Final = {
    "uptime_seconds": "Seconds since the server started.",
    "clients": "Connected clients.",
    "subscriptions": "Subscriptions of all clients to projects, terminal sessions and topics.",
    "projects": "Projects.",
    "running": "Projects with an active run.",
}
"""Maps fields of ``Health`` to the descriptions of their metrics."""

MEGABYTE: Final = 1024 * 1024


class _Numbers(Collector):
    def __init__(self, metrics: Metrics, health: Callable[[], Health]) -> None:
        self._metrics = metrics
        self._health = health

    def collect(self) -> Iterator[Metric]:
        health, metrics = self._health(), self._metrics
        yield InfoMetricFamily("drawbridge", "The server.", value={"version": health.version})
        for name, text in GAUGES.items():
            yield GaugeMetricFamily(f"drawbridge_{name}", text, value=getattr(health, name))
        free = health.disk_free_mb * MEGABYTE
        yield GaugeMetricFamily(
            "drawbridge_disk_free_bytes", "Free space on the disk that contains the data.", value=free
        )
        yield GaugeMetricFamily(
            "drawbridge_problems", "Problems that degrade the server's health.", value=len(health.problems)
        )
        runs = CounterMetricFamily("drawbridge_runs", "Runs that have ended.", labels=["outcome"])
        for outcome, number in sorted(metrics.runs.items()):
            runs.add_metric([outcome], number)
        yield runs
        counts = accumulate(metrics.buckets)
        buckets = list(zip([*map(str, BOUNDS), "+Inf"], counts, strict=True))
        yield HistogramMetricFamily(
            "drawbridge_run_seconds", "Duration of the runs that have ended, in seconds.", buckets, metrics.seconds
        )
        yield CounterMetricFamily(
            "drawbridge_cost_usd", "Cost of runs in US dollars, as reported by agents.", value=metrics.cost_usd
        )


class _MetricsSite:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def admit(self, head: Head, upgrade: bool) -> Refusal | None:
        refusal = check_place(head, LOOPBACK_HOSTS)
        if refusal is None and (upgrade or head.path != METRICS_PATH or head.method not in ("GET", "HEAD")):
            refusal = NOT_HERE
        return refusal

    def subprotocol(self, head: Head) -> str | None:
        return None

    def compresses(self, head: Head) -> bool:
        return False

    def opened(self, head: Head, websocket: WebSocket) -> Peer:
        raise AssertionError("WebSockets are not supported")

    def requested(self, head: Head, body: bytes, exchange: Exchange) -> None:
        exchange.answer(200, generate_latest(self._registry), [("Content-Type", CONTENT_TYPE)])


@contextlib.asynccontextmanager
async def serving_metrics(
    listener: socket.socket | None, metrics: Metrics, health: Callable[[], Health]
) -> AsyncIterator[str | None]:
    """Serves the metrics on ``listener``, which is bound to ``METRICS_HOST``. Yields the address; None without a
    listener."""
    if listener is None:
        yield None
        return
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Numbers(metrics, health))
    async with HttpServer(_MetricsSite(registry), listener, ServerOptions(connections=8, message_bytes=1024)):
        yield f"http://{METRICS_HOST}:{listener.getsockname()[1]}{METRICS_PATH}"
