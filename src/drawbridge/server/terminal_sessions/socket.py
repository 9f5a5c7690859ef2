"""Serves the private socket: hooks and bridges of this user connect to it and send lines of their own kinds."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec
from msgspec import Raw

from drawbridge.agents.base import Decision, Proposal
from drawbridge.agents.claude import lines as claude_lines
from drawbridge.agents.claude import prompts as claude_prompts
from drawbridge.agents.json_lines import json_object
from drawbridge.agents.proposals import proposal, read_file
from drawbridge.core.errors import DrawbridgeError
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.protocols import local_ipc as wire
from drawbridge.server.approvals.editors import Editors
from drawbridge.server.approvals.pending import PendingApproval
from drawbridge.server.terminal_sessions import hook_events
from drawbridge.server.terminal_sessions.bridges import Bridges
from drawbridge.server.terminal_sessions.desk import Desk, Follower
from drawbridge.transport.private_socket import listening

logger = logging.getLogger("drawbridge.server")

UNSENT_BYTES = 2 * wire.LINE_BYTES
"""Bytes that may wait for one connection; above that it is closed."""


class Peer:
    """One connection. ``about`` is what a bridge reports about itself."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.about: wire.Bridge | None = None
        self._writer = writer

    def introduced(self, about: wire.Bridge) -> None:
        """It is a bridge, or what it has reported about itself has changed."""
        self.about = about

    def send(self, said: wire.ToBridge | wire.HookAnswer) -> None:
        if not self._writer.is_closing():
            self._writer.write(wire.encode(said))
            if self._writer.transport.get_write_buffer_size() > UNSENT_BYTES:
                self._writer.transport.abort()

    def hang_up(self) -> None:
        self._writer.close()


class HookSurface:
    """A hook that waits with its agent's question."""

    in_editor = False

    def __init__(self, peer: Peer, said: wire.Hook) -> None:
        self.pid: int | None = said.pid
        self.known_as = said.question
        self._peer = peer

    def decided(self, approval: PendingApproval, decision: Decision, by: str) -> None:
        said: Mapping[str, Any] = claude_prompts.verdict(decision, approval.request.input, approval.request.suggestions)
        # The CLI takes any input for a changed one; but without one it ignores that a plan was accepted (2.1.329).
        if decision.updated_input is None and approval.request.tool_name != claude_prompts.LEAVING_PLAN:
            said = {name: value for name, value in said.items() if name != "updatedInput"}
        self._peer.send(wire.HookAnswer(Raw(msgspec.json.encode(said))))
        self._peer.hang_up()

    def closed(self) -> None:
        if self.known_as:
            self._peer.send(wire.HookAnswer())
        self._peer.hang_up()


@contextlib.asynccontextmanager
async def private_socket(desk: Desk, editors: Editors) -> AsyncIterator[None]:
    """Open as long as the context. If it can't be created, the server logs that and continues without it."""
    socket = DeskSocket(desk, editors)
    with contextlib.ExitStack() as stack:
        try:
            listener = stack.enter_context(listening())
        except DrawbridgeError as error:
            logger.error("agents in terminals and editors can't connect: %s", error)
            yield
            return
        server = await asyncio.start_unix_server(socket.met, sock=listener, limit=wire.LINE_BYTES)
        try:
            yield
        finally:
            server.close()
            await socket.close()


class DeskSocket:
    """Serves one connection."""

    def __init__(self, desk: Desk, editors: Editors) -> None:
        self._desk = desk
        self._bridges = Bridges(desk, editors)
        self._tasks = BackgroundTasks(logger)

    async def close(self) -> None:
        await self._tasks.close()

    def met(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.start(self._talk(reader, writer), "a connection to the private socket")

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(writer)
        try:
            first = await reader.readline()
            said = _read(first) if first else None
            if isinstance(said, wire.Hook):
                await self._hook(peer, said, reader)
            elif said is not None:
                await self._bridges.serve(peer, said, reader)
        except (ValueError, OSError) as error:
            logger.warning("the private socket: %s: %s", type(error).__name__, str(error)[:200])
        finally:
            writer.close()

    async def _hook(self, peer: Peer, said: wire.Hook, reader: asyncio.StreamReader) -> None:
        surface = HookSurface(peer, said)
        try:
            event = hook_events.read(said.payload)
        except ValueError:
            surface.closed()
            raise
        if self._desk.closed:
            await reader.read()  # it reconnects, to the next server
            return
        follower = self._desk.hook(event, said.pid, background=said.background)
        if follower is None:
            surface.closed()
            return
        if event.hook_event_name != "PermissionRequest":
            text = event.last_assistant_message if event.hook_event_name in ("Stop", "StopFailure") else ""
            follower.soon(lambda: _told(follower, event), text)
            return
        proposed = _proposal(event)
        follower.soon(lambda: self._bridges.requested(follower.session, event, surface, proposed))
        await reader.read(1)  # it sends nothing more: it waits, or has disconnected
        follower.soon(lambda: follower.session.gone(surface))


def _told(follower: Follower, event: hook_events.HookEvent) -> None:
    follower.session.heard(event, None, None)
    if event.hook_event_name in ("Stop", "StopFailure", "SessionEnd"):
        follower.session.save()


def _read(line: bytes) -> wire.FromPeer:
    """Halves of surrogate pairs are not valid JSON for msgspec; agents send them nevertheless."""
    try:
        return wire.decode_from_peer(line)
    except ValueError:
        mended = claude_lines.parsed(line.strip())
        if mended is None:
            raise
        return wire.decode_from_peer(mended[1])


def _proposal(event: hook_events.HookEvent) -> Proposal | None:
    try:
        given = json_object(event.tool_input)
    except (ValueError, RecursionError):
        return None
    return proposal(event.tool_name, given, read_file)
