"""All projects of a server: they are created, found, listed, deleted, and restored after a restart.

``<data>/projects/<id>/`` holds one; ``<data>/trash/`` what was deleted, for 7 days; ``<data>/quarantine/`` what
could not be read.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from drawbridge.core.errors import DrawbridgeError, HistoryUnreadable, NotPrivate
from drawbridge.core.private_files import make_private_directory
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.server.protocol.client_errors import ClientError, no_project
from drawbridge.server.sessions import metadata
from drawbridge.server.sessions.context import Context
from drawbridge.server.sessions.project import Project
from drawbridge.server.sessions.shown import now
from drawbridge.server.store.log import FsyncPolicy, History, rebuild

logger = logging.getLogger("drawbridge.server")

TRASH_SECONDS = 7 * 24 * 60 * 60


class Projects:
    """By id."""

    def __init__(
        self, data: Path, context: Context, fsync: FsyncPolicy, open_in_terminal: Callable[[str], bool]
    ) -> None:
        """``open_in_terminal``: whether a conversation is open in a terminal of this machine."""
        self.quarantined: list[str] = []
        """Names of what could not be read at the start, for the owner."""
        self._data = data
        self._context = context
        self._open_in_terminal = open_in_terminal
        self._fsync = fsync
        self._projects: dict[str, Project] = {}
        self._unreadable: set[str] = set()
        self._tasks = BackgroundTasks(logger)

    def __iter__(self) -> Iterator[Project]:
        return iter(self._projects.values())

    def __len__(self) -> int:
        return len(self._projects)

    def get(self, project_id: str) -> Project:
        project = self._projects.get(project_id)
        if project is None and project_id.startswith("desk_"):
            text = (
                "This agent was started in a terminal and is controlled there. Only its approvals can be decided here."
            )
            raise ClientError("NOT_SUPPORTED", text)
        if project is None:
            raise no_project()
        return project

    def load(self) -> None:
        """Restores all projects, idle; those that can't be read are put aside and logged."""
        for name in ("projects", "trash", "quarantine"):
            make_private_directory(str(self._data / name))
        self.empty_trash()
        for deleted in self._trash():
            if found := metadata.deleted(deleted):
                # What it has cost stays spent.
                self._context.budgets.spent_before(found.path, found.memory.cost_usd, found.memory.days)
        for directory in sorted((self._data / "projects").iterdir()):
            if directory.is_dir() and not directory.is_symlink():
                project = self._load(directory)
                if project is not None:
                    self._add(project)
        self._projects = dict(sorted(self._projects.items(), key=lambda item: (item[1].data.created_at, item[0])))
        for project in self:
            if problem := self._context.places.problem(project.path):
                logger.warning("%s (%s) can't run agents: %s", project.id, project.path, problem)

    def rebuild(self, others: Iterable[History]) -> None:
        """Rebuilds lost indexes in the background, those of ``others`` too."""
        histories = [*(project.history for project in self), *others]
        self._tasks.start(rebuild(histories), "building the indexes of histories")

    def _load(self, directory: Path) -> Project | None:
        """Projects that can't be read now are retried later; damaged ones are put aside."""
        try:
            return self._open(directory)
        except (HistoryUnreadable, NotPrivate, metadata.Unreadable, metadata.Newer) as error:
            if directory.name not in self._unreadable:
                logger.error("the project in %s can't be read now: %s", directory.name, error)
            self._unreadable.add(directory.name)
        except (metadata.Damaged, DrawbridgeError) as error:
            self._quarantine(directory, str(error))
        return None

    async def read_again(self) -> list[Project]:
        """Restores the projects that could not be read before and now can. Returns them."""
        found = []
        for name in sorted(self._unreadable):
            project = await asyncio.to_thread(self._load, self._data / "projects" / name)
            if project is None:
                continue
            if any(other.path == project.path for other in self):  # made while this one was read; the next try tells it
                project.history.close()
                continue
            self._unreadable.discard(name)
            found.append(self._add(project))
        return found

    def problems(self) -> list[str]:
        """For people, without a path."""
        return [
            *(
                f"{problem} ({one.id}) It can't run agents."
                for one in self
                if (problem := self._context.places.problem(one.path))
            ),
            *(
                f"The project in {name} can't be read now; the server will try again."
                for name in sorted(self._unreadable)
            ),
            *(f"The project in {name} was damaged; it is in quarantine." for name in self.quarantined),
        ]

    def _open(self, directory: Path) -> Project:
        data = metadata.load(directory)
        if any(str(project.path) == data.path for project in self):
            raise metadata.Damaged("another project has its path")
        project = Project(
            directory, data, History.open(directory / "logs", fsync=self._fsync), self._context, self._open_in_terminal
        )
        project.store.recover()
        return project

    def _add(self, project: Project) -> Project:
        self._projects[project.id] = project
        self._context.disk.now(project.id, str(project.path), project.history.size)
        self._context.budgets.spent_before(str(project.path), project.memory.cost_usd, project.memory.days)
        return project

    def create(self, path: str, agent: str | None) -> Project:
        """Creates a project of an existing directory. Raises ``ClientError``; nothing is left behind then."""
        name = agent or next(iter(self._context.agents))
        if name not in self._context.agents:
            raise ClientError("AGENT_NOT_FOUND", "The server does not run an agent of that name.", field="data.agent")
        real = self._context.places.resolve(path, [project.path for project in self])
        if len(self) >= self._context.limits.projects:
            raise ClientError("RESOURCE_LIMIT", "The server has reached its limit of projects. Delete one first.")
        id = f"proj_{uuid.uuid4().hex[:16]}"
        directory = self._data / "projects" / id
        when = now()
        try:
            make_private_directory(str(directory))
            data = metadata.Metadata(id, str(real), "", when, when, agent=name)
            metadata.save(directory, data)
            history = History.open(directory / "logs", fsync=self._fsync)
        except (DrawbridgeError, OSError) as error:
            shutil.rmtree(directory, ignore_errors=True)
            logger.error("a project could not be made: %s", error)
            raise ClientError(
                "FILE_OPERATION", "The server can't write its data. The project was not created."
            ) from None
        return self._add(Project(directory, data, history, self._context, self._open_in_terminal))

    async def delete(self, project: Project) -> None:
        """Moves a project to the trash, which keeps it for 7 days."""
        project.check_at_rest()
        del self._projects[project.id]
        self._context.disk.gone(project.id)
        self._context.metrics.remove(project.id)
        await project.close("the project was deleted")
        target = self._data / "trash" / f"{project.id}-{time.time_ns()}"
        try:
            os.replace(self._data / "projects" / project.id, target)
            os.utime(target)
        except OSError as error:
            logger.error("%s could not be moved to the trash: %s", project.id, error)
            raise ClientError(
                "FILE_OPERATION",
                "The project is closed, but its data could not be moved; the project reappears at the next start.",
            ) from None

    async def close(self, reason: str) -> None:
        """The server ends; all at once, since each may have a process to wait for."""
        await self._tasks.close()
        await asyncio.gather(*(project.close(reason) for project in self))

    def _quarantine(self, directory: Path, why: str) -> None:
        logger.error("the project in %s can't be read (%s); it was moved to quarantine", directory.name, why)
        try:
            os.replace(directory, self._data / "quarantine" / f"{directory.name}-{time.time_ns()}")
        except OSError as error:
            logger.error("%s could not be moved: %s", directory.name, (error.strerror or "unknown reason").lower())
        self.quarantined.append(directory.name)

    def empty_trash(self) -> None:
        """Removes what was deleted more than 7 days ago."""
        for deleted in self._trash():
            if time.time() - deleted.lstat().st_mtime > TRASH_SECONDS:
                shutil.rmtree(deleted, ignore_errors=True)

    def make_room(self) -> None:
        """Removes the histories of deleted projects now; their costs stay known."""
        for deleted in self._trash():
            if (deleted / "logs").exists():
                logger.warning("the disk is full: the history of the deleted %s is dropped early", deleted.name)
                shutil.rmtree(deleted / "logs", ignore_errors=True)

    def _trash(self) -> list[Path]:
        return list((self._data / "trash").iterdir())
