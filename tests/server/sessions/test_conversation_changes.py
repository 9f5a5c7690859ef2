"""When one conversation of the agent ends and another begins, each has its own prompts, title, state and records."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from drawbridge.agents import base
from drawbridge.agents.claude.conversation import ClaudeConversation
from drawbridge.core.errors import HistoryNotWritten
from drawbridge.server.events import PromptAccepted
from drawbridge.server.protocol import commands, messages
from drawbridge.server.sessions.session import SessionStore
from drawbridge.server.store import log
from drawbridge.server.store.log import History
from tests.server.core_rig import Client, Process, Server, StoredSessions, serving, settled
from tests.waiting import until

REPORTED = base.AgentState(
    model="opus",
    context_tokens=90_000,
    context_window=200_000,
    todos=(base.Todo("Count the walnuts", "pending", None),),
    tasks=(base.Task("t1", "a build", "running"),),
    compacting=True,
)


def answers(process: Process, text: str) -> None:
    content = [{"type": "text", "text": text}]
    process.says({"type": "assistant", "message": {"content": content}, "session_id": process.launch.session_id})


async def run(server: Server, client: Client, project: str, prompt: str, answer: str = "", **more: Any) -> Process:
    process = await server.running(client, project, prompt, **more)
    if answer:
        answers(process, answer)
    process.ends()
    await settled()
    return process


def without_its_older_half(server: Server, project: str) -> History:
    """Drops the oldest files of a project's history until at most half of its size, or only the newest file, is left.
    Returns the history.
    """
    history = server.core.projects.get(project).history
    history.drop(None, history.size // 2)
    return history


async def deleted(server: Server, client: Client, project: str, session_id: str, word: str) -> None:
    """Deletes the conversation, and checks that a search no longer finds ``word``."""
    await server.does(client, "session_delete", project, session_id=session_id)
    assert (await server.does(client, "search", query=word))["data"]["results"] == []


async def entries(server: Server, client: Client, project: str) -> list[tuple[str, int, str, bool]]:
    """The project's sessions, newest first: title, number of prompts, last line, whether it is the current one."""
    found = (await server.does(client, "sessions", project))["data"]["sessions"]
    return [(one["title"], one["prompts"], one.get("last_line", ""), one.get("current", False)) for one in found]


# another agent


async def test_a_prompt_for_another_agent_begins_its_conversation(tmp_path: Path) -> None:
    """The prompt is that conversation's title, and it can be found until the conversation is deleted."""
    phone = Client()
    async with serving(tmp_path) as server:
        server.core.grants.agents["codex"] = server.agent  # type: ignore[index]
        project = await server.project(phone)
        await run(server, phone, project, "Count walnuts", "Two.")
        await run(server, phone, project, "Count pears", "Three.", agent="codex")
        assert await entries(server, phone, project) == [
            ("Count pears", 1, "Three.", True),
            ("Count walnuts", 1, "Two.", False),
        ]
        assert server.core.projects.get(project).title == "Count pears"
        current = server.core.projects.get(project).recorded.session_id
        [hit] = (await server.does(phone, "search", query="pears"))["data"]["results"]
        assert hit["session_id"] == current
        await deleted(server, phone, project, current, "pears")
        assert [one[0] for one in await entries(server, phone, project)] == ["Count walnuts"]


