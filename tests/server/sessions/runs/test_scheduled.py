"""Turns that an idle agent has scheduled: how long its process is kept, what clients see, and how they are canceled."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from drawbridge.agents.base import AgentState, ScheduleChanged, StateReported, Task, TurnBegun
from drawbridge.server.protocol import commands
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.sessions.options.ceilings import Budgets
from drawbridge.server.sessions.processes import processes
from drawbridge.server.sessions.runs import scheduled
from drawbridge.server.sessions.runs.scheduled import LATE_SECONDS, Scheduled
from tests.server.core_rig import Client, Process, Server, serving, settled
from tests.waiting import until

AT = 1_795_679_280.0


def test_a_process_is_kept_until_just_after_its_scheduled_time() -> None:
    schedule = Scheduled()
    assert schedule.seconds_left(AT) is None
    schedule.changed(AT)
    assert schedule.until == AT
    assert schedule.seconds_left(AT - 10) == 10 + LATE_SECONDS
    assert schedule.seconds_left(AT + LATE_SECONDS) == 0
    schedule.changed(None)
    assert schedule.seconds_left(AT) is None


def test_a_run_at_the_scheduled_time_delays_the_turn() -> None:
    """Claude Code begins a scheduled turn only while it is idle, so the turn is due right after the run."""
    schedule = Scheduled()
    schedule.changed(AT)
    schedule.run_ended(began=AT - 600, now=AT + 600)
    assert schedule.until == AT + 600
    assert schedule.seconds_left(AT + 600) == LATE_SECONDS


def test_a_run_after_the_scheduled_time_is_the_turn() -> None:
    schedule = Scheduled()
    schedule.changed(AT)
    schedule.run_ended(began=AT + 1, now=AT + 60)
    assert schedule.until is None


def test_a_run_before_the_scheduled_time_changes_nothing() -> None:
    schedule = Scheduled()
    schedule.changed(AT)
    schedule.run_ended(began=AT - 600, now=AT - 300)
    assert schedule.until == AT


async def test_clients_see_that_the_scheduled_time_has_passed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduled, "LATE_SECONDS", 0.05)
    phone = Client()
    async with serving(tmp_path) as server:
        process = await server.running(phone, await server.project(phone))
        process.ends()
        process.emit(ScheduleChanged(time.time() + 0.05))
        assert "scheduled_until" in phone.updates("project_state")[-1]
        await until(lambda: "scheduled_until" not in phone.updates("project_state")[-1], "the end of the schedule")
        assert not process.ended


async def test_a_turn_that_is_late_is_shown_as_scheduled(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        process = await server.running(phone, await server.project(phone))
        process.ends()
        process.emit(ScheduleChanged(time.time()))
        assert "scheduled_until" in phone.updates("project_state")[-1]


async def idle(server: Server, client: Client, seconds: float = 600.0) -> tuple[str, Process]:
    """A project and its idle process, whose agent has scheduled a turn in ``seconds`` seconds."""
    project = await server.project(client)
    process = await server.running(client, project)
    process.ends()
    process.emit(ScheduleChanged(time.time() + seconds))
    return project, process


@pytest.mark.parametrize("seconds", [600, -1], ids=["later", "due"])
async def test_a_user_cancels_what_an_idle_agent_has_scheduled(tmp_path: Path, seconds: int) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project, process = await idle(server, phone, seconds)
        process.emit(StateReported(AgentState(model="opus", tasks=(Task("t1", "a build", background=True),))))
        await server.does(phone, "agent_interrupt", project, schedule=True)
        process.emit(TurnBegun())  # the scheduled turn begins at the same time
        await until(lambda: process.ended, "the end of the process")
        shown = phone.updates("project_state")[-1]
        assert (shown["state"], shown.get("scheduled_until")) == ("IDLE", None)
        assert phone.updates("agent_state")[-1] == {"model": "opus"}, "what ran in the background has ended, too"
        later = await server.running(phone, project, "later")
        assert later.launch.resume
        later.ends()


async def test_a_new_session_cancels_the_schedule(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project, process = await idle(server, phone)
        shown = len(phone.updates("project_state"))
        answer = await server.built.runs.agent_new_session(commands.AgentNewSession(project_id=project), phone)
        assert len(phone.updates("project_state")) == shown
        assert answer.then is not None
        answer.then()
        assert "scheduled_until" not in phone.updates("project_state")[-1]
        await until(lambda: process.ended, "the end of the process")


async def test_stop_all_does_not_cancel_a_schedule(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project, process = await idle(server, phone)
        with pytest.raises(ClientError) as refused:
            await server.does(phone, "agent_interrupt", project, all=True, schedule=True)
        assert (refused.value.code, refused.value.field) == ("VALIDATION_FAILED", "data.schedule")
        assert not process.ended


@pytest.mark.parametrize("fields", [{}, {"all": True}])
async def test_a_stop_after_the_run_leaves_the_schedule(tmp_path: Path, fields: dict[str, bool]) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project, process = await idle(server, phone)
        with pytest.raises(ClientError) as refused:
            await server.does(phone, "agent_interrupt", project, **fields)
        assert refused.value.code == "PROCESS_NOT_FOUND"
        await settled()
        assert not process.ended
        assert "scheduled_until" in phone.updates("project_state")[-1]


async def test_a_scheduled_run_is_not_canceled_once_it_has_begun(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project, process = await idle(server, phone, 0)
        process.emit(TurnBegun())
        with pytest.raises(ClientError) as refused:
            await server.does(phone, "agent_interrupt", project, schedule=True)
        assert refused.value.code == "PROCESS_ACTIVE"
        process.ends()
        assert phone.updates("run_finished")[-1]["outcome"] == "completed"
        assert process.interrupts == 0


async def test_canceling_requires_a_schedule(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project, process = await idle(server, phone, -3600)
        with pytest.raises(ClientError) as refused:
            await server.does(phone, "agent_interrupt", project, schedule=True)
        assert refused.value.code == "PROCESS_NOT_FOUND"
        assert not process.ended


@pytest.mark.parametrize("why", ["other options", "a daily budget", "too many idle", "another session"])
async def test_the_end_of_a_process_with_a_schedule_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    monkeypatch.setattr(processes, "MOST_SCHEDULED", 0 if why == "too many idle" else 8)
    phone = Client()
    async with serving(tmp_path) as server:
        if why == "a daily budget":
            server.core.grants.budgets = Budgets(day=10.0)
        project, process = await idle(server, phone)
        if why == "too many idle":
            (await server.running(phone, await server.project(phone, "two"))).ends()
        elif why == "another session":
            await server.core.projects.get(project).resume("another", None, fork=False)
        else:
            options = {"permission_mode": "plan"} if why == "other options" else {}
            (await server.running(phone, project, "later", options=options)).ends()
        await until(lambda: process.ended, "the end of the process")
        assert f"{project}: stopping an idle process, and with it what its agent has scheduled" in caplog.text
