"""The server's metrics are in its health report, and on a port for Prometheus that only this machine can reach."""

from __future__ import annotations

import asyncio
import http.client
import re
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from drawbridge.server.sessions.runs.metrics import BOUNDS, Metrics
from tests.server.processes import refused, serving
from tests.waiting import PATIENCE

OUTCOMES = ("completed", "failed", "killed", "timeout", "interrupted")


def fetched(url: str, path: str = "/metrics", method: str = "GET", **headers: str) -> tuple[int, str]:
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=PATIENCE)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def samples(text: str) -> dict[str, float]:
    """The values by name and labels, as parsed by Prometheus' own parser."""
    return {
        sample.name + "".join(f",{name}={value}" for name, value in sample.labels.items()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@given(st.lists(st.tuples(st.sampled_from(OUTCOMES), st.floats(0, 10_000)), max_size=60))
def test_each_run_is_counted_once(runs: list[tuple[str, float]]) -> None:
    metrics = Metrics()
    for outcome, seconds in runs:
        metrics.run_ended(outcome, seconds, None)
    shown = metrics.shown()
    assert sum(shown.ended.values()) == sum(metrics.buckets) == len(runs)
    if not runs:
        assert (shown.success_rate, shown.median_seconds, shown.p95_seconds) == (None, None, None)
        return
    assert shown.median_seconds is not None
    assert shown.p95_seconds is not None
    assert shown.median_seconds <= shown.p95_seconds + 0.001
    assert shown.success_rate == pytest.approx(sum(o == "completed" for o, _ in runs) / len(runs), abs=1e-4)
    for index, bound in enumerate(BOUNDS):
        assert sum(metrics.buckets[: index + 1]) == sum(seconds <= bound for _, seconds in runs)


async def test_health_and_prometheus_report_how_runs_ended(tmp_path: Path) -> None:
    root = tmp_path / "a-very-private-name"
    root.mkdir()
    async with serving(tmp_path / "data", "--no-tls", "--allow", root, "--metrics-port", "0") as server:
        url = server.ready["metrics"]
        assert urlsplit(url).hostname == "127.0.0.1"
        async with server.client() as client:
            answer = await client.ask("project_create", {"path": str(root), "agent": "demo", "join": True})
            project = answer["project_id"]
            for prompt, outcome in (("/quick", "completed"), ("/fail", "failed")):
                run = (await client.ask("execute", {"prompt": prompt}, project))["data"]["run_id"]
                await client.receive("update", "run_finished", run_id=run, outcome=outcome)
            health = (await client.ask("health_check"))["data"]
            status, text = await asyncio.to_thread(fetched, url)
    assert health["runs"]["ended"] == {"completed": 1, "failed": 1}
    assert health["runs"]["success_rate"] == 0.5
    assert health["runs"]["median_seconds"] > 0
    assert health["subscriptions"] == 1
    assert status == 200
    found = samples(text)
    assert found["drawbridge_runs_total,outcome=completed"] == found["drawbridge_runs_total,outcome=failed"] == 1
    assert found["drawbridge_run_seconds_bucket,le=+Inf"] == found["drawbridge_run_seconds_count"] == 2
    assert found["drawbridge_clients"] == found["drawbridge_projects"] == found["drawbridge_subscriptions"] == 1
    assert found["drawbridge_disk_free_bytes"] > 0
    assert not re.search(rf"{root.name}|{project}|{tmp_path}|python_info", text)


async def test_the_port_serves_only_metrics_and_only_locally(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", "--no-tls", "--metrics-port", "0") as server:
        url = server.ready["metrics"]

        async def status(*arguments: str, **headers: str) -> int:
            return (await asyncio.to_thread(fetched, url, *arguments, **headers))[0]

        assert await status("/") == await status("/health") == await status("/metrics", "POST") == 404
        assert await status("/metrics", Host="evil.example") == 403
        assert await status("/metrics", Origin="http://localhost") == 403
        upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
        key = {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
        assert await status("/metrics", **upgrade, **key) == 404
        assert await status() == 200


@pytest.mark.thorough
async def test_without_the_flag_no_port_is_opened(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", "--no-tls") as server:
        assert server.ready["metrics"] is None


@pytest.mark.thorough
async def test_a_metrics_port_in_use_is_reported(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, output = await refused("--port", "0", "--no-tls", "--data-dir", tmp_path / "data", "--metrics-port", port)
    assert code == 3
    assert f"Port {port} on 127.0.0.1 is not available" in output
    assert "--metrics-port" in output
