"""The checkpoints before and after each run of a session, one after another."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Literal

from drawbridge.core.tasks import BackgroundTasks
from drawbridge.server.checkpoints.errors import GitFailed, NoCheckpoint
from drawbridge.server.checkpoints.snapshotter import Snapshotter

logger = logging.getLogger("drawbridge.server")

LAST_SECONDS: Final = 5.0
"""The maximum number of seconds that ``finish`` waits for the last checkpoint."""


class RunCheckpoints:
    def __init__(
        self,
        session_id: str,
        snapshotter: Snapshotter,
        tasks: BackgroundTasks,
        settled: Callable[[], Awaitable[None]],
        end_without: Callable[[], None],
        *,
        wanted: bool,
    ) -> None:
        """``settled`` returns once the server no longer writes into the directory. ``end_without`` is called if the
        checkpoint after a run was not taken. ``wanted``: whether checkpoints are taken. The owner may have disabled
        them."""
        self._session_id = session_id
        self._snapshotter = snapshotter
        self._tasks = tasks
        self._settled = settled
        self._end_without = end_without
        self._wanted = wanted
        self._last: asyncio.Task[None] | None = None
        """The last checkpoint in the background, for which the next one waits."""

    async def before(self, run_id: str) -> None:
        """Takes the checkpoint before a run, once the server no longer writes into the directory."""
        await self._settled()
        await self._checkpoint(run_id, "before", self._last)

    def begin(self, run_id: str, when: Literal["before", "after"]) -> None:
        """Takes a checkpoint in the background: after a run, or before a run that the agent began itself."""
        taken = self._checkpoint(run_id, when, self._last)
        self._last = self._tasks.start(taken, f"{self._session_id}: the checkpoint {when} a run")

    async def taken(self) -> None:
        """Returns once the last checkpoint was taken, or could not be taken."""
        if self._last is not None:
            await asyncio.wait([self._last])

    async def finish(self) -> None:
        """Waits for the last checkpoint, so that the last run can be reverted even after a restart."""
        if self._last is not None:
            await asyncio.wait([self._last], timeout=LAST_SECONDS)

    async def _checkpoint(
        self, run_id: str, when: Literal["before", "after"], previous: asyncio.Task[None] | None
    ) -> None:
        """Takes a checkpoint. A failure is logged. First waits for the ``previous`` one, so that checkpoints are taken
        in order, and the one after a run contains nothing that the next run changes."""
        if not self._wanted:
            return
        if previous is not None:
            await asyncio.wait([previous])
        try:
            if when == "before":
                await self._snapshotter.begin(run_id)
            else:
                await self._snapshotter.create(run_id, when)
        except (GitFailed, NoCheckpoint, OSError) as error:
            logger.warning("%s: the checkpoint %s run %s was not taken: %s", self._session_id, when, run_id, error)
            if when == "after":
                self._end_without()
