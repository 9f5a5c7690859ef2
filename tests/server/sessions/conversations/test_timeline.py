"""The conversation of one session, whether it took place in a terminal or in Drawbridge."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from drawbridge.agents.claude import sessions
from drawbridge.agents.claude.open_sessions import ClaudeSessions
from drawbridge.server.events import PromptAccepted
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.sessions.conversations import exporting
from tests.server import core_rig
from tests.server.core_rig import Client, Server, serving, settled

SESSION = "1c839b3a-0719-4371-94a4-d94be3a5abca"


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "config"))


def in_a_terminal(path: Path, *words: str, session_id: str = SESSION) -> None:
    """Appends ``words``, alternately prompts and answers, to the session's file as Claude Code stores them."""
    file = sessions.directory_of(path) / f"{session_id}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as opened:
        for number, text in enumerate(words):
            stamp = datetime.now(UTC).isoformat()  # not before the time of any record so far
            shared = {"uuid": f"u-{text}", "timestamp": stamp, "cwd": str(path), "promptId": f"p-{text}"}
            content: Any = text if number % 2 == 0 else [{"type": "text", "text": text}]
            type = "user" if number % 2 == 0 else "assistant"
            opened.write(json.dumps({"type": type, "message": {"content": content}, **shared}) + "\n")


async def run(server: Server, client: Client, project: str, prompt: str, answer: str) -> None:
    process = await server.running(client, project, prompt)
    process.says({"type": "assistant", "message": {"content": [{"type": "text", "text": answer}]}})
    process.ends()
    await settled()


def said(records: list[dict[str, Any]]) -> list[str]:
    found = []
    for record in records:
        message = record["message"]
        if record["direction"] == "client":
            found.append(message["message"]["prompt"])
        elif record["direction"] == "claude":
            found += [block["text"] for block in message["message"]["content"]]
    return found


async def conversation(server: Server, client: Client, project: str, session_id: str, limit: int = 200) -> list[str]:
    found: list[dict[str, Any]] = []
    before = None
    for _ in range(50):
        about = {"session_id": session_id, "limit": limit, "before": before}
        page = (await server.does(client, "session_messages", project, **about))["data"]
        assert len(page["messages"]) <= limit
        found = [*page["messages"], *found]
        before = page.get("before")
        if before is None:
            return said(found)
    raise AssertionError("there is no end")


async def exported(server: Server, client: Client, project: str, session_id: str) -> list[str]:
    """The prompts and answers in the session's export in the JSON Lines format."""
    text = await core_rig.exported(server, client, project, session_id=session_id, format="jsonl")
    return said([json.loads(line) for line in text.splitlines()])


async def started(server: Server, client: Client) -> tuple[str, Path]:
    server.agent.sessions = ClaudeSessions()
    project = await server.project(client)
    return project, server.core.projects.get(project).path


@pytest.mark.parametrize("limit", [200, 1])
async def test_a_session_from_a_terminal_is_shown_from_its_beginning(tmp_path: Path, limit: int) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project, path = await started(server, phone)
        await run(server, phone, project, "something else", "of another session")
        in_a_terminal(path, "Hello", "Hi", "Who are you?", "Ada")
        await server.does(phone, "session_resume", project, session_id=SESSION)
        assert server.core.projects.get(project).info().title == "Hello"
        assert await conversation(server, phone, project, SESSION, limit) == ["Hello", "Hi", "Who are you?", "Ada"]
        await run(server, phone, project, "Go on", "Gladly")
        await server.does(phone, "agent_new_session", project)
        in_a_terminal(path, "Back in the terminal", "Welcome")
        await server.does(phone, "session_resume", project, session_id=SESSION)
        await run(server, phone, project, "And here", "Again")
        first = ["Hello", "Hi", "Who are you?", "Ada", "Go on", "Gladly"]
        whole = [*first, "Back in the terminal", "Welcome", "And here", "Again"]
        assert await conversation(server, phone, project, SESSION, limit) == whole
        assert await exported(server, phone, project, SESSION) == whole
        listed = (await server.does(phone, "sessions", project))["data"]["sessions"]
        assert [one["title"] for one in listed] == ["Hello", "something else"]


