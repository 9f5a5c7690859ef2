"""Maintenance of a server that runs for months: measures its disk use, drops old history, empties the trash, and retries
projects that could not be read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct

from drawbridge.core.errors import DrawbridgeError
from drawbridge.server.events import ProjectCreated
from drawbridge.server.sessions.context import Context
from drawbridge.server.sessions.projects import Projects
from drawbridge.server.store.log import History
from drawbridge.text.counts import counted

EVERY_SECONDS: Final = 10.0

SELDOM_SECONDS: Final = 3600.0

logger = logging.getLogger("drawbridge.server")


class Retention(Struct, frozen=True):
    """How much of a project's history is kept, if the owner sets it: whole files, always with the newest."""

    days: int | None = None
    bytes: int | None = None


class Recorded(Protocol):
    """A session with a history: managed or terminal."""

    id: str
    path: Path
    history: History


class Upkeep:
    """``desk``: the terminal sessions; their histories count and are dropped like those of projects."""

    def __init__(
        self, context: Context, projects: Projects, retention: Retention, desk: Iterable[Recorded] = ()
    ) -> None:
        self._context = context
        self._projects = projects
        self._retention = retention
        self._desk = desk

    async def run(self, every: float = EVERY_SECONDS, seldom: float = SELDOM_SECONDS) -> None:
        """Runs until it is cancelled. An unexpected error is logged, and the next round follows."""
        loop = asyncio.get_running_loop()
        next_cleaning = loop.time()
        while True:
            try:
                if loop.time() >= next_cleaning:
                    next_cleaning = loop.time() + seldom
                    await self.clean()
                await self.look()
            except Exception:
                logger.exception("internal error")
            await asyncio.sleep(every)

    async def look(self) -> None:
        for session in self._desk:
            self._context.disk.now(session.id, str(session.path), session.history.size)
        self._context.disk.forget_others({one.id for one in [*self._projects, *self._desk]})
        await asyncio.to_thread(self._context.disk.measure)
        self._context.disk.look()
        if self._context.disk.too_much:
            await asyncio.to_thread(self._projects.make_room)
        for project in await self._projects.read_again():
            logger.info("the project in %s can be read again", project.id)
            project.continuing.look()
            project.store.announce(ProjectCreated(project.info()))

    async def clean(self) -> None:
        await asyncio.to_thread(self._projects.empty_trash)
        for one in [*self._projects, *self._desk]:
            await self._drop(one)

    async def _drop(self, one: Recorded) -> None:
        days = self._retention.days
        before = None if days is None else datetime.now(UTC) - timedelta(days=days)
        try:
            dropped = await asyncio.to_thread(one.history.drop, before, self._retention.bytes)
        except DrawbridgeError as error:
            logger.error("%s: old history could not be dropped: %s", one.id, error)
            return
        if dropped:
            first = one.history.first_seq
            logger.info("%s: dropped %s of old history; it begins with %d now", one.id, counted(dropped, "file"), first)
            self._context.disk.now(one.id, str(one.path), one.history.size)
