"""When the runs of a terminal session begin and end, and which lines of its conversation's file belong to the
session.
"""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from drawbridge.agents.claude import process_file
from drawbridge.server.terminal_sessions import questions, report_queue
from drawbridge.server.terminal_sessions import reports as reports_module
from drawbridge.server.terminal_sessions import turn as turn_module
from drawbridge.server.terminal_sessions import turns as turns_module
from tests.waiting import PATIENCE, until

from .socket_rig import Message, Session, SocketRig, socket_rig
from .test_prompts import prompts
from .test_sessions import another_process, prompt, result, said, shown, used

SHELL: Message = {"id": "b1", "type": "shell", "status": "running", "command": "npm run dev"}
SUBAGENT: Message = {"id": "a1", "type": "subagent", "status": "running"}
PLAN: Message = {"plan": "# Plan", "planFilePath": "/plans/a.md"}


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[SocketRig]:
    async with socket_rig(tmp_path) as rig:
        yield rig


async def state(rig: SocketRig, session: Session) -> str:
    info: Message = (await rig.info(session))["desk"]
    return str(info["state"])


def ends(rig: SocketRig) -> list[tuple[str, str]]:
    return [(one["run_id"], one["outcome"]) for one in rig.client.updates("run_finished")]


async def test_a_failed_request_ends_the_run(rig: SocketRig) -> None:
    session = Session(rig)
    await session.reports("UserPromptSubmit", prompt="Go")
    await session.reports("StopFailure", error="unknown", last_assistant_message="API Error: 400 nope")
    assert await state(rig, session) == "finished"
    (finished,) = rig.client.updates("run_finished")
    assert (finished["outcome"], finished["error"]) == ("failed", "API Error: 400 nope")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ("authentication_failed", "AGENT_NOT_LOGGED_IN"),
        ("rate_limit", "AGENT_RATE_LIMITED"),
        ("overloaded", "MODEL_UNAVAILABLE"),
        ("billing_error", None),
    ],
)
async def test_a_failed_request_has_a_code_if_a_user_can_fix_it(rig: SocketRig, error: str, code: str | None) -> None:
    session = Session(rig)
    await session.reports("UserPromptSubmit", prompt="Go")
    session.writes(said("API Error: 429"))
    await session.reports("StopFailure", error=error, last_assistant_message="API Error: 429")
    (finished,) = rig.client.updates("run_finished")
    assert finished.get("code") == code


async def test_background_work_keeps_a_run_open(rig: SocketRig) -> None:
    """The prompt that reports the end of the task has a different id, but belongs to the run."""
    session = Session(rig)
    await session.reports("UserPromptSubmit", prompt="Go")
    await session.reports("Stop", background_tasks=[SUBAGENT])
    info = await rig.info(session)
    assert (info["state"], info["desk"]["state"], info["desk"]["background_tasks"]) == ("EXECUTING", "working", 1)
    await session.reports("SubagentStop", agent_id="a1", background_tasks=[SUBAGENT])
    await session.reports("UserPromptSubmit", prompt="<task-notification>\n…", prompt_id="another")
    assert ends(rig) == []
    await session.reports("Stop", prompt_id="another", background_tasks=[])
    assert ends(rig) == [(session.turn, "completed")]
    assert await state(rig, session) == "finished"


async def test_the_next_prompt_ends_a_run_that_waits_for_tasks(rig: SocketRig) -> None:
    session = Session(rig)
    await session.reports("UserPromptSubmit", prompt="Go")
    await session.reports("Stop", background_tasks=[SUBAGENT])
    await session.reports("UserPromptSubmit", prompt="Now this", prompt_id="another")
    await session.reports("Stop", prompt_id="another", background_tasks=[SUBAGENT])
    assert await state(rig, session) == "working"
    await session.reports("UserPromptSubmit", prompt="<task-notification>", prompt_id="third")
    await session.reports("Stop", prompt_id="third", background_tasks=[])
    # Nobody is notified of the end of the first run, since the user has continued.
    assert ends(rig) == [("another", "completed")]
    assert await state(rig, session) == "finished"


async def test_a_development_server_does_not_keep_a_run_open(rig: SocketRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_module, "TASK_SECONDS", 0.5)
    session = Session(rig)
    await session.reports("UserPromptSubmit", prompt="Go")
    await session.reports("Stop", background_tasks=[SHELL])
    assert await state(rig, session) == "working"
    await until(lambda: ends(rig) == [(session.turn, "completed")], "the end of the run")
    assert await state(rig, session) == "finished"


