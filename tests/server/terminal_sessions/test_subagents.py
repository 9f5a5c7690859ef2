"""The terminal shows the dialog for a question from a subagent only once the hook has ended."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from drawbridge.server.terminal_sessions import questions
from tests.waiting import until

from .socket_rig import Line, Message, Session, SocketRig, socket_rig

COMMAND: Message = {"command": "touch made"}
SUBAGENT: Message = {"agent_id": "a1", "agent_type": "general-purpose"}
TASK: Message = {"id": "a1", "type": "subagent", "status": "running", "description": "do it"}
HANDED_OVER = ["asked in the terminal: it can now be answered only there"]


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[SocketRig]:
    async with socket_rig(tmp_path) as rig:
        yield rig


def standing(rig: SocketRig, session: Session) -> Message:
    """The session's state as clients would receive it, without its mode. No client has to be connected."""
    found = rig.server.core.terminal_sessions.find(session.project)
    assert found is not None
    info: Message = msgspec.to_builtins(found.info())["desk"]
    return {name: value for name, value in info.items() if name != "permission_mode"}


async def test_a_connected_client_answers_a_subagent(rig: SocketRig) -> None:
    session = Session(rig)
    async with session.asks(more=SUBAGENT, **COMMAND) as (hook, question):
        assert question["asked_by"] == SUBAGENT
        assert await hook.receives_nothing()
        await rig.answers(question)
        assert await hook.receive() == {"decision": {"behavior": "allow"}}
    assert standing(rig, session) == {"state": "working", "background_tasks": 1}


