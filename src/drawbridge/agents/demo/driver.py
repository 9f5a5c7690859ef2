"""Starts the demo agent, a script that runs as a real child process and uses Claude Code's stream format. It needs no
account."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from drawbridge.agents import catalog, process
from drawbridge.agents.base import AgentState, Event, Launch
from drawbridge.agents.claude import command_line, prompts, reports
from drawbridge.agents.claude.conversation import ClaudeConversation
from drawbridge.agents.proposals import read_file

ROW: Final = catalog.AGENTS["demo"]

# -P: files in the project's directory are not imported as modules.
COMMAND: Final = (sys.executable, "-P", "-m", "drawbridge.agents.demo.script")


class Demo:
    """The demo agent. ``command`` and ``name`` may specify another program that uses the same stream format and needs
    no installation, for example in a test."""

    asks, own_modes, sees, forks = ROW.asks, ROW.own_modes, ROW.sees, ROW.forks
    sessions = None
    embeds = staticmethod(prompts.embeds)

    def __init__(
        self, command: Sequence[str] = COMMAND, name: str = ROW.name, environment: Mapping[str, str] = os.environ
    ) -> None:
        self.name = name
        self._command = command
        self._environment = environment

    async def start(self, launch: Launch, emit: Callable[[Event], None]) -> process.Process:
        title = f"The {self.name} agent"
        command = [*self._command, *command_line.arguments(launch)]
        environment = command_line.environment(self._environment, launch.directory, launch.mark)
        resumed = launch.resume or launch.fork_from is not None
        conversation = ClaudeConversation(title, read_file, resumed=resumed, state=launch.state)
        return await process.start(
            title, command, launch.directory, environment, conversation, emit, launch.confinement, look=launch.look
        )

    def last_state(self, lines: Sequence[bytes], session_id: str) -> AgentState:
        return reports.last_state(lines, session_id)


def agent(path: str | None) -> Demo:
    """Returns the demo agent. ``path``: always None, because the script is part of this package."""
    return Demo()
