"""What a plain ``claude`` reports about itself, read from its conversation's file."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.rigs import claude_rig
from tests.rigs.messages_stub import HOLD, text, write
from tests.server.processes import Server

from .rig import Message, Phone, ServedWorkstation, following

pytestmark = pytest.mark.thorough


async def state(phone: Phone, wanted: Callable[[int], bool]) -> Message:
    """Waits for a state of the agent whose number of tokens in the context satisfies ``wanted``. Returns the state."""
    while True:
        received = await phone.client.receive("update", "agent_state")
        found: Message = received["data"]["data"]
        if wanted(found.get("context_tokens", 0)):
            return found


@pytest.mark.slow
async def test_model_and_context_are_shown_after_a_compaction(rig: ServedWorkstation, server: Server) -> None:
    async with following(server) as phone:
        claude = rig.plain_claude()
        await phone.session()
        rig.model.will_say(text("Here I am."), text("A summary."))
        claude.prompt("Hello")
        reported = await state(phone, lambda tokens: tokens == 110)  # the model's own count
        assert reported["model"].startswith("claude-")
        claude.prompt("/compact")
        claude.pane.wait_for("Compacted")
        await state(phone, lambda tokens: tokens > 1_000)  # the CLI's own estimate, which includes the instructions


@pytest.mark.slow
async def test_the_lines_changed_by_claude_are_counted(rig: ServedWorkstation, server: Server) -> None:
    async with following(server) as phone:
        claude = rig.plain_claude("--permission-mode", "acceptEdits")
        await phone.session()
        rig.model.will_say(write(rig.project / "new.txt", "one\ntwo\n"), text("Written."))
        claude.prompt("Write it")
        await phone.client.receive("update", "run_finished")
        answer = await phone.client.ask("sessions", {}, phone.project)
        assert [one["added"] for one in answer["data"]["sessions"] if one.get("added")] == [2]


@pytest.mark.slow
async def test_a_session_with_another_config_directory_is_shown(
    rig: ServedWorkstation, server: Server, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user with two accounts has a second directory. Only the CLI's files in that directory show that Esc has
    withdrawn the prompt.
    """
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home / "second"))
    claude_rig.prepare_home(rig.project)
    rig.model.will_say(text("It rhymes."), [HOLD, text("Too late.")])
    async with following(server) as phone:
        claude = rig.plain_claude()
        await phone.session()
        claude.prompt("Does it rhyme?")
        await phone.client.receive("update", "run_finished", outcome="completed")
        records = (await phone.client.ask("get_messages", {"after_seq": 0}, phone.project))["data"]["messages"]
        assert "It rhymes." in json.dumps([record["message"] for record in records if record["direction"] == "claude"])
        claude.prompt("Are you sure?")
        await asyncio.to_thread(rig.model.wait_for_request, 2)
        claude.pane.press("Escape")
        await phone.client.receive("update", "run_finished", outcome="interrupted")
        await phone.state("finished")
        rig.model.go_on()
