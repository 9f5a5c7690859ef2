"""The demo agent: scripted, but a real child process that speaks the real stream. It needs no account."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from drawbridge.server.agents import claude_command, process
from drawbridge.server.agents.claude import Conversation
from drawbridge.server.agents.port import Event, Launch
from drawbridge.server.agents.program import read_file

# -P: what lies in the project's directory is not taken for a module.
COMMAND: Final = (sys.executable, "-P", "-m", "drawbridge.server.agents.demo_agent")


class Demo:
    """``command`` and ``name``: for another program that speaks the stream and needs no installation, as tests have one."""

    asks = True
    own_modes = False
    sessions = None

    def __init__(
        self, command: Sequence[str] = COMMAND, name: str = "demo", environment: Mapping[str, str] = os.environ
    ) -> None:
        self.name = name
        self._command = command
        self._environment = environment

    async def start(self, launch: Launch, heard: Callable[[Event], None]) -> process.Process:
        title = f"The {self.name} agent"
        command = [*self._command, *claude_command.arguments(launch)]
        environment = claude_command.environment(self._environment, launch.directory, launch.mark)
        conversation = Conversation(title, read_file, resumed=launch.resume or launch.fork_from is not None)
        return await process.start(
            title, command, launch.directory, environment, conversation, heard, launch.confinement
        )
