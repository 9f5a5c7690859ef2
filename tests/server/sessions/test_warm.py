"""The number and idle time of agent processes between two prompts are limited, and they are kept only while memory is
available.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from drawbridge.agents.base import ScheduleChanged, TurnBegun
from drawbridge.server.sessions.options.limits import Limits
from drawbridge.server.sessions.processes import processes
from drawbridge.server.sessions.processes.processes import IdlePool
from tests.server.core_rig import Client, Process, Server, StoredSessions, serving, settled
from tests.waiting import until


async def ran(server: Server, name: str) -> Process:
    """The idle process of a project whose first run has ended."""
    phone = Client()
    process = await server.running(phone, await server.project(phone, name))
    process.ends()
    await settled(turns=20)
    return process


async def test_the_least_recently_used_process_is_ended(tmp_path: Path) -> None:
    async with serving(tmp_path, Limits(warm_processes=2, checkpoints=False)) as server:
        one, two = await ran(server, "one"), await ran(server, "two")
        project = next(session.id for session in server.core.projects if session.path.name == "one")
        await server.does(Client(), "execute", project, prompt="again")
        await settled(lambda: one.prompts == ["go", "again"])
        one.ends()
        three = await ran(server, "three")
        assert (one.ended, two.ended, three.ended) == (False, True, False)


async def test_a_process_that_works_in_the_background_is_kept(tmp_path: Path) -> None:
    """A process is busy in the background while a command of its agent still runs, for example."""
    async with serving(tmp_path, Limits(warm_processes=1, checkpoints=False)) as server:
        one = await ran(server, "one")
        one.busy = True
        two = await ran(server, "two")
        assert (one.ended, two.ended) == (False, True)


async def test_a_new_turn_keeps_a_process_that_was_about_to_end(tmp_path: Path) -> None:
    """Later, the other process ends, because it is then the least recently used one."""
    phone = Client()
    async with serving(tmp_path, Limits(warm_processes=1, checkpoints=False)) as server:
        project = await server.project(phone)
        one = await server.running(phone, project)
        one.ends()
        other = await server.running(phone, await server.project(phone, "two"))
        other.ends()  # too many processes are idle, so one has to end
        one.emit(TurnBegun())
        await settled()
        assert not one.ended
        one.ends()
        await until(lambda: len(phone.updates("run_finished")) == 3, "the end of the turn")
        await until(lambda: other.ended, "the end of the other process, which is now the least recently used")


async def test_a_turn_right_after_a_new_session_is_ignored(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path, Limits(checkpoints=False)) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        process.ends()
        await server.does(phone, "agent_new_session", project)
        process.emit(TurnBegun())
        await until(lambda: process.ended, "the end of the process")
        assert phone.updates("project_state")[-1]["state"] == "IDLE"
        assert len(phone.updates("run_started")) == 1


async def test_background_work_may_exceed_the_limit_on_processes(tmp_path: Path) -> None:
    """The limit does not apply to a process that works in the background, and its run ends as usual."""
    phone = Client()
    async with serving(tmp_path, Limits(warm_processes=0, checkpoints=False)) as server:
        process = await server.running(phone, await server.project(phone))
        process.busy = True
        process.ends()
        await until(lambda: phone.updates("run_finished"), "the run's end")
        assert not process.ended
        assert phone.updates("project_state")[-1]["state"] == "IDLE"


async def scheduled(server: Server, name: str, seconds: float = 600.0) -> Process:
    """The idle process of a project whose agent has scheduled a turn in ``seconds`` seconds."""
    phone = Client()
    process = await server.running(phone, await server.project(phone, name))
    process.emit(ScheduleChanged(time.time() + seconds))
    process.ends()
    await settled(turns=20)
    return process


async def test_a_process_with_an_alarm_is_kept_until_the_alarm(tmp_path: Path) -> None:
    """Neither the limit on idle processes nor the one on their idle time ends the process, since the agent has reported
    when it continues.
    """
    limits = Limits(warm_processes=1, warm_seconds=0.02, checkpoints=False)
    async with serving(tmp_path, limits) as server:
        alarm = await scheduled(server, "alarm")
        one, two = await ran(server, "one"), await ran(server, "two")
        await until(lambda: one.ended and two.ended, "the end of the other processes")
        assert not alarm.ended

        alarm.emit(ScheduleChanged(time.time()))
        alarm.emit(TurnBegun())
        alarm.ends()
        await until(lambda: alarm.ended, "the end of the process after its alarm")


async def test_an_alarm_due_during_a_run_keeps_the_process(tmp_path: Path) -> None:
    """Claude Code begins a scheduled turn only while it is idle, so the process is kept until the turn can begin."""
    phone = Client()
    async with serving(tmp_path, Limits(warm_processes=0, checkpoints=False)) as server:
        process = await server.running(phone, await server.project(phone))
        process.emit(ScheduleChanged(time.time()))
        process.ends()
        await until(lambda: phone.updates("run_finished"), "the run's end")
        await settled(turns=20)
        assert not process.ended
        process.emit(TurnBegun())
        process.ends()
        await until(lambda: process.ended, "the end of the process after its alarm")


async def test_the_project_state_shows_when_a_schedule_ends(tmp_path: Path) -> None:
    """The field ``scheduled_until`` disappears when the agent process exits."""
    phone = Client()
    async with serving(tmp_path, Limits(checkpoints=False)) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        process.emit(ScheduleChanged(4_000_000_000.0))
        process.ends()
        await until(lambda: phone.updates("run_finished"), "the run's end")
        assert phone.updates("project_state")[-1]["scheduled_until"] == "2096-10-02T07:06:40.000Z"
        process.exit(0)
        await until(lambda: "scheduled_until" not in phone.updates("project_state")[-1], "the end of the schedule")


async def test_agents_with_schedules_keep_only_a_few_processes(tmp_path: Path) -> None:
    async with serving(tmp_path, Limits(warm_processes=0, checkpoints=False)) as server:
        kept = [await scheduled(server, f"p{n}") for n in range(processes.MOST_SCHEDULED + 1)]
        await until(lambda: kept[0].ended, "the end of the one that was used least recently")
        assert not any(process.ended for process in kept[1:])


class Idle:
    id = "idle"
    is_scheduled = False

    def end_if_idle(self) -> None:
        pass


async def test_a_failed_memory_check_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    checks, errors = list[str](), list[Exception]()

    def fails_once() -> float:
        checks.append("check")
        if len(checks) == 1:
            raise OSError("odd")
        return 1.0

    monkeypatch.setattr(processes, "CHECK_SECONDS", 0.001)
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context["exception"]))
    idle, kept = Idle(), IdlePool(processes=1, seconds=60, available=fails_once)
    kept.retain(idle)
    await until(lambda: len(checks) > 2)
    kept.forget(idle)
    assert [str(error) for error in errors] == ["odd"]


async def test_a_conversation_open_in_a_terminal_is_not_continued(tmp_path: Path) -> None:
    """Otherwise, both processes would write to one file, and neither would notice the other's messages."""
    phone = Client()
    async with serving(tmp_path, Limits(checkpoints=False)) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        process.ends()
        await until(lambda: phone.updates("run_finished"), "the run's end")
        server.agent.sessions = StoredSessions(all=True, used_by=[2**22 + 1])
        await server.does(phone, "execute", project, prompt="again")
        await until(lambda: len(phone.updates("run_finished")) == 2, "the run's end")
        assert phone.updates("run_finished")[-1]["code"] == "SESSION_IN_USE"
        assert process.prompts == ["go"]


