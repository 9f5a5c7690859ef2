"""Messages that are sent into the active run, and what the agent reports about itself."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from drawbridge.agents import base
from drawbridge.core.errors import HistoryNotWritten
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.sessions import session as session_module
from drawbridge.server.sessions.managed import LONGEST_REPORT
from drawbridge.server.store.log import History
from tests.server.core_rig import Client, Process, Server, records, serving, settled
from tests.waiting import PATIENCE


async def test_a_message_is_sent_into_the_active_run(tmp_path: Path) -> None:
    phone, page = Client("phone"), Client("page")
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await server.does(page, "project_join", project)
        process = await server.running(phone, project)
        [run] = phone.updates("run_started")
        answer = await server.does(page, "execute", project, prompt="and tests", steer=True, request_id="r2")
        assert answer["data"] == {"run_id": run["run_id"], "position": 0}
        assert (process.steers, process.prompts) == (["and tests"], ["go"])
        last = records(server, project)[-1]["message"]
        assert (last["run_id"], last["message"]["prompt"], last["steer"], last["by"]) == (
            run["run_id"], "and tests", True, "page"
        )  # fmt: skip
        assert phone.of_type("agent_message")[-1]["data"]["messages"][0]["steer"] is True
        await server.does(page, "execute", project, prompt="and tests", steer=True, request_id="r2")
        assert process.steers == ["and tests"], "a repeated request is not sent again"
        process.ends()
        await settled()
        assert len(phone.updates("run_finished")) == 1


async def test_a_message_without_an_active_run_is_refused(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        with pytest.raises(ClientError) as refused:
            await server.does(phone, "execute", project, prompt="and tests", steer=True)
        assert refused.value.code == "PROCESS_NOT_FOUND"
        process = await server.running(phone, project)
        before = records(server, project)
        process.steers = None
        for more, code in (({}, "NOT_SUPPORTED"), ({"options": {"model": "opus"}}, "VALIDATION_FAILED")):
            with pytest.raises(ClientError) as refused:
                await server.does(phone, "execute", project, prompt="and tests", steer=True, **more)
            assert (refused.value.code, refused.value.field) == (code, "data.steer")
        await server.does(phone, "agent_interrupt", project)
        with pytest.raises(ClientError) as refused:
            await server.does(phone, "execute", project, prompt="and tests", steer=True)
        assert refused.value.code == "PROCESS_NOT_FOUND"
        assert records(server, project) == before


async def test_a_message_that_cannot_be_recorded_is_not_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)

        def full(*_: object, **__: object) -> None:
            raise HistoryNotWritten("The disk is full.", disk_full=True)

        with monkeypatch.context() as patched:
            patched.setattr(History, "append", full)
            with pytest.raises(HistoryNotWritten):
                await server.does(phone, "execute", project, prompt="and tests", steer=True)
        assert process.steers == []
        process.ends()


STATE = base.AgentState(model="opus", context_tokens=5_000, todos=(base.Todo("Fix it", "pending"),))
OFFERS = base.AgentOffers(
    commands=(base.Offer("compact"),), models=(base.ModelOffer("opus", efforts=("low", "high")),), steer=True
)


async def test_a_client_that_joins_late_knows_the_agents_state(tmp_path: Path) -> None:
    phone, late = Client("phone"), Client("late")
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        joined = (await server.does(late, "project_join", project))["data"]["data"]
        assert not {"agent_state", "agent_offers"} & set(joined)
        process.emit(base.StateReported(STATE))
        process.emit(base.OffersReported(OFFERS))
        expected = {"model": "opus", "context_tokens": 5_000, "todos": [{"text": "Fix it", "status": "pending"}]}
        assert phone.updates("agent_state") == late.updates("agent_state") == [expected]
        process.ends()
        await settled()
        process.exit(0)
        joined = (await server.does(Client(), "project_join", project))["data"]["data"]
        assert joined["agent_state"] == expected
        assert joined["agent_offers"]["commands"] == [{"name": "compact"}]


def answered(session_id: str, model: str = "opus") -> base.AgentLine:
    """A line from the agent: a message of the model that contains a to-do list."""
    todos = {"todos": [{"content": "Fix it", "status": "pending"}]}
    content = [{"type": "tool_use", "id": "t", "name": "TodoWrite", "input": todos}]
    message = {"model": model, "content": content, "usage": {"input_tokens": 5_000}}
    line = {"type": "assistant", "message": message, "session_id": session_id}
    return base.AgentLine(json.dumps(line).encode(), session_id)


async def after_an_answer(server: Server, phone: Client) -> tuple[str, Process]:
    """A project and its process, whose agent has written a message with a to-do list in a turn that is still open."""
    project = await server.project(phone)
    process = await server.running(phone, project)
    process.emit(answered(process.launch.session_id))
    return project, process


async def after_a_restart(folder: Path, project: str) -> dict[str, Any]:
    """The agent's state in the snapshot that the next server sends, empty if the snapshot contains none. It must be the
    same for a second client.
    """
    phone = Client()
    async with serving(folder) as server:
        first, second = [
            (await server.does(client, "project_join", project))["data"]["data"].get("agent_state", {})
            for client in (phone, Client())
        ]
        assert first == second
        return dict(first)


async def test_the_next_server_knows_the_agents_state(tmp_path: Path) -> None:
    phone = Client("phone")
    async with serving(tmp_path) as server:
        project, process = await after_an_answer(server, phone)
        process.emit(answered("of-another", "haiku"))
        process.ends()
        await settled()
    expected = {"model": "opus", "context_tokens": 5_000, "todos": [{"text": "Fix it", "status": "pending"}]}
    assert await after_a_restart(tmp_path, project) == expected


async def test_a_report_after_a_restart_overrides_the_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent reports its state while the server is reading an older state from the history."""
    phone = Client("phone")
    async with serving(tmp_path) as server:
        project, process = await after_an_answer(server, phone)
        process.ends()
        await settled()
    may_end = threading.Event()
    async with serving(tmp_path) as server:
        last_state = server.agent.last_state

        def slow(lines: Sequence[bytes], session_id: str) -> base.AgentState:
            assert may_end.wait(PATIENCE)
            return last_state(lines, session_id)

        monkeypatch.setattr(server.agent, "last_state", slow)
        joining = asyncio.create_task(server.does(phone, "project_join", project))
        later = await server.running(phone, project, "later")
        later.emit(base.StateReported(base.AgentState(model="haiku")))
        may_end.set()
        assert (await joining)["data"]["data"]["agent_state"] == {"model": "haiku"}
        later.ends()
        await settled()


