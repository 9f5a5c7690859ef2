"""The total cost of runs, as the agents report it, is limited. The total survives a restart. Once the limit
is reached, runs are refused or stopped with an error.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbridge.server.events import RunFinished
from drawbridge.server.plan import Plan
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.sessions.options.ceilings import LEAST_USD, Budgets, Ceilings, day_of
from drawbridge.server.sessions.recorded_state import RecordedState
from drawbridge.settings import load
from drawbridge.settings.serve import ServeSettings
from tests.server.core_rig import Client, Process, Server, serving, settled

NOW = datetime(2026, 11, 21, 12, 0).astimezone()
TODAY = datetime.now()


def limited(server: Server, project: float | None = None, day: float | None = None) -> None:
    spent, server.core.grants.budgets = server.core.grants.budgets, Budgets(project, day)
    server.core.grants.budgets._of_projects.update(spent._of_projects)
    server.core.grants.budgets._of_days.update(spent._of_days)


async def run(server: Server, client: Client, project: str, cost: float) -> Process:
    process = await server.running(client, project)
    process.ends(cost=cost)
    return process


# The arithmetic.


def test_the_strictest_limit_determines_the_remaining_budget() -> None:
    budgets = Budgets(project=5.0, day=8.0)
    budgets.spend("/a", 3.0, NOW)
    budgets.spend("/b", 4.0, NOW)
    assert budgets.left("/a", NOW) == 1.0
    assert budgets.left("/b", NOW + timedelta(days=1)) == 1.0
    assert budgets.left("/c", NOW + timedelta(days=1)) == 5.0
    assert Budgets().left("/a", NOW) is None


@pytest.mark.parametrize(("budgets", "which"), [(Budgets(project=1.0), "project"), (Budgets(day=1.0), "day")])
def test_a_budget_that_is_used_up_is_reported(budgets: Budgets, which: str) -> None:
    budgets.spend("/a", 0.995, NOW)
    with pytest.raises(ClientError) as refused:
        budgets.left("/a", NOW)
    assert (refused.value.code, refused.value.details) == (
        "BUDGET_EXCEEDED",
        {"budget": which, "limit_usd": 1.0, "spent_usd": 0.995},
    )


def test_a_day_begins_at_local_midnight(new_york: None) -> None:
    late = datetime(2026, 11, 22, 4, 59, tzinfo=UTC)
    assert (day_of(late), day_of(late + timedelta(minutes=1))) == ("2026-11-21", "2026-11-22")


def test_setting_back_the_clock_does_not_renew_the_budget() -> None:
    budgets = Budgets(day=1.0)
    budgets.spend("/a", 1.0, NOW - timedelta(days=1))
    budgets.spend("/a", 1.0, NOW)
    with pytest.raises(ClientError):
        budgets.left("/a", NOW - timedelta(days=1))


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 5)), max_size=30),
    st.floats(0.5, 20),
    st.floats(0.5, 20),
)
def test_all_runs_together_never_exceed_the_budget(runs: list[tuple[str, float]], project: float, day: float) -> None:
    """The test's runs cost at most the budget that each was given."""
    budgets, spent = Budgets(project, day), dict.fromkeys("abc", 0.0)
    for which, wanted in runs:
        try:
            left = budgets.left(which, NOW)
        except ClientError:
            assert project - spent[which] < LEAST_USD + 1e-9 or day - sum(spent.values()) < LEAST_USD + 1e-9
            continue
        assert left is not None
        budgets.spend(which, min(wanted, left), NOW)
        spent[which] += min(wanted, left)
    assert all(amount <= project + 1e-9 for amount in spent.values())
    assert sum(spent.values()) <= day + 1e-9


def test_costs_are_added_up_in_total_and_for_recent_days(new_york: None) -> None:
    recorded = RecordedState()
    for day, cost in ((18, 8.0), (20, 1.0), (21, 2.0), (21, 0.5), (22, 4.0)):
        finished = RunFinished(run_id="r", outcome="completed", duration_ms=1, cost_usd=cost)
        recorded.apply(finished, datetime(2026, 11, day, 12, tzinfo=UTC))
    killed = RunFinished(run_id="r", outcome="killed", duration_ms=1)
    recorded.apply(killed, datetime(2026, 11, 23, tzinfo=UTC))
    assert recorded.cost_usd == 15.5
    assert recorded.days == {"2026-11-20": 1.0, "2026-11-21": 2.5, "2026-11-22": 4.0}


def test_budgets_from_the_settings_become_ceilings() -> None:
    given = {"max_budget": "0.50", "max_budget_project": "12.5", "max_budget_day": "3"}
    ceilings = Plan(load("serve", ServeSettings, given, {"DRAWBRIDGE_CONFIG": os.devnull})).ceilings
    amounts = (ceilings.max_budget_usd, ceilings.project_budget_usd, ceilings.day_budget_usd)
    assert amounts == (0.5, 12.5, 3.0)


