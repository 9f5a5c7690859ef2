"""The agent process of one session: when it is kept for the next run, and how it is ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from drawbridge.agents import base
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.server.sessions.directories.allowed_directories import AllowedDirectories
from drawbridge.server.sessions.options.limits import Limits
from drawbridge.server.sessions.processes.processes import AgentProcesses
from drawbridge.server.sessions.processes.session_process import (
    AskerGone,
    ContinuedConversation,
    ModeSet,
    SessionProcess,
)
from drawbridge.server.sessions.recorded_state import RecordedState
from tests.server.core_rig import Agent, Process, StoredSessions, settled
from tests.waiting import until

USUAL = base.Options(model="opus")


class Rig:
    """A session's process with a fake agent, and what it reported."""

    def __init__(self, folder: Path) -> None:
        self.directory = folder / "work" / "one"
        self.files = folder / "files"
        self.directory.mkdir(parents=True)
        data = folder / "data"
        data.mkdir()
        self.agent = Agent()
        agents: dict[str, Any] = {"claude": self.agent}
        limits = Limits(warm_processes=1)
        self.pool = AgentProcesses(agents, AllowedDirectories([folder / "work"], data), limits, data)
        self.tasks = BackgroundTasks(logging.getLogger("test"))
        self.reports: list[object] = []
        self.about_turns: list[base.Event] = []
        self.process = SessionProcess(
            "proj_1",
            str(self.directory),
            self.files,
            self.pool,
            self.tasks,
            lambda _: False,
            self.reports.append,
            self.about_turns.append,
            lambda agent, event: None,
        )

    async def run(self, options: base.Options = USUAL, fork_from: str | None = None) -> Process:
        """Prepares a process for a run with these options, which ends immediately. Returns the process."""
        self.process.use()
        continued = ContinuedConversation(RecordedState(session_id="s1"), fork_from, base.AgentState())
        async with self.process.changing:
            await self.process.prepare("claude", options, continued)
        self.process.release(0.0)
        return self.agent.latest


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    rig = Rig(tmp_path)
    yield rig
    await rig.process.kill_all()
    await rig.tasks.close()
    rig.process.close()
    rig.pool.idle.forget(rig.process)


async def test_a_run_with_the_same_options_gets_the_same_process(rig: Rig) -> None:
    first = await rig.run()
    assert (first.launch.session_id, first.launch.resume, first.launch.options) == ("s1", True, USUAL)
    rig.reports.clear()
    assert await rig.run() is first
    assert rig.reports == []


@pytest.mark.parametrize(
    "change", ["options", "a fork", "a budget", "its directory was replaced", "the first file was stored"]
)
async def test_a_run_with_other_options_gets_another_process(rig: Rig, change: str) -> None:
    """The previous process has ended by then."""
    options = base.Options(max_budget_usd=1.0) if change == "a budget" else USUAL
    first = await rig.run(options)
    rig.reports.clear()
    match change:
        case "options":
            options = base.Options(model="haiku")
        case "its directory was replaced":
            rig.directory.rename(rig.directory.with_name("two"))
            rig.directory.mkdir()
        case "the first file was stored":
            rig.files.mkdir()
    second = await rig.run(options, "s0" if change == "a fork" else None)
    assert (first.ended, second is first) == (True, False)
    assert rig.reports == [AskerGone(), ModeSet(None)]
    assert rig.process.pids == [second.pid]


async def test_a_process_that_is_being_killed_is_not_used_again(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    first = await rig.run()
    killed = asyncio.Event()
    monkeypatch.setattr(first, "kill", killed.wait)
    rig.process.use()
    killing = asyncio.create_task(rig.process.kill())
    await settled(turns=5)
    assert rig.process.pids == [first.pid], "it is current until it has exited"
    second = await rig.run()
    killed.set()
    await killing
    assert second is not first


async def test_events_of_a_process_that_is_being_ended_are_ignored(rig: Rig) -> None:
    first = await rig.run()
    async with rig.process.changing:
        rig.process.end_soon()
        rig.reports.clear()
        first.emit(base.TurnBegun())
        first.says({"type": "assistant"})
        assert (rig.reports, rig.about_turns) == ([], [])
        assert rig.process.pids == [first.pid], "it is still ending"
    await until(lambda: first.ended, "the end of the process")
    await until(lambda: rig.process.pids == [])
    assert rig.about_turns == []


async def test_an_exit_is_reported_last(rig: Rig) -> None:
    first = await rig.run()
    first.emit(base.ScheduleChanged(4_000_000_000.0))
    assert rig.process.scheduled_until == 4_000_000_000.0
    rig.reports.clear()
    first.exit(3, "broken")
    assert rig.reports == [base.ScheduleChanged(None), ModeSet(None)]
    assert rig.about_turns == [base.Exited(3, "broken")]
    assert not rig.process.is_scheduled
    assert rig.process.pids == []


async def test_a_process_that_exits_immediately_cannot_be_used(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    start = rig.agent.start

    async def exits(launch: base.Launch, received: Any) -> Process:
        process = await start(launch, received)
        process.exit(2, "no license\n")
        return process

    monkeypatch.setattr(rig.agent, "start", exits)
    with pytest.raises(base.AgentUnusable, match="no license") as failed:
        await rig.run()
    assert failed.value.code == "EXECUTION_FAILED"
    assert rig.process.pids == []


async def test_the_pool_does_not_end_a_process_that_a_run_uses(rig: Rig) -> None:
    """The run began after the pool had decided, and before the process was ended."""
    first = await rig.run()
    rig.process.end_if_idle()
    rig.process.use()
    await settled()
    assert not first.ended
    rig.process.release(0.0)
    rig.process.end_if_idle()
    await until(lambda: first.ended, "the end of the process")


async def test_a_process_with_background_work_stays_in_the_pool(rig: Rig) -> None:
    first = await rig.run()
    first.busy = True
    rig.process.end_if_idle()
    await settled()
    assert not first.ended


async def test_a_mode_that_was_set_counts_for_the_next_run(rig: Rig) -> None:
    first = await rig.run()
    await rig.process.change(permission_mode="plan", model="haiku")
    assert first.modes == ["plan", "haiku"]
    assert rig.reports[-1] == ModeSet("plan")
    assert await rig.run(base.Options(model="haiku", permission_mode="plan")) is first


async def test_a_conversation_that_was_never_stored_is_lost(rig: Rig) -> None:
    rig.agent.sessions = StoredSessions("kept")
    unproven = RecordedState(session_id="s1", unproven=True)
    assert await rig.process.is_lost("claude", unproven)
    assert not await rig.process.is_lost("claude", RecordedState(session_id="kept", unproven=True))
    await rig.run()
    assert rig.agent.latest.launch.resume, "a conversation that is known to exist is continued"
    assert not await rig.process.is_lost("claude", unproven), "a process has it"


async def test_all_processes_are_killed_at_the_end(rig: Rig) -> None:
    first = await rig.run()
    async with rig.process.changing:  # nothing can be ended gracefully
        rig.process.end_soon()
        await rig.process.kill_all()
        assert first.ended
