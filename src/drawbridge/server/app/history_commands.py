"""The commands that read and search the histories of sessions, and rename or delete conversations in them.

Like the handlers in ``core``, each returns the answer for the client that sent the command, or raises ``ClientError``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from drawbridge.agents.base import Agent
from drawbridge.core.errors import DrawbridgeError
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.server.app.core import Core
from drawbridge.server.protocol import commands, frames, messages, replies
from drawbridge.server.protocol.answers import Answer
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.frames import Subscriber
from drawbridge.server.sessions.conversations import conversations, exporting, timeline
from drawbridge.server.sessions.conversations.searching import Searching, no_session
from drawbridge.server.sessions.managed import ManagedSession
from drawbridge.server.sessions.options.ceilings import day_of
from drawbridge.server.sessions.session import Session
from drawbridge.server.store.search import Part
from drawbridge.server.terminal_sessions.session import TerminalSession

logger = logging.getLogger("drawbridge.server")

COUNTING_SECONDS: Final = 2.0
"""The maximum number of seconds that the ``usage`` command waits until the runs in older histories are counted."""


class HistoryCommands:
    """Call ``close`` at the end."""

    def __init__(self, core: Core) -> None:
        self.searching = Searching(core.all_sessions)
        """The index of the histories. Its ``round`` has to be called now and then."""
        self._core = core
        self._tasks = BackgroundTasks(logger)
        self._counting: asyncio.Task[None] | None = None

    async def close(self) -> None:
        await self._tasks.close()

    async def get_messages(self, command: commands.GetMessages, client: Subscriber) -> Answer[replies.History]:
        """If only ``since`` or no field is set, returns the bare array that the specification defines, unless there are
        too many records for one reply. Otherwise, returns a page.
        """
        session = self._core.all_sessions.get(command.project_id)
        paged = command.after_seq is not None or command.before_seq is not None or command.limit is not None
        page = await session.store.read(
            after_seq=command.after_seq,
            before_seq=command.before_seq,
            since=command.since,
            limit=command.limit or 1_000,
            max_bytes=messages.FRAME_BYTES // 2,
        )
        shown = tuple(frames.history_record(record.line, session.id, record.seq) for record in page.records)
        if not paged and not page.has_more:
            return Answer(type="message_history", project_id=session.id, data=shown)
        backwards = command.before_seq is not None and command.after_seq is None
        end = page.records[0 if backwards else -1].seq if page.records else None
        first = session.history.first_seq
        data = replies.HistoryPage(shown, end if page.has_more else None, page.has_more, first)
        return Answer(type="message_history", project_id=session.id, data=data)

    def _searched(self, project_id: str, client: Subscriber) -> list[Session]:
        """The sessions with histories that a command from this client covers: one, or all that the client may see."""
        if project_id:
            return [self._core.all_sessions.get(project_id)]
        return [session for session in self._core.all_sessions if client.sees(session.path)]

    async def sessions(self, command: commands.Sessions, client: Subscriber) -> Answer[replies.SessionsFound]:
        found = await self.searching.entries(self._searched(command.project_id, client), command.limit)
        return Answer(type="sessions", project_id=command.project_id or None, data=found)

    async def search(self, command: commands.Search, client: Subscriber) -> Answer[replies.SearchResults]:
        found = await self.searching.search(self._searched(command.project_id, client), command)
        return Answer(type="search", project_id=command.project_id or None, data=found)

    async def session_messages(
        self, command: commands.SessionMessages, client: Subscriber
    ) -> Answer[replies.SessionMessagesPage]:
        session = self._core.all_sessions.get(command.project_id)
        agent, parts = await self._conversation(session, command.session_id, client)
        page = await timeline.page(session, parts, agent, command.session_id, command.before, command.limit)
        return Answer(type="session_messages", project_id=session.id, data=page)

    async def _conversation(
        self, session: Session, key: str, client: Subscriber
    ) -> tuple[Agent | None, Sequence[Part]]:
        """The session's agent (None for a terminal session, or if the client may not see what the agent itself has
        stored), and the parts of the whole history. Raises ``ClientError`` if neither contains the conversation
        ``key``."""
        # The history of a terminal session is already a copy of the agent's transcript.
        shows_more = client.runs and not isinstance(session, TerminalSession)
        agent = self._core.grants.agents.get(session.data.agent) if shows_more else None
        parts = await self.searching.all_parts(session)
        if not any(part.key == key for part in parts) and not await asyncio.to_thread(
            conversations.stored, agent, session.path, key
        ):
            raise no_session()
        return agent, parts

    async def session_export(self, command: commands.SessionExport, client: Subscriber) -> Answer[replies.SessionPiece]:
        session = self._core.all_sessions.get(command.project_id)
        if command.session_id is None:
            agent, stretches = None, [timeline.Stretch("", Part(1, session.history.last_seq))]
        else:
            agent, parts = await self._conversation(session, command.session_id, client)
            stretches = timeline.stretches(parts, command.session_id)
        waited = await self.searching.waited(session) if command.format == "markdown" else {}
        piece = await exporting.piece(session, stretches, agent, waited, command.format, command.after)
        return Answer(type="session_export", project_id=session.id, data=piece)

    async def session_rename(
        self, command: commands.SessionRename, client: Subscriber
    ) -> Answer[messages.SessionRenamed]:
        session = self._core.all_sessions.get(command.project_id)
        if command.session_id != session.recorded.session_key:
            await self.searching.parts(session, command.session_id)
        session.store.check_there()
        return session.rename(command.session_id, command.name, client)

    async def session_delete(
        self, command: commands.SessionDelete, client: Subscriber
    ) -> Answer[messages.SessionDeleted]:
        session = self._core.projects.get(command.project_id)
        session.check_at_rest()
        agent = self._core.grants.agents.get(session.data.agent)
        kept = await asyncio.to_thread(conversations.stored, agent, session.path, command.session_id)
        every = await self.searching.all_parts(session)
        parts = [part for part in every if part.key == command.session_id]
        if not parts:
            if not kept:
                raise no_session()
            text = (
                "The session can't be deleted: only the agent has stored it, and Drawbridge does not delete what "
                "agents store."
            )
            raise ClientError("NOT_SUPPORTED", text, "data.session_id")
        trash = await asyncio.to_thread(self._core.projects.trash_file, session)
        is_current = parts[-1] is every[-1]
        return await session.delete_session(parts, client, trash, is_current=is_current, agent_copy=kept)

    async def usage(self, command: commands.Usage, client: Subscriber) -> Answer[replies.Usage]:
        since = day_of(datetime.now(UTC) - timedelta(days=command.days - 1))
        uncounted = [session for session in self._core.projects if not session.recorded.usage_complete]
        if uncounted and self._counting is None:
            self._counting = self._tasks.start(_count_usage(uncounted), "counting the runs of older histories")
            self._counting.add_done_callback(lambda _: self._counted())
        if self._counting is not None:
            await asyncio.wait([self._counting], timeout=COUNTING_SECONDS)
        rows = [
            replies.UsageRow(day=day, project_id=session.id, path=str(session.path), **msgspec.structs.asdict(used))
            for session in self._core.projects
            if client.sees(session.path)
            for day, used in session.recorded.usage.items()
            if day >= since
        ]
        rows.sort(key=lambda row: (row.day, row.cost_usd), reverse=True)
        return Answer(type="usage", data=replies.Usage(since, rows, complete=self._counting is None))

    def _counted(self) -> None:
        self._counting = None

    async def record(self, project_id: str, seq: int) -> bytes:
        """The complete line of one record in a history. Clients request it with the id from ``frames.history_blob``.
        Raises ``ClientError``."""
        page = await self._core.all_sessions.get(project_id).store.read(after_seq=seq - 1, limit=1)
        if not page.records or page.records[0].seq != seq:
            raise ClientError("BLOB_NOT_FOUND", "The history does not contain this record.", field="data.blob_id")
        return page.records[0].line

    async def prompt_image(self, project_id: str, id: str) -> bytes:
        """An image that is referred to by a prompt in the history. Raises ``ClientError``."""
        data = await asyncio.to_thread(self._core.projects.get(project_id).attachments.images.read, id)
        if data is None:
            raise ClientError(
                "BLOB_NOT_FOUND",
                "The history does not contain this image. It may have been deleted.",
                field="data.blob_id",
            )
        return data


async def _count_usage(projects: Sequence[ManagedSession]) -> None:
    for session in projects:
        try:
            await session.store.count_usage()
        except (ClientError, DrawbridgeError) as error:
            logger.warning("the runs of %s can't be counted: %s", session.id, error)
