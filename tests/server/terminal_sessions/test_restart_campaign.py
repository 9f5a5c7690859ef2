"""Servers are killed at random moments while real hooks wait. Each question is asked once and answered once."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import uuid
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest
from websockets.exceptions import WebSocketException

from drawbridge.cli.hook import for_guard
from drawbridge.settings.hook import HookSettings
from tests import seeds
from tests.guard import processes
from tests.guard.payloads import recorded
from tests.server.processes import Server, serving
from tests.server.wire_client import WireClient
from tests.waiting import PATIENCE

from .rig import Message
from .socket_rig import Line

ROUNDS = 30

CROWD_ROUNDS = 200
CLIENTS = 4
SESSION = str(uuid.uuid4())
PROJECT = f"desk_{SESSION}"


@contextlib.asynccontextmanager
async def asking(home: Path, command: str) -> AsyncIterator[Process]:
    """Starts a hook that asks about ``command``."""
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
    """Denies the open request, if there is one. ``given``: the message of the answer, by which it is recognized."""
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
async def test_servers_are_killed_at_random_moments(home: Path, seed: int) -> None:
    random, received = Random(seed), dict[str, Message]()
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
            received[command] = json.loads(output)["hookSpecificOutput"]["decision"]
            again.process.kill()
            await again.ended()
    check(home / "data" / "desk" / PROJECT / "logs", received)


def check(logs: Path, received: dict[str, Message]) -> None:
    """Checks that the history contains exactly the answers that the agents have received."""
    asked: dict[str, str] = {}
    answers: dict[str, str] = {}
    for file in sorted(logs.glob("messages_*.jsonl")):
        for line in file.read_bytes().splitlines():
            message = json.loads(line)["message"]
            record = message["message"]
            if message["subtype"] == "permission_request":
                assert record["input"]["command"] not in asked.values(), "asked twice"
                asked[record["approval_id"]] = record["input"]["command"]
            elif message["subtype"] == "permission_resolved":
                assert record["approval_id"] not in answers, "answered twice"
                answers[record["approval_id"]] = record["message"]
            assert message["subtype"] != "permission_withdrawn"
    given = {asked[approval_id]: answer for approval_id, answer in answers.items()}
    assert given == {command: decision["message"] for command, decision in received.items()}
    assert len(given) == ROUNDS
    assert {answer.split()[1] for answer in given.values()} == {"first", "second"}


# four clients answer a hook or an editor while servers are killed


class AskedQuestion:
    """The question of one round, what the agent received, and the clients that were notified that they won."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.words = f"touch crowd-{number}"
        self.received: Message | None = None
        self.won: list[str] = []

    def answer(self, name: str) -> Message:
        """The answer of the client with this name. A question from an editor is allowed, with the name as the text,
        because an editor does not receive the message of a denial.
        """
        if self.number % 2:
            return {"decision": "deny", "message": name}
        return {"decision": "allow", "updated_input": {"file_path": "/ws/a.py", "content": name}}


async def receives_by_hook(asked: AskedQuestion, hook: Process) -> None:
    output, _ = await hook.communicate()
    asked.received = json.loads(output)["hookSpecificOutput"]["decision"]


async def receives_by_bridge(asked: AskedQuestion) -> None:
    """Sends the question as a bridge does, and reconnects with the same question whenever the server has ended."""
    while asked.received is None:
        with contextlib.suppress(OSError):
            async with Line.open() as line:
                line.send(type="bridge", editor="Neovim", folders=["/ws"], pids=[])
                texts = {"old_text": "", "new_text": f"{asked.words}\n"}
                about = {"id": "7", "agent": "Gemini CLI", "session": "s", "path": "/ws/a.py", "pid": None}
                line.send(type="proposed", question=f"{asked.number:016x}-7", **about, **texts)
                asked.received = await line.receive()
        await asyncio.sleep(0.02)


async def tries(server: Server, asked: AskedQuestion, name: str, later: float) -> None:
    """Answers as a client after ``later`` seconds. If the server is killed in the meantime, it is unknown whether the answer
    won.
    """
    with contextlib.suppress(OSError, WebSocketException, AssertionError):
        async with server.client() as client:
            await asyncio.sleep(later)
            projects = (await client.ask("project_list"))["data"]["projects"]
            for project in projects:
                for approval in project["approvals"]:
                    answer = {"approval_id": approval["approval_id"], **asked.answer(name)}
                    reply = await client.ask("permission_response", answer, project["id"])
                    if reply["type"] != "error":
                        asked.won.append(name)


@pytest.mark.slow
@pytest.mark.timeout(7_200)
async def test_a_crowd_answers_while_servers_are_killed(home: Path) -> None:
    """Each question is asked once and answered once. If a client was notified that it won, the agent gets that client's
    answer.
    """
    seed = seeds.seed()
    random, rounds = Random(seed), [AskedQuestion(number) for number in range(CROWD_ROUNDS)]
    for asked in rounds:
        is_hook = bool(asked.number % 2)
        async with contextlib.AsyncExitStack() as stack:
            server = await stack.enter_async_context(serving(home / "data", "--no-tls"))
            if is_hook:
                hook = await stack.enter_async_context(asking(home, asked.words))
                agent = asyncio.create_task(receives_by_hook(asked, hook))
            else:
                agent = asyncio.create_task(receives_by_bridge(asked))
            stack.callback(agent.cancel)
            for kill in range(random.choice([1, 1, 2])):
                names = [f"{asked.number} {kill} {number}" for number in range(CLIENTS)]
                answering = [asyncio.create_task(tries(server, asked, name, random.uniform(0, 0.3))) for name in names]
                await asyncio.sleep(random.uniform(0, 0.4))
                server.process.kill()
                await asyncio.gather(*answering)
                await server.ended()
                server = await stack.enter_async_context(serving(home / "data", "--no-tls"))
            async with asyncio.timeout(PATIENCE):
                while asked.received is None:
                    await tries(server, asked, f"{asked.number} last", 0)
            server.process.kill()
            await server.ended()
        assert len(asked.won) <= 1, f"seed {seed}: {asked.won} were all informed that they won"
    history = resolved(home / "data" / "desk")
    for asked in rounds:
        [answer] = history.get(asked.words, ["never asked"])
        assert asked.won in ([], [answer]), f"seed {seed}"
        assert asked.received is not None
        if asked.number % 2:
            assert asked.received["message"] == answer, f"seed {seed}"
        else:
            assert (asked.received["type"], asked.received["text"]) == ("answer", answer), f"seed {seed}"


def resolved(desk: Path) -> dict[str, list[str]]:
    """The answers in all histories, by what was asked."""
    asked: dict[str, str] = {}
    answers: dict[str, list[str]] = {}
    for file in sorted(desk.glob("*/logs/messages_*.jsonl")):
        for line in file.read_bytes().splitlines():
            message = json.loads(line)["message"]
            record = message.get("message")
            if message.get("subtype") == "permission_request":
                [words] = re.findall("touch crowd-[0-9]+", json.dumps(record))[:1]
                assert words not in asked.values(), f"{words} was asked twice"
                asked[record["approval_id"]] = words
            elif message.get("subtype") == "permission_resolved":
                given = record.get("updated_input")
                answers.setdefault(asked[record["approval_id"]], []).append(
                    given["content"] if given else record["message"]
                )
    return answers
