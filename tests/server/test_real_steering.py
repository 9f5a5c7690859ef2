"""The real ``claude`` behind the real server: texts of approval requests, messages sent into a run, the queue, and the
agent's state.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.rigs.messages_stub import HOLD, MessagesStub, text, tool_use

from .test_real_claude import at_work, model, poem

__all__ = ["model", "poem"]


@pytest.mark.slow
async def test_a_command_is_described_and_can_be_edited(poem: Path, model: MessagesStub) -> None:
    model.will_say(tool_use("Bash", command="sudo -n touch wrong.txt", description="Make a file"), text("Done."))
    async with at_work(poem, model) as (_, client, project):
        await client.ask("execute", {"prompt": "Make a file"}, project)
        asked = (await client.receive("permission_request"))["data"]
        assert (asked["kind"], asked["title"]) == ("command", {"text": "Claude wants to run a command"})
        assert [(risk["code"], risk["start"], risk["end"]) for risk in asked["risks"]] == [("sudo", 0, 4)]
        assert asked["editable"] == ["command"]
        assert [asked["suggestions"][one["suggestion"]] for one in asked["always"]] == asked["suggestions"]
        edited = asked["input"] | {"command": "touch right.txt"}
        answer = {"approval_id": asked["approval_id"], "decision": "allow", "updated_input": edited}
        resolved = (await client.ask("permission_response", answer, project))["data"]["data"]
        assert (resolved["edited"], resolved["updated_input"]["command"]) == (True, "touch right.txt")
        await client.receive("update", "run_finished")
        assert sorted(path.name for path in poem.parent.iterdir()) == ["poem.txt", "right.txt"]


async def test_the_model_receives_the_edited_plan(poem: Path, model: MessagesStub) -> None:
    model.will_say(
        tool_use("ToolSearch", query="select:ExitPlanMode", max_results=1), tool_use("ExitPlanMode"), text("Approved.")
    )
    async with at_work(poem, model) as (_, client, project):
        await client.ask("execute", {"prompt": "Plan it", "options": {"permission_mode": "plan"}}, project)
        asked = (await client.receive("permission_request"))["data"]
        assert (asked["kind"], asked["title"]["text"]) == ("plan", "Claude’s plan")
        [always] = asked["always"]
        assert always["text"] == "Accept all edits for this session"
        edited = asked["input"] | {"plan": "# Shout\n\nIn capitals."}
        answer = {"approval_id": asked["approval_id"], "decision": "allow", "updated_input": edited}
        await client.ask("permission_response", answer, project)
        await client.receive("update", "run_finished")
        assert "In capitals." in json.dumps(model.requests[-1].body["messages"])


async def test_a_message_sent_during_a_run_reaches_the_model(poem: Path, model: MessagesStub) -> None:
    """The message becomes part of the active run. A client that joins later receives the agent's state."""
    model.will_say([text("Hello"), HOLD, text("there")], text("And tests."))
    async with at_work(poem, model) as (server, client, project):
        run = (await client.ask("execute", {"prompt": "Say hello"}, project))["data"]["run_id"]
        while b"Hello" not in json.dumps(await client.receive("agent_message")).encode():
            pass
        steered = await client.ask("execute", {"prompt": "And tests", "steer": True}, project)
        assert steered["data"] == {"run_id": run, "position": 0}
        model.go_on()
        ended = (await client.receive("update", "run_finished"))["data"]["data"]
        assert (ended["run_id"], ended["outcome"]) == (run, "completed")
        assert "And tests" in json.dumps(model.requests[-1].body["messages"])
        async with server.client() as late:
            joined = (await late.ask("project_join", project_id=project))["data"]["data"]
            assert joined["agent_state"]["model"].startswith("claude-")
            assert joined["agent_state"]["context_tokens"] > 0
            assert joined["agent_offers"]["steer"] is True
            assert "compact" in {command["name"] for command in joined["agent_offers"]["commands"]}


async def test_a_prompt_that_is_sent_now_interrupts_the_run(poem: Path, model: MessagesStub) -> None:
    model.will_say([text("Hello"), HOLD, text("there")], text("Now."))
    async with at_work(poem, model) as (_, client, project):
        first = (await client.ask("execute", {"prompt": "First"}, project))["data"]["run_id"]
        while b"Hello" not in json.dumps(await client.receive("agent_message")).encode():
            pass
        second = (await client.ask("execute", {"prompt": "Second"}, project))["data"]["run_id"]
        await client.ask("queue_send_now", {"run_id": second}, project)
        ended = (await client.receive("update", "run_finished"))["data"]["data"]
        assert (ended["run_id"], ended["outcome"]) == (first, "interrupted")
        model.go_on()
        ended = (await client.receive("update", "run_finished"))["data"]["data"]
        assert (ended["run_id"], ended["outcome"]) == (second, "completed")
