"""The usage of runs per day and project: as agents report it, after restarts, and from histories of older versions."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbridge.agents.base import Tokens, TurnEnded
from drawbridge.server.events import RunFinished
from drawbridge.server.sessions.options.ceilings import day_of
from drawbridge.server.sessions.recorded_state import DAYS_KEPT, Day, count_run
from drawbridge.server.store.log import Page
from tests.server.auth.rig import serving as with_devices
from tests.server.core_rig import Client, Server, serving, settled

COUNTED = ("runs", "cost_usd", "input_tokens", "output_tokens")


def today() -> str:
    return day_of(datetime.now(UTC))


async def used(server: Server, **data: Any) -> list[dict[str, Any]]:
    answer = (await server.does(Client(), "usage", **data))["data"]
    assert answer["complete"]
    rows: list[dict[str, Any]] = answer["rows"]
    return rows


async def run(server: Server, project: str, *, cost: float, tokens: Tokens | None = None) -> None:
    process = await server.running(Client(), project)
    process.turn_open = False
    process.emit(TurnEnded(ok=True, session_id=process.launch.session_id, cost_usd=cost, tokens=tokens))
    await settled(turns=20)


async def test_runs_are_added_up_per_day_and_project(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        one, two = await server.project(Client()), await server.project(Client(), "two")
        assert await used(server) == []
        began = today()
        await run(server, one, cost=0.5, tokens=Tokens(1000, 10))
        await run(server, one, cost=0.25, tokens=Tokens(500, 5))
        await run(server, two, cost=1.5)
        found = await used(server)
    assert [(row["project_id"], row["path"]) for row in found] == [
        (two, str(server.root / "two")),
        (one, str(server.root / "one")),
    ]
    assert {row["day"] for row in found} <= {began, today()}
    assert [tuple(row.get(name) for name in COUNTED) for row in found] == [(1, 1.5, None, None), (2, 0.75, 1500, 15)]
    async with serving(tmp_path) as again:
        assert await used(again) == found


async def test_the_usage_survives_lost_metadata(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        project = await server.project(Client())
        await run(server, project, cost=0.5, tokens=Tokens(1000, 10))
        assert server.core.projects.get(project).recorded.usage_complete, "nothing is read again"
        found = await used(server)
        [file] = server.folder.rglob("metadata.json")
    kept = json.loads(file.read_text())
    kept["memory"] = {}
    file.write_text(json.dumps(kept))
    async with serving(tmp_path) as again:
        assert await used(again) == found


async def test_runs_of_an_earlier_version_are_counted(tmp_path: Path) -> None:
    """The metadata of that version contains no usage, so the usage is counted from the history. A run that ends before
    the history is read is counted only once.
    """
    async with serving(tmp_path) as server:
        project = await server.project(Client())
        await run(server, project, cost=0.5, tokens=Tokens(1000, 10))
        [file] = server.folder.rglob("metadata.json")
    kept = json.loads(file.read_text())
    del kept["memory"]["usage"], kept["memory"]["usage_complete"]
    file.write_text(json.dumps(kept))
    async with serving(tmp_path) as again:
        await run(again, project, cost=0.25)
        [row] = await used(again)
        assert [row[name] for name in COUNTED] == [2, 0.75, 1000, 10]
        await run(again, project, cost=0.25)
        assert [row["runs"] for row in await used(again)] == [3]
        assert json.loads(file.read_text())["memory"]["usage_complete"] is True


async def test_a_run_that_ends_during_the_count_is_counted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path) as server:
        project = await server.project(Client())
        await run(server, project, cost=0.5)
        store = server.core.projects.get(project).store
        store.recorded.usage, store.recorded.usage_complete = {}, False
        really = store.read

        async def read(**where: Any) -> Page:
            page = await really(**where)
            monkeypatch.undo()
            store.record(RunFinished(run_id="run_2", outcome="completed", duration_ms=1))
            return page

        monkeypatch.setattr(store, "read", read)
        assert [row["runs"] for row in await used(server)] == [2]


async def test_only_the_requested_days_are_listed(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        project = await server.project(Client())
        recorded = server.core.projects.get(project).recorded
        recorded.usage_complete = True
        for ago in (0, 1, 29, 30, 89):
            recorded.usage[day_of(datetime.now(UTC) - timedelta(days=ago))] = Day(runs=ago)
        assert [row.get("runs", 0) for row in await used(server)] == [0, 1, 29]
        assert [row.get("runs", 0) for row in await used(server, days=1)] == [0]
        assert len(await used(server, days=90)) == 5


async def test_a_confined_device_sees_its_own_projects(tmp_path: Path) -> None:
    async with with_devices(tmp_path) as server, server.client() as owner:
        for name in ("one", "two"):
            project = await server.project(owner, name)
            recorded = server.core.projects.get(project).recorded
            recorded.usage, recorded.usage_complete = {today(): Day(runs=1)}, True
        token = server.token("tv", "view", projects=[str(server.roots / "two")])
        async with server.client(token) as viewer:
            rows = (await viewer.ask("usage"))["data"]["rows"]
    assert [row["path"] for row in rows] == [str(server.roots / "two")]


@given(st.lists(st.integers(0, 400), max_size=300))
def test_the_latest_days_are_kept(days: list[int]) -> None:
    found: dict[str, Day] = {}
    first = datetime(2026, 1, 1, tzinfo=UTC)
    finished = RunFinished(run_id="r", outcome="completed", duration_ms=1, cost_usd=0.5, input_tokens=2)
    for number in sorted(days):
        count_run(found, (first + timedelta(days=number)).date().isoformat(), finished)
    assert len(found) == min(DAYS_KEPT, len(set(days)))
    kept = sorted(set(days))[-DAYS_KEPT:]
    assert sum(day.runs for day in found.values()) == sum(number in kept for number in days)
    assert all(day.input_tokens == 2 * day.runs and day.cost_usd == 0.5 * day.runs for day in found.values())
