"""What an agent that the server runs has left running in the background after a run, such as a build. What it changes
belongs to the run, so the review stays open for it, but not forever."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable

from drawbridge.agents.base import Task
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.server.reviews.gaps import BACKGROUND_SECONDS
from drawbridge.server.reviews.reviewing import Reviewing
from drawbridge.server.sessions.runs.checkpointing import LAST_SECONDS


class BackgroundWork:
    """The commands of one session. Between runs, ``reported`` and the time decide when the review is closed: when it is
    closed, the files are read for the last time, and what changes later counts as work by somebody else."""

    def __init__(
        self,
        session_id: str,
        reviewing: Reviewing,
        tasks: BackgroundTasks,
        is_running: Callable[[], bool],
        checkpointed: Callable[[], Awaitable[None]],
        *,
        wanted: bool,
    ) -> None:
        """``is_running`` returns whether a run is active or waits for its slot. ``checkpointed`` returns once the
        checkpoint after the last run was taken. ``wanted``: as in ``RunCheckpoints``."""
        self._session_id = session_id
        self._reviewing = reviewing
        self._tasks = tasks
        self._is_running = is_running
        self._checkpointed = checkpointed
        self._wanted = wanted
        self._running: set[str] = set()
        """The ids of the commands that are running."""
        self._until: dict[str, float] = {}
        """Those of them that were running when a run ended, each with the time until which its changes belong to the
        first such run, on the monotonic clock."""
        self.keeps_open = False
        """Whether the review stays open after the checkpoint after a run."""
        self._timer: asyncio.TimerHandle | None = None

    def reported(self, tasks: Iterable[Task]) -> None:
        """Sets what the agent is running now, as it reports it."""
        self._running = {task.task_id for task in tasks if task.background}
        self._until = {id: until for id, until in self._until.items() if id in self._running}
        if not self._is_running():
            self._check()

    def run_ended(self) -> None:
        """Keeps the review of the run that has just ended open if it has left a command running."""
        for id in self._running if self._wanted else ():
            self._until.setdefault(id, time.monotonic() + BACKGROUND_SECONDS)
        self.keeps_open = self.keeps_open or bool(self._left)
        self._check()

    @property
    def _left(self) -> list[float]:
        """The seconds that are left to each command that keeps the review open."""
        now = time.monotonic()
        return [until - now for until in self._until.values() if until > now]

    def _check(self) -> None:
        """Closes the review, unless a command keeps it open. In that case, closes it when the command's time is over."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        left = self._left
        if left:
            self._timer = asyncio.get_running_loop().call_later(max(left), self._time_is_over)
        else:
            self._start_closing()

    def _time_is_over(self) -> None:
        self._until = dict.fromkeys(self._until, 0.0)
        if not self._is_running():
            self._start_closing()

    def _start_closing(self) -> None:
        if self.keeps_open:
            self._tasks.start(self._close(), f"{self._session_id}: closing the review of background work")

    async def _close(self) -> None:
        await self._checkpointed()
        if self._is_running() or not self.keeps_open or self._left:  # the end of that run closes the review
            return
        self.keeps_open = False
        try:
            await self._reviewing.end(outlasted=bool(self._until))
        except asyncio.CancelledError:  # the session is being closed
            self.keeps_open = True
            raise

    async def close(self) -> None:
        """Closes the review, because the session is closed and its agent has ended."""
        if self._timer is not None:
            self._timer.cancel()
        if self.keeps_open:
            self.keeps_open = False
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_SECONDS):
                    await self._reviewing.end()
