"""Decisions, reverts and commits write files one at a time. Several reviews may contain the same directory: that of a
managed session, that of terminal sessions, and those of directories inside it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path


class Writing:
    """The directories in which the server is writing files. All paths are canonical."""

    def __init__(self) -> None:
        self._held: list[tuple[Path, asyncio.Event]] = []

    @contextlib.asynccontextmanager
    async def at(self, directory: Path) -> AsyncIterator[None]:
        """In the context, nothing else writes into ``directory``, into a directory inside it, or into one that contains
        it."""
        await self.settled(directory)
        held = directory, asyncio.Event()
        self._held.append(held)
        try:
            yield
        finally:
            self._held.remove(held)
            held[1].set()

    async def settled(self, directory: Path) -> None:
        """Returns once nothing is being written there, for example because a run is about to begin."""
        while (done := self._done(directory)) is not None:
            await done.wait()

    def _done(self, directory: Path) -> asyncio.Event | None:
        """The event that is set once the first of the overlapping directories is free; None if no directory
        overlaps."""
        overlapping = (
            done for held, done in self._held if held.is_relative_to(directory) or directory.is_relative_to(held)
        )
        return next(overlapping, None)