async def test_a_subagent_that_stops_without_another_turn_ends_the_run(
    rig: SocketRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_module, "LAST_SECONDS", 0.1)
    session = Session(rig)
    await session.reports("UserPromptSubmit", prompt="Go")
    await session.reports("Stop", background_tasks=[SUBAGENT])
    await session.reports("SubagentStop", agent_id="a1")
    await until(lambda: ends(rig) == [(session.turn, "completed")], "the end of the run")


@pytest.mark.parametrize("tasks", [None, 7, [1], [{"id": 1}], "x"])
async def test_tasks_of_an_unknown_shape_are_ignored(rig: SocketRig, tasks: object) -> None:
    session = Session(rig)
    await session.reports("UserPromptSubmit", prompt="Go")
    await session.reports("Stop", background_tasks=tasks)
    assert await state(rig, session) == "finished"


async def test_an_earlier_turns_end_does_not_end_a_later_one(rig: SocketRig) -> None:
    """A queued prompt begins before the previous turn's hook has reported the end of that turn."""
    session = Session(rig)
    first, second = session.turn, str(uuid.uuid4())
    await session.reports("UserPromptSubmit", prompt="One")
    session.writes(prompt("One"), said("done"), prompt("Two", promptId=second))
    await session.reports("Stop", last_assistant_message="done")
    assert await state(rig, session) == "working"
    session.writes(said("done") | {"promptId": second})
    await session.reports("Stop", prompt_id=second, last_assistant_message="done")
    assert await state(rig, session) == "finished"
    assert [run for run, _ in ends(rig)][-1] == second != first


async def test_a_run_ends_after_its_text_even_if_a_run_repeats_it(rig: SocketRig) -> None:
    session = Session(rig)
    await session.reports("UserPromptSubmit", prompt="One")
    session.writes(prompt("One"), said("Done."))
    await session.reports("Stop", last_assistant_message="Done.")
    second = str(uuid.uuid4())
    await session.reports("UserPromptSubmit", prompt="Two", prompt_id=second)
    stops = asyncio.create_task(session.reports("Stop", prompt_id=second, last_assistant_message="Done."))
    done, _ = await asyncio.wait([stops], timeout=0.2)
    assert not done
    session.writes(prompt("Two", promptId=second), said("Done."))
    await stops
    assert await shown(rig, session) == ["> One", "Done.", "> Two", "Done."]
    records = (await rig.does("get_messages", session.project, after_seq=0))["data"]["messages"]
    assert records[-1]["message"]["message"]["run_id"] == second


async def test_a_run_ends_after_its_last_text_even_if_repeated(rig: SocketRig) -> None:
    session = Session(rig)
    await session.reports("UserPromptSubmit", prompt="One")
    session.writes(prompt("One"), said("Done."), used("t1", {"command": "make"}))
    await session.reports("Notification", notification_type="idle_prompt")
    stops = asyncio.create_task(session.reports("Stop", last_assistant_message="Done."))
    done, _ = await asyncio.wait([stops], timeout=0.2)
    assert not done
    session.writes(result("t1"), said("Done."))
    await stops
    records = (await rig.does("get_messages", session.project, after_seq=0))["data"]["messages"]
    assert records[-1]["message"].get("subtype") == "run_finished"


async def test_a_question_follows_its_prompt_despite_a_late_record(rig: SocketRig) -> None:
    session = Session(rig)
    await session.reports("UserPromptSubmit", prompt="Go")
    asyncio.get_running_loop().call_later(0.3, session.writes, prompt("Go"))
    async with session.asks(command="make"):
        records = (await rig.does("get_messages", session.project, after_seq=0))["data"]["messages"]
    kinds = [record["message"].get("subtype") or record["message"]["type"] for record in records]
    assert kinds[-2:] == ["user", "permission_request"]


async def test_a_prompt_without_a_record_delays_a_question_briefly(
    rig: SocketRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports_module, "PROMPT_SECONDS", 0.2)
    session = Session(rig)
    await session.reports("UserPromptSubmit", prompt="/release")
    async with session.asks(command="make"):
        pass


