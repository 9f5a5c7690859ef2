"""Runs any program as an agent. The program reads a prompt from its input and prints text or JSON lines. It never asks,
and has no conversation unless its JSON lines name one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from drawbridge.agents import lines, process
from drawbridge.agents.attached import is_text
from drawbridge.agents.base import AgentLine, AgentUnusable, Event, Launch, Options, Output
from drawbridge.agents.environment import environment
from drawbridge.agents.one_shot import OneShot, Turn
from drawbridge.agents.output import session_id_of

SESSION: Final = "DRAWBRIDGE_SESSION_ID"
"""The environment variable with the id of the conversation to continue: the last ``session_id`` in the program's JSON
lines. It is not set for the first prompt of a conversation."""

LONGEST_TEXT: Final = 64 * 1024
"""The number of bytes of text after which a new line begins in the history."""


class Command:
    asks = own_modes = sees = forks = False
    sessions = None
    embeds = staticmethod(is_text)

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str] = os.environ) -> None:
        self.name = name
        self._command = command
        self._environment = environment

    async def start(self, launch: Launch, emit: Callable[[Event], None]) -> process.Process:
        for option in launch.options.__struct_fields__:
            if option != "partial_messages" and getattr(launch.options, option) != getattr(Options(), option):
                raise AgentUnusable("VALIDATION_FAILED", f"options.{option}: {self.name} does not support options.")
        if launch.fork_from is not None:
            text = f"{self.name} can't fork a conversation. Resume the conversation instead."
            raise AgentUnusable("NOT_SUPPORTED", text)
        command = [await process.program(self.name, self._command[0], self._environment), *self._command[1:]]
        variables = environment(self._environment, launch.directory, launch.mark)
        if launch.resume:
            variables[SESSION] = launch.session_id
        conversation = CommandConversation(self.name, partial=launch.options.partial_messages)
        return await process.start(
            self.name, command, launch.directory, variables, conversation, emit, launch.confinement, OneShot
        )


class CommandConversation(Turn):
    """Passes the program's text on as the agent's answer: line by line as it arrives, if requested, and as longer
    blocks for the history. A block ends before a JSON line, after ``LONGEST_TEXT`` or at the end of the output."""

    def __init__(self, name: str, *, partial: bool) -> None:
        super().__init__(name)
        self._partial = partial
        self._lines: list[str] = []
        self._size = self._empty = 0

    def meant(self, message: Mapping[str, Any], data: bytes) -> list[Output]:
        named = message.get("session_id")
        return [*self.rest(), *self.in_session(named), AgentLine(data, session_id_of(named))]

    def text(self, line: bytes) -> list[Output]:
        words = line.decode("utf-8", "replace").rstrip("\r")
        if not words:
            self._empty += 1
            return []
        words, self._empty = "\n" * self._empty + words + "\n", 0
        self._lines.append(words)
        self._size += len(line)
        outputs: list[Output] = []
        if self._partial:
            outputs += lines.piece(self._named, "text", words, is_first=len(self._lines) == 1)
        return [*outputs, *self.rest()] if self._size > LONGEST_TEXT else outputs

    def rest(self) -> list[Output]:
        words, self._lines, self._size = "".join(self._lines), [], 0
        return [lines.said(self._named, "text", words)] if words else []

    @property
    def _named(self) -> str:
        return session_id_of(self.session_id)
