"""Gemini CLI as the server starts it: by its Agent Client Protocol mode (measured with 0.61.0)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from drawbridge.server.agents import acp_opening, gemini_sessions, process
from drawbridge.server.agents.acp_agent import Acp, program
from drawbridge.server.agents.port import AgentUnusable, Event, Launch

OWN: Final = {"GEMINI_CLI_NO_RELAUNCH": "true"}
"""Else it starts itself once more, with a larger heap: a process more, and twice the wait."""


class Gemini(Acp):
    own = OWN

    def __init__(self, path: str | None = None, environment: Mapping[str, str] = os.environ) -> None:
        """``path``: the program; without it PATH is searched at each start."""
        super().__init__("gemini", [path or "gemini", "--acp"], "Gemini CLI", environment)

    async def start(self, launch: Launch, heard: Callable[[Event], None]) -> process.Process:
        acp_opening.check(launch.options, self.title)
        command = [program(self.name, self._command[0], self._environment, self.title), *self._command[1:]]
        for directory in launch.options.add_dirs:
            if "," in directory:
                raise AgentUnusable("VALIDATION_FAILED", "options.add_dirs: Gemini CLI takes no path with a comma.")
            command.append(f"--include-directories={directory}")
        told = msgspec.structs.replace(launch, options=msgspec.structs.replace(launch.options, add_dirs=()))
        if launch.resume:
            await asyncio.to_thread(gemini_sessions.spare, self.home, launch.session_id)
        return await self._run(command, told, heard)

    @property
    def sessions(self) -> gemini_sessions.Kept:  # type: ignore[override]
        return gemini_sessions.Kept(self.home)

    @property
    def home(self) -> Path:
        """Where it keeps everything."""
        return Path(self._environment.get("GEMINI_CLI_HOME") or os.path.expanduser("~")) / ".gemini"
