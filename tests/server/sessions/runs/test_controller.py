"""The owner of a session's run: whatever fails, the run ends once, its slot is free again, and no process is left."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from drawbridge.agents import base
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.sessions.managed import ManagedSession
from drawbridge.server.sessions.options.limits import Limits
from drawbridge.server.sessions.runs.checkpointing import RunCheckpoints
from drawbridge.server.sessions.runs.run import State
from tests.server.core_rig import Client, Process, Server, StoredSessions, serving, settled
from tests.waiting import until

ONE_SLOT = Limits(checkpoints=False, runs_at_once=1)


async def idle(server: Server, client: Client) -> tuple[ManagedSession, Process]:
    """A session and its idle process, after one run."""
    project = await server.project(client)
    process = await server.running(client, project)
    process.ends()
    await until(lambda: client.updates("run_finished"), "the end of the run")
    return server.core.projects.get(project), process


class Held:
    """Holds back the checkpoint before a run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached = asyncio.Event()
        self.go_on = asyncio.Event()
        monkeypatch.setattr(RunCheckpoints, "before", self._before)

    async def _before(self, run_id: str) -> None:
        self.reached.set()
        await self.go_on.wait()


async def assert_the_slot_is_free(server: Server, client: Client) -> None:
    other = await server.running(client, await server.project(client, "other"), "other")
    other.ends()
    await settled()


async def test_no_process_is_started_for_a_run_that_was_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run is killed while the checkpoint before it is taken."""
    phone = Client()
    async with serving(tmp_path, ONE_SLOT) as server:
        project = await server.project(phone)
        held = Held(monkeypatch)
        await server.does(phone, "execute", project, prompt="go")
        await held.reached.wait()
        await server.does(phone, "agent_kill", project)
        held.go_on.set()
        await settled()
        assert [run["outcome"] for run in phone.updates("run_finished")] == ["killed"]
        assert server.agent.starts == 0
        await assert_the_slot_is_free(server, phone)


async def test_a_process_that_starts_too_late_for_its_run_is_ended(tmp_path: Path) -> None:
    """The run was killed while the process was starting, so nobody needs the process."""
    phone = Client()
    async with serving(tmp_path, ONE_SLOT) as server:
        project = await server.project(phone)
        await server.starting(phone, project)
        await server.does(phone, "agent_kill", project)
        assert [run["outcome"] for run in phone.updates("run_finished")] == ["killed"]
        server.agent.may_start.set()
        await until(lambda: server.agent.processes and server.agent.latest.ended, "the end of the process")
        assert server.agent.latest.prompts == []


async def test_a_process_that_exits_before_the_prompt_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its question is withdrawn, because the next process does not know it."""
    phone = Client()
    async with serving(tmp_path, ONE_SLOT) as server:
        session, process = await idle(server, phone)
        held = Held(monkeypatch)
        await server.does(phone, "execute", session.id, prompt="more")
        await held.reached.wait()
        process.asks("q1")
        assert len(session.approvals) == 1, "a background task of the agent asks"
        process.exit(1)
        assert len(session.approvals) == 0
        [withdrawn] = phone.updates("permission_withdrawn")
        assert withdrawn["reason"] == "the agent's process ended before the request was answered"
        held.go_on.set()
        await until(lambda: server.agent.latest.prompts == ["more"], "the prompt")
        assert server.agent.latest is not process
        server.agent.latest.ends()
        await settled()
        assert [run["outcome"] for run in phone.updates("run_finished")] == ["completed", "completed"]


async def test_a_process_that_exits_during_its_last_check_is_replaced(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path, ONE_SLOT) as server:
        session, process = await idle(server, phone)
        loop = asyncio.get_running_loop()

        class Exits(StoredSessions):
            """Checks in a thread whether the conversation is in use. The process exits in the meantime."""

            def used_by(self, session_id: str) -> list[int]:
                loop.call_soon_threadsafe(process.exit, 1)
                return []

        server.agent.sessions = Exits(all=True)
        await server.does(phone, "execute", session.id, prompt="more")
        await until(lambda: server.agent.latest.prompts == ["more"], "the prompt")
        server.agent.latest.ends()
        await settled()
        assert len(phone.updates("run_finished")) == 2


