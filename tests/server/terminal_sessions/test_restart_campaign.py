"""Servers that are killed at any moment, with real hooks that wait: each question is asked once and answered once."""

from __future__ import annotations

import asyncio
import contextlib
import json
import uuid
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest

from drawbridge.cli.hook import for_guard
from drawbridge.settings.hook import HookSettings
from tests.guard import processes
from tests.guard.payloads import recorded
from tests.server.processes import serving
from tests.server.wire_client import WireClient
from tests.waiting import PATIENCE

from .rig import Message

ROUNDS = 30
SESSION = str(uuid.uuid4())
PROJECT = f"desk_{SESSION}"


@contextlib.asynccontextmanager
async def asking(home: Path, command: str) -> AsyncIterator[Process]:
    """A hook with its question; it does not wait for anybody to listen."""
    payload = recorded("claude", "PermissionRequest", "Bash")
    payload |= {"session_id": SESSION, "tool_input": {"command": command}, "transcript_path": ""}
    words = processes.fast_form(home, for_guard(HookSettings()))
    process = await asyncio.create_subprocess_exec(*words, stdin=PIPE, stdout=PIPE)
    try:
        assert process.stdin is not None
        process.stdin.write(processes.as_json(payload))
        process.stdin.close()
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def answer_it(client: WireClient, given: str) -> None:
    """The one that is open, or was answered already; ``given`` tells this try from others."""
    projects = (await client.ask("project_list"))["data"]["projects"]
    waiting = [one for project in projects for one in project["approvals"]]
    if not waiting:
        return
    await client.ask(
        "permission_response",
        {"approval_id": waiting[0]["approval_id"], "decision": "deny", "message": given},
        PROJECT,
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
async def test_servers_that_are_killed_at_any_moment(home: Path, seed: int) -> None:
    random, heard = Random(seed), dict[str, Message]()
    for number in range(ROUNDS):
        command = f"touch {number}"
        async with contextlib.AsyncExitStack() as stack:
            server = await stack.enter_async_context(serving(home / "data", "--no-tls"))
            client = await stack.enter_async_context(server.client())
            await client.ask("subscribe", {"topics": ["approvals"]})
            hook = await stack.enter_async_context(asking(home, command))
            await client.receive("permission_request")
            answering = asyncio.create_task(answer_it(client, f"{number} first"))
            await asyncio.sleep(random.choice([0, random.uniform(0, 0.01), random.uniform(0, 0.1)]))
            server.process.kill()
            await asyncio.gather(answering, return_exceptions=True)
            await server.ended()
            again = await stack.enter_async_context(serving(home / "data", "--no-tls"))
            client = await stack.enter_async_context(again.client())
            await answer_it(client, f"{number} second")
            output, _ = await asyncio.wait_for(hook.communicate(), PATIENCE)
            heard[command] = json.loads(output)["hookSpecificOutput"]["decision"]
            again.process.kill()
            await again.ended()
    check(home / "data" / "desk" / PROJECT / "logs", heard)


def check(logs: Path, heard: dict[str, Message]) -> None:
    """What the history says is what the agents have heard."""
    asked: dict[str, str] = {}
    answers: dict[str, str] = {}
    for file in sorted(logs.glob("messages_*.jsonl")):
        for line in file.read_bytes().splitlines():
            message = json.loads(line)["message"]
            said = message["message"]
            if message["subtype"] == "permission_request":
                assert said["input"]["command"] not in asked.values(), "asked twice"
                asked[said["approval_id"]] = said["input"]["command"]
            elif message["subtype"] == "permission_resolved":
                assert said["approval_id"] not in answers, "answered twice"
                answers[said["approval_id"]] = said["message"]
            assert message["subtype"] != "permission_withdrawn"
    told = {asked[approval_id]: answer for approval_id, answer in answers.items()}
    assert told == {command: decision["message"] for command, decision in heard.items()}
    assert len(told) == ROUNDS
    assert {answer.split()[1] for answer in told.values()} == {"first", "second"}
