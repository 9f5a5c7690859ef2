"""The terminal sessions on this machine: agents that people started, and that hooks or bridges report.

The files of each session, such as its history, are in ``<data>/desk/<id>``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from drawbridge.agents import catalog
from drawbridge.agents.memory import MemoryWatch
from drawbridge.agents.terminal import HookEvent, TerminalAgent
from drawbridge.core.errors import DrawbridgeError, HistoryUnreadable, NotPrivate
from drawbridge.core.json_text import UNDECODABLE
from drawbridge.core.private_files import make_private_directory
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.server.events import Announced, ProjectCreated, ProjectGone, SessionChanged
from drawbridge.server.protocol import commands
from drawbridge.server.protocol.answers import Answer
from drawbridge.server.protocol.client_errors import ClientError, no_project
from drawbridge.server.protocol.frames import Subscriber
from drawbridge.server.protocol.replies import Accepted
from drawbridge.server.sessions import metadata
from drawbridge.server.sessions.context import SessionContext
from drawbridge.server.sessions.directories.allowed_directories import SILENT
from drawbridge.server.sessions.disk import Disk
from drawbridge.server.sessions.metadata import TERMINAL_PREFIX, now
from drawbridge.server.sessions.options.grants import Grants
from drawbridge.server.sessions.options.limits import Limits
from drawbridge.server.sessions.session import Sessions
from drawbridge.server.store.log import History
from drawbridge.server.store.syncing import FsyncPolicy
from drawbridge.server.terminal_sessions.directories import Directories
from drawbridge.server.terminal_sessions.facts import FACTS_FILE, Facts
from drawbridge.server.terminal_sessions.processes import Process
from drawbridge.server.terminal_sessions.prompts import Terminals
from drawbridge.server.terminal_sessions.report_queue import ReportQueue
from drawbridge.server.terminal_sessions.reports import ReturnTimeOver
from drawbridge.server.terminal_sessions.review_submission import submit_review
from drawbridge.server.terminal_sessions.session import TerminalSession
from drawbridge.server.terminal_sessions.shown_proposals import ShownProposals

logger = logging.getLogger("drawbridge.server")

MOST: Final = 50
"""The maximum number of sessions. To make room for a new one, an ended one is removed, the least recently active first.
If none has ended, the new one is not shown."""

RETURN_SECONDS: Final = 20.0
"""Seconds that hooks and bridges have to reconnect after the server has started. They try at least every 2 s."""

FORGOTTEN: Final = "gone_"
"""The prefix of the names of directories that are being removed."""


class TerminalSessions:
    """Restores, adds and removes terminal sessions, and iterates over those in ``sessions`` in the order in which they
    were added."""

    def __init__(
        self,
        data: Path,
        context: SessionContext,
        disk: Disk,
        grants: Grants,
        limits: Limits,
        memory: MemoryWatch,
        fsync: FsyncPolicy,
        sessions: Sessions,
        agents: Mapping[str, TerminalAgent],
    ) -> None:
        self._agents = agents
        self.terminals = Terminals()
        self.shown = ShownProposals()
        """The proposals that the bridges show in their editors."""
        self.closed = False
        """Whether the server is shutting down. If so, hooks and bridges that connect wait for the next server."""
        self._directory = data / "desk"
        self._quarantine = data / "quarantine"
        self._context = context
        self._disk = disk
        self._grants = grants
        self._fsync = fsync
        self._sessions = sessions
        self._directories = Directories(data, grants, limits, memory, context.find_unsaved, sessions)
        self._reports: dict[TerminalSession, ReportQueue] = {}
        self._removals = BackgroundTasks(logger)
        self._unreadable: set[str] = set()
        """The ids of sessions that could not be read. Nothing in their directories is changed."""
        self._restoring = asyncio.Lock()
        """Held while such a session is restored."""
        self._moving: dict[str, asyncio.Event] = {}
        """For each session that was removed from the list, by its id: set when its directory was renamed."""

    def __iter__(self) -> Iterator[TerminalSession]:
        return iter([session for session in self._sessions if isinstance(session, TerminalSession)])

    def terminal_agent(self, name: str) -> TerminalAgent | None:
        """The agent with this name; None if its hooks are not supported."""
        return self._agents.get(name)

    def find(self, id: str) -> TerminalSession | None:
        session = self._sessions.find(id)
        return session if isinstance(session, TerminalSession) else None

    def open_in_terminal(self, session_id: str) -> bool:
        """Whether an agent that a person started has this conversation open now, in a terminal or in the background."""
        session = self.find(TERMINAL_PREFIX + session_id)
        return session is not None and session.is_open

    def check_agent(self, session_id: str, agent: str) -> None:
        """Raises ``ClientError`` if this is the conversation of a terminal session with an agent other than
        ``agent``."""
        session = self.find(TERMINAL_PREFIX + session_id)
        if session is not None and session.data.agent != agent:
            own, other = catalog.title(session.data.agent), catalog.title(agent)
            text = f"This is a {own} conversation, which {other} can't continue. Use a project whose agent is {own}."
            raise ClientError("SESSION_NOT_FOUND", text, field="data.session_id")

    def _beginning_with(self, session_id: str) -> str | None:
        return next((session.id for session in self if session.id.startswith(TERMINAL_PREFIX + session_id)), None)

    async def execute(
        self, session: TerminalSession, command: commands.Execute, client: Subscriber, allowed: Callable[[], bool]
    ) -> Answer[Accepted]:
        """Sends a prompt to the session's agent, if the owner of this server allows that. Raises ``ClientError``."""
        await self._processed(session)
        if self.find(session.id) is not session:
            raise no_project()
        return await session.prompts.execute(command, client, allowed)

    async def submit_review(
        self, session: TerminalSession, command: commands.ReviewSubmit, client: Subscriber, allowed: Callable[[], bool]
    ) -> Answer[Accepted]:
        """Like ``execute``, with the comments on the review as the prompt. Raises the same errors as
        ``review_submission.submit_review``."""
        await self._processed(session)
        if self.find(session.id) is not session:
            raise no_project()
        return await submit_review(session, command, client, allowed)

    async def _processed(self, session: TerminalSession) -> None:
        """Returns when everything that was reported about the session until now has been processed. The session may
        have been removed by then."""
        if session in self._reports:
            await self._reports[session].processed()

    async def load(self) -> None:
        """Restores the sessions from before a restart. Damaged ones are removed, because the agent has its own
        transcript. Sessions that can't be read now are kept, and are restored when their agent reports something or the
        server starts again. Raises ``NotPrivate`` or OSError."""
        for directory in await asyncio.to_thread(self._stored):
            await self._restore(directory)
        # An unreadable session may be in any of the directories, and so may one whose disk does not respond.
        problem = self._grants.directories.last_problem
        if not self._unreadable and not any(problem(session.path) == SILENT for session in self):
            self._directories.remove_unused()

    def _stored(self) -> list[Path]:
        """The directories of all sessions, after the agents' directories have been examined. Removes what is left of
        sessions that were removed from the list. Blocking. Raises ``NotPrivate`` or OSError."""
        make_private_directory(str(self._directory))
        kept, paths = [], []
        for directory in sorted(self._directory.iterdir(), key=_changed_at):
            if directory.name.startswith(FORGOTTEN):
                shutil.rmtree(directory, ignore_errors=True)
                continue
            kept.append(directory)
            with contextlib.suppress(metadata.Unreadable, metadata.Newer, metadata.Damaged):
                paths.append(Path(metadata.load(directory).path))
        self._grants.directories.examine_new(paths)
        return kept

    async def _restore(self, directory: Path) -> TerminalSession | None:
        """Restores a session. Returns None if it is damaged and was removed, or can't be read now."""
        try:
            session = await self._open(directory)
        except (metadata.Unreadable, metadata.Newer, HistoryUnreadable, NotPrivate, OSError) as error:
            if directory.name not in self._unreadable:
                logger.error(
                    "the terminal session in %s can't be read at the moment, and is not shown: %s",
                    directory.name,
                    error,
                )
            self._unreadable.add(directory.name)
            return None
        except (metadata.Damaged, DrawbridgeError, *UNDECODABLE) as error:
            await self._put_aside(directory, error)
            return None
        self._unreadable.discard(directory.name)
        self._sessions.add(session)
        if session.approvals:
            add = self._reports[session].add
            asyncio.get_running_loop().call_later(RETURN_SECONDS, add, ReturnTimeOver())
        return session

    async def _put_aside(self, directory: Path, why: Exception) -> None:
        """Moves a damaged session to quarantine, because its history may still be of use."""
        name = directory.name
        try:
            await asyncio.to_thread(os.replace, directory, self._quarantine / f"{name}-{time.time_ns()}")
        except OSError as error:
            if name not in self._unreadable:
                text = "the terminal session in %s is damaged (%s), and can't be moved to quarantine: %s"
                logger.error(text, name, why, error)
            self._unreadable.add(name)
        else:
            logger.error("the terminal session in %s is damaged (%s); it was moved to quarantine", name, why)
            self._unreadable.discard(name)

    async def _open(self, directory: Path) -> TerminalSession:
        data, facts, history = await asyncio.to_thread(self._read, directory)
        try:
            session = self._new(directory, data, history, facts)
            session.recover(await asyncio.to_thread(session.read_past))
            self._follow(session)
        except BaseException:
            await asyncio.to_thread(history.close)
            raise
        return session

    def _read(self, directory: Path) -> tuple[metadata.Metadata, Facts, History]:
        data = metadata.load(directory)
        try:
            facts = msgspec.json.decode((directory / FACTS_FILE).read_bytes(), type=Facts)
        except FileNotFoundError:
            raise metadata.Damaged(f"{FACTS_FILE} is missing") from None
        return data, facts, History.open(directory / "logs", fsync=self._fsync)

    def _new(self, directory: Path, data: metadata.Metadata, history: History, facts: Facts) -> TerminalSession:
        reviewed = self._directories.of(Path(data.path))
        return TerminalSession(
            directory,
            data,
            history,
            self._context,
            self._disk,
            self._grants,
            facts,
            self.terminals,
            self.shown,
            reviewed,
            self.terminal_agent(data.agent),
            self._beginning_with,
        )

    def _follow(self, session: TerminalSession) -> None:
        session.reviewed.join(session.id, session.store)
        self._reports[session] = ReportQueue(session)

    async def examine(self, event: HookEvent) -> None:
        """Examines the directory of an event, and restores its session if it could not be read before, so that
        ``report`` does not wait for a disk."""
        id = TERMINAL_PREFIX + event.session_id
        if self.find(id) is not None:
            return
        if id in self._moving:  # the files of a session with this id that was removed from the list
            await self._moving[id].wait()
        if event.cwd:
            await self._grants.directories.examine(Path(event.cwd))
        async with self._restoring:
            if id in self._unreadable and metadata.ID.fullmatch(id) and not self.closed:
                restored = await self._restore(self._directory / id)
                if restored is not None:
                    restored.store.announce(ProjectCreated(restored.summary()))

    async def examine_directory(self, path: str) -> None:
        """Examines the directory of a session that ``begin`` may add."""
        await self._grants.directories.examine(Path(path))

    def report(self, agent: str, event: HookEvent, process: Process) -> ReportQueue | None:
        """Returns the ``ReportQueue`` of the event's session, which is added if it is not known and the event contains
        its directory; None if the session is not shown. ``agent``: the agent that called the hook. ``process``:
        that agent's process.

        The CLI's daemon starts background sessions in advance. They are not shown until they are used.
        """
        id, terminal_agent = TERMINAL_PREFIX + event.session_id, self.terminal_agent(agent)
        session = self.find(id)
        if session is None and process.background and terminal_agent is not None and terminal_agent.is_spare(event):
            return None
        if session is None and event.cwd:
            session = self.begin(id, event.cwd, agent, event.session_id, background=process.background)
        if session is None:
            return None
        reports = self._reports[session]
        reports.set_process(process, event.transcript)
        return reports

    def begin(
        self, id: str, path: str, agent: str, session_id: str, *, background: bool = False
    ) -> TerminalSession | None:
        """Adds a session, and notifies the clients that follow all projects. Returns None if that fails, if the list is
        full, or if the files of an earlier session with this id can't be read or are still being removed.
        ``session_id``: the agent's own id for the conversation. ``path`` must have been examined."""
        if not metadata.ID.fullmatch(id) or id in self._unreadable or id in self._moving:
            return None
        if not self._make_room():
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
        session = self._new(directory, data, history, Facts(background=background))
        self._follow(session)
        self._sessions.add(session)
        session.store.record(SessionChanged(session_id))
        session.save()
        session.store.announce(ProjectCreated(session.summary()))
        return session

    def new_id(self) -> str:
        return TERMINAL_PREFIX + uuid.uuid4().hex

    def _make_room(self) -> bool:
        """Makes room for a session in the list, by removing the least recently active one that has ended. Returns
        whether there is room. Sessions that are kept for their review need none."""
        while len(list(self)) >= MOST:
            counted = [one for one in self if not (one.ended and one.reviewed.needs(one.id))]
            if len(counted) < MOST:
                break
            session = min((one for one in counted if one.ended), key=lambda one: one.data.last_active, default=None)
            if session is None:
                return False
            self._discard(session)
        return True

    async def forget(self, session: TerminalSession) -> None:
        """Removes the session from the list, with its history. It is listed again if its agent continues and reports
        something."""
        await self._processed(session)
        if self.find(session.id) is session:
            await asyncio.wait([self._discard(session)])

    def _discard(self, session: TerminalSession) -> asyncio.Task[None]:
        """Forgets the session immediately. Its agent may report again at any moment, and then gets a new session.
        Returns a task that removes the session's files.
        """
        reason = "the session was removed from the list"
        self._sessions.remove(session)
        session.store.removed()
        self._reports[session].process_all()  # a hook with a question that has not been processed yet is answered, too
        session.withdraw_all(reason)
        closed = self._close(session, reason)
        self._directories.leave(session.reviewed, session.id)
        del self._reports[session]
        gone = ProjectGone(session.id, str(session.path))
        self._context.publish(Announced(session.id, session.path, gone))
        self._moving[session.id] = asyncio.Event()
        return self._removals.start(self._remove(session, closed), f"{session.id}: removing its files")

    def _close(self, session: TerminalSession, reason: str) -> asyncio.Task[None]:
        """Closes the session, except for its history (see ``TerminalSession.close``). From then on, nothing that is
        reported about it is processed. Returns a task that is done when the processing has ended."""
        following = self._reports[session].close()
        session.close(reason)
        return following

    async def _remove(self, session: TerminalSession, closed: asyncio.Future[None]) -> None:
        await asyncio.gather(closed, return_exceptions=True)
        try:
            forgotten = await asyncio.to_thread(self._move, session)
        finally:
            self._moving.pop(session.id).set()
        await asyncio.to_thread(shutil.rmtree, forgotten, ignore_errors=True)

    def _move(self, session: TerminalSession) -> Path:
        """Closes the history, and renames the directory, so that another session can have the id. Returns the path of
        the directory. Blocking."""
        session.history.close()
        forgotten = self._directory / f"{FORGOTTEN}{uuid.uuid4().hex}"
        try:
            session.directory.rename(forgotten)
        except OSError:
            return session.directory
        return forgotten

    async def close(self, reason: str) -> None:
        self.closed = True
        following = [self._close(session, reason) for session in self]
        await asyncio.gather(self._removals.wait(), *following, return_exceptions=True)
        for session in self:
            await asyncio.to_thread(session.history.close)
        await self._directories.close()


def _changed_at(directory: Path) -> float:
    try:
        return directory.stat().st_mtime
    except OSError:
        return 0.0
