"""All projects of a server: made, found, listed, deleted, and back after a restart.

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
from collections.abc import Iterator, Sequence
from pathlib import Path

from drawbridge.errors import DrawbridgeError, HistoryUnreadable
from drawbridge.private_files import make_private_directory
from drawbridge.server import metadata, places
from drawbridge.server.client_errors import ClientError
from drawbridge.server.history import FsyncPolicy, History
from drawbridge.server.house import House
from drawbridge.server.project import Project, now

logger = logging.getLogger("drawbridge.server")

TRASH_SECONDS = 7 * 24 * 60 * 60


class Projects:
    """By id. ``roots``: canonical directories in which projects may lie."""

    def __init__(self, data: Path, roots: Sequence[Path], house: House, fsync: FsyncPolicy) -> None:
        self.roots = tuple(roots)
        self.quarantined: list[str] = []
        """Names of what could not be read at the start, for the owner."""
        self._data = data
        self._house = house
        self._fsync = fsync
        self._projects: dict[str, Project] = {}

    def __iter__(self) -> Iterator[Project]:
        return iter(self._projects.values())

    def __len__(self) -> int:
        return len(self._projects)

    def get(self, project_id: str) -> Project:
        project = self._projects.get(project_id)
        if project is None and project_id.startswith("desk_"):
            text = "This agent works at somebody's desk: it is steered there. Nothing was done; its questions can be answered."
            raise ClientError("NOT_SUPPORTED", text)
        if project is None:
            raise ClientError("PROJECT_NOT_FOUND", "There is no such project.", field="project_id")
        return project

    def load(self) -> None:
        """Everything back, each at rest; what can't be read is put aside and said."""
        for name in ("projects", "trash", "quarantine"):
            make_private_directory(str(self._data / name))
        self._empty_trash()
        for directory in sorted((self._data / "projects").iterdir()):
            if directory.is_dir() and not directory.is_symlink():
                try:
                    self._add(self._open(directory))
                except HistoryUnreadable as error:
                    # It may be for the moment only: the project is back at the next start.
                    logger.error("the project in %s can't be read now: %s", directory.name, error)
                except (metadata.Damaged, DrawbridgeError) as error:
                    self._quarantine(directory, str(error))

    def _open(self, directory: Path) -> Project:
        data = metadata.load(directory)
        if any(str(project.path) == data.path for project in self):
            raise metadata.Damaged("another project has its path")
        project = Project(directory, data, History.open(directory / "logs", fsync=self._fsync), self._house)
        project.journal.recover()
        return project

    def _add(self, project: Project) -> Project:
        self._projects[project.id] = project
        self._house.budgets.spent_before(str(project.path), project.memory.cost_usd, project.memory.days)
        return project

    def create(self, path: str, agent: str | None) -> Project:
        """A new project of an existing directory. Raises ``ClientError``; nothing is left behind then."""
        name = agent or next(iter(self._house.agents))
        if name not in self._house.agents:
            raise ClientError("AGENT_NOT_FOUND", "This server runs no agent of that name.", field="data.agent")
        real = places.resolve(path, self.roots, [project.path for project in self])
        if len(self) >= self._house.limits.projects:
            raise ClientError("RESOURCE_LIMIT", "There are as many projects as this server takes.")
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
            raise ClientError("FILE_OPERATION", "The server can't write its data. No project was made.") from None
        return self._add(Project(directory, data, history, self._house))

    async def delete(self, project: Project) -> None:
        """Into the trash, whence it goes after 7 days."""
        if project.busy:
            raise ClientError("PROCESS_ACTIVE", "The agent is at work here. Nothing was deleted.")
        del self._projects[project.id]
        await project.close("the project was deleted")
        target = self._data / "trash" / f"{project.id}-{time.time_ns()}"
        try:
            os.replace(self._data / "projects" / project.id, target)
            os.utime(target)
        except OSError as error:
            logger.error("%s could not be moved to the trash: %s", project.id, error)
            raise ClientError(
                "FILE_OPERATION",
                "The project is closed, but its data could not be moved; it will be back at the next start.",
            ) from None

    async def close(self, reason: str) -> None:
        """The server ends; all at once, since each may have a process to wait for."""
        await asyncio.gather(*(project.close(reason) for project in self))

    def _quarantine(self, directory: Path, why: str) -> None:
        logger.error("the project in %s can't be read (%s); it was moved to quarantine", directory.name, why)
        self.quarantined.append(directory.name)
        os.replace(directory, self._data / "quarantine" / f"{directory.name}-{time.time_ns()}")

    def _empty_trash(self) -> None:
        for deleted in (self._data / "trash").iterdir():
            if time.time() - deleted.lstat().st_mtime > TRASH_SECONDS:
                shutil.rmtree(deleted, ignore_errors=True)
            elif found := metadata.deleted(deleted):
                # What it has cost stays spent.
                self._house.budgets.spent_before(found.path, found.memory.cost_usd, found.memory.days)
