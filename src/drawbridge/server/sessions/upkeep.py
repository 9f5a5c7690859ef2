"""Maintenance of a server that runs for months: measures its disk use, drops old history, empties the trash, and retries
projects that could not be read.
"""

from __future__ import annotations

import asyncio
import logging
import time
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
"""Seconds between two rounds."""

SELDOM_SECONDS: Final = 3600.0
"""Seconds between two cleanings."""

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
        self._clean_at = time.monotonic()
        """When the next cleaning is due."""

    async def round(self) -> None:
        """One round of maintenance, which is due every ``EVERY_SECONDS``."""
        if time.monotonic() >= self._clean_at:
            # Before it is done: a cleaning that fails must not keep the rounds until the next one from looking.
            self._clean_at = time.monotonic() + SELDOM_SECONDS
            await self.clean()
        await self.look()

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