async def test_an_unrecorded_prompt_does_not_delay_later_questions(
    rig: SocketRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The conversation's file contains no line with a prompt that is a custom command."""
    monkeypatch.setattr(reports_module, "PROMPT_SECONDS", PATIENCE)
    session = Session(rig)
    await session.reports("UserPromptSubmit", prompt="/release")
    session.writes(said("I run make."))
    [found] = rig.server.core.terminal_sessions
    assert found.turns.current is not None
    found.turns.current.began -= PATIENCE
    async with asyncio.timeout(PATIENCE / 2), session.asks(command="make"):
        pass


async def test_a_run_that_continues_after_its_end_is_another_one(rig: SocketRig) -> None:
    """When the agent stops, a hook of another program may make it continue. Late reports of the first run change
    nothing.
    """
    session = Session(rig)
    await session.reports("UserPromptSubmit", prompt="Go")
    await session.reports("Stop")
    await session.reports("UserPromptSubmit", prompt="Go")
    assert await state(rig, session) == "finished"
    await session.reports("PreToolUse", tool_name="Bash", tool_input={"command": "make"})
    assert await state(rig, session) == "working"
    await session.reports("Stop")
    (first, _), (second, _) = ends(rig)
    assert first == session.turn != second
    assert await state(rig, session) == "finished"


async def test_a_run_that_ended_before_a_restart_does_not_end_again(tmp_path: Path) -> None:
    async with socket_rig(tmp_path) as rig:
        session = Session(rig)
        await session.reports("UserPromptSubmit", prompt="Go")
        session.writes(prompt("Go"))
        await session.reports("Stop")
    async with socket_rig(tmp_path) as rig:
        await session.at(rig).reports("UserPromptSubmit", prompt="Go")
        session.writes(prompt("Go"))
        await session.reports("Stop")
        records = (await rig.does("get_messages", session.project, after_seq=0))["data"]["messages"]
        ended = [one["message"] for one in records if one["message"].get("subtype") == "run_finished"]
        assert [one["message"]["run_id"] for one in ended].count(session.turn) == 1


async def test_a_copied_conversation_is_not_shown_as_new_runs(rig: SocketRig) -> None:
    """The CLI writes a fork's file only when the fork gets its first prompt, after that prompt's hook has reported."""
    session = Session(rig)
    await session.reports("SessionStart", source="fork")
    await session.reports("UserPromptSubmit", prompt="New")
    session.writes(
        prompt("Old", promptId="of-before"),
        prompt("[Request interrupted by user]", promptId="of-before"),
        prompt("Older words", promptId="of-another"),
        said("once"),
        prompt("New"),
        said("done"),
    )
    await session.reports("PostToolUse", tool_name="Bash", tool_input={})
    assert await state(rig, session) == "working"
    await session.reports("Stop", last_assistant_message="done")
    assert await state(rig, session) == "finished"
    assert ends(rig) == [(session.turn, "completed")]
    session.writes(prompt("New", promptId="next"), prompt("[Request interrupted by user]", promptId="next"))
    await session.reports("Notification")
    assert await state(rig, session) == "finished"
    assert ends(rig)[1:] == [("next", "interrupted")]


async def test_a_copys_earlier_prompts_are_not_in_its_first_run(rig: SocketRig) -> None:
    """The left arrow in ``claude`` creates a copy in which the earlier prompts have the id of the new prompt."""
    session = Session(rig)
    await session.reports("SessionStart", source="fork")
    await session.reports("UserPromptSubmit", prompt="New")
    session.writes(
        prompt("Old"),
        said("once"),
        prompt("Older"),
        prompt("[Request interrupted by user]"),
        prompt("New"),
        said("done"),
    )
    await session.reports("Stop", last_assistant_message="done")
    assert [words for words, _, run in prompts(rig, session) if run != session.turn] == ["Old", "Older"]
    assert [words for words, _, run in prompts(rig, session) if run == session.turn] == ["New"]
    assert ends(rig) == [(session.turn, "completed")]


async def test_a_copys_equal_earlier_prompt_is_not_in_its_first_run(
    rig: SocketRig,
) -> None:
    session = Session(rig)
    await session.reports("SessionStart", source="fork")
    await session.reports("UserPromptSubmit", prompt="Continue")
    session.writes(
        prompt("Continue"), said("once"), prompt("Old"), said("twice"), prompt("Continue"), said("done"), prompt("More")
    )
    await session.reports("Stop", last_assistant_message="done")
    assert [words for words, _, run in prompts(rig, session) if run != session.turn] == ["Continue", "Old"]
    assert [words for words, _, run in prompts(rig, session) if run == session.turn] == ["Continue", "More"]
    assert ends(rig) == [(session.turn, "completed")]


async def test_a_summary_does_not_begin_a_run(rig: SocketRig) -> None:
    session = Session(rig)
    await session.reports("UserPromptSubmit", prompt="Go")
    session.writes(prompt("Go"), said("done"))
    await session.reports("Stop", last_assistant_message="done")
    session.writes(prompt("This session is being continued …", isCompactSummary=True, promptId="compact"))
    await session.reports("SessionStart", source="compact", prompt_id="compact")
    assert await state(rig, session) == "finished"
    assert await shown(rig, session) == ["> Go", "done"]


async def test_a_prompt_typed_during_a_run_is_kept(rig: SocketRig) -> None:
    session = Session(rig)
    await session.reports("UserPromptSubmit", prompt="Go")
    queued = {"type": "queued_command", "prompt": "And this", "commandMode": "prompt", "origin": {"kind": "human"}}
    blocks = [{"type": "text", "text": "With a picture"}, {"type": "image", "source": {}}]
    session.writes(
        prompt("Go"),
        used("t1", {"command": "ls"}),
        result("t1"),
        {"type": "attachment", "attachment": queued},
        {"type": "attachment", "attachment": queued | {"prompt": blocks}},
        {"type": "attachment", "attachment": queued | {"origin": {"kind": "task-notification"}}},
        {"type": "attachment", "attachment": {"type": "queued_command", "prompt": 7}},
        said("Both done."),
    )
    await session.reports("Stop", last_assistant_message="Both done.")
    assert await shown(rig, session) == [
        "> Go",
        "tool_use",
        "tool_result",
        "> And this",
        "> With a picture",
        "Both done.",
    ]
    assert ends(rig) == [(session.turn, "completed")]


async def test_records_that_another_process_adds_are_left_out(rig: SocketRig) -> None:
    """A run of a managed session continues the conversation. Lines from before the start of the terminal session belong
    to the terminal session.
    """
    session = Session(rig)
    session.writes(prompt("Before", entrypoint="sdk-cli", promptId="old"), said("was here") | {"entrypoint": "sdk-cli"})
    await session.reports("SessionStart", source="resume")
    session.writes(prompt("Elsewhere", entrypoint="sdk-cli", promptId="new"), said("there") | {"entrypoint": "sdk-cli"})
    await session.reports("Notification", notification_type="idle_prompt")
    assert await state(rig, session) == "finished"
    assert await shown(rig, session) == ["> Before", "was here"]


async def test_the_server_knows_whether_a_conversation_is_open(rig: SocketRig) -> None:
    open_in_terminal = rig.server.core.terminal_sessions.open_in_terminal
    session = Session(rig)
    assert not open_in_terminal(session.id)
    await session.reports("SessionStart", source="startup")
    assert open_in_terminal(session.id)
    await session.reports("SessionEnd", reason="exit")
    assert not open_in_terminal(session.id)


# only the CLI's file about its process shows this


@pytest.fixture
def polls_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_queue, "WORKING_SECONDS", 0.02)
    monkeypatch.setattr(turns_module, "IDLE_SECONDS", 0.1)


