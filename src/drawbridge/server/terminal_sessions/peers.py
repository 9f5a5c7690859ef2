"""The programs that are connected to the private socket: hooks and bridges."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec
from msgspec import Raw

from drawbridge.agents.base import Decision
from drawbridge.agents.terminal import TerminalAgent
from drawbridge.protocols import local_ipc as wire
from drawbridge.server.approvals.pending import PendingApproval

UNSENT_BYTES: Final = 2 * wire.LINE_BYTES
"""The maximum number of bytes that wait to be sent on one connection. A connection with more is closed."""


class Peer:
    """One connection. ``about``: what the bridge reports about itself; None for a hook, and until a bridge has reported
    anything."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.about: wire.Bridge | None = None
        self._reader = reader
        self._writer = writer

    @property
    def is_gone(self) -> bool:
        """Whether the program has disconnected, and everything that it had sent was read."""
        return self._reader.at_eof()

    def introduce(self, about: wire.Bridge) -> None:
        """Stores what a bridge reports about itself, for the first time or after a change."""
        self.about = about

    def send(self, line: wire.ToBridge | wire.HookAnswer | wire.HookContext) -> None:
        if not self._writer.is_closing():
            self._writer.write(wire.encode(line))
            if self._writer.transport.get_write_buffer_size() > UNSENT_BYTES:
                self._writer.transport.abort()

    def hang_up(self) -> None:
        self._writer.close()


class AskingHook:
    """A hook that waits for the answer to its agent's question."""

    in_editor = False

    def __init__(self, peer: Peer, hook: wire.Hook, agent: TerminalAgent) -> None:
        self.pid: int | None = hook.pid
        self._agent = agent
        self.known_as = hook.question
        self._peer = peer

    @property
    def is_gone(self) -> bool:
        """Whether the hook has disconnected, so that nobody waits for the answer."""
        return self._peer.is_gone

    def decided(self, approval: PendingApproval, decision: Decision, by: str) -> None:
        asked = approval.request
        answer = self._agent.answer(decision, asked.tool_name, asked.input, asked.suggestions)
        self._peer.send(wire.HookAnswer(Raw(msgspec.json.encode(answer))))
        self._peer.hang_up()

    def closed(self) -> None:
        if self.known_as:
            self._peer.send(wire.HookAnswer())
        self._peer.hang_up()
