"""A limit of the agent's account stops a run: clients see when the limit ends, and the run then resumes if the server's
owner has enabled this.
"""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from drawbridge.agents import base
from drawbridge.server.sessions.options.ceilings import Ceilings
from drawbridge.server.sessions.options.limits import Limits
from drawbridge.server.sessions.recorded_state import CONTINUE
from drawbridge.server.sessions.runs import continuing
from tests.agents.claude.stream import Stream
from tests.server.core_rig import Client, Process, Server, serving, settled
from tests.waiting import until

WANTED = Limits(checkpoints=False, continue_limited=True)


def limited(agent: Process, seconds: float) -> None:
    """Ends the agent's turn at a limit that is lifted in ``seconds`` seconds."""
    agent.turn_open = False
    agent.emit(
        base.TurnEnded(
            ok=False, error="5-hour limit reached.", code="AGENT_RATE_LIMITED", retry_at=time.time() + seconds
        )
    )


@pytest.fixture
def passed(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Replaces the clock of the code that resumes limited runs. The list has one item, the number of seconds by which
    this clock is ahead."""
    later = [0.0]
    monkeypatch.setattr(continuing, "CHECK_SECONDS", 0.05)
    monkeypatch.setattr(continuing, "time", SimpleNamespace(time=lambda: time.time() + later[0]))
    return later


async def given(server: Server, prompts: int) -> str:
    """Waits until the agent processes have received ``prompts`` prompts in total. Returns the last of these prompts."""

    def all_of_them() -> list[str]:
        return [prompt for process in server.agent.processes for prompt in map(str, process.prompts)]

    await until(lambda: len(all_of_them()) >= prompts)
    return all_of_them()[prompts - 1]


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


async def test_clients_see_when_the_limit_ends(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        limited(await server.running(phone, project), 3600)
        [finished] = phone.updates("run_finished")
        assert (finished["outcome"], finished["code"]) == ("failed", "AGENT_RATE_LIMITED")
        assert at(finished["retry_at"]) == pytest.approx(time.time() + 3600, abs=5)
        assert "continues_at" not in phone.updates("project_state")[-1], "nobody asked for it to resume automatically"


async def test_a_run_resumes_at_the_end_of_the_limit(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path, WANTED) as server:
        project = await server.project(phone)
        await server.does(phone, "execute", project, prompt="Do it", options={"permission_mode": "plan"})
        await settled(lambda: bool(server.agent.processes and server.agent.latest.prompts))
        limited(server.agent.latest, 0.2)
        [finished] = phone.updates("run_finished")
        assert phone.updates("project_state")[-1]["continues_at"] == finished["retry_at"]

        assert "Do it" in await given(server, 2)
        assert time.time() >= at(finished["retry_at"]) - 0.01
        assert server.agent.latest.launch.options.permission_mode == "plan"
        server.agent.latest.ends()
        assert "continues_at" not in phone.updates("project_state")[-1]
        assert [one["outcome"] for one in phone.updates("run_finished")] == ["failed", "completed"]
        run = phone.updates("run_finished")[-1]["run_id"]
        assert server.audited() == [{"event": "continued", "by": "phone", "project_id": project, "run_id": run}]


async def test_a_run_resumes_after_a_restart(tmp_path: Path, passed: list[float]) -> None:
    phone = Client()
    async with serving(tmp_path, WANTED) as server:
        project = await server.project(phone)
        limited(await server.running(phone, project, "Do it"), 3600)
    passed[0] = 3600.0
    async with serving(tmp_path, WANTED) as server:
        assert "Do it" in await given(server, 1)
        server.agent.latest.ends()
        assert server.core.projects.get(project).recorded.subject == "Do it", "the proposed message is about the prompt"
    async with serving(tmp_path, WANTED) as server:
        await settled()
        assert server.agent.processes == [], "it resumes once"


async def test_without_the_option_no_resumed_run_is_announced(tmp_path: Path) -> None:
    """The server was restarted without the option that resumes limited runs."""
    phone = Client()
    async with serving(tmp_path, WANTED) as server:
        project = await server.project(phone)
        limited(await server.running(phone, project, "Do it"), 3600)
        assert phone.updates("project_state")[-1]["continues_at"]
    async with serving(tmp_path) as server:
        assert server.core.projects.get(project).info().continues_at is None


async def test_a_run_that_is_no_longer_allowed_does_not_resume(tmp_path: Path, passed: list[float]) -> None:
    phone = Client()
    async with serving(tmp_path, WANTED) as server:
        project = await server.project(phone)
        await server.does(phone, "execute", project, prompt="Do it", options={"permission_mode": "acceptEdits"})
        await settled(lambda: bool(server.agent.processes and server.agent.latest.prompts))
        limited(server.agent.latest, 3600)
    async with serving(tmp_path, WANTED) as server:
        server.core.grants.ceilings = Ceilings(modes=("plan",))
        await server.does(phone, "project_join", project)
        passed[0] = 3600.0
        await until(lambda: len(phone.updates("run_finished")) == 2, "the end of the run that would resume")
        assert phone.updates("run_finished")[-1]["code"] == "PERMISSION_DENIED"
        assert server.agent.processes == []


@pytest.mark.parametrize(
    ("what", "fields"),
    [("agent_interrupt", {}), ("agent_new_session", {}), ("execute", {"prompt": "Something else"})],
)
async def test_a_users_action_prevents_resuming(tmp_path: Path, what: str, fields: dict[str, str]) -> None:
    phone = Client()
    async with serving(tmp_path, WANTED) as server:
        project = await server.project(phone)
        limited(await server.running(phone, project), 3600)
        await server.does(phone, what, project, **fields)
        await settled()
        assert "continues_at" not in phone.updates("project_state")[-1]
    async with serving(tmp_path, WANTED) as server:
        state = await server.does(phone, "project_join", project)
        assert "continues_at" not in state["data"]["data"]


async def test_resuming_stops_if_the_limit_returns_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(continuing, "PAUSE_SECONDS", 0.01)
    phone = Client()
    async with serving(tmp_path, WANTED) as server:
        project = await server.project(phone)
        await server.running(phone, project, "Do it")
        for number in range(1, continuing.TIMES + 2):
            words = await given(server, number)
            assert words.count("Do it") == 1
            assert words.count(CONTINUE.strip()) <= 1
            limited(server.agent.latest, 0)
        assert "continues_at" not in phone.updates("project_state")[-1]
        *resumed, last = phone.updates("run_finished")
        assert {one["error"] for one in resumed} == {"5-hour limit reached."}
        assert last["error"] == (
            "5-hour limit reached. The run was resumed automatically 5 times in a row and will not be resumed again. "
            "Send a prompt to continue."
        )
        assert f": not resumed automatically: already resumed {continuing.TIMES} times in a row" in caplog.text


async def test_a_run_does_not_resume_after_a_very_long_limit(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    phone = Client()
    async with serving(tmp_path, WANTED) as server:
        project = await server.project(phone)
        limited(await server.running(phone, project), 400 * 86_400)
        [finished] = phone.updates("run_finished")
        assert "retry_at" in finished
        assert "will not be resumed automatically: the limit resets in more than 8 days." in finished["error"]
        assert "continues_at" not in phone.updates("project_state")[-1]
        assert ": not resumed automatically: the limit resets in more than 8 days" in caplog.text


@pytest.mark.parametrize(
    ("limits", "retry_at"),
    [
        ({"status": "rejected", "resetsAt": 1_900_000_000, "rateLimitType": "five_hour"}, 1_900_000_000.0),
        ({"status": "allowed_warning", "resetsAt": 1_900_000_000}, None),
        ({"status": "rejected", "resetsAt": "soon"}, None),
        ({"status": "rejected"}, None),
        ({"status": "rejected", "resetsAt": 1_900_000_000_000_000}, None),
        ("odd", None),
    ],
)
def test_the_end_of_a_limit_is_read_from_claudes_output(limits: object, retry_at: float | None) -> None:
    stream = Stream()
    stream.prompt()
    stream.receives(type="rate_limit_event", rate_limit_info=limits)
    stream.receives(type="assistant", message={}, error="rate_limit")
    stream.result(is_error=True, result="You've hit your limit")
    [ended] = stream.all(base.TurnEnded)
    assert (ended.ok, ended.code, ended.retry_at) == (False, "AGENT_RATE_LIMITED", retry_at)
    assert ended.error == "The agent has reached its usage limit: You've hit your limit."


async def test_a_run_does_not_resume_in_a_conversation_being_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, passed: list[float]
) -> None:
    phone = Client()
    async with serving(tmp_path, WANTED) as server:
        project = await server.project(phone)
        process = await server.running(phone, project, "Do it")
        limited(process, 3600)

        async def slowly() -> None:
            passed[0] = 3600.0
            await until(lambda: "the run can't be resumed yet" in caplog.text, "the time at which it would continue")
            process.exit(0)

        monkeypatch.setattr(process, "stop", slowly)
        await server.does(phone, "session_delete", project, session_id=process.launch.session_id)
        await settled()
        assert len(phone.updates("run_started")) == 1
        assert "continues_at" not in phone.updates("project_state")[-1]
