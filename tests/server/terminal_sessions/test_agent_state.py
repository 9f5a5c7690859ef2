"""What an agent in a terminal reports about itself, in its conversation's file and through its hooks."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from drawbridge.server.terminal_sessions.turn import MOST_TASKS

from .socket_rig import Message, Session, SocketRig, socket_rig
from .test_sessions import prompt, result

TODOS = [{"content": "Fix it", "status": "in_progress", "activeForm": "Fixing it"}]
SHELL = {"id": "b1", "type": "shell", "status": "running", "command": "npm run dev"}
SUBAGENT = {"id": "a1", "type": "subagent", "status": "running", "description": "look", "agent_type": "Explore"}
STATE = {
    "model": "claude-opus-5-5",
    "context_tokens": 1_100,
    "todos": [{"text": "Fix it", "status": "in_progress", "doing": "Fixing it"}],
}


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[SocketRig]:
    async with socket_rig(tmp_path) as rig:
        yield rig


def answer(**more: Any) -> Message:
    block = {"type": "tool_use", "id": "t", "name": "TodoWrite", "input": {"todos": TODOS}}
    usage = {"input_tokens": 100, "cache_read_input_tokens": 1_000}
    return {"type": "assistant", "message": {"model": "claude-opus-5-5", "content": [block], "usage": usage}, **more}


async def joined(rig: SocketRig, session: Session) -> Message:
    """The agent's state in the snapshot that a joining client receives, empty if the snapshot contains none."""
    snapshot: Message = (await rig.does("project_join", session.project))["data"]["data"]
    state: Message = snapshot.get("agent_state", {})
    return state


async def test_model_context_and_todo_list_are_read_from_the_file(rig: SocketRig) -> None:
    session = Session(rig)
    await session.reports("UserPromptSubmit", prompt="Go")
    assert await joined(rig, session) == {}
    session.writes(prompt("Go"), answer(), answer(isSidechain=True, message={"model": "small", "content": []}))
    await session.reports("PostToolUse", tool_name="Bash", tool_input={})
    assert await joined(rig, session) == STATE
    assert rig.client.updates("agent_state")[-1] == STATE


async def test_background_tasks_are_described(rig: SocketRig) -> None:
    session = Session(rig)
    await session.reports("UserPromptSubmit", prompt="Go")
    await session.reports("Stop", background_tasks=[SHELL, SUBAGENT, {"id": "x", "description": 5}])
    tasks = (await joined(rig, session))["tasks"]
    common = {"background": True}
    assert [{name: value for name, value in task.items() if value} for task in tasks] == [
        {"task_id": "b1", "text": "npm run dev", "kind": "local_bash", **common},
        {"task_id": "a1", "text": "look", "kind": "local_agent", "agent_type": "Explore", **common},
        {"task_id": "x", **common},
    ]
    await session.reports("SessionEnd")
    assert "tasks" not in await joined(rig, session)


async def test_clients_are_shown_a_limited_number_of_tasks(rig: SocketRig) -> None:
    """The reported number of background tasks still includes all of them."""
    session = Session(rig)
    await session.reports("UserPromptSubmit", prompt="Go")
    ids = [f"b{number}" for number in range(MOST_TASKS + 1)]
    await session.reports("Stop", background_tasks=[{**SHELL, "id": id} for id in ids])
    assert [task["task_id"] for task in (await joined(rig, session))["tasks"]] == ids[:MOST_TASKS]
    assert (await rig.info(session))["desk"]["background_tasks"] == len(ids)


async def test_a_subagent_that_works_is_a_task(rig: SocketRig) -> None:
    session = Session(rig)
    await session.reports("UserPromptSubmit", prompt="Go")
    await session.reports("PostToolUse", tool_name="Bash", tool_input={}, agent_id="a1", agent_type="Explore")
    assert [task["agent_type"] for task in (await joined(rig, session))["tasks"]] == ["Explore"]
    await session.reports("SubagentStop", agent_id="a1")
    assert "tasks" not in await joined(rig, session)


async def test_the_next_server_knows_the_reported_state(tmp_path: Path) -> None:
    async with socket_rig(tmp_path) as rig:
        session = Session(rig)
        await session.reports("UserPromptSubmit", prompt="Go")
        session.writes(prompt("Go"), answer())
        await session.reports("Stop")
    async with socket_rig(tmp_path) as later:
        assert await joined(later, session) == STATE
        session.at(later).writes(answer(message={"model": "claude-haiku", "content": []}))
        await session.reports("Notification")
        assert await joined(later, session) == STATE | {"model": "claude-haiku"}


async def test_a_client_that_joins_a_run_sees_when_it_began(rig: SocketRig) -> None:
    """Clients treat a run without a start time as one that has not begun yet."""
    session = Session(rig)
    await session.reports("UserPromptSubmit", prompt="Go")
    snapshot = (await rig.does("project_join", session.project))["data"]["data"]
    assert (snapshot["run"]["run_id"], bool(snapshot["run"]["started_at"])) == (session.turn, True)


async def test_lines_of_an_unexpected_form_are_harmless(rig: SocketRig) -> None:
    session = Session(rig)
    await session.reports("UserPromptSubmit", prompt="Go")
    lines: list[Any] = [
        {"type": "assistant", "message": {"model": 5, "usage": "x", "content": 7}},
        {"type": "system", "subtype": ["init"], "compactMetadata": 7},
        {"type": "system", "subtype": "compact_boundary", "compactMetadata": 7},
        {"type": "system", "subtype": "init", "model": "x" * 100_000},
    ]
    session.writes(*lines)
    await session.reports("Notification")
    assert len(json.dumps(await joined(rig, session))) < 1_000


async def test_lines_that_the_agent_has_changed_are_counted(rig: SocketRig) -> None:
    """Lines are counted as in a managed session. Nothing else in a tool's ``toolUseResult`` is stored."""
    session = Session(rig)
    patch = {"structuredPatch": [{"oldStart": 4, "lines": [" a", "-b", "+c", "+d"]}], "originalFile": "secret"}
    created: Message = {"type": "create", "content": "x\ny\n", "structuredPatch": [], "originalFile": None}
    odd: list[Any] = [7, "Error: no", {"structuredPatch": "secret"}, {"type": "text", "content": "secret"}, [created]]
    await session.reports("UserPromptSubmit", prompt="Go")
    session.writes(
        prompt("Go"),
        *(result(f"t{at}", toolUseResult=found) for at, found in enumerate([patch, created, *odd])),
    )
    await session.reports("Stop")
    (listed,) = (await rig.does("sessions", session.project))["data"]["sessions"]
    assert (listed["added"], listed["removed"]) == (4, 1)
    history = await rig.does("get_messages", session.project, after_seq=0)
    assert "secret" not in json.dumps(history)