async def test_a_waiting_prompt_is_the_new_conversations_title(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        server.core.grants.agents["codex"] = server.agent  # type: ignore[index]
        project = await server.project(phone)
        first = await server.running(phone, project, "Count walnuts")
        await server.does(phone, "execute", project, prompt="Count pears", agent="codex")
        answers(first, "Two.")
        first.ends()
        await until(lambda: len(server.agent.processes) > 1 and server.agent.latest.prompts, "the next run")
        answers(server.agent.latest, "Three.")
        server.agent.latest.ends()
        await settled()
        assert [(one[0], one[2]) for one in await entries(server, phone, project)] == [
            ("Count pears", "Three."),
            ("Count walnuts", "Two."),
        ]
        assert server.core.projects.get(project).title == "Count pears"


async def test_another_agent_has_its_own_state_offers_and_modes(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        server.core.grants.agents["codex"] = server.agent  # type: ignore[index]
        server.agent.own_modes = True
        project = await server.project(phone)
        process = await run(server, phone, project, "Count walnuts")
        process.emit(base.StateReported(REPORTED))
        process.emit(base.OffersReported(base.AgentOffers(steer=True, models=(base.ModelOffer("opus"),))))
        process.emit(base.ModeChanged("plan", ("default", "plan", "own"), (base.ModeOffer("own"),)))
        session = server.core.projects.get(project)
        assert [mode.name for mode in session.snapshot().own_modes] == ["own"]
        await run(server, phone, project, "Count pears", agent="codex")
        shown = session.snapshot()
        assert (shown.agent_state, shown.agent_offers, shown.modes, shown.own_modes) == (None, None, [], [])
        assert (phone.updates("agent_state")[-1], phone.updates("agent_offers")[-1]) == ({}, {})


async def test_a_prompt_that_is_not_stored_does_not_change_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        server.core.grants.agents["codex"] = server.agent  # type: ignore[index]
        server.agent.own_modes = True
        project = await server.project(phone)
        process = await run(server, phone, project, "Count walnuts", "Two.")
        process.emit(base.StateReported(REPORTED))
        process.emit(base.OffersReported(base.AgentOffers(steer=True, models=(base.ModelOffer("opus"),))))
        process.emit(base.ModeChanged("plan", ("default", "plan", "own"), (base.ModeOffer("own"),)))
        session = server.core.projects.get(project)
        before = session.snapshot()
        append = SessionStore.append

        def full(self: SessionStore, event: Any, *args: Any, **more: Any) -> Any:
            if isinstance(event, PromptAccepted):
                raise HistoryNotWritten("the disk is full")
            return append(self, event, *args, **more)

        with monkeypatch.context() as failing:
            failing.setattr(SessionStore, "append", full)
            with pytest.raises(HistoryNotWritten):
                await server.does(phone, "execute", project, prompt="Count pears", agent="codex")
        shown = session.snapshot()
        for fact in ("agent_state", "agent_offers", "modes", "own_modes"):
            assert getattr(shown, fact) == getattr(before, fact) != [], f"{fact} is still the former agent's"
        recorded = session.recorded
        assert (recorded.session_id, recorded.agent, recorded.title) == (
            process.launch.session_id,
            "claude",
            "Count walnuts",
        )
        assert (await run(server, phone, project, "Go on", "More.")).prompts == ["Count walnuts", "Go on"]
        assert await entries(server, phone, project) == [("Count walnuts", 2, "More.", True)]


# a conversation that the agent has not stored


async def killed_in_its_first_run(server: Server, phone: Client, *, known: bool) -> str:
    server.agent.sessions = StoredSessions(all=known)
    project = await server.project(phone)
    process = await server.running(phone, project, "Count walnuts")
    process.emit(base.StateReported(REPORTED))
    await server.does(phone, "agent_kill", project)
    await settled()
    return project


async def test_after_a_lost_conversation_a_prompt_begins_another(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await killed_in_its_first_run(server, phone, known=False)
        process = await run(server, phone, project, "Count pears", "Three.")
        assert not process.launch.resume
        assert await entries(server, phone, project) == [
            ("Count pears", 1, "Three.", True),
            ("Count walnuts", 1, "", False),
        ]
        shown = server.core.projects.get(project).snapshot()
        assert shown.agent_state == messages.AgentState(model="opus")
        await server.does(phone, "session_delete", project, session_id=process.launch.session_id)
        found = (await server.does(phone, "search", query="Count"))["data"]["results"]
        assert ["".join(one["snippet"]) for one in found] == ["Count walnuts"]


async def test_a_conversation_that_the_agent_has_stored_continues(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await killed_in_its_first_run(server, phone, known=True)
        process = await run(server, phone, project, "Count pears", "Three.")
        assert process.launch.resume
        assert await entries(server, phone, project) == [("Count walnuts", 2, "Three.", True)]


async def test_after_a_lost_session_a_waiting_prompt_is_the_title(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        server.agent.sessions = StoredSessions()
        project = await server.project(phone)
        await server.running(phone, project, "Count walnuts")
        await server.does(phone, "execute", project, prompt="Count pears")
        await server.does(phone, "agent_kill", project)
        await until(lambda: len(server.agent.processes) > 1 and server.agent.latest.prompts, "the next run")
        answers(server.agent.latest, "Three.")
        server.agent.latest.ends()
        await settled()
        assert [one[0] for one in await entries(server, phone, project)] == ["Count pears", "Count walnuts"]
        assert server.core.projects.get(project).title == "Count pears"


# the agent's state


async def test_the_state_of_a_deleted_conversation_is_forgotten(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await run(server, phone, project, "Count walnuts")
        process.emit(base.StateReported(REPORTED))
        session_id = process.launch.session_id
        await server.does(phone, "session_delete", project, session_id=session_id)
        assert phone.updates("agent_state")[-1] == {"model": "opus"}
        assert server.core.projects.get(project).snapshot().agent_state == messages.AgentState(model="opus")


async def test_a_resumed_process_begins_with_the_last_state(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await run(server, phone, project, "Count walnuts")
        process.emit(base.StateReported(REPORTED))
        process.exit(0)
        await settled()
        later = await run(server, phone, project, "Count pears")
        assert later.launch.resume
        kept = base.AgentState(
            model="opus",
            context_tokens=90_000,
            context_window=200_000,
            todos=REPORTED.todos,
            tasks=(),
            compacting=False,
        )
        assert later.launch.state == kept
        await server.does(phone, "agent_new_session", project)
        assert (await run(server, phone, project, "Count plums")).launch.state is None


def test_the_first_line_of_a_resumed_agent_keeps_its_todo_list() -> None:
    conversation = ClaudeConversation("Claude", lambda path: "", resumed=True, state=REPORTED)
    line = {"type": "system", "subtype": "init", "session_id": "s", "model": "opus"}
    found = [one for one in conversation.received(json.dumps(line).encode()) if isinstance(one, base.StateReported)]
    assert [one.state.todos for one in found] in ([], [REPORTED.todos])


# a deleted conversation


async def test_an_agent_has_ended_before_its_conversation_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, the agent could write to the files that are being removed."""
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await run(server, phone, project, "Count walnuts", "Two.")
        history = server.core.projects.get(project).history
        remove, had_ended = history.remove, list[bool]()

        def noted(ranges: Sequence[range], copy: str) -> int:
            had_ended.append(process.ended)
            return remove(ranges, copy)

        async def slowly() -> None:
            await settled()
            process.exit(0)

        monkeypatch.setattr(history, "remove", noted)
        monkeypatch.setattr(process, "stop", slowly)
        await deleted(server, phone, project, process.launch.session_id, "walnuts")
        assert had_ended == [True]


async def test_a_prompt_waits_for_the_reply_to_a_deletion(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await run(server, phone, project, "Count walnuts", "Two.")
        command = commands.SessionDelete(project_id=project, session_id=process.launch.session_id)
        sender: Any = phone
        reply = await server.built.histories.session_delete(command, sender)
        await server.does(phone, "execute", project, prompt="Count pears")
        await settled()
        assert len(phone.updates("run_started")) == 1
        assert reply.then is not None
        reply.then()
        await until(lambda: server.agent.latest.prompts == ["Count pears"], "the next run")
        server.agent.latest.ends()
        await settled()


# without the older records


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "MOST_RECORDS", 6)


@pytest.mark.usefixtures("small_files")
@pytest.mark.parametrize("restarted", [False, True])
async def test_a_session_id_is_known_without_its_older_records(tmp_path: Path, restarted: bool) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        session_id = (await run(server, phone, project, "Count walnuts 0", "One.")).launch.session_id
        await server.does(phone, "session_rename", project, session_id=session_id, name="Nuts")
        for number in range(1, 6):
            await run(server, phone, project, f"Count walnuts {number}", "More.")
        assert without_its_older_half(server, project).first_seq > 6
        if not restarted:
            await check_known(server, phone, project, session_id)
    if restarted:
        async with serving(tmp_path) as server:
            await check_known(server, phone, project, session_id)


async def check_known(server: Server, phone: Client, project: str, session_id: str) -> None:
    [entry] = (await server.does(phone, "sessions", project))["data"]["sessions"]
    assert (entry["session_id"], entry["title"], entry["named"], entry["current"]) == (session_id, "Nuts", True, True)
    page = (await server.does(phone, "session_messages", project, session_id=session_id))["data"]
    assert page["messages"]
    assert "walnuts" in (await server.does(phone, "session_export", project, session_id=session_id))["data"]["text"]
    await server.does(phone, "session_rename", project, session_id=session_id, name="Other nuts")
    assert server.core.projects.get(project).title == "Other nuts"
    await deleted(server, phone, project, session_id, "walnuts")


@pytest.mark.usefixtures("small_files")
async def test_a_previous_session_is_known_without_its_older_records(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        server.agent.sessions = StoredSessions(all=True)
        project = await server.project(phone)
        for number in range(6):
            process = await run(server, phone, project, f"Count walnuts {number}", "More.")
        await server.does(phone, "agent_new_session", project)
        await run(server, phone, project, "Count pears")
        without_its_older_half(server, project)
        session_id = process.launch.session_id
        found = (await server.does(phone, "sessions", project))["data"]["sessions"]
        assert session_id in [one["session_id"] for one in found]
        await deleted(server, phone, project, session_id, "walnuts")


@pytest.mark.usefixtures("small_files")
async def test_the_current_session_is_known_by_the_end_of_its_run(tmp_path: Path) -> None:
    """The session's only run began before the first record that is left."""
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project, "Count")
        for number in range(20):
            answers(process, f"walnut {number}")
        process.ends()
        await settled()
        without_its_older_half(server, project)
        await deleted(server, phone, project, process.launch.session_id, "walnut")
