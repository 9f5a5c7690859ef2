"""Creates, deletes, restores and maintains the projects of a server, each with its managed session.

``<data>/projects/<id>/`` contains one project. ``<data>/trash/`` keeps what was deleted for 7 days. If the data limit
is reached, deleted histories, images, files and private repositories are removed earlier. ``<data>/quarantine/``
contains damaged projects.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from msgspec import Struct

from drawbridge.core.errors import DrawbridgeError, HistoryUnreadable, NotPrivate
from drawbridge.core.private_files import make_private_directory
from drawbridge.server.checkpoints import private
from drawbridge.server.checkpoints.checkpoints import Checkpoints
from drawbridge.server.checkpoints.errors import GitFailed, NoCheckpoint
from drawbridge.server.events import ProjectCreated
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.sessions import metadata
from drawbridge.server.sessions.context import SessionContext
from drawbridge.server.sessions.disk import Disk
from drawbridge.server.sessions.managed import ManagedSession
from drawbridge.server.sessions.metadata import now
from drawbridge.server.sessions.options.current_offers import CurrentOffers
from drawbridge.server.sessions.options.grants import Grants
from drawbridge.server.sessions.options.known_offers import KnownOffers
from drawbridge.server.sessions.processes.processes import AgentProcesses
from drawbridge.server.sessions.runs.metrics import RunMetrics
from drawbridge.server.sessions.runs.runs import Runs
from drawbridge.server.sessions.session import Session, Sessions, in_terminal
from drawbridge.server.store.log import History
from drawbridge.server.store.syncing import FsyncPolicy
from drawbridge.text.counts import counted

logger = logging.getLogger("drawbridge.server")

TRASH_SECONDS = 7 * 24 * 60 * 60

MAINTENANCE_SECONDS: Final = 10.0
"""Seconds between two rounds of maintenance."""

CLEANING_SECONDS: Final = 3600.0
"""Seconds between two cleanups of the trash and of old history."""


class Projects:
    """Creates, deletes and restores the managed sessions among ``sessions``. Iterates over them in the order of their
    creation, except that a project that could not be read at first comes after those that were added before it."""

    def __init__(
        self,
        data: Path,
        context: SessionContext,
        disk: Disk,
        grants: Grants,
        runs: Runs,
        processes: AgentProcesses,
        metrics: RunMetrics,
        fsync: FsyncPolicy,
        sessions: Sessions,
        open_in_terminal: Callable[[str], bool],
    ) -> None:
        """``open_in_terminal`` returns whether a terminal session has a conversation open now."""
        self.quarantined: list[str] = []
        """The names of the project directories that were moved to quarantine, for the owner."""
        self._not_moved: list[str] = []
        """The names of the damaged project directories that could not be moved to quarantine."""
        self._data = data
        self._context = context
        self._disk = disk
        self._grants = grants
        self._runs = runs
        self._processes = processes
        self._metrics = metrics
        self._models = KnownOffers(data, grants.agents)
        """Only the models of each agent, as it last reported them in any project."""
        self._sessions = sessions
        self._open_in_terminal = open_in_terminal
        self._fsync = fsync
        self._unreadable: set[str] = set()
        self._adding = asyncio.Lock()
        """Held while a project is added, so that no two get the same directory."""

    def __iter__(self) -> Iterator[ManagedSession]:
        return iter([session for session in self._sessions if isinstance(session, ManagedSession)])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def get(self, project_id: str) -> ManagedSession:
        """The project with this id. Raises ``ClientError`` if it does not exist or is a terminal session."""
        session = self._sessions.get(project_id)
        if not isinstance(session, ManagedSession):
            raise in_terminal()
        return session

    def load(self) -> None:
        """Restores all projects as idle. Damaged projects are moved to quarantine. Projects that can't be read at the
        moment are retried later. Raises ``NotPrivate`` if a directory for projects can't be created or made private."""
        for name in ("projects", "trash", "quarantine"):
            make_private_directory(str(self._data / name))
        due = self._due()
        for deleted in self._trash():
            if deleted not in due and (found := metadata.deleted(deleted)):
                # The cost of a deleted project still counts toward the budgets.
                self._grants.budgets.spent_before(found.path, found.recorded.cost_usd, found.recorded.days)
        loaded: list[ManagedSession] = []
        for directory in sorted((self._data / "projects").iterdir()):
            if directory.is_dir() and not directory.is_symlink():
                session = self._load(directory, loaded)
                if session is not None:
                    loaded.append(session)
        self._grants.directories.examine_new([session.path for session in loaded])
        for session in sorted(loaded, key=lambda session: (session.data.created_at, session.id)):
            self._add(session)
            if problem := self._grants.directories.last_problem(session.path):
                logger.warning("%s (%s) can't run agents: %s", session.id, session.path, problem)

    def deleted(self) -> list[metadata.Metadata]:
        """The metadata of the projects in the trash. Blocking."""
        return [found for directory in self._trash() if (found := metadata.deleted(directory)) is not None]

    def _load(self, directory: Path, others: Iterable[ManagedSession]) -> ManagedSession | None:
        """Opens a project. Returns None if it can't be read now, in which case it is retried later, or if it was
        quarantined because it is damaged or has the same path as one of the ``others``.
        """
        try:
            return self._open(directory, others)
        except (HistoryUnreadable, NotPrivate, metadata.Unreadable, metadata.Newer) as error:
            if directory.name not in self._unreadable:
                logger.error("the project in %s can't be read at the moment: %s", directory.name, error)
            self._unreadable.add(directory.name)
        except (metadata.Damaged, DrawbridgeError) as error:
            self._unreadable.discard(directory.name)
            self._quarantine(directory, str(error))
        return None

    async def read_again(self) -> list[ManagedSession]:
        """Restores the projects that could not be read before and can be read now. Returns them."""
        found = []
        for name in sorted(self._unreadable):
            session = await asyncio.to_thread(self._load, self._data / "projects" / name, list(self))
            if session is None:
                continue
            async with self._adding:
                # If its path has been taken in the meantime, the next attempt quarantines it.
                if any(other.path == session.path for other in self):
                    session.history.close()
                    continue
                self._unreadable.discard(name)
                found.append(self._add(session))
        return found

    async def examine(self) -> None:
        """Examines the directories of all sessions (``AllowedDirectories.examine_all``)."""
        await self._grants.directories.examine_all({session.path for session in self._sessions})
        for session in self._sessions:
            session.directory_examined()

    def problems(self) -> list[str]:
        """The problems of projects, as human-readable sentences without paths."""
        return [
            *(
                f"Project {one.id}: {problem} No agent can run in this project."
                for one in self
                if (problem := self._grants.directories.last_problem(one.path))
            ),
            *(
                f"The project in {name} can't be read at the moment; the server will try again."
                for name in sorted(self._unreadable)
            ),
            *(
                f"The project in {name} can't be used and was quarantined. The server's log has the reason."
                for name in self.quarantined
            ),
            *(
                f"The project in {name} can't be used, and could not be quarantined. The server's log has the reason."
                for name in self._not_moved
            ),
        ]

    def _open(self, directory: Path, others: Iterable[ManagedSession]) -> ManagedSession:
        data = metadata.load(directory)
        if any(str(session.path) == data.path for session in others):
            raise metadata.Damaged("another project already uses this path")
        history = History.open(directory / "logs", fsync=self._fsync)
        session = self._session(directory, data, history, KnownOffers(directory, self._grants.agents))
        session.store.recover()
        return session

    def _session(
        self, directory: Path, data: metadata.Metadata, history: History, known_offers: KnownOffers
    ) -> ManagedSession:
        path, leads_to = Path(data.path), self._grants.directories.leads_to
        return ManagedSession(
            directory,
            data,
            history,
            CurrentOffers(data.agent, known_offers, self._models),
            self._context,
            self._disk,
            self._grants,
            self._runs,
            self._processes,
            self._open_in_terminal,
            lambda: self._sessions.are_working(leads_to(path), leads_to),
            self._sessions.writing,
        )

    def _add(self, session: ManagedSession) -> ManagedSession:
        self._metrics.add(session.id)
        self._sessions.add(session)
        self._grants.budgets.spent_before(str(session.path), session.recorded.cost_usd, session.recorded.days)
        return session

    async def create(self, path: str, agent: str | None) -> ManagedSession:
        """Creates a project for an existing directory. Raises ``ClientError`` without leaving anything behind."""
        name = agent or next(iter(self._grants.agents))
        if name not in self._grants.agents:
            raise ClientError(
                "AGENT_NOT_FOUND", "This server does not have an agent with that name.", field="data.agent"
            )
        async with self._adding:
            taken = [session.path for session in self]
            real = await asyncio.to_thread(self._grants.directories.resolve, path, taken)
            if len(self) >= self._processes.limits.projects:
                raise ClientError("RESOURCE_LIMIT", "The server has reached its limit of projects. Delete one first.")
            id = f"proj_{uuid.uuid4().hex[:16]}"
            directory, when = self._data / "projects" / id, now()
            data = metadata.Metadata(id, str(real), "", when, when, agent=name)
            history, known_offers = await asyncio.to_thread(self._make, directory, data)
            return self._add(self._session(directory, data, history, known_offers))

    def _make(self, directory: Path, data: metadata.Metadata) -> tuple[History, KnownOffers]:
        """Creates the files of a new project. Blocking. Raises ``ClientError`` without leaving anything behind."""
        try:
            make_private_directory(str(directory))
            metadata.save(directory, data)
            return History.open(directory / "logs", fsync=self._fsync), KnownOffers(directory, self._grants.agents)
        except (DrawbridgeError, OSError) as error:
            shutil.rmtree(directory, ignore_errors=True)
            logger.error("a project could not be created: %s", error)
            raise ClientError(
                "FILE_OPERATION",
                "The project was not created: its data could not be written. The server's log has the reason.",
            ) from None

    async def delete(self, session: ManagedSession) -> None:
        """Moves a project to the trash, which keeps it for 7 days. Raises ``ClientError``."""
        session.check_at_rest()
        self._sessions.remove(session)
        session.store.removed()
        self._metrics.remove(session.id)
        await session.close("the project was deleted")
        try:
            await asyncio.to_thread(session.index.remove)
            await asyncio.to_thread(self._to_trash, session.id)
        except OSError as error:
            logger.error("%s could not be moved to the trash: %s", session.id, error)
            raise ClientError(
                "FILE_OPERATION",
                "The project was closed, but its data could not be moved to the trash, so it will reappear after a "
                "server restart. The server's log has the reason.",
            ) from None

    def _to_trash(self, id: str) -> None:
        """Moves a project's directory to the trash. Blocking. Raises OSError."""
        target = self._data / "trash" / f"{id}-{time.time_ns()}"
        os.replace(self._data / "projects" / id, target)
        os.utime(target)

    def trash_file(self, session: ManagedSession) -> Path:
        """Creates a directory in the trash for the records of one session. Returns the path of a file in it that does
        not exist yet. Raises ``NotPrivate``. Blocking."""
        directory = self._data / "trash" / f"{session.id}-session-{time.time_ns()}" / "logs"
        make_private_directory(str(directory))
        return directory / "messages.jsonl"

    async def close(self, reason: str) -> None:
        """Closes all projects at the same time, since each may have to wait for a process. Called when the server shuts
        down."""
        async with self._adding:
            pass  # a project that is being added is closed as well
        await asyncio.gather(*(session.close(reason) for session in self))
        await self._models.close()

    def _quarantine(self, directory: Path, why: str) -> None:
        name = directory.name
        try:
            os.replace(directory, self._data / "quarantine" / f"{name}-{time.time_ns()}")
        except OSError as error:
            reason = (error.strerror or "unknown reason").lower()
            logger.error(
                "the project in %s can't be used (%s), and can't be moved to quarantine: %s", name, why, reason
            )
            self._not_moved.append(name)
        else:
            logger.error("the project in %s can't be used (%s); it was moved to quarantine", name, why)
            self.quarantined.append(name)

    async def empty_trash(self) -> None:
        """Removes what was deleted more than 7 days ago, with the projects' checkpoints."""
        for deleted in await asyncio.to_thread(self._due):
            found = await asyncio.to_thread(metadata.deleted, deleted)
            if found is not None and self._sessions.find(found.id) is None:
                await self._remove_checkpoints(found)
            await asyncio.to_thread(shutil.rmtree, deleted, ignore_errors=True)

    async def _remove_checkpoints(self, project: metadata.Metadata) -> None:
        """Removes the checkpoints of a deleted project, unless its directory no longer exists or is no longer allowed.
        A failure is logged."""
        path = Path(project.path)
        if await self._grants.directories.examine(path) is not None:
            return
        checkpoints = Checkpoints(path, project.id, self._processes.limits.confinement, self._processes.memory)
        try:
            await checkpoints.remove()
        except (GitFailed, NoCheckpoint, OSError) as error:
            logger.warning("could not remove the checkpoints of the deleted project %s: %s", project.id, error)
        finally:
            await checkpoints.close()

    def _due(self) -> list[Path]:
        """The paths of everything that has been in the trash for more than 7 days. Blocking."""
        return [deleted for deleted in self._trash() if time.time() - deleted.lstat().st_mtime > TRASH_SECONDS]

    def make_room(self) -> None:
        """Removes the histories, images, files and private repositories of deleted projects now, and the records of
        deleted sessions. The projects' metadata stays, so that their costs still count toward the budgets. Blocking."""
        for deleted in self._trash():
            for folder in (deleted / "logs", deleted / "images", deleted / "files", deleted / private.NAME):
                if folder.exists():
                    logger.warning(
                        "the data limit is reached: removing the %s of the deleted %s early", folder.name, deleted.name
                    )
                    shutil.rmtree(folder, ignore_errors=True)

    def _trash(self) -> list[Path]:
        return list((self._data / "trash").iterdir())


