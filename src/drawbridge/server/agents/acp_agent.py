"""Agents that speak the Agent Client Protocol, as the server starts them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Final

from drawbridge.server.agents import acp_opening, claude_command, process
from drawbridge.server.agents.acp import Conversation
from drawbridge.server.agents.port import AgentUnusable, Event, Launch, Sessions
from drawbridge.server.agents.program import read_file

# What an editor tells its terminals, and Gemini CLI the processes that it starts: not meant for a server's agents.
NOT_PASSED_ON: Final = ("GEMINI_CLI", "CLAUDE_CODE_ENTRYPOINT")
NOT_PASSED_ON_PREFIXES: Final = ("GEMINI_CLI_IDE_",)


class Acp:
    """Any such agent: ``command`` starts it. ``title``: its name for people."""

    names_sessions = True
    asks = True
    own_modes = True
    sessions: Sessions | None = None

    def __init__(
        self, name: str, command: Sequence[str], title: str = "", environment: Mapping[str, str] = os.environ
    ) -> None:
        self.name = name
        self.title = title or name
        self._command = command
        self._environment = environment

    async def start(self, launch: Launch, heard: Callable[[Event], None]) -> process.Process:
        acp_opening.check(launch.options, self.title)
        command = [program(self.name, self._command[0], self._environment), *self._command[1:]]
        return await self._run(command, launch, heard, {})

    async def _run(
        self, command: Sequence[str], launch: Launch, heard: Callable[[Event], None], own: dict[str, str]
    ) -> process.Process:
        environment = passed_on(self._environment, launch) | own
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
