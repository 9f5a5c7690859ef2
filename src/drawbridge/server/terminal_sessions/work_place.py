"""Where the agent of a terminal session works: in the session's directory, or in another work tree."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Final

from drawbridge.core.disk_threads import DiskThreads
from drawbridge.server.sessions.directories.work_trees import is_elsewhere

logger = logging.getLogger("drawbridge.server")

READING_SECONDS: Final = 2.0
"""Seconds that the server waits for the disk of a directory in which the agent works."""

READERS: Final = 2
"""The maximum number of threads of one session that wait for such a disk."""

ABOVE: Final = f"..{os.sep}"


class WorkPlace:
    """``directory``: the session's directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._disk = DiskThreads(READERS)
        self._examined = ("", "")
        """The working directory that was examined last, and the name under which it is shown; the name is empty if
        changes there are changes to the session's directory."""
        self._latest = ("", "")
        """The run for which ``of_run`` returned a place last, and that place."""

    async def examine(self, directory: str) -> None:
        """Examines the working directory that a hook reports, before the report is processed."""
        if directory in ("", str(self._directory), self._examined[0]):
            return
        try:
            self._examined = directory, await self._disk.run(lambda: self._named(directory), READING_SECONDS)
        except TimeoutError:
            logger.warning("the disk of a directory in which an agent works does not respond")

    def _named(self, directory: str) -> str:
        """The name of another work tree, or of a directory outside the session's: relative, if it is in the session's
        directory or beside it. Empty for any other directory. Blocking."""
        if not os.path.isdir(directory) or not is_elsewhere(directory, self._directory):
            return ""
        path = os.path.relpath(os.path.realpath(directory), os.path.realpath(self._directory))
        return directory if path.removeprefix(ABOVE).startswith("..") else path

    def continues(self, run: str) -> None:
        """Marks a run that began before the server was restarted."""
        self._latest = run, ""

    def of_run(self, run: str, directory: str) -> str | None:
        """Where the agent works in ``run``, according to a hook that reports the working directory ``directory``: the
        name of another place, "" for the session's directory. None if that is not new, or not known."""
        known, name = self._examined
        if directory == str(self._directory):
            name = ""
        elif directory != known or not directory:
            return None
        # Within a run, the agent or one of its subagents may have worked elsewhere before.
        if (run == self._latest[0] and not name) or (run, name) == self._latest:
            return None
        self._latest = run, name
        return name
