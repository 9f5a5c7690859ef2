"""The server's overhead for an agent: a warm turn of the real ``claude`` through its driver, compared with bare pipes.

Run it with ``python -m bench.agents``. The model is the tests' stub. There is also a row for the demo agent, and one
for parsing lines.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import statistics
import tempfile
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from tests import programs
from tests.rigs import claude_rig
from tests.rigs.messages_stub import MessagesStub

from drawbridge.agents.base import Agent, Event, Launch, TurnEnded
from drawbridge.agents.claude.command_line import arguments, environment
from drawbridge.agents.claude.conversation import ClaudeConversation
from drawbridge.agents.claude.driver import Claude
from drawbridge.agents.demo.driver import Demo
from drawbridge.agents.output import Lines

TURNS = 60


class ManagedAgent:
    """The agent as the server runs it."""

    def __init__(self) -> None:
        self._ended: asyncio.Future[None] | None = None

    def on_event(self, event: Event) -> None:
        if isinstance(event, TurnEnded) and self._ended is not None:
            assert event.ok, event.error
            self._ended.set_result(None)

    async def start(self, agent: Agent, directory: str) -> ManagedAgent:
        self.process = await agent.start(Launch(directory, str(uuid.uuid4())), self.on_event)
        return self

    async def turn(self, words: str) -> float:
        self._ended = asyncio.get_running_loop().create_future()
        began = time.perf_counter()
        self.process.prompt(words)
        await self._ended
        return (time.perf_counter() - began) * 1000


class Bare:
    """The same CLI with the same flags, but without a supervisor. Its lines are inspected only enough to detect the end
    of a turn."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin
        assert process.stdout
        self.process, self._stdin, self._stdout = process, process.stdin, process.stdout

    async def turn(self, words: str) -> float:
        message = {"type": "user", "message": {"role": "user", "content": words}, "uuid": str(uuid.uuid4())}
        began = time.perf_counter()
        self._stdin.write(json.dumps(message).encode() + b"\n")
        while b'"result_index"' not in await self._stdout.readline():
            pass
        return (time.perf_counter() - began) * 1000


@asynccontextmanager
async def bare(program: str, variables: dict[str, str], directory: str) -> AsyncIterator[Bare]:
    flags = arguments(Launch(directory, str(uuid.uuid4())))
    process = await asyncio.create_subprocess_exec(
        program,
        *flags,
        cwd=directory,
        env=environment(variables, directory, "bench"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=2**24,
        start_new_session=True,
    )
    yield Bare(process)
    assert process.stdin
    process.stdin.close()
    await process.wait()


async def warm_turns(directory: str, model: MessagesStub) -> None:
    program, variables = str(programs.claude()), claude_rig.environment(model)
    times: dict[type, list[float]] = {ManagedAgent: [], Bare: []}
    async with AsyncExitStack() as stack:
        parties: list[ManagedAgent | Bare] = []
        for _ in range(2):
            parties.append(await ManagedAgent().start(Claude(program, variables), directory))
            parties.append(await stack.enter_async_context(bare(program, variables, directory)))
        for _ in range(TURNS):
            for party in random.sample(parties, len(parties)):  # a fixed order would affect the result
                times[type(party)].append(await party.turn("Hello"))
        for party in parties[::2]:
            assert isinstance(party, ManagedAgent)
            await party.process.stop()
    for what, of in (("median", statistics.median), ("best", min)):
        ours, cli = (of(each[2 * 5 :]) for each in times.values())
        row = f"{ours:.1f} ms through us, {cli:.1f} ms on bare pipes: {ours - cli:+.1f} ms"
        print(f"warm turn of claude, {what}: {row}   <= 5 ms")


async def demo_turns(directory: str) -> None:
    demo = await ManagedAgent().start(Demo(), directory)
    await demo.turn("/quick")
    times = [await demo.turn("/quick") for _ in range(500)]
    await demo.process.stop()
    print(
        f"warm turn of the demo agent: {statistics.median(times):.2f} ms, {60_000 / statistics.mean(times):,.0f} a minute"
    )


def lines() -> None:
    block = {"type": "text", "text": "word " * 80}
    message = {
        "type": "assistant",
        "message": {"role": "assistant", "content": [block]},
        "session_id": "s",
        "uuid": "u",
    }
    data = (json.dumps(message) + "\n").encode() * 1000
    conversation, framing = ClaudeConversation("bench", lambda path: None, resumed=False), Lines()
    began = time.process_time()
    for _ in range(100):
        for line in framing.feed(data):
            conversation.received(line)
    each = (time.process_time() - began) * 1e6 / 100_000
    print(f"one line of {len(data) // 1000} bytes, from the pipe to an event: {each:.2f} us")


async def main() -> None:
    with tempfile.TemporaryDirectory() as name, MessagesStub() as model:
        os.environ |= {"HOME": name, "CLAUDE_CONFIG_DIR": f"{name}/.claude"}
        project = Path(name, "project")
        project.mkdir()
        claude_rig.prepare_home(project)
        await warm_turns(str(project), model)
        await demo_turns(str(project))
    lines()


if __name__ == "__main__":
    asyncio.run(main())
