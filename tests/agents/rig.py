"""Starts agents for tests, records their events, and ends them with the test."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import psutil

from drawbridge.agents import process
from drawbridge.agents.base import Agent, AgentLine, Decision, Event, Exited, Launch, Options, Question, TurnEnded
from drawbridge.agents.demo.driver import Demo
from tests.waiting import PATIENCE

BAD_AGENT = Path(__file__).with_name("bad_agent.py")

Output = TypeVar("Output")


def bad_agent(start: str = "as-told") -> Agent:
    """Returns the misbehaving agent (bad_agent.py lists its commands). ``start``: its first argument."""
    return Demo([sys.executable, str(BAD_AGENT), start], name="bad")


def blocks(lines: Iterable[AgentLine]) -> list[dict[str, Any]]:
    """Returns the content blocks of all durable messages, as the history shows them."""
    kept = [json.loads(line.raw) for line in lines if line.durable]
    return [block for line in kept if line.get("type") in ("assistant", "user") for block in line["message"]["content"]]


class ReceivedEvents:
    """Collects the events of an agent."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._read = 0
        self._more = asyncio.Event()

    def __call__(self, event: Event) -> None:
        assert not self.events or not isinstance(self.events[-1], Exited), f"an event after the exit: {event}"
        self.events.append(event)
        self._more.set()

    async def next(self, kind: type[Output]) -> Output:
        """Waits for the next event of that kind and returns it. Events before it are skipped."""
        async with asyncio.timeout(PATIENCE):
            while True:
                while self._read < len(self.events):
                    event = self.events[self._read]
                    self._read += 1
                    if isinstance(event, kind):
                        return event
                self._more.clear()
                await self._more.wait()

    def all(self, kind: type[Output]) -> list[Output]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def messages(self) -> list[dict[str, Any]]:
        return [json.loads(line.raw) for line in self.all(AgentLine)]

    @property
    def words(self) -> str:
        """The text blocks of all the agent's messages, joined by newlines."""
        blocks = [
            block
            for message in self.messages
            if message["type"] == "assistant"
            for block in message["message"]["content"]
        ]
        return "\n".join(block["text"] for block in blocks if block["type"] == "text")


class Session:
    """A started agent in ``directory``."""

    def __init__(self, started: process.Process, received: ReceivedEvents, launch: Launch) -> None:
        self.process = started
        self.received = received
        self.id = launch.session_id
        self.directory = Path(launch.directory)

    async def turn(self, words: str) -> TurnEnded:
        """Sends a prompt and waits until its turn has ended."""
        self.process.prompt(words)
        return await self.ended()

    async def ended(self) -> TurnEnded:
        return await self.received.next(TurnEnded)

    async def asked(self) -> Question:
        return await self.received.next(Question)


@contextlib.asynccontextmanager
async def session(
    agent: Agent,
    directory: Path,
    options: Options = Options(),  # noqa: B008 - frozen
    *,
    times: process.Times | None = None,
    **launch: Any,
) -> AsyncIterator[Session]:
    """Starts the agent and yields its session. Kills the agent at the end."""
    asked = Launch(str(directory), launch.pop("session_id", None) or str(uuid.uuid4()), options=options, **launch)
    received = ReceivedEvents()
    started = await agent.start(asked, received)
    assert isinstance(started, process.Process)
    # A real program may answer slowly on a busy machine.
    started.times = times if times is not None else process.Times(reply=PATIENCE)
    try:
        yield Session(started, received, asked)
    finally:
        async with asyncio.timeout(PATIENCE):
            await started.kill()
    assert isinstance(received.events[-1], Exited)


async def eventually(condition: Callable[[], Any], what: str) -> None:
    """Waits until ``condition`` is true. Fails after ``PATIENCE`` seconds, with ``what`` in the error message."""
    end = asyncio.get_running_loop().time() + PATIENCE
    while not condition():
        assert asyncio.get_running_loop().time() < end, f"{what} did not happen within {PATIENCE:g} s"
        await asyncio.sleep(0.005)


def changed(question: Question, **fields: Any) -> Decision:
    """Returns a decision that allows the call with these fields of its input changed."""
    given = json.loads(bytes(question.input)) | fields
    return Decision(allow=True, updated_input=given)


def lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