@pytest.mark.parametrize("follower", ["nobody", "only watches", "another directory"])
async def test_without_a_client_a_subagent_asks_in_the_terminal(
    rig: SocketRig, follower: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if follower == "only watches":
        rig.client.decides = False
    elif follower == "another directory":
        monkeypatch.setattr(rig.client, "sees", lambda path: False)
    else:
        rig.server.core.remove_client(rig.client)
    session = Session(rig)
    await session.reports("UserPromptSubmit", prompt="Go")
    async with session.question_of(SUBAGENT, **COMMAND) as hook:
        assert await hook.receive() is None
    assert standing(rig, session) == {"state": "waiting", "in_terminal": True}
    await session.reports("PostToolUse", tool_name="Bash", tool_input=COMMAND, **SUBAGENT)
    assert (standing(rig, session))["state"] == "working"


async def test_the_wait_for_a_client_is_bounded(rig: SocketRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "HOLD_SECONDS", 0.1)
    session = Session(rig)
    await session.reports("UserPromptSubmit", prompt="Go")
    async with session.asks(more=SUBAGENT, **COMMAND) as (hook, question):
        assert await hook.receive() is None
        assert rig.withdrawn(question) == HANDED_OVER
        error = await rig.refusal("permission_response", session.project, **_allowed(question))
        assert error.code == "APPROVAL_RESOLVED"
    assert standing(rig, session) == {"state": "waiting", "in_terminal": True}


async def test_after_an_unanswered_request_the_next_wait_is_short(
    rig: SocketRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once a client has answered, the next wait lasts ``HOLD_SECONDS`` again."""
    monkeypatch.setattr(questions, "HOLD_SECONDS", 0.1)
    monkeypatch.setattr(questions, "HOLD_AGAIN_SECONDS", 3600.0)
    session = Session(rig)
    await session.reports("UserPromptSubmit", prompt="Go")
    async with session.asks(more=SUBAGENT, command="one") as (hook, _):
        assert await hook.receive() is None
    async with session.asks(more=SUBAGENT, command="two") as (hook, question):
        # If the previous question had been answered, the hook would wait only ``HOLD_SECONDS``, the shorter time here.
        assert await hook.receives_nothing()
        await rig.answers(question)
        assert await hook.receive() == {"decision": {"behavior": "allow"}}
    async with session.asks(more=SUBAGENT, command="three") as (hook, _):
        assert await hook.receive() is None


async def test_a_workflows_subagent_may_wait_longer(rig: SocketRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A workflow's subagent may wait longer than ``HOLD_SECONDS``, because its dialog stays usable in the meantime (2.1.329).
    This is true whether or not a client is connected.
    """
    monkeypatch.setattr(questions, "HOLD_SECONDS", 0.0)
    agent = {"agent_id": "a1", "agent_type": "workflow-subagent"}
    session = Session(rig)
    async with session.asks(more=agent, **COMMAND) as (hook, question):
        assert await hook.receives_nothing()
        assert await rig.is_open(question)
    rig.server.core.remove_client(rig.client)
    async with session.question_of(agent, command="another") as hook:
        assert await hook.receives_nothing()


async def test_the_main_agent_may_wait_longer(rig: SocketRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The main agent may wait longer than ``HOLD_SECONDS``, because its dialog stays usable in the meantime."""
    monkeypatch.setattr(questions, "HOLD_SECONDS", 0.0)
    async with Session(rig).asks(**COMMAND) as (hook, question):
        assert await hook.receives_nothing()
        assert await rig.is_open(question)


@pytest.mark.parametrize(
    ("event", "more"),
    [
        ("Stop", {"background_tasks": [TASK]}),
        ("UserPromptSubmit", {"prompt": "Something else", "prompt_id": "another"}),
        ("UserPromptSubmit", {"prompt": "<task-notification>\n<task-id>b2", "prompt_id": "another"}),
        ("PostToolUse", {"tool_name": "Bash", "tool_input": COMMAND}),
        ("PostToolUse", {"tool_name": "Bash", "tool_input": COMMAND, "agent_id": "b2"}),
        ("SubagentStop", {"agent_id": "b2"}),
        ("StopFailure", {"error": "unknown"}),
        ("Notification", {"notification_type": "permission_prompt"}),
    ],
)
async def test_other_events_leave_a_subagents_question_open(rig: SocketRig, event: str, more: Message) -> None:
    session = Session(rig)
    await session.reports("UserPromptSubmit", prompt="Go")
    async with session.asks(more=SUBAGENT, **COMMAND) as (hook, question):
        await session.reports(event, **more)
        assert rig.withdrawn(question) == []
        assert standing(rig, session)["state"] == "waiting"
        await rig.answers(question)
        assert await hook.receive() == {"decision": {"behavior": "allow"}}


async def test_the_end_of_a_turn_withdraws_only_the_main_question(rig: SocketRig) -> None:
    session = Session(rig)
    async with (
        session.asks(**COMMAND) as (_, main),
        session.asks(more=SUBAGENT, command="touch other") as (_, subagents),
    ):
        await session.reports("Stop", background_tasks=[TASK])
        assert rig.withdrawn(main) == ["answered elsewhere"]
        assert rig.withdrawn(subagents) == []


async def test_the_question_of_a_stopped_subagent_is_withdrawn(rig: SocketRig) -> None:
    async with Session(rig).asks(more=SUBAGENT, **COMMAND) as (hook, question):
        await hook.close()
        await until(lambda: rig.withdrawn(question) == ["the agent is no longer waiting for it"], "its end")


@pytest.mark.parametrize(
    ("event", "more"),
    [
        ("SubagentStop", SUBAGENT),
        ("Stop", {"background_tasks": []}),
        ("SessionEnd", {"reason": "exit"}),
    ],
)
async def test_a_terminal_dialog_ends_with_its_subagent_or_turn(rig: SocketRig, event: str, more: Message) -> None:
    rig.client.decides = False
    session = Session(rig)
    async with session.question_of(SUBAGENT, **COMMAND) as hook:
        assert await hook.receive() is None
    await session.reports(event, **more)
    assert "in_terminal" not in standing(rig, session)


async def test_the_wait_is_bounded_after_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with socket_rig(tmp_path) as rig:
        session = Session(rig)
        await session.reports("UserPromptSubmit", prompt="Go")
        async with first_hook(session):
            await until(lambda: bool(rig.questions), "the question")
            await rig.server.core.close("the server is ending")
    monkeypatch.setattr(questions, "HOLD_SECONDS", 0.1)
    async with socket_rig(tmp_path) as later:
        await until(lambda: not _open(later, session), "its end")
        assert standing(later, session) == {"state": "waiting", "in_terminal": True}
        await session.at(later).reports("PostToolUse", tool_name="Bash", tool_input=COMMAND, **SUBAGENT)
        await session.reports("Stop", prompt_id="another", background_tasks=[])
        assert standing(later, session) == {"state": "finished"}
        assert [one["outcome"] for one in later.client.updates("run_finished")] == ["completed"]


@contextlib.asynccontextmanager
async def first_hook(session: Session) -> AsyncIterator[Line]:
    """Opens a hook that asks a question with an id, by which the next server recognizes the question."""
    async with Line.open() as line:
        payload = session.payload("PermissionRequest", tool_name="Bash", tool_input=COMMAND, **SUBAGENT)
        line.send(type="hook", pid=session.pid, payload=payload, question="0123456789abcdef")
        yield line


def _open(rig: SocketRig, session: Session) -> bool:
    found = rig.server.core.terminal_sessions.find(session.project)
    return found is None or bool(found.approvals)


def _allowed(question: Message) -> Message:
    return {"approval_id": question["approval_id"], "decision": "allow"}


async def test_a_subagents_dialog_does_not_overrule_a_main_answer(
    rig: SocketRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The CLI notifies the user of a subagent's dialog, but the main agent has received its own answer."""
    monkeypatch.setattr(questions, "SETTLING_SECONDS", 0.0)
    monkeypatch.setattr(questions, "HOLD_SECONDS", 0.05)
    session = Session(rig)
    await session.reports("UserPromptSubmit", prompt="Go")
    async with session.asks(command="make test") as (hook, question):
        await rig.answers(question)
        assert await hook.receive() is not None
    async with session.asks(more=SUBAGENT, **COMMAND) as (hook, second):
        assert await hook.receive() is None
    assert rig.withdrawn(second) == HANDED_OVER
    await session.reports("Notification", notification_type="permission_prompt")
    assert rig.withdrawn(question) == []
