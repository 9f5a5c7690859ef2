"""Serves the private socket, to which this user's hooks and bridges connect. Both send lines of JSON."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import msgspec

from drawbridge.agents.base import Proposal
from drawbridge.agents.output import json_object, parsed
from drawbridge.agents.proposals import read_file
from drawbridge.agents.terminal import HookEvent, TerminalAgent
from drawbridge.core.disk_threads import DiskThreads
from drawbridge.core.errors import DrawbridgeError
from drawbridge.core.review_memory import ReviewMemory
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.protocols import local_ipc as wire
from drawbridge.server.approvals.editors import Editors
from drawbridge.server.approvals.service import look_at
from drawbridge.server.events import ApprovalRequested
from drawbridge.server.sessions.metadata import TERMINAL_PREFIX
from drawbridge.server.terminal_sessions.bridges import READING_SECONDS, Bridges
from drawbridge.server.terminal_sessions.editor_reviews import EditorReviews, KnownSessions, ReviewCommands
from drawbridge.server.terminal_sessions.peers import AskingHook, Peer
from drawbridge.server.terminal_sessions.processes import Process
from drawbridge.server.terminal_sessions.questions import question_of
from drawbridge.server.terminal_sessions.report_queue import ReportQueue
from drawbridge.server.terminal_sessions.reports import Disconnected, HookReport, QuestionReport
from drawbridge.server.terminal_sessions.sessions import TerminalSessions
from drawbridge.server.terminal_sessions.shared_comments import LeftComments
from drawbridge.transport.private_socket import listening

logger = logging.getLogger("drawbridge.server")

EARLIER: Final = "claude"
"""The agent of a hook that does not name its agent. Earlier versions of the guard supported only this one."""

MODE_SECONDS: Final = 0.8
"""Seconds that the server waits for the mode of a prompt's turn. After that, it hands over no comments. This is less
than the 1 s for which the hook waits (``HANDOVER_SECONDS`` in the guard)."""

READERS: Final = 8
"""The maximum number of threads that wait for the disk of a file or folder that a hook or a bridge names."""

_anything: Final = msgspec.json.Decoder(dict[str, Any])


@contextlib.asynccontextmanager
async def private_socket(
    sessions: TerminalSessions, editors: Editors, known: KnownSessions, commands: ReviewCommands
) -> AsyncIterator[None]:
    """Serves the private socket during the context. If the socket can't be created, the server logs that and continues
    without it. ``known``: the sessions whose reviews bridges can read. ``commands``: the commands with which they read
    and change them."""
    socket = PrivateSocket(sessions, editors, known, commands)
    with contextlib.ExitStack() as stack:
        try:
            listener = stack.enter_context(listening())
        except DrawbridgeError as error:
            logger.error("editors and agents in terminals can't connect: %s", error)
            yield
            return
        server = await asyncio.start_unix_server(socket.accept, sock=listener, limit=wire.LINE_BYTES)
        try:
            yield
        finally:
            server.close()
            await socket.close()


class PrivateSocket:
    """Serves each connection in its own task."""

    def __init__(
        self, sessions: TerminalSessions, editors: Editors, known: KnownSessions, commands: ReviewCommands
    ) -> None:
        self._sessions = sessions
        self._reviews = EditorReviews(known, commands, ReviewMemory())
        self._disk = DiskThreads(READERS)
        self._bridges = Bridges(sessions, editors, self._reviews, self._disk)
        self._tasks = BackgroundTasks(logger)

    async def close(self) -> None:
        await self._tasks.close()
        await self._reviews.close()

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.start(self._serve(reader, writer), "a connection to the private socket")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(reader, writer)
        try:
            first = await reader.readline()
            line = _read(first) if first else None
            if isinstance(line, wire.Hook):
                await self._hook(peer, line, reader)
            elif line is not None:
                await self._bridges.serve(peer, line, reader)
        except (ValueError, OSError) as error:
            logger.warning("a connection to the private socket failed: %s: %s", type(error).__name__, str(error)[:200])
        finally:
            writer.close()

    async def _hook(self, peer: Peer, hook: wire.Hook, reader: asyncio.StreamReader) -> None:
        name = hook.agent or EARLIER
        agent = self._sessions.terminal_agent(name)
        if agent is None:
            if hook.question:
                peer.send(wire.HookAnswer())
            raise ValueError(f"a hook of {name!r}: the hooks of this agent are not supported")
        asker = AskingHook(peer, hook, agent)
        try:
            event = agent.event(hook.payload)
        except ValueError as error:
            asker.closed()
            raise ValueError(f"a hook of {name!r}: {error}") from None
        proposal, look = await self._look(name, agent, event) if event.name == "PermissionRequest" else (None, None)
        await self._sessions.examine(event)
        if self._sessions.closed:
            await reader.read()  # the hook reconnects to the next server
            return
        reports = self._sessions.report(name, event, Process(hook.pid, hook.config, background=hook.background))
        if reports is None:
            asker.closed()
            return
        handed = await self._hand_over(peer, reports, event, reader) if hook.takes else None
        reports.session.expect(event)
        if event.name == "PermissionRequest":
            reports.add(QuestionReport(event, asker, proposal, look))
            await reader.read(1)  # the hook sends nothing more, so this returns when it disconnects
            reports.add(Disconnected(asker))
            return
        reports.add(HookReport(event, hook.pid, handed))
        if event.name == "PreToolUse" and not reports.session.reviewed.is_ready:
            peer.send(wire.HookAnswer())
            await reports.session.reviewed.ready()

    async def _look(
        self, name: str, agent: TerminalAgent, event: HookEvent
    ) -> tuple[Proposal | None, ApprovalRequested | None]:
        """The change to a file that the agent ``name`` asks about, if any, and the approval request (see ``look_at``). Both
        are None if the disk does not respond."""
        session = self._sessions.find(TERMINAL_PREFIX + event.session_id)
        root = str(Path(event.cwd) if session is None else session.path)

        def look() -> tuple[Proposal | None, ApprovalRequested | None]:
            question = question_of(event, None, root, changeable=agent.accepts_changed_input)
            try:
                # Without the server's limits: a number in the input may be out of its range.
                given = json_object(event.tool_input) if question.given is None else question.given
                proposal = agent.proposal(event.tool_name, given, read_file)
            except (ValueError, RecursionError):
                proposal = None
            return proposal, look_at(question.about(proposal), name, root)

        try:
            return await self._disk.run(look, READING_SECONDS)
        except TimeoutError:
            logger.warning("%s: the disk of a file that its agent asks about does not respond", event.session_id)
            return None, None

    async def _hand_over(
        self, peer: Peer, reports: ReportQueue, event: HookEvent, reader: asyncio.StreamReader
    ) -> LeftComments | None:
        """Hands over the comments that wait for the agent. Returns them if the hook has received them, otherwise None.
        The hook disconnects as soon as it has received them."""
        handover = reports.session.handover
        await asyncio.to_thread(handover.load)
        knows_mode = event.permission_mode is not None or event.name == "Stop"
        given = None
        if handover.prepare(event) and (knows_mode or await _has_read_mode(reports)):
            given = handover.give(event)
        if given is None:
            peer.send(wire.HookAnswer())
            return None
        if event.name == "Stop":
            # The agent has stopped, and will continue with that run.
            reports.session.reviewed.expect(reports.session.id, given.run)
        peer.send(wire.HookContext(given.text))
        try:
            received = bool(await reader.readline())
        except (ValueError, OSError):
            received = False
        if handover.received(given, received=received):
            return given
        reports.session.reviewed.expect_nothing(reports.session.id)
        return None


async def _has_read_mode(reports: ReportQueue) -> bool:
    """Waits until everything reported so far has been read, including the agent's mode in the transcript.
    Returns False if that takes too long."""
    try:
        async with asyncio.timeout(MODE_SECONDS):
            await reports.processed()
    except TimeoutError:
        return False
    return True


def _read(line: bytes) -> wire.FromPeer:
    """Decodes a line. Raises ``ValueError``. A line that msgspec does not accept is repaired if possible, because
    agents send lone halves of surrogate pairs."""
    try:
        return wire.decode_from_peer(line)
    except ValueError:
        mended = parsed(line.strip(), _anything)
        if mended is None:
            raise
        return wire.decode_from_peer(mended[1])
