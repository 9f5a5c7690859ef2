"""The texts of the files that clients have decided on, which are read in a thread, because their disk may not respond."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Final

from drawbridge.agents.proposals import read_file
from drawbridge.core.disk_threads import DiskThreads
from drawbridge.core.errors import UnusableFile

logger = logging.getLogger("drawbridge.server")

READING_SECONDS: Final = 2.0
"""Seconds that the server waits for the disk of these files."""

READERS: Final = 2
"""The maximum number of threads of one session that wait for such a disk."""


class TextsReadAhead:
    def __init__(self) -> None:
        self._disk = DiskThreads(READERS)
        self._texts: dict[str, str | None] = {}

    async def read(self, paths: Collection[str]) -> None:
        """Reads these files, and forgets all others."""
        self._texts = {}
        if not paths:
            return
        try:
            self._texts = await self._disk.run(lambda: _read(paths), READING_SECONDS)
        except TimeoutError:
            logger.warning("the disk of a file that was decided on does not respond")

    def of(self, path: str) -> str | None:
        """The text of a file when it was last read; None if it did not exist. Raises ``UnusableFile`` if it was not
        read."""
        if path not in self._texts:
            raise UnusableFile(f"{path} was not read.")
        return self._texts[path]


def _read(paths: Collection[str]) -> dict[str, str | None]:
    """The texts of these files, except those that can't be read. Blocking."""
    texts = {}
    for path in paths:
        try:
            texts[path] = read_file(path)
        except UnusableFile:
            continue
    return texts
