"""The terminal sessions on this machine: agents that people have started, as far as their hooks and bridges report them.

Each has its history in ``<data>/desk/<id>``.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import uuid
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from drawbridge.core.errors import DrawbridgeError
from drawbridge.core.private_files import make_private_directory, process_alive
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.server.events import Announced, ProjectCreated, ProjectGone, SessionChanged
from drawbridge.server.protocol import commands
from drawbridge.server.protocol.client_errors import no_project
from drawbridge.server.protocol.messages import Answer, Subscriber
from drawbridge.server.protocol.replies import Accepted
from drawbridge.server.sessions import metadata
from drawbridge.server.sessions.context import Context
from drawbridge.server.sessions.metadata import now
from drawbridge.server.sessions.session import TERMINAL_PREFIX, Sessions
from drawbridge.server.store.log import FsyncPolicy, History
from drawbridge.server.terminal_sessions import hook_events
from drawbridge.server.terminal_sessions.prompts import Terminals
from drawbridge.server.terminal_sessions.session import Facts, TerminalSession

logger = logging.getLogger("drawbridge.server")

MOST: Final = 50
"""The maximum of sessions; the one that ended first is removed first."""

RETURN_SECONDS: Final = 20.0
"""Seconds after the server's start in which hooks and bridges reconnect; they try every 2 s."""

SPARE: Final = {("SessionStart", "startup"), ("SessionEnd", "")}
"""What hooks of a background session report before it has anything to do: event and source."""

FORGOTTEN: Final = "gone_"
"""The prefix of the name of a directory that is being removed."""