async def test_after_a_restart_only_the_end_of_a_history_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "LOOKED_BACK", 2)
    phone = Client("phone")
    async with serving(tmp_path) as server:
        project, process = await after_an_answer(server, phone)
        process.emit(base.AgentLine(b'{"type":"user"}'))
        process.ends()
        await settled()
    assert await after_a_restart(tmp_path, project) == {}


async def test_a_new_conversation_has_no_state_of_the_previous_one(tmp_path: Path) -> None:
    phone = Client("phone")
    async with serving(tmp_path) as server:
        project, process = await after_an_answer(server, phone)
        process.ends()
        await settled()
        await server.does(phone, "agent_new_session", project)
    assert await after_a_restart(tmp_path, project) == {}


async def test_a_new_conversation_has_no_todo_list(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        process.emit(base.StateReported(STATE))
        process.ends()
        await settled()
        await server.does(phone, "agent_new_session", project)
        assert phone.updates("agent_state")[-1] == {"model": "opus"}


async def test_the_effort_is_one_of_the_agents_levels(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        for effort in ("low", "sudo"):
            with pytest.raises(ClientError) as refused:
                await server.does(phone, "set_effort", project, effort=effort)
            assert (refused.value.code, refused.value.field) == ("NOT_SUPPORTED", "data.effort")
            process.emit(base.OffersReported(OFFERS))
        await server.does(phone, "set_effort", project, effort="low")
        assert process.modes == ["low"]
        process.ends()
        await server.running(phone, project, "next")
        assert len(server.agent.processes) == 1, "the process has accepted the effort"
        assert server.core.projects.get(project).data.options.effort == "low"


async def test_an_effort_that_a_process_refuses_needs_a_new_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        process.emit(base.OffersReported(OFFERS))

        async def cannot(effort: str) -> bool:
            return False

        monkeypatch.setattr(process, "set_effort", cannot)
        await server.does(phone, "set_effort", project, effort="low")
        process.ends()
        await server.does(phone, "execute", project, prompt="next")
        await settled(lambda: len(server.agent.processes) == 2 and bool(server.agent.latest.prompts))
        assert server.agent.latest.launch.options.effort == "low"


async def test_a_report_that_is_too_large_is_dropped(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        process.emit(base.StateReported(STATE))
        process.emit(base.StateReported(base.AgentState(model="x" * LONGEST_REPORT)))
        process.emit(base.OffersReported(base.AgentOffers(skills=("x" * LONGEST_REPORT,))))
        assert [state["model"] for state in phone.updates("agent_state")] == ["opus"]
        assert phone.updates("agent_offers") == []
        process.ends()


async def test_a_message_during_an_agents_start_may_be_retried(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await server.starting(phone, project)
        with pytest.raises(ClientError) as refused:
            await server.does(phone, "execute", project, prompt="and tests", steer=True)
        assert (refused.value.code, refused.value.retryable) == ("PROCESS_NOT_FOUND", True)
        server.agent.may_start.set()
        await settled(lambda: bool(server.agent.processes and server.agent.latest.prompts))
        await server.does(phone, "execute", project, prompt="and tests", steer=True)
        assert server.agent.latest.steers == ["and tests"]
        server.agent.latest.ends()
        await settled()