@pytest.mark.usefixtures("polls_often")
@pytest.mark.parametrize("status", ["idle", "shell"])
async def test_a_run_whose_prompt_was_withdrawn_is_over(rig: SocketRig, status: str) -> None:
    """If Esc is pressed before the first words of the answer, neither a hook nor a line of the conversation's file
    reports it. The status ``shell`` means that a command runs in the background.
    """
    session = Session(rig)
    await session.reports("UserPromptSubmit", prompt="Go")
    session.writes(prompt("Go"))
    session.describes_itself(status=status, statusUpdatedAt=time.time() * 1000)
    await until(lambda: ends(rig) == [(session.turn, "interrupted")], "the end of the run")
    assert await state(rig, session) == "finished"


@pytest.mark.usefixtures("polls_often")
@pytest.mark.parametrize(
    ("status", "age", "id"), [("busy", 0, None), ("waiting", 0, None), ("idle", 60, None), ("idle", 0, "another")]
)
async def test_a_run_continues_while_the_agent_works(rig: SocketRig, status: str, age: int, id: str | None) -> None:
    """The run continues even if the file shows that the agent was idle before the prompt, or is idle in another
    conversation.
    """
    session = Session(rig)
    await session.reports("UserPromptSubmit", prompt="Go")
    session.writes(prompt("Go"))
    session.describes_itself(sessionId=id or session.id, status=status, statusUpdatedAt=(time.time() - age) * 1000)
    looks = asyncio.get_running_loop().time() + 0.5
    await until(lambda: asyncio.get_running_loop().time() > looks, "some looks")
    assert await state(rig, session) == "working"