async def test_after_a_while_another_process_continues_the_session(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path, Limits(warm_seconds=0.02, checkpoints=False)) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        process.ends()
        await until(lambda: process.ended)
        later = await server.running(phone, project, "later")
        assert (later.launch.session_id, later.launch.resume) == (process.launch.session_id, True)
        later.ends()


class Kept:
    """A fake owner of an idle process, with the attributes that the pool uses."""

    def __init__(self, id: str, *, is_scheduled: bool = False) -> None:
        self.id = id
        self.is_scheduled = is_scheduled
        self.is_ended = False

    def end_if_idle(self) -> None:
        self.is_ended = True


async def test_low_memory_ends_processes_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "CHECK_SECONDS", 0.001)
    checks, short = 0, False

    def available() -> float:
        nonlocal checks
        checks += 1
        return 0.05 if short and not two.is_ended else 0.5

    one, two, three = Kept("one"), Kept("two"), Kept("three")
    keeping = IdlePool(10, 60.0, available)
    for each in (one, two, three):
        keeping.keep(each)
    await until(lambda: checks > 3)
    assert not one.is_ended
    short = True
    await until(lambda: one.is_ended)
    assert not three.is_ended
    await until(lambda: two.is_ended)
    keeping.forget(three)
    before = checks
    await asyncio.sleep(0.05)
    assert checks <= before + 1, "the memory is not checked if no process is kept"
    assert not three.is_ended


async def test_low_memory_ends_scheduled_agents_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "CHECK_SECONDS", 0.001)
    alarm, other = Kept("alarm", is_scheduled=True), Kept("other")
    enough = True

    def available() -> float:
        return 0.5 if other.is_ended and enough else 0.05

    keeping = IdlePool(10, 60.0, available)
    keeping.keep(alarm)
    keeping.keep(other)
    await until(lambda: other.is_ended)
    assert not alarm.is_ended
    enough = False
    await until(lambda: alarm.is_ended)


def test_the_available_memory_of_the_machine_is_known() -> None:
    assert 0 < processes.available() <= 1