async def test_a_refused_run_leaves_the_idle_process_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killing the run just before it ends does not affect the process either."""
    phone = Client()
    async with serving(tmp_path, ONE_SLOT) as server:
        session, process = await idle(server, phone)

        def refuse(*_: object) -> None:
            raise ClientError("PERMISSION_DENIED", "Not at this hour.")

        monkeypatch.setattr(server.core.grants, "still_within", refuse)
        await server.does(phone, "execute", session.id, prompt="more")
        assert session.controller.current.state is State.STARTING
        await server.does(phone, "agent_kill", session.id)
        monkeypatch.undo()
        await settled()
        assert [run["outcome"] for run in phone.updates("run_finished")] == ["completed", "killed"]
        assert not process.ended
        await server.does(phone, "execute", session.id, prompt="again")
        await until(lambda: process.prompts == ["go", "again"], "the prompt")
        process.ends()
        await settled()


async def test_a_run_whose_process_cannot_be_killed_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user who kills it gets the error. The next prompt gets another process."""
    phone = Client()
    async with serving(tmp_path, ONE_SLOT) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)

        async def fails() -> None:
            raise OSError("odd")

        with monkeypatch.context() as defect:
            defect.setattr(process, "kill", fails)
            with pytest.raises(OSError, match="odd"):
                await server.does(phone, "agent_kill", project)
        assert [run["outcome"] for run in phone.updates("run_finished")] == ["killed"]
        later = await server.running(phone, project, "more")
        assert later is not process
        later.ends()
        await settled()
        await assert_the_slot_is_free(server, phone)


async def test_the_end_of_a_run_that_cannot_be_reported_frees_its_slot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    phone = Client()
    async with serving(tmp_path, ONE_SLOT) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)

        def fails(*_: object, **__: object) -> None:
            raise ValueError("odd")

        with monkeypatch.context() as defect:
            defect.setattr(server.core.projects.get(project).continuing, "plan", fails)
            with pytest.raises(ValueError, match="odd"):
                process.ends()
        await assert_the_slot_is_free(server, phone)


async def test_a_second_kill_waits_for_the_same_end(tmp_path: Path) -> None:
    phone, page = Client("phone"), Client("page")
    async with serving(tmp_path, ONE_SLOT) as server:
        project = await server.project(phone)
        await server.does(page, "project_join", project)
        process = await server.running(phone, project)
        await asyncio.gather(*(server.does(client, "agent_kill", project) for client in (phone, page)))
        assert process.ended
        assert [run["outcome"] for run in phone.updates("run_finished")] == ["killed"]
        assert len([*phone.updates("execution_killed"), *page.updates("execution_killed")]) == 2, "one record for both"


async def test_an_interrupt_before_the_prompt_keeps_the_process(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path, ONE_SLOT) as server:
        project = await server.project(phone)
        await server.starting(phone, project)
        controller = server.core.projects.get(project).controller
        await server.does(phone, "agent_interrupt", project)
        assert controller.current.state is State.CANCELED
        server.agent.may_start.set()
        await until(lambda: phone.updates("run_finished"), "the end of the run")
        assert phone.updates("run_finished")[-1]["outcome"] == "interrupted"
        process = await server.running(phone, project, "more")
        assert (server.agent.starts, process.prompts) == (1, ["more"])
        process.ends()
        await settled()


async def test_a_held_session_does_not_start_queued_runs(tmp_path: Path) -> None:
    """The agent's own turn is still reported."""
    phone = Client()
    async with serving(tmp_path, ONE_SLOT) as server:
        session, process = await idle(server, phone)
        session.controller.hold()
        await server.does(phone, "execute", session.id, prompt="more")
        assert session.controller.run is None
        process.emit(base.TurnBegun())
        assert session.controller.current.order.unprompted
        process.ends()
        await settled()
        assert process.prompts == ["go"]
        session.controller.resume()
        await until(lambda: process.prompts == ["go", "more"], "the prompt")
        process.ends()
        await settled()
