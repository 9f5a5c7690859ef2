"""When runs of a plain ``claude`` begin and end, according to its hooks and its conversation's file."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from tests.rigs.messages_stub import HOLD, failure, read, text, tool_use
from tests.server.processes import Server
from tests.waiting import until

from .rig import Phone, ServedWorkstation, following

pytestmark = pytest.mark.thorough


async def finished(phone: Phone, outcome: str = "completed") -> dict[str, Any]:
    """Waits for the next run that ends with this outcome. Returns the data of the update."""
    received = await phone.client.receive("update", "run_finished", outcome=outcome)
    data: dict[str, Any] = received["data"]["data"]
    return data


async def conversation(phone: Phone) -> list[str]:
    """The prompts, texts, compactions and outcomes of runs in the history, in order."""
    answer = await phone.client.ask("get_messages", {"after_seq": 0}, phone.project)
    found = []
    for record in answer["data"]["messages"]:
        message = record["message"]
        if record["direction"] == "client":
            found.append(f"> {message['message']['prompt']}")
        elif record["direction"] == "server" and message["subtype"] == "run_finished":
            found.append(message["message"]["outcome"])
        elif message.get("subtype") == "compact_boundary":
            found.append("(compacted)")
        elif record["direction"] == "claude":
            found += [block["text"] for block in blocks(message) if block["type"] == "text"]
    return found


def blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["message"]["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


async def queued(prompt: str) -> None:
    """Returns once the conversation's file shows that ``prompt`` is queued."""

    def found() -> bool:
        files = Path(os.environ["CLAUDE_CONFIG_DIR"]).glob("projects/*/*.jsonl")
        lines = (line for file in files for line in file.read_text().splitlines())
        return any('"enqueue"' in line and prompt in line for line in lines)

    await until(found, f"{prompt!r} in the queue")


@pytest.mark.slow
async def test_a_prompt_typed_during_a_run_is_in_the_history(rig: ServedWorkstation, server: Server) -> None:
    """A prompt that the CLI sends together with a tool's result belongs to the run. One that it sends later begins
    another run.
    """
    notes = rig.file("notes.txt", "words\n")
    rig.model.will_say([HOLD, read(notes)], [HOLD, text("Both are done.")], text("So is the third."))
    async with following(server) as phone:
        claude = rig.plain_claude()
        await phone.session()
        claude.prompt("Do the first")
        await asyncio.to_thread(rig.model.wait_for_request, 1)
        claude.prompt("Do the second")
        await queued("Do the second")
        rig.model.go_on()
        await asyncio.to_thread(rig.model.wait_for_request, 2)
        claude.prompt("Do the third")
        await queued("Do the third")
        rig.model.go_on()
        claude.pane.wait_for("So is the third.")
        await finished(phone)
        await finished(phone)
        assert await conversation(phone) == [
            "> Do the first",
            "> Do the second",
            "Both are done.",
            "completed",
            "> Do the third",
            "So is the third.",
            "completed",
        ]


async def test_a_run_that_fails_or_is_interrupted_is_over(rig: ServedWorkstation, server: Server) -> None:
    async with following(server) as phone:
        claude = rig.plain_claude()
        await phone.session()
        rig.model.will_say(failure(400, "invalid_request_error", "no such thing"))
        claude.prompt("Fail")
        assert "no such thing" in (await finished(phone, "failed"))["error"]
        await phone.state("finished")
        rig.model.will_say([text("Let me see"), HOLD, text("…")])
        claude.prompt("Wait for me")
        claude.pane.wait_for("Let me see")
        claude.pane.press("Escape")
        await finished(phone, "interrupted")
        assert (await phone.state("finished"))["state"] == "IDLE"
        rig.model.go_on()


@pytest.mark.slow
async def test_compacting_does_not_begin_a_run(rig: ServedWorkstation, server: Server) -> None:
    async with following(server) as phone:
        claude = rig.plain_claude()
        await phone.session()
        rig.model.will_say(text("First answer."), text("A summary."))
        claude.prompt("First")
        await finished(phone)
        claude.prompt("/compact")
        claude.pane.wait_for("Compacted")
        rig.model.will_say(text("Second answer."))
        claude.prompt("Second")
        claude.pane.wait_for("Second answer.")
        await finished(phone)
        shown = await conversation(phone)
    assert [one for one in shown if one.startswith((">", "(")) or one == "completed"] == [
        "> First",
        "completed",
        "(compacted)",
        "> Second",
        "completed",
    ]


@pytest.mark.slow
async def test_a_run_lasts_as_long_as_its_background_tasks(rig: ServedWorkstation, server: Server) -> None:
    rig.model.will_say(
        tool_use("Bash", command="cat fifo", description="wait", run_in_background=True),
        text("Started."),
        text("Over."),
    )
    os.mkfifo(rig.project / "fifo")
    async with following(server) as phone:
        claude = rig.plain_claude()
        await phone.session()
        claude.prompt("Go")
        while "background_tasks" not in (info := await phone.state("working"))["desk"]:
            pass
        assert (info["state"], info["desk"]["background_tasks"]) == ("EXECUTING", 1)
        claude.pane.wait_for("Started.")
        with (rig.project / "fifo").open("w"):
            pass
        claude.pane.wait_for("Over.")
        await finished(phone)
        assert (await conversation(phone)).count("completed") == 1


@pytest.mark.slow
async def test_records_of_another_process_are_left_out(rig: ServedWorkstation, server: Server) -> None:
    """Another process continues the conversation, and the one in the terminal does not notice."""
    async with following(server) as phone:
        claude = rig.plain_claude()
        session = await phone.session()
        rig.model.will_say(text("Hello there."))
        claude.prompt("Hello")
        await finished(phone)
        rig.ask_claude(text("Not for the terminal."), flags=("--resume", session["session_id"]))
        rig.model.will_say(text("Still here."))
        claude.prompt("Are you there?")
        claude.pane.wait_for("Still here.")
        await finished(phone)
        assert await conversation(phone) == [
            "> Hello",
            "Hello there.",
            "completed",
            "> Are you there?",
            "Still here.",
            "completed",
        ]
