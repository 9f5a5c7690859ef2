"""Agents that speak the Agent Client Protocol, as the server starts them."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Final

from drawbridge.server.agents import acp_opening, claude_command, process
from drawbridge.server.agents.acp import Conversation
from drawbridge.server.agents.acp_listing import Listing
from drawbridge.server.agents.port import AgentUnusable, Event, Exited, Launch, Remembered, Sessions
from drawbridge.server.agents.program import read_file

# What an editor tells its terminals, and Gemini CLI the processes that it starts: not meant for a server's agents.
NOT_PASSED_ON: Final = ("GEMINI_CLI", "CLAUDE_CODE_ENTRYPOINT")
NOT_PASSED_ON_PREFIXES: Final = ("GEMINI_CLI_IDE_",)


logger = logging.getLogger("drawbridge.server.agents")

LISTING_SECONDS: Final = 15.0
"""Seconds for an agent to start and list its conversations."""


class Acp:
    """Any such agent: ``command`` starts it. ``title``: its name for people."""

    asks = True
    own_modes = True
    sessions: Sessions | None = None
    own: Mapping[str, str] = MappingProxyType({})
    """Environment variables for it alone."""

    def __init__(
        self, name: str, command: Sequence[str], title: str = "", environment: Mapping[str, str] = os.environ
    ) -> None:
        self.name = name
        self.title = title or name
        self._command = command
        self._environment = environment
        self._one_listing = asyncio.Lock()
        """One process at a time lists conversations, however many clients ask."""

    async def start(self, launch: Launch, heard: Callable[[Event], None]) -> process.Process:
        acp_opening.check(launch.options, self.title)
        command = [program(self.name, self._command[0], self._environment), *self._command[1:]]
        return await self._run(command, launch, heard)

    async def remembered(self, path: Path, limit: int) -> list[Remembered]:
        """The conversations that the agent keeps for this directory, newest first; empty if it can't list them.

        A separate process lists them and is ended: the working one must continue its conversation.
        """
        async with self._one_listing:
            return await self._remembered(path, limit)

    async def _remembered(self, path: Path, limit: int) -> list[Remembered]:
        listing = Listing(str(path), limit, version("drawbridge"))
        ended = asyncio.Event()

        def heard(event: Event) -> None:
            if isinstance(event, Exited):
                ended.set()

        launch = Launch(str(path), "")
        command = [program(self.name, self._command[0], self._environment), *self._command[1:]]
        environment = {**passed_on(self._environment, launch), **self.own}
        asked = await process.start(
            self.title, command, launch.directory, environment, listing, heard, launch.confinement
        )
        try:
            async with asyncio.timeout(LISTING_SECONDS):
                await ended.wait()
        except TimeoutError:
            logger.warning("%s: it did not list its conversations within %g s", self.title, LISTING_SECONDS)
        finally:
            await asked.kill()
        return listing.found

    async def _run(self, command: Sequence[str], launch: Launch, heard: Callable[[Event], None]) -> process.Process:
        environment = {**passed_on(self._environment, launch), **self.own}
        conversation = Conversation(self.title, launch, read_file, version("drawbridge"))
        return await process.start(
            self.title, command, launch.directory, environment, conversation, heard, launch.confinement
        )


def program(name: str, path: str, environment: Mapping[str, str], install: str = "") -> str:
    """Where it is. Raises ``AgentUnusable``. ``install``: what is to be installed where it is missing."""
    found = shutil.which(path, path=environment.get("PATH"))
    if found is None:
        where = f"at {path}" if os.sep in path else f"`{path}` on PATH"
        remedy = f"Install {install} there, or start the server with --agent-path {name}=PATH."
        text = f"There is no program {where} on the server's machine, which the agent {name} needs."
        raise AgentUnusable("AGENT_NOT_FOUND", f"{text} {remedy if install else 'Install it there.'}")
    return os.path.abspath(found)


def passed_on(base: Mapping[str, str], launch: Launch) -> dict[str, str]:
    """The environment of an agent."""
    whole = claude_command.environment(base, launch.directory, launch.mark)
    return {
        name: value
        for name, value in whole.items()
        if name not in NOT_PASSED_ON and not name.startswith(NOT_PASSED_ON_PREFIXES)
    }