class Retention(Struct, frozen=True):
    """The limits for how much of each session's history is kept; None for no limit. Whole files are deleted, but never
    the newest.
    """

    days: int | None = None
    bytes: int | None = None


class Maintenance:
    """The regular maintenance of the server's data: measures the disk use of all ``sessions``, examines their
    directories, deletes their old history, empties the trash, and retries projects that could not be read.
    """

    def __init__(self, disk: Disk, sessions: Sessions, projects: Projects, retention: Retention) -> None:
        self._disk = disk
        self._sessions = sessions
        self._projects = projects
        self._retention = retention
        self._clean_at = time.monotonic()
        """The time at which the next cleanup is due, in seconds on the monotonic clock."""

    async def round(self) -> None:
        """Does one round of maintenance. Called every ``MAINTENANCE_SECONDS``."""
        if time.monotonic() >= self._clean_at:
            # The time is set before the cleanup, because even if the cleanup fails, the rounds until the next one must
            # measure the disk.
            self._clean_at = time.monotonic() + CLEANING_SECONDS
            await self.clean()
        await self.check()

    async def check(self) -> None:
        self._disk.forget_others({session.id for session in self._sessions})
        await asyncio.to_thread(self._disk.measure)
        self._disk.publish_warnings()
        await self._projects.examine()
        if self._disk.too_much:
            await asyncio.to_thread(self._projects.make_room)
        for session in await self._projects.read_again():
            logger.info("the project in %s can be read again", session.id)
            session.continuing.check_schedule()
            session.store.announce(ProjectCreated(session.summary()))

    async def clean(self) -> None:
        await self._projects.empty_trash()
        for session in self._sessions:
            await self._drop(session)

    async def _drop(self, session: Session) -> None:
        days = self._retention.days
        before = None if days is None else datetime.now(UTC) - timedelta(days=days)
        try:
            dropped = await asyncio.to_thread(session.history.drop, before, self._retention.bytes)
        except DrawbridgeError as error:
            logger.error("%s: %s", session.id, error)
            return
        if dropped:
            first_time = session.history.first_time
            if isinstance(session, ManagedSession) and first_time is not None:
                await asyncio.to_thread(session.attachments.remove_before, first_time.timestamp())
            first = session.history.first_seq
            logger.info(
                "%s: deleted %s of old history; it now begins with record %d",
                session.id,
                counted(dropped, "file"),
                first,
            )
            self._disk.set_size(session.id, str(session.path), session.history.size)
