"""A subagent of a plain ``claude`` in a terminal asks, and a client answers or the dialog appears in the terminal."""

from __future__ import annotations

import pytest

from drawbridge.server.protocol.messages import IN_TERMINAL
from drawbridge.server.terminal_sessions import questions
from tests.rigs.claude_rig import EDIT_DIALOG, YES
from tests.rigs.messages_stub import Block, text, tool_use, write
from tests.server.processes import Server
from tests.waiting import PATIENCE

from .rig import Phone, ServedWorkstation, following

TASK = "Write the sub file"
WAITS = "Waiting for 1 background agent"
BEGIN = tool_use("Agent", description="do it", prompt=TASK, subagent_type="general-purpose")


def script(rig: ServedWorkstation, *subagents: Block) -> None:
    rig.model.subagent_will_say(TASK, *subagents)
    rig.model.will_say(BEGIN, text("It has begun."), text("I answer."), text("All is done."))


@pytest.mark.thorough
async def test_a_client_answers_a_subagent(rig: ServedWorkstation, server: Server) -> None:
    """The request stays open after the main agent's turn. The run ends with the subagent."""
    new = rig.project / "sub.txt"
    script(rig, write(new, "theirs\n"))
    async with following(server) as phone:
        claude = rig.plain_claude()
        await phone.session()
        claude.prompt("Go")
        question = await phone.question("Write")
        assert question["asked_by"]["agent_type"] == "general-purpose"
        claude.pane.wait_for(WAITS)
        claude.prompt("What is going on?")  # a separate turn, which ends before the answer
        rig.model.wait_for_request(3)
        await phone.answer(question, "allow", updated_input=question["input"] | {"content": "mine\n"})
        await phone.state("finished")
        claude.pane.wait_for("finished")
    assert new.read_text() == "mine\n"


@pytest.mark.slow
async def test_the_dialog_appears_when_no_client_is_connected(rig: ServedWorkstation, server: Server) -> None:
    new = rig.project / "sub.txt"
    script(rig, write(new, "theirs\n"))
    claude = rig.plain_claude()
    claude.prompt("Go")
    claude.pane.wait_for(EDIT_DIALOG)
    async with server.client() as client:
        (session,) = (await client.ask("project_list"))["data"]["projects"]
        assert (session["desk"]["state"], session["desk"]["in_terminal"]) == ("waiting", True)
        phone = Phone(client)
        phone.project = session["id"]
        await phone.follow()
        claude.answer_dialog(EDIT_DIALOG, YES)
        info = await phone.state("finished")
        assert "in_terminal" not in info["desk"]
    assert new.read_text() == "theirs\n"


@pytest.mark.slow
async def test_the_dialog_appears_when_no_client_answers(rig: ServedWorkstation, server: Server) -> None:
    """The dialog appears after ``HOLD_SECONDS`` if a client is connected but does not answer."""
    new = rig.project / "sub.txt"
    script(rig, write(new, "theirs\n"))
    async with following(server) as phone:
        claude = rig.plain_claude()
        await phone.session()
        claude.prompt("Go")
        question = await phone.question("Write")
        claude.pane.wait_for(EDIT_DIALOG, timeout=questions.HOLD_SECONDS + PATIENCE)
        late = await phone.answer(question, "allow")
        assert late["data"]["code"] == "APPROVAL_RESOLVED"
        assert late["data"]["details"]["reason"] == IN_TERMINAL
        claude.answer_dialog(EDIT_DIALOG, YES)
        await phone.state("finished")
    assert new.read_text() == "theirs\n"
