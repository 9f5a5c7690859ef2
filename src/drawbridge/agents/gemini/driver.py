"""Runs Gemini CLI for the server, in its Agent Client Protocol mode (measured with 0.61.0)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from drawbridge.agents import catalog, process
from drawbridge.agents.acp import opening
from drawbridge.agents.acp.driver import Acp, usable
from drawbridge.agents.base import AgentUnusable, Event, Launch
from drawbridge.agents.gemini.sessions import GeminiSessionFiles, spare

ROW: Final = catalog.AGENTS["gemini"]

OWN: Final = {"GEMINI_CLI_NO_RELAUNCH": "true"}
"""This variable prevents the CLI from restarting itself with a larger heap, which would take one more process and twice
the start time."""


class Gemini(Acp):
    asks, own_modes, sees, forks = ROW.asks, ROW.own_modes, ROW.sees, ROW.forks
    own = OWN

    def __init__(self, path: str | None = None, environment: Mapping[str, str] = os.environ) -> None:
        """``path``: the program. If it is None, PATH is searched at each start."""
        super().__init__(ROW.name, [path or ROW.program, "--acp"], ROW.title, environment)

    async def start(self, launch: Launch, emit: Callable[[Event], None]) -> process.Process:
        opening.check(launch.options, self.title)
        command = [
            await process.program(self.name, self._command[0], self._environment, self.title),
            *self._command[1:],
        ]
        for directory in launch.options.add_dirs:
            if "," in directory:
                raise AgentUnusable(
                    "VALIDATION_FAILED", "options.add_dirs: Gemini CLI does not accept paths that contain a comma."
                )
            command.append(f"--include-directories={directory}")
        files = await asyncio.to_thread(usable, launch.files)
        if files is not None and "," not in files:
            command.append(f"--include-directories={files}")
        reduced = msgspec.structs.replace(
            launch, options=msgspec.structs.replace(launch.options, add_dirs=()), files=None
        )
        if launch.resume:
            await asyncio.to_thread(spare, self.home, launch.session_id)
        return await self._run(command, reduced, emit)

    @property
    def sessions(self) -> GeminiSessionFiles:  # type: ignore[override]
        return GeminiSessionFiles(self.home)

    @property
    def home(self) -> Path:
        """Gemini CLI's own directory, which contains all its files."""
        return Path(self._environment.get("GEMINI_CLI_HOME") or os.path.expanduser("~")) / ".gemini"


def agent(path: str | None) -> Gemini:
    return Gemini(path)
