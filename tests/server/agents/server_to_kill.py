"""A server that starts an agent, gives it a prompt, says the agent's process id, and waits to be killed."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from drawbridge.server.agents.port import Event, Launch, Line
from tests.server.agents.rig import bad_agent


async def main(command: str, directory: str) -> None:
    said = asyncio.Event()

    def heard(event: Event) -> None:
        if isinstance(event, Line):
            said.set()

    agent = await bad_agent().start(Launch(directory, "08445e35-194e-42db-84a7-b7a55484f1b6"), heard)
    agent.prompt(command)
    await said.wait()
    sys.stdout.write(f"{agent.pid}\n")
    sys.stdout.flush()
    await asyncio.sleep(600)


asyncio.run(main(*sys.argv[1:]))
