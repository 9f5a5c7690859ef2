"""A server that starts an agent with a prompt, prints the agent's process id and its first message, and waits to be killed.

``server_to_kill.py PROMPT DIRECTORY [CLAUDE [unanswered]]`` starts the misbehaving agent or, if given, the real CLI at the
path CLAUDE. The first question of the real CLI is allowed or, with ``unanswered``, stays open. For the real CLI, an
empty line is printed instead of a message.
"""

from __future__ import annotations

import asyncio
import json
import sys
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from drawbridge.agents.base import Agent, AgentLine, Decision, Event, Launch, Question
from drawbridge.agents.claude.driver import Claude
from tests.agents.rig import bad_agent


async def main(prompt: str, directory: str, claude: str | None = None, unanswered: str = "") -> None:
    received: asyncio.Queue[Event] = asyncio.Queue()
    agent: Agent = Claude(claude) if claude else bad_agent()
    process = await agent.start(Launch(directory, str(uuid.uuid4())), received.put_nowait)
    process.prompt(prompt)
    words: str | None = None
    while words is None:
        event = await received.get()
        if isinstance(event, Question) and claude:
            if not unanswered:
                process.answer(event.question_id, Decision(allow=True))
            words = ""
        elif isinstance(event, AgentLine) and not claude:
            message = json.loads(event.raw)
            words = message["message"]["content"][0]["text"] if message["type"] == "assistant" else None
    sys.stdout.write(f"{process.pid}\n{words}\n")
    sys.stdout.flush()
    await asyncio.sleep(600)


asyncio.run(main(*sys.argv[1:]))
