"""A server that starts an agent, allows whatever it asks, says the agent's process id, and waits to be killed.

``server_to_kill.py PROMPT DIRECTORY [CLAUDE]``: the misbehaving agent, or the real one at that path.
"""

from __future__ import annotations

import asyncio
import sys
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from drawbridge.server.agents.port import Agent, Decision, Event, Launch, Line, Question
from drawbridge.server.agents.program import Claude
from tests.server.agents.rig import bad_agent


async def main(prompt: str, directory: str, claude: str | None = None) -> None:
    heard: asyncio.Queue[Event] = asyncio.Queue()
    agent: Agent = Claude(claude) if claude else bad_agent()
    process = await agent.start(Launch(directory, str(uuid.uuid4())), heard.put_nowait)
    process.prompt(prompt)
    while not isinstance(event := await heard.get(), Question if claude else Line):
        pass
    if isinstance(event, Question):
        process.answer(event.question_id, Decision(allow=True))
    sys.stdout.write(f"{process.pid}\n")
    sys.stdout.flush()
    await asyncio.sleep(600)


asyncio.run(main(*sys.argv[1:]))
