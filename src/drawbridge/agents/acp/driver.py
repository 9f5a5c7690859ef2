"""Starts agents that support the Agent Client Protocol."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

from drawbridge.agents import process
from drawbridge.agents.acp import opening, reports
from drawbridge.agents.acp.conversation import AcpConversation
from drawbridge.agents.acp.listing import Listing
from drawbridge.agents.attached import is_text
from drawbridge.agents.base import AgentState, Event, Exited, Launch, StoredConversation, StoredConversations
from drawbridge.agents.environment import environment
from drawbridge.agents.proposals import read_file

logger = logging.getLogger("drawbridge.agents")

LISTING_SECONDS: Final = 15.0
"""The maximum number of seconds that an agent may take to start and list its conversations."""


def usable(files: str | None) -> str | None:
    """``files`` (see ``Launch.files``) if that directory exists, otherwise None, because an agent may refuse to open a
    session if the directory is missing. Blocking."""
    return files if files is not None and os.path.isdir(files) else None


class Acp:
    """Any ACP agent. ``command`` starts it, and ``title`` is its display name."""

    asks = True
    own_modes = True
    sees = forks = True
    sessions: StoredConversations | None = None
    embeds = staticmethod(is_text)  # what else the agent can read is known only after it has started
    own: Mapping[str, str] = MappingProxyType({})
    """Environment variables for this agent only."""

    def __init__(
        self, name: str, command: Sequence[str], title: str = "", environment: Mapping[str, str] = os.environ
    ) -> None:
        self.name = name
        self.title = title or name
        self._command = command
        self._environment = environment
        self._one_listing = asyncio.Lock()
        """Ensures that only one process at a time lists conversations, no matter how many clients ask."""

    async def start(self, launch: Launch, emit: Callable[[Event], None]) -> process.Process:
        opening.check(launch.options, self.title)
        command = [await process.program(self.name, self._command[0], self._environment), *self._command[1:]]
        return await self._run(command, launch, emit)

    def last_state(self, lines: Sequence[bytes], session_id: str) -> AgentState:
        return reports.last_state(lines, session_id)

    async def list_conversations(self, path: Path, limit: int) -> list[StoredConversation]:
        """The conversations that the agent stores for this directory, at most ``limit``, newest first. Those that the
        agent has not listed within ``LISTING_SECONDS`` are missing; empty if it can't list any. Raises
        ``AgentUnusable`` if it can't be started.

        A separate process lists them and is then ended, because the process that runs prompts must stay in its
        conversation.
        """
        async with self._one_listing:
            return await self._remembered(path, limit)

    async def _remembered(self, path: Path, limit: int) -> list[StoredConversation]:
        listing = Listing(str(path), limit, version("drawbridge"))
        ended = asyncio.Event()

        def emit(event: Event) -> None:
            if isinstance(event, Exited):
                ended.set()

        launch = Launch(str(path), "")
        command = [await process.program(self.name, self._command[0], self._environment), *self._command[1:]]
        variables = {**environment(self._environment, launch.directory, launch.mark), **self.own}
        asked = await process.start(self.title, command, launch.directory, variables, listing, emit, launch.confinement)
        try:
            async with asyncio.timeout(LISTING_SECONDS):
                await ended.wait()
        except TimeoutError:
            logger.warning("%s did not finish listing its conversations within %g s", self.title, LISTING_SECONDS)
        finally:
            await asked.kill()
        return listing.found

    async def _run(self, command: Sequence[str], launch: Launch, emit: Callable[[Event], None]) -> process.Process:
        variables = {**environment(self._environment, launch.directory, launch.mark), **self.own}
        launch = msgspec.structs.replace(launch, files=await asyncio.to_thread(usable, launch.files))
        conversation = AcpConversation(self.title, launch, read_file, version("drawbridge"))
        return await process.start(
            self.title, command, launch.directory, variables, conversation, emit, launch.confinement, look=launch.look
        )
