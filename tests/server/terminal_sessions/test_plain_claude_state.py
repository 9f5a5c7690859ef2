"""What a plain ``claude`` reports about itself, from the file that it keeps of the conversation."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.rigs.messages_stub import text, write
from tests.server.processes import Server

from .rig import Message, Phone, ServedWorkstation, following

pytestmark = pytest.mark.thorough


async def state(phone: Phone, wanted: Callable[[int], bool]) -> Message:
    """The agent's next state in which the size of its context is as wanted."""
    while True:
        heard = await phone.client.receive("update", "agent_state")
        found: Message = heard["data"]["data"]
        if wanted(found.get("context_tokens", 0)):
            return found


async def test_model_and_context_are_shown_and_what_a_compaction_leaves(rig: ServedWorkstation, server: Server) -> None:
    async with following(server) as phone:
        claude = rig.plain_claude()
        await phone.session()
        rig.model.will_say(text("Here I am."), text("A summary."))
        claude.prompt("Hello")
        reported = await state(phone, lambda tokens: tokens == 110)  # as the model has counted them
        assert reported["model"].startswith("claude-")
        claude.prompt("/compact")
        claude.pane.wait_for("Compacted")
        await state(phone, lambda tokens: tokens > 1_000)  # the CLI's own estimate, with the instructions


async def test_lines_that_it_has_changed_are_counted(rig: ServedWorkstation, server: Server) -> None:
    async with following(server) as phone:
        claude = rig.plain_claude("--permission-mode", "acceptEdits")
        await phone.session()
        rig.model.will_say(write(rig.project / "new.txt", "one\ntwo\n"), text("Written."))
        claude.prompt("Write it")
        await phone.client.receive("update", "run_finished")
        answer = await phone.client.ask("sessions", {}, phone.project)
        assert [one["added"] for one in answer["data"]["sessions"] if one.get("added")] == [2]