# background sessions


def parks(session: Session, job: object) -> None:
    """Writes what the CLI writes about its process when the user presses the left arrow."""
    session.describes_itself(parkedJobId=job)


async def test_a_session_moved_to_the_background_counts_as_ended(
    rig: SocketRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_queue, "RESTING_SECONDS", 0.05)
    session, successor = Session(rig), Session(rig)
    session.writes(prompt("Go"), said("done"))
    await session.reports("Stop", last_assistant_message="done")
    await successor.reports("SessionStart", background=True, source="fork")
    parks(session, successor.id[:8])
    await until(lambda: _state(rig, session) == "ended", "its end")
    info = (await rig.info(session))["desk"]
    assert info["continued_in"] == successor.project
    assert (await rig.info(successor))["desk"]["background"]
    await session.reports("UserPromptSubmit", prompt="Back again", prompt_id="another")
    info = (await rig.info(session))["desk"]
    assert (info["state"], info.get("continued_in")) == ("working", None)


async def test_moving_a_terminal_to_the_background_affects_no_other(
    rig: SocketRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The conversation is open in two terminals. The first one is moved to the background, and the second one keeps the
    session open.
    """
    monkeypatch.setattr(report_queue, "RESTING_SECONDS", 0.02)
    monkeypatch.setattr(report_queue, "WORKING_SECONDS", 0.02)
    session, successor = Session(rig), Session(rig)
    first = session.pid
    await session.reports("UserPromptSubmit", prompt="Go")
    await session.reports("Stop", background_tasks=[SUBAGENT])
    await successor.reports("SessionStart", background=True, source="fork")
    with another_process() as second:
        try:
            session.pid = second.pid
            await session.reports("SessionStart", source="resume")
            session.pid = first
            parks(session, successor.id[:8])
            [found] = [one for one in rig.server.core.terminal_sessions if one.id == session.project]
            await until(lambda: [one.pid for one in found.processes.all] == [second.pid], "the end of the first one")
            assert await state(rig, session) == "finished"
        finally:
            second.kill()


@pytest.mark.parametrize("job", [None, "../../x", "", 7, "0123456789"])
async def test_an_unknown_state_of_the_process_changes_nothing(
    rig: SocketRig, monkeypatch: pytest.MonkeyPatch, job: str | None
) -> None:
    monkeypatch.setattr(report_queue, "RESTING_SECONDS", 0.01)
    session = Session(rig)
    session.writes(prompt("Go"), said("done"))
    await session.reports("Stop", last_assistant_message="done")
    parks(session, job)
    await asyncio.gather(*(session.reports("Notification") for _ in range(5)))
    assert await state(rig, session) == "finished"


async def test_a_spare_background_session_is_not_shown(rig: SocketRig) -> None:
    spare = Session(rig)
    await spare.reports("SessionStart", background=True, source="startup")
    assert (await rig.does("project_list"))["data"]["projects"] == []
    await spare.reports("UserPromptSubmit", background=True, prompt="Do it")
    assert (await rig.info(spare))["desk"]["background"]


def _state(rig: SocketRig, session: Session) -> str:
    found = rig.server.core.terminal_sessions.find(session.project)
    return found.phase if found else ""


# answers that don't reach the agent


async def test_an_accepted_plan_is_sent_with_its_input(rig: SocketRig) -> None:
    """The CLI (2.1.329) ignores an answer that accepts a plan unless the answer contains the request's input."""
    session = Session(rig)
    for remember, mode in ((False, "default"), (True, "acceptEdits")):
        async with session.asks("ExitPlanMode", **PLAN) as (hook, question):
            await rig.answers(question, remember=remember)
            changed = {"type": "setMode", "mode": mode, "destination": "session"}
            verdict = {"behavior": "allow", "updatedInput": PLAN, "updatedPermissions": [changed]}
            assert await hook.receive() == {"decision": verdict}
        await session.reports("PostToolUse", tool_name="ExitPlanMode", tool_input=PLAN)


async def test_a_plan_rejected_in_the_terminal_is_withdrawn(rig: SocketRig) -> None:
    """The agent's call in the conversation's file has no input, because the CLI adds the plan only to the question."""
    session = Session(rig)
    async with session.asks("ExitPlanMode", **PLAN) as (_, question):
        call = used("t1", {})
        call["message"]["content"][0]["name"] = "ExitPlanMode"
        session.writes(call, result("t1", toolDenialKind="user-rejected"))
        await session.reports("Notification")
        assert rig.withdrawn(question) == ["answered elsewhere"]


async def test_an_answer_that_does_not_reach_the_agent_is_overruled(
    rig: SocketRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "SETTLING_SECONDS", 0.0)
    session = Session(rig)
    async with session.asks("NewTool", **PLAN) as (_, question):
        await rig.answers(question)
    await session.reports("Notification", notification_type="permission_prompt")
    (reason,) = rig.withdrawn(question)
    assert reason == "overruled: the answer did not reach the agent, which is still asking in its terminal"
    info = (await rig.info(session))["desk"]
    assert (info["state"], info["in_terminal"]) == ("waiting", True)


async def test_a_later_dialog_does_not_overrule_another_answer(rig: SocketRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The dialog may be about another call, because a subagent's call is not in the conversation's file, and the agent
    doesn't ask again about a denied call.
    """
    monkeypatch.setattr(questions, "SETTLING_SECONDS", 0.0)
    session = Session(rig)
    subagent: Message = {"agent_id": "a1"}
    async with session.asks(more=subagent, command="touch one") as (_, allowed):
        await rig.answers(allowed)
    async with session.asks(command="touch two") as (_, denied):
        await rig.answers(denied, "deny")
    await session.reports("Notification", notification_type="permission_prompt")
    assert rig.withdrawn(allowed) == rig.withdrawn(denied) == []


@pytest.mark.parametrize("type", ["permission_prompt", "agent_needs_input"])
async def test_a_dialog_without_a_question_is_shown(rig: SocketRig, type: str) -> None:
    """Behind some gateways, the agent asks without calling the ``PermissionRequest`` hook, so no client can answer."""
    session = Session(rig)
    await session.reports("UserPromptSubmit", prompt="Go", permission_mode="auto")
    await session.reports("Notification", notification_type=type)
    info = (await rig.info(session))["desk"]
    assert (info["state"], info["in_terminal"]) == ("waiting", True)
    await session.reports("PostToolUse", tool_name="Bash", tool_input={"command": "ls"})
    assert "in_terminal" not in (await rig.info(session))["desk"]


async def test_a_notification_of_an_answered_dialog_is_ignored(rig: SocketRig) -> None:
    session = Session(rig)
    async with session.asks(command="ls") as (_, question):
        await rig.answers(question)
    await session.reports("Notification", notification_type="permission_prompt")
    assert await state(rig, session) == "working"
    assert rig.withdrawn(question) == []


async def test_the_card_shows_the_reason(rig: SocketRig) -> None:
    more: Message = {"decision_reason": "3 consecutive actions were blocked", "blocked_path": "/etc/passwd"}
    async with Session(rig).asks(more=more, command="ls") as (_, question):
        assert (question["reason"], question["blocked_path"]) == tuple(more.values())
        assert "asked_by" not in question


async def test_the_reason_for_a_question_is_limited_in_length(rig: SocketRig) -> None:
    more: Message = {"decision_reason": "r" * 50_000, "blocked_path": "/" * 50_000}
    async with Session(rig).asks(more=more, command="ls") as (_, question):
        assert (question["reason"], question["blocked_path"]) == ("r" * 2_000, "/" * 4_096)


def test_the_process_file_is_read_safely(tmp_path: Path) -> None:
    transcript = tmp_path / "projects" / "-ws" / "x.jsonl"
    sessions = tmp_path / "sessions"
    sessions.mkdir()
    assert process_file.read(str(transcript), 5).moved_to("x") is None
    (sessions / "5.json").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").write_text('{"sessionId": "x", "parkedJobId": "0123abcd"}')
    assert process_file.read(str(transcript), 5).moved_to("x") is None
    (sessions / "5.json").unlink()
    (sessions / "5.json").write_text('{"sessionId": "another", "parkedJobId": "0123abcd"}')
    assert process_file.read(str(transcript), 5).moved_to("x") is None
    os.mkfifo(sessions / "6.json")
    assert process_file.read(str(transcript), 6).moved_to("x") is None
    (sessions / "7.json").write_text('{"sessionId": "x", "parkedJobId": "0123abcd"}')
    assert process_file.read(str(transcript), 7).moved_to("x") == "0123abcd"