# In a server.


async def test_a_run_gets_the_remaining_budget_and_the_next_none(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        limited(server, project=1.0)
        phone = Client()
        project = await server.project(phone)
        first = await run(server, phone, project, 0.75)
        second = await run(server, phone, project, 0.25)
        assert [first.launch.options.max_budget_usd, second.launch.options.max_budget_usd] == [1.0, 0.25]
        received = len(phone.received)
        with pytest.raises(ClientError) as refused:
            await server.does(phone, "execute", project, prompt="more")
        assert refused.value.code == "BUDGET_EXCEEDED"
        await settled()
        assert len(phone.received) == received
        assert await run(server, phone, await server.project(phone, "two"), 0.1)


async def test_a_client_can_request_a_smaller_budget(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        limited(server, day=1.0)
        phone = Client()
        project = await server.project(phone)
        await server.does(phone, "execute", project, prompt="go", options={"max_budget_usd": 0.5})
        await settled(lambda: bool(server.agent.processes))
        assert server.agent.latest.launch.options.max_budget_usd == 0.5


async def test_a_waiting_prompt_is_refused_when_its_turn_comes(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        limited(server, project=1.0)
        phone = Client()
        project = await server.project(phone)
        process = await server.running(phone, project)
        for _ in range(3):
            await server.does(phone, "execute", project, prompt="more")
        process.ends(cost=1.0)
        await settled()
        ends = [(one["outcome"], one.get("code")) for one in phone.updates("run_finished")]
        assert ends == [("completed", None), *[("failed", "BUDGET_EXCEEDED")] * 3]
        assert len(server.agent.processes) == 1


async def test_waiting_prompts_do_not_start_outside_allowed_hours(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        phone = Client()
        project = await server.project(phone)
        process = await server.running(phone, project)
        await server.does(phone, "execute", project, prompt="later")
        server.core.grants.ceilings = Ceilings(hours=((TODAY.hour + 2) % 24, (TODAY.hour + 3) % 24))
        process.ends()
        await settled()
        assert [one.get("code") for one in phone.updates("run_finished")] == [None, "PERMISSION_DENIED"]


async def test_a_used_up_daily_budget_stops_the_other_runs(tmp_path: Path) -> None:
    """The approval requests of the stopped runs are withdrawn."""
    async with serving(tmp_path) as server:
        limited(server, day=1.0)
        phone = Client()
        one, two = await server.project(phone, "one"), await server.project(phone, "two")
        first = await server.running(phone, one)
        await server.does(phone, "execute", two, prompt="go")
        await settled(lambda: len(server.agent.processes) == 2 and bool(server.agent.latest.prompts))
        server.agent.latest.asks("q1")
        first.ends(cost=1.25)
        await settled()
        assert server.agent.latest.ended
        assert [end.get("code") for end in phone.updates("run_finished")] == [None, "BUDGET_EXCEEDED"]
        assert phone.updates("permission_withdrawn")


async def test_costs_of_deleted_projects_are_known_after_a_restart(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        phone = Client()
        one, two = await server.project(phone, "one"), await server.project(phone, "two")
        await run(server, phone, one, 0.5)
        await run(server, phone, two, 0.25)
        await server.does(phone, "project_delete", two)
    async with serving(tmp_path) as server:
        budgets = server.core.grants.budgets
        assert budgets.today(datetime.now()) == 0.75
        limited(server, project=1.0)
        phone = Client()
        again = await server.project(phone, "two")
        assert (await run(server, phone, again, 0.25)).launch.options.max_budget_usd == 0.75


async def test_projects_deleted_long_ago_do_not_count(tmp_path: Path) -> None:
    """A deleted project's cost does not count even if the project is still in the trash when the server starts."""
    async with serving(tmp_path) as server:
        phone = Client()
        project = await server.project(phone)
        await run(server, phone, project, 0.5)
        await server.does(phone, "project_delete", project)
    [deleted] = (tmp_path / "data" / "trash").iterdir()
    os.utime(deleted, (0, 0))
    async with serving(tmp_path) as server:
        assert deleted.exists()
        assert server.core.grants.budgets.today(datetime.now()) == 0


async def test_each_run_with_a_budget_has_its_own_process(tmp_path: Path) -> None:
    """Claude Code counts the cost from the start of its process, so a warm process can't be reused."""
    async with serving(tmp_path) as server:
        server.core.grants.ceilings = Ceilings(max_budget_usd=2.0)
        phone = Client()
        project = await server.project(phone)
        first, second = await run(server, phone, project, 1.5), await run(server, phone, project, 1.5)
        assert first is not second
        assert [first.launch.options.max_budget_usd, second.launch.options.max_budget_usd] == [2.0, 2.0]
        assert (second.launch.session_id, second.launch.resume) == (first.launch.session_id, True)
