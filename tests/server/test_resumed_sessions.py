"""A conversation that was begun in a terminal with the real ``claude`` is shown completely once the server continues
it.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from drawbridge.agents.claude import open_sessions
from tests.rigs.messages_stub import MessagesStub, read, text
from tests.rigs.tmux import Tmux
from tests.server.wire_client import WireClient
from tests.waiting import PATIENCE, until

from .test_real_claude import asked_in_a_terminal, at_work, finished, model, poem

__all__ = ["model", "poem"]


def said(records: list[dict[str, Any]]) -> list[str]:
    """The prompts and the agent's texts, in order."""
    found = []
    for record in records:
        message = record["message"]
        if record["direction"] == "client":
            found.append(message["message"]["prompt"])
        elif message.get("type") == "assistant":
            found += [block["text"] for block in message["message"]["content"] if block["type"] == "text"]
    return found


async def conversation(client: WireClient, project: str, session_id: str) -> list[str]:
    found: list[dict[str, Any]] = []
    before = None
    while True:
        about = {"session_id": session_id, "limit": 3, "before": before}
        page = (await client.ask("session_messages", about, project))["data"]
        found = [*page["messages"], *found]
        before = page.get("before")
        if before is None:
            return said(found)


async def written_down(client: WireClient, project: str, words: list[str]) -> str:
    """Waits until the CLI has stored a session with these words, a moment after it has shown them. Returns the
    session's id.
    """
    async with asyncio.timeout(PATIENCE):
        while True:
            sessions = (await client.ask("session_list", project_id=project))["data"]["sessions"]
            for session in sessions:
                if await conversation(client, project, session["session_id"]) == words:
                    return str(session["session_id"])
            await asyncio.sleep(0.05)


@pytest.mark.slow
async def test_a_conversation_from_a_terminal_is_shown_whole(poem: Path, model: MessagesStub) -> None:
    model.will_say(read(poem), text("I am Ada."), text("Ada herself."), text("Another Ada."))
    with Tmux.server() as tmux:
        await asked_in_a_terminal(tmux, poem, model)
        async with at_work(poem, model) as (_, client, project):
            id = await written_down(client, project, ["Who are you?", "I am Ada."])
            tmux.run("kill-server")
            await until(lambda: not open_sessions.used_by(id), "the end of the terminal")

            await client.ask("session_resume", {"session_id": id}, project)
            await client.ask("execute", {"prompt": "Really?"}, project)
            assert (await finished(client))["outcome"] == "completed"
            whole = ["Who are you?", "I am Ada.", "Really?", "Ada herself."]
            assert await conversation(client, project, id) == whole

            await client.ask("session_fork", {"session_id": id}, project)
            await client.ask("execute", {"prompt": "And otherwise?"}, project)
            assert (await finished(client))["outcome"] == "completed"
            [fork, original] = (await client.ask("sessions", project_id=project))["data"]["sessions"]
            assert (original["session_id"], original["title"]) == (id, "Who are you?")
            assert (fork["fork_from"], fork["title"]) == (id, "Who are you?")
            assert await conversation(client, project, fork["session_id"]) == [*whole, "And otherwise?", "Another Ada."]
            assert await conversation(client, project, id) == whole