class TerminalSessions:
    """Those of ``sessions`` that are in terminals, in the order of their arrival: restored, begun, and removed here."""

    def __init__(self, data: Path, context: Context, fsync: FsyncPolicy, sessions: Sessions) -> None:
        self.terminals = Terminals()
        self.closed = False
        """The server shuts down: hooks and bridges that connect now wait for the next server."""
        self._directory = data / "desk"
        self._context = context
        self._fsync = fsync
        self._sessions = sessions
        self._removals = BackgroundTasks(logger)

    def __iter__(self) -> Iterator[TerminalSession]:
        return iter([session for session in self._sessions if isinstance(session, TerminalSession)])

    def find(self, id: str) -> TerminalSession | None:
        session = self._sessions.find(id)
        return session if isinstance(session, TerminalSession) else None

    def open_in_terminal(self, session_id: str) -> bool:
        """Whether a ``claude`` that a person has started has this conversation open now, in a terminal or in the background."""
        session = self.find(TERMINAL_PREFIX + session_id)
        return session is not None and not session.ended and session.pid is not None and process_alive(session.pid)

    def _beginning_with(self, session_id: str) -> str | None:
        return next((session.id for session in self if session.id.startswith(TERMINAL_PREFIX + session_id)), None)

    async def execute(
        self, session: TerminalSession, command: commands.Execute, client: Subscriber, allowed: Callable[[], bool]
    ) -> Answer[Accepted]:
        """A prompt for its agent, if the owner of this server allows it. Raises ``ClientError``."""
        await session.reports.processed()
        if self.find(session.id) is not session:
            raise no_project()
        return await session.prompts.execute(command, client, allowed)

    def load(self) -> None:
        """Restores those of before a restart. What can't be read is removed: the agent has its own record."""
        make_private_directory(str(self._directory))
        loop = asyncio.get_running_loop()
        for directory in sorted(self._directory.iterdir(), key=lambda each: each.stat().st_mtime):
            if directory.name.startswith(FORGOTTEN):
                shutil.rmtree(directory, ignore_errors=True)
                continue
            try:
                data = metadata.load(directory)
                history = History.open(directory / "logs", fsync=self._fsync)
                facts = msgspec.json.decode((directory / "desk.json").read_bytes(), type=Facts)
            except (metadata.Damaged, DrawbridgeError, OSError, msgspec.MsgspecError) as error:
                logger.error("the terminal session in %s can't be read (%s); it was removed", directory.name, error)
                shutil.rmtree(directory, ignore_errors=True)
                continue
            session = self._add(directory, data, history, facts)
            session.recover()
            if session.approvals:
                loop.call_later(RETURN_SECONDS, session.reports.add, session.stop_waiting)

    def _add(self, directory: Path, data: metadata.Metadata, history: History, facts: Facts) -> TerminalSession:
        session = TerminalSession(directory, data, history, self._context, facts, self.terminals, self._beginning_with)
        self._sessions.add(session)
        return session

    def report(self, event: hook_events.HookEvent, pid: int, *, background: bool = False) -> TerminalSession | None:
        """The session that a hook reports about: a new one, if it was not known. None: it is not shown.

        The CLI's daemon starts background sessions ahead, which nobody has given anything to do; they are not shown.
        """
        id = TERMINAL_PREFIX + event.session_id
        session = self.find(id)
        if session is None and background and (event.hook_event_name, event.source) in SPARE:
            return None
        if session is None:
            session = self.begin(id, event.cwd, "claude", event.session_id, background=background)
        if session is not None:
            session.reports.set_process(pid, event.transcript_path, background=background)
        return session

    def begin(
        self, id: str, path: str, agent: str, session_id: str, *, background: bool = False
    ) -> TerminalSession | None:
        """Adds a session, and notifies the clients that follow all projects."""
        if not metadata.ID.fullmatch(id):
            return None
        self._make_room()
        if len(list(self)) >= MOST:
            logger.warning("more than %d terminal sessions are active: one is not shown", MOST)
            return None
        directory, when = self._directory / id, now()
        try:
            make_private_directory(str(directory))
            data = metadata.Metadata(id, path, session_id, when, when, agent=agent)
            history = History.open(directory / "logs", fsync=self._fsync)
        except (DrawbridgeError, OSError) as error:
            logger.error("a terminal session can't be saved, so it is not shown: %s", error)
            return None
        session = self._add(directory, data, history, Facts(background=background))
        session.store.record(SessionChanged(session_id))
        session.save()
        session.store.announce(ProjectCreated(session.info()))
        return session

    def new_id(self) -> str:
        return TERMINAL_PREFIX + uuid.uuid4().hex

    def _make_room(self) -> None:
        over = len(list(self)) - MOST + 1
        ended = [session for session in self if session.ended]
        for session in ended[: max(0, over)]:
            self._removals.start(self._discard(session), f"{session.id}: removing its files")

    async def forget(self, session: TerminalSession) -> None:
        """Removes it from the list, with its history. It is listed again if its agent continues and reports something."""
        await session.reports.processed()
        if self.find(session.id) is session:
            await self._discard(session)

    def _discard(self, session: TerminalSession) -> Coroutine[Any, Any, None]:
        """The session is forgotten when this returns; its agent may report again at any moment, and then gets a new session.
        Returns what removes the session's files.
        """
        reason = "it was removed from the list"
        self._sessions.remove(session)
        session.reports.process_all()  # a hook whose question waits for its turn is answered, too
        session.withdraw_all(reason)
        closed = session.close(reason)
        forgotten = self._directory / f"{FORGOTTEN}{uuid.uuid4().hex}"
        try:
            session.directory.rename(forgotten)
        except OSError:
            forgotten = session.directory
        gone = ProjectGone(session.id, str(session.path))
        self._context.publish(Announced(session.id, session.path, gone))
        return self._remove(closed, forgotten)

    async def _remove(self, closed: asyncio.Future[None], forgotten: Path) -> None:
        await asyncio.gather(closed, return_exceptions=True)
        await asyncio.to_thread(shutil.rmtree, forgotten, ignore_errors=True)

    async def close(self, reason: str) -> None:
        self.closed = True
        following = [session.close(reason) for session in self]
        await asyncio.gather(self._removals.wait(), *following, return_exceptions=True)