async def test_a_fork_begins_with_its_original(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project, path = await started(server, phone)
        in_a_terminal(path, "Hello", "Hi")
        await server.does(phone, "session_fork", project, session_id=SESSION)
        await run(server, phone, project, "Otherwise", "Yes")
        fork = server.core.projects.get(project).recorded.session_id
        copied = sessions.directory_of(path) / f"{SESSION}.jsonl"
        shutil.copy(copied, copied.with_name(f"{fork}.jsonl"))  # the CLI copies it, too
        in_a_terminal(path, "Later", "In the terminal")
        whole = ["Hello", "Hi", "Otherwise", "Yes"]
        assert await conversation(server, phone, project, fork) == whole
        assert await exported(server, phone, project, fork) == whole
        [entry] = (await server.does(phone, "sessions", project))["data"]["sessions"]
        assert (entry["title"], entry["fork_from"]) == ("Hello", SESSION)
        await server.does(phone, "session_resume", project, session_id=SESSION)
        await run(server, phone, project, "In the former one", "Yes, there")
        assert await conversation(server, phone, project, fork) == whole


@pytest.mark.parametrize("size", [7, 150_000])
async def test_a_terminal_session_is_exported_from_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Pieces may be smaller than a message. The export also works before the session's first run in Drawbridge."""
    monkeypatch.setattr(exporting, "PIECE", size)
    phone = Client()
    async with serving(tmp_path) as server:
        project, path = await started(server, phone)
        in_a_terminal(path, "Grüße", "Hi", "Who are you?", "Ada")
        assert await exported(server, phone, project, SESSION) == ["Grüße", "Hi", "Who are you?", "Ada"]
        await server.does(phone, "session_resume", project, session_id=SESSION)
        await run(server, phone, project, "Go on", "Gladly")
        whole = ["Grüße", "Hi", "Who are you?", "Ada", "Go on", "Gladly"]
        assert await exported(server, phone, project, SESSION) == whole


async def test_a_terminal_session_is_exported_as_readable_text(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project, path = await started(server, phone)
        in_a_terminal(path, "Hello", "Hi")
        await server.does(phone, "session_resume", project, session_id=SESSION)
        await run(server, phone, project, "Go on", "Gladly")
        text = (await server.does(phone, "session_export", project, session_id=SESSION))["data"]["text"]
        places = [text.index(words) for words in ("\n\nHello\n", "Hi\n", "\n\nGo on\n", "Gladly\n")]
        assert places == sorted(places)


async def test_sessions_of_one_history_are_separate(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project, _ = await started(server, phone)
        await run(server, phone, project, "one", "eins")
        first = server.core.projects.get(project).recorded.session_id
        await server.does(phone, "agent_new_session", project)
        await run(server, phone, project, "two", "zwei")
        second = server.core.projects.get(project).recorded.session_id
        assert await conversation(server, phone, project, first) == ["one", "eins"]
        assert await conversation(server, phone, project, second, 1) == ["two", "zwei"]


async def test_a_device_that_cannot_run_agents_sees_only_history(tmp_path: Path) -> None:
    phone, viewer = Client(), Client()
    viewer.runs = False
    async with serving(tmp_path) as server:
        project, path = await started(server, phone)
        in_a_terminal(path, "secret", "also secret")
        with pytest.raises(ClientError) as refused:
            await server.does(viewer, "session_messages", project, session_id=SESSION)
        assert refused.value.code == "SESSION_NOT_FOUND"
        with pytest.raises(ClientError) as refused:
            await server.does(viewer, "session_export", project, session_id=SESSION)
        assert refused.value.code == "SESSION_NOT_FOUND"
        assert await conversation(server, phone, project, SESSION) == ["secret", "also secret"]
        await server.does(phone, "session_resume", project, session_id=SESSION)
        await run(server, phone, project, "Go on", "Gladly")
        assert await conversation(server, viewer, project, SESSION) == ["Go on", "Gladly"]
        assert await exported(server, viewer, project, SESSION) == ["Go on", "Gladly"]


async def test_an_unknown_session_is_an_error(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project, _ = await started(server, phone)
        for id in (SESSION, "../../etc/passwd", "log_1"):
            with pytest.raises(ClientError) as refused:
                await server.does(phone, "session_messages", project, session_id=id)
            assert refused.value.code == "SESSION_NOT_FOUND"


@pytest.mark.parametrize("before", ["x", "1.x", "-1", "1.2.3", "9" * 30, "99."])
async def test_an_invalid_position_is_an_error(tmp_path: Path, before: str) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project, _ = await started(server, phone)
        await run(server, phone, project, "one", "eins")
        id = server.core.projects.get(project).recorded.session_id
        with pytest.raises(ClientError, match=r"is not valid\. Use the `before`"):
            await server.does(phone, "session_messages", project, session_id=id, before=before)


async def test_a_terminal_session_has_each_message_once(tmp_path: Path) -> None:
    """The history of a terminal session is a copy of the agent's own file, so each message must be shown only once, not
    from both.
    """
    phone = Client()
    async with serving(tmp_path) as server:
        server.agent.sessions = ClaudeSessions()
        in_a_terminal(server.root, "Hello", "Hi")
        sessions = server.core.terminal_sessions
        session = sessions.begin(f"desk_{SESSION}", str(server.root), "claude", SESSION)
        assert session is not None
        session.store.write(PromptAccepted("r", "Hello", "desk"))
        assert await conversation(server, phone, session.id, SESSION) == ["Hello"]
        assert await exported(server, phone, session.id, SESSION) == ["Hello"]


async def test_a_session_only_the_agent_stores_is_not_deleted(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project, path = await started(server, phone)
        in_a_terminal(path, "Hello", "Hi")
        with pytest.raises(ClientError, match="can't be deleted: only the agent has stored it") as refused:
            await server.does(phone, "session_delete", project, session_id=SESSION)
        assert refused.value.code == "NOT_SUPPORTED"
        await server.does(phone, "session_resume", project, session_id=SESSION)
        answer = await server.does(phone, "session_delete", project, session_id=SESSION)
        assert answer["data"]["data"]["agent_copy"] is True
        assert await conversation(server, phone, project, SESSION) == ["Hello", "Hi"]
