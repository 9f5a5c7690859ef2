"""Metrics for Prometheus, on a separate port of the loopback interface, without a token.

They do not contain the name of a project, a path or a client.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import accumulate
from typing import Final

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
from drawbridge.server.protocol.replies import Health
from drawbridge.server.sessions.metrics import BOUNDS, Metrics
from drawbridge.transport.http_server import Exchange, HttpServer, Peer, ServerOptions, WebSocket

HOST: Final = "127.0.0.1"
PATH: Final = "/metrics"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

NOT_HERE: Final = Refusal(404, "Not found. The metrics are at /metrics.")

GAUGES: Final = {
    "uptime_seconds": "Since the server started.",
    "clients": "Clients that are connected.",
    "subscriptions": "Projects that clients have joined, and topics that they follow.",
    "projects": "Projects.",
    "running": "Projects with a run.",
}
"""Fields of ``Health`` → their description."""

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
        yield GaugeMetricFamily("drawbridge_disk_free_bytes", "Free space on the disk with the data.", value=free)
        yield GaugeMetricFamily(
            "drawbridge_problems", "Problems that make the health degraded.", value=len(health.problems)
        )
        runs = CounterMetricFamily("drawbridge_runs", "Runs that have ended.", labels=["outcome"])
        for outcome, number in sorted(metrics.runs.items()):
            runs.add_metric([outcome], number)
        yield runs
        counts = accumulate(metrics.buckets)
        buckets = list(zip([*map(str, BOUNDS), "+Inf"], counts, strict=True))
        yield HistogramMetricFamily("drawbridge_run_seconds", "How long they took.", buckets, metrics.seconds)
        yield CounterMetricFamily(
            "drawbridge_cost_usd", "Cost of runs in US dollars, as reported by agents.", value=metrics.cost_usd
        )


class _Site:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def admit(self, head: Head, upgrade: bool) -> Refusal | None:
        refusal = check_place(head, LOOPBACK_HOSTS)
        if refusal is None and (upgrade or head.path != PATH or head.method not in ("GET", "HEAD")):
            refusal = NOT_HERE
        return refusal

    def subprotocol(self, head: Head) -> str | None:
        return None

    def opened(self, head: Head, websocket: WebSocket) -> Peer:
        raise AssertionError("WebSockets are not supported")

    def requested(self, head: Head, body: bytes, exchange: Exchange) -> None:
        exchange.answer(200, generate_latest(self._registry), [("Content-Type", CONTENT_TYPE)])


@contextlib.asynccontextmanager
async def serving(
    listener: socket.socket | None, metrics: Metrics, health: Callable[[], Health]
) -> AsyncIterator[str | None]:
    """Serves on ``listener``, which is bound to ``HOST``. Yields the address; None without a listener."""
    if listener is None:
        yield None
        return
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Numbers(metrics, health))
    async with HttpServer(_Site(registry), listener, ServerOptions(connections=8, message_bytes=1024)):
        yield f"http://{HOST}:{listener.getsockname()[1]}{PATH}"
