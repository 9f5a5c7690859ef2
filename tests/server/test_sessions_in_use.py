"""A conversation that is open in a terminal is not resumed by the server, because both would write to the same file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from drawbridge.agents.claude import open_sessions
from tests.rigs.messages_stub import MessagesStub, text
from tests.rigs.tmux import Tmux
from tests.waiting import until

from .test_real_claude import asked_in_a_terminal, at_work, finished, in_a_terminal, model, poem, words
from .test_resumed_sessions import written_down

__all__ = ["model", "poem"]

SESSION = "3f2b8a54-0000-4000-8000-000000000000"


async def listed(client: Any, project: str) -> list[dict[str, Any]]:
    sessions: list[dict[str, Any]] = (await client.ask("session_list", project_id=project))["data"]["sessions"]
    return sessions


@pytest.mark.thorough
async def test_a_session_open_in_a_terminal_is_forked_not_resumed(poem: Path, model: MessagesStub) -> None:
    model.will_say(text("I am Ada."), text("Another Ada."), text("Ada herself."))
    with Tmux.server() as tmux:
        await asked_in_a_terminal(tmux, poem, model)
        async with at_work(poem, model) as (_, client, project):
            id = await written_down(client, project, ["Who are you?", "I am Ada."])
            wanted = {"session_id": id}

            refused = await client.ask("session_resume", wanted, project)
            assert refused["data"]["code"] == "SESSION_IN_USE"
            assert "or fork the conversation" in refused["data"]["message"]
            assert not any(one.get("current") for one in await listed(client, project))

            assert (await client.ask("session_fork", wanted, project))["type"] == "ok"
            await client.ask("execute", {"prompt": "Who?"}, project)
            assert (await finished(client))["outcome"] == "completed"
            assert words(client) == ["Another Ada."]

            tmux.run("kill-server")
            await until(lambda: not open_sessions.used_by(id), "the end of the terminal")
            assert (await client.ask("session_resume", wanted, project))["type"] == "ok"
            await client.ask("execute", {"prompt": "Who?"}, project)
            assert (await finished(client))["outcome"] == "completed"
            assert words(client)[-1] == "Ada herself."
            # the server's own process has the session open now, which does not count
            assert (await client.ask("session_resume", wanted, project))["type"] == "ok"


@pytest.mark.thorough
async def test_a_terminal_that_opens_a_session_stops_its_next_run(poem: Path, model: MessagesStub) -> None:
    model.will_say(text("I am Ada."))
    async with at_work(poem, model) as (_, client, project):
        await client.ask("execute", {"prompt": "Who are you?"}, project)
        assert (await finished(client))["outcome"] == "completed"
        [session] = await listed(client, project)
        wanted = {"session_id": session["session_id"]}
        assert (await client.ask("session_resume", wanted, project))["type"] == "ok"  # ends the warm process
        with Tmux.server() as tmux:
            await in_a_terminal(tmux, poem, model, f"--resume={session['session_id']}")
            await client.ask("execute", {"prompt": "Who?"}, project)
            end = await finished(client)
            assert (end["outcome"], end["code"]) == ("failed", "SESSION_IN_USE")
            assert "in a terminal" in end["error"]


def reported(**fields: Any) -> None:
    directory = Path(os.environ["CLAUDE_CONFIG_DIR"]) / "sessions"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "1.json").write_text(json.dumps({"pid": os.getpid(), "sessionId": SESSION} | fields))


@pytest.mark.parametrize(
    ("fields", "used"),
    [
        ({}, True),
        ({"procStart": "1"}, False),
        ({"pid": 2**22 + 1}, False),
        ({"pid": -1}, False),
        ({"pid": 10**30}, False),
        ({"pid": "7"}, False),
        ({"sessionId": "another"}, False),
    ],
)
def test_only_a_running_process_counts(home: Path, fields: dict[str, Any], used: bool) -> None:
    reported(**fields)
    assert bool(open_sessions.used_by(SESSION)) is used


def test_the_start_time_of_the_process_is_compared(home: Path) -> None:
    started = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    reported(procStart=started)
    assert open_sessions.used_by(SESSION) == [os.getpid()]


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff", b"{" * 5_000])
def test_other_files_are_ignored(home: Path, content: bytes) -> None:
    reported()
    (Path(os.environ["CLAUDE_CONFIG_DIR"]) / "sessions" / "2.json").write_bytes(content)
    assert open_sessions.used_by(SESSION) == [os.getpid()]
