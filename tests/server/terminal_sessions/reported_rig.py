"""A simulated ``claude`` in a terminal. The test sends its hooks' reports to a server that runs as a process."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

from tests.server.processes import Server
from tests.server.terminal_sessions.socket_rig import Line

CLAUDE = os.getpid()
"""The agent's process id. The test uses its own, since the process must be running."""


class ReportedSession:
    """A ``claude`` in a terminal, as its hooks report it."""

    def __init__(self, server: Server, directory: Path) -> None:
        self.server = server
        self.directory = directory
        self.id = str(uuid.uuid4())
        self.project = f"desk_{self.id}"

    async def reports(self, event: str, **more: Any) -> None:
        """Sends a hook's report. Returns once the server has closed the connection, which is when a real hook would
        end.
        """
        known = {"session_id": self.id, "cwd": str(self.directory), "permission_mode": "default"}
        async with Line.open() as line:
            line.send(type="hook", pid=CLAUDE, payload={**known, "hook_event_name": event, **more})
            line.end()
            while await line.receive() is not None:
                pass

    async def runs(self, turn: str, words: str, text: str) -> None:
        """Reports a run, and writes ``text`` to the poem in the meantime. Returns once a client is notified of the review."""
        async with self.server.client() as client:
            await client.ask("subscribe", {"topics": ["projects"]})
            await self.begins(turn, words)
            (self.directory / "poem.txt").write_text(text)
            await self.reports("Stop", prompt_id=turn)
            await client.receive("update", "review_changed")

    async def begins(self, turn: str, words: str) -> None:
        await self.reports("UserPromptSubmit", prompt_id=turn, prompt=words)
        await self.reports("PreToolUse", prompt_id=turn, tool_name="Edit")
