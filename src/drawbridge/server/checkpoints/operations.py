"""Runs git's operations in one directory, one at a time. Operations that neither read nor write the directory's files
may run at the same time as others."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from drawbridge.agents.base import Confinement
from drawbridge.agents.memory import MemoryWatch
from drawbridge.core.locks import UrgentLock
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.server.checkpoints.errors import GitFailed, NoCheckpoint
from drawbridge.server.checkpoints.git import git as confined_git
from drawbridge.server.checkpoints.git.git import Git
from drawbridge.server.checkpoints.git.program import program
from drawbridge.server.checkpoints.git.settings import Settings
from drawbridge.server.checkpoints.private import PrivateRepository
from drawbridge.server.checkpoints.remembered import Remembered
from drawbridge.server.checkpoints.repository import Repository, find

logger = logging.getLogger("drawbridge.server")

NO_REPOSITORY: Final = "The directory is not in a git work tree, so changes made by runs can't be determined."
NO_GIT: Final = (
    "git is not installed on the server's machine, so changes made by runs can't be determined. Install git."
)


class Operations:
    """git in ``directory``. ``private``: the directory's private repository; None if it can't have one. ``folder``: the
    server's folder for the directory, if any. If it no longer exists, the project was removed.
    """

    def __init__(
        self,
        directory: Path,
        confinement: Confinement,
        memory: MemoryWatch,
        folder: Path | None,
        private: PrivateRepository | None,
    ) -> None:
        self._directory = directory
        self._confinement = confinement
        self._memory = memory
        self._folder = folder
        self._private = private
        self._settings: Settings | None = None
        """git's settings in the last exclusive operation; None before the first one, or if it had no repository or no
        git."""
        self._remembered = Remembered()
        """What the operations that hold the lock have read."""
        self._lock = UrgentLock()
        """A client may request the changes of a run while its last checkpoint is still being created. A run does not
        wait for requests from clients, except for the operation that is in progress.
        """
        self._endings = BackgroundTasks(logger)
        """These tasks are not canceled. Each waits until the processes of one operation have ended."""

    @contextlib.asynccontextmanager
    async def exclusive(self, *, awaited: bool = False) -> AsyncIterator[Git]:
        """git for one operation, during which no checkpoint is created. ``awaited``: as in ``opened``. Raises
        ``NoCheckpoint``, ``GitFailed`` or OSError."""
        async with self._lock.held():
            try:
                async with self.opened(self._settings, awaited=awaited) as git:
                    self._settings = git.settings if git is not None else None
                    if git is None:
                        raise await _missing()
                    yield git
            except (GitFailed, OSError):
                if self._folder is not None and not await asyncio.to_thread(self._folder.exists):
                    raise NoCheckpoint("The project or terminal session was removed in the meantime.") from None
                raise

    @contextlib.asynccontextmanager
    async def concurrent(self) -> AsyncIterator[Git]:
        """git for an operation that may take minutes and neither reads nor writes files or checkpoints, so that other
        operations can continue. Raises ``NoCheckpoint``, ``GitFailed`` or OSError.
        """
        async with confined_git.opened(
            self._directory, self._confinement, self._memory, self._endings, find=self._repository
        ) as git:
            if git is None:
                raise await _missing()
            yield git

    def held(self, *, urgent: bool = False) -> contextlib.AbstractAsyncContextManager[None]:
        """Waits until no other operation is in progress, and makes others wait during its block. ``urgent``: goes
        before those that are already waiting.
        """
        return self._lock.held(urgent=urgent)

    def opened(
        self, known: Settings | None = None, *, awaited: bool = False
    ) -> contextlib.AbstractAsyncContextManager[Git | None]:
        """git in the repository for the checkpoints, in a block of ``held``; None if the directory has no repository, or
        git is not installed. ``known``: the settings of an earlier operation. ``awaited``: whether a run waits for
        this operation, which then gets less time if git was slow in this repository a moment ago. Raises
        ``NoCheckpoint``, ``GitFailed`` or OSError."""
        return confined_git.opened(
            self._directory,
            self._confinement,
            self._memory,
            self._endings,
            known,
            self._repository,
            self._remembered,
            awaited=awaited,
        )

    def opened_in_work_tree(self) -> contextlib.AbstractAsyncContextManager[Git | None]:
        """Like ``opened``, but in the repository of the git work tree, even if the directory has a private one."""
        return confined_git.opened(self._directory, self._confinement, self._memory, self._endings)

    def _repository(self, directory: Path) -> Repository | None:
        """The repository for the checkpoints; None if the directory can't have any. Blocking. Raises ``NoCheckpoint``,
        ``GitFailed`` or OSError."""
        return find(directory) if self._private is None else self._private.repository()

    async def close(self) -> None:
        """Returns when the processes of all operations have ended."""
        await self._endings.wait()


async def _missing() -> NoCheckpoint:
    """The error for a directory without a repository, or a machine without git."""
    return NoCheckpoint(NO_REPOSITORY if await asyncio.to_thread(program) else NO_GIT)
