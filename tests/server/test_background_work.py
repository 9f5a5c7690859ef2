"""Subagents and background commands of a managed session, with the real ``claude`` behind the real server.

The model is a stub on this machine. A subagent works in the background unless the agent asks for something else.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests import programs
from tests.agents.rig import lives
from tests.rigs.messages_stub import HOLD, MessagesStub, text, tool_use, write
from tests.server.wire_client import WireClient
from tests.waiting import until

from .test_real_claude import at_work, finished, model, poem, words

pytestmark = pytest.mark.thorough

__all__ = ["model", "poem"]

TASK = "Write the haiku"


def subagent(prompt: str = TASK) -> dict[str, Any]:
    return tool_use("Agent", description="a haiku", prompt=prompt, subagent_type="general-purpose")


def results(client: WireClient) -> list[dict[str, Any]]:
    messages = [message["data"]["messages"][0] for message in client.received if message["type"] == "agent_message"]
    return [line for line in messages if line["type"] == "result"]


async def asked(client: WireClient) -> dict[str, Any]:
    data: dict[str, Any] = (await client.receive("permission_request"))["data"]
    return data


async def decide(client: WireClient, project: str, question: dict[str, Any], **answer: Any) -> dict[str, Any]:
    return await client.ask("permission_response", {"approval_id": question["approval_id"], **answer}, project)


async def state(client: WireClient, project: str) -> dict[str, Any]:
    listed = (await client.ask("project_list"))["data"]["projects"]
    return next(one for one in listed if one["id"] == project)


@pytest.mark.slow_for("deny")
@pytest.mark.parametrize("decision", ["allow", "deny"])
async def test_a_subagent_is_answered_after_the_main_turn(poem: Path, model: MessagesStub, decision: str) -> None:
    haiku = poem.parent / "haiku.txt"
    model.will_say(subagent(), text("It is being written."), text("The haiku is done."))
    model.will_say_to(TASK, write(haiku, "old pond\n"), text("Written."))
    async with at_work(poem, model) as (_, client, project):
        await client.ask("execute", {"prompt": "Have a haiku written"}, project)
        question = await asked(client)
        assert question["asked_by"]["agent_type"] == "general-purpose"
        await until(lambda: "It is being written." in words(client), "the end of the main turn")
        await until(lambda: results(client), "the subagent's result")
        now = await state(client, project)
        assert now["state"] == "EXECUTING"
        assert len(now["approvals"]) == 1

        answer = await decide(client, project, question, decision=decision)
        assert answer["type"] == "update"
        end = await finished(client)

        assert end["outcome"] == "completed"
        assert end["run_id"] == question["run_id"]
        assert words(client)[-1] == "The haiku is done."
        assert haiku.exists() == (decision == "allow")
        assert (await state(client, project))["state"] == "IDLE"


@pytest.mark.slow
async def test_two_subagents_ask_and_the_run_ends_once(poem: Path, model: MessagesStub) -> None:
    files = {f"Write poem {n}": poem.parent / f"{n}.txt" for n in (1, 2)}
    model.will_say([subagent(task) for task in files], text("Both are at work."))
    for task, file in files.items():
        model.will_say_to(task, write(file, "words\n"), text("Written."))
    async with at_work(poem, model) as (_, client, project):
        await client.ask("execute", {"prompt": "Two poems"}, project)
        for question in [await asked(client), await asked(client)]:
            await decide(client, project, question, decision="allow")
        assert (await finished(client))["outcome"] == "completed"
        assert all(file.exists() for file in files.values())
        model.will_say(text("Nothing else."))
        await client.ask("execute", {"prompt": "Anything else?"}, project)
        assert (await finished(client))["outcome"] == "completed"
        assert len([m for m in client.received if m["data"].get("update_type") == "run_finished"]) == 2


@pytest.mark.slow_for("agent_kill")
@pytest.mark.parametrize("how", ["agent_interrupt", "agent_kill"])
async def test_a_waiting_subagent_can_be_stopped(poem: Path, model: MessagesStub, how: str) -> None:
    haiku = poem.parent / "haiku.txt"
    model.will_say(subagent(), text("It is being written."))
    model.will_say_to(TASK, write(haiku, "old pond\n"))
    async with at_work(poem, model) as (_, client, project):
        await client.ask("execute", {"prompt": "Have a haiku written"}, project)
        question = await asked(client)
        await until(lambda: "It is being written." in words(client), "the end of the main turn")
        await client.ask(how, project_id=project)
        assert (await finished(client))["outcome"] == ("killed" if how == "agent_kill" else "interrupted")
        late = await decide(client, project, question, decision="allow")
        assert late["data"]["code"] == "APPROVAL_RESOLVED"
        assert not haiku.exists()

        model.will_say(text("Here I am."))
        await client.ask("execute", {"prompt": "Are you there?"}, project)
        assert (await finished(client))["outcome"] == "completed"
        assert words(client)[-1] == "Here I am."


@pytest.mark.slow
async def test_a_prompt_waits_for_the_subagent(poem: Path, model: MessagesStub) -> None:
    model.will_say(subagent(), text("It is being written."), text("Noted."), text("Second answer."))
    model.will_say_to(TASK, [text("old"), HOLD, text("pond")])
    async with at_work(poem, model) as (_, client, project):
        await client.ask("execute", {"prompt": "Have a haiku written"}, project)
        await until(lambda: "It is being written." in words(client), "the end of the main turn")
        queued = await client.ask("execute", {"prompt": "Second", "queue": True}, project)
        assert queued["data"]["position"] == 1
        await asyncio.to_thread(model.wait_for_request, 3)
        model.go_on()
        assert [(await finished(client))["outcome"] for _ in range(2)] == ["completed"] * 2
        assert words(client)[-2:] == ["Noted.", "Second answer."]


@pytest.mark.slow
async def test_a_dev_server_does_not_keep_the_run_open(poem: Path, model: MessagesStub) -> None:
    command = tool_use("Bash", command="touch log; tail -f log", description="Serve", run_in_background=True)
    model.will_say(command, text("It runs."), text("Second answer."))
    async with at_work(poem, model) as (_, client, project):
        await client.ask("execute", {"prompt": "Start the server"}, project)
        question = await asked(client)
        assert question["blocked_path"] == str(poem.parent / "log")
        assert "asked_by" not in question
        await decide(client, project, question, decision="allow")
        assert (await finished(client))["outcome"] == "completed"
        assert (await state(client, project))["state"] == "IDLE"
        await client.ask("execute", {"prompt": "Second"}, project)
        assert (await finished(client))["outcome"] == "completed"
        assert words(client)[-1] == "Second answer."


async def test_an_agent_with_a_wake_up_is_kept_until_it_is_canceled(poem: Path, model: MessagesStub) -> None:
    """The process is kept even with ``--warm 0``, which keeps no process for later prompts."""
    model.will_say(tool_use("ScheduleWakeup", delaySeconds=600, reason="CI", prompt="Look at CI"), text("Later."))
    async with at_work(poem, model, "--warm", "0") as (server, client, project):
        await client.ask("execute", {"prompt": "Watch CI"}, project)
        assert (await finished(client))["outcome"] == "completed"
        now = await state(client, project)
        assert (now["state"], now["scheduled_until"][-7:]) == ("IDLE", "00.000Z"), "rounded to the minute"
        children = psutil.Process(server.process.pid).children()
        [agent] = [child for child in children if str(programs.claude()) in child.cmdline()]
        await client.ask("agent_interrupt", {"schedule": True}, project)
        await until(lambda: not lives(agent.pid), "the end of the process")
        assert "scheduled_until" not in await state(client, project)


@pytest.mark.slow
async def test_a_job_is_shown_again_when_its_conversation_resumes(poem: Path, model: MessagesStub) -> None:
    """Canceling hides the job until its conversation resumes, because only the agent can delete a job permanently."""
    job = tool_use("CronCreate", cron="0 4 * * *", prompt="Look at CI", recurring=True)
    model.will_say(job, text("Every morning."), tool_use("CronList"), text("It is still there."))
    async with at_work(poem, model) as (_, client, project):
        await client.ask("execute", {"prompt": "Watch CI"}, project)
        assert (await finished(client))["outcome"] == "completed"
        until_then = (await state(client, project))["scheduled_until"]
        await client.ask("agent_interrupt", {"schedule": True}, project)
        assert "scheduled_until" not in await state(client, project)
        await client.ask("execute", {"prompt": "What is scheduled?"}, project)
        assert (await finished(client))["outcome"] == "completed"
        assert "Look at CI" in model.requests[-1].new_text
        assert (await state(client, project))["scheduled_until"] == until_then


async def test_a_command_that_ends_later_begins_a_run(poem: Path, model: MessagesStub) -> None:
    """The agent then reads the command's output, and asks before it writes a file."""
    gate, report = poem.parent / "gate", poem.parent / "report.txt"
    command = f"until test -e {gate}; do sleep 0.05; done; echo failed"
    model.will_say(tool_use("Bash", command=command, description="Test", run_in_background=True), text("It runs."))
    async with at_work(poem, model) as (_, client, project):
        await client.ask("execute", {"prompt": "Run the tests"}, project)
        assert (await finished(client))["outcome"] == "completed"

        model.will_say(write(report, "one failed\n"), text("I wrote a report."))
        gate.touch()
        started = (await client.receive("update", "run_started", unprompted=True))["data"]["data"]
        question = await asked(client)
        assert question["run_id"] == started["run_id"]
        assert (await state(client, project))["state"] == "EXECUTING"
        await decide(client, project, question, decision="allow")
        end = await finished(client)
        assert (end["run_id"], end["outcome"]) == (started["run_id"], "completed")
        assert report.read_text() == "one failed\n"
