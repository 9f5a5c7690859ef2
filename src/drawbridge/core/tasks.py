"""Background tasks with an owner: no running task is lost, errors are logged, and all tasks end with their owner.

Errors are handled in one way. An expected error (``DrawbridgeError``) is logged as a warning. An unexpected one is
logged with its traceback, and ``failed`` lets the owner respond to whatever is waiting for the task: a connection, a
session or a person. In a task that repeats, an error ends only one round.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from drawbridge.core.errors import DrawbridgeError


class BackgroundTasks:
    def __init__(self, logger: logging.Logger) -> None:
        """``logger``: where errors are logged."""
        self._logger = logger
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def __len__(self) -> int:
        """The number of tasks that have not ended."""
        return len(self._tasks)

    def start(
        self, work: Coroutine[Any, Any, None], what: str, failed: Callable[[Exception], None] | None = None
    ) -> asyncio.Task[None]:
        """Runs ``work`` in the background. After ``cancel()`` or ``close()`` it never begins.

        ``what`` names it in the log. ``failed`` is called with an unexpected error after it has been logged.
        """
        task = asyncio.get_running_loop().create_task(self._run(work, what, failed), name=what)
        # The event loop itself keeps only weak references.
        self._tasks.add(task)

        def ended(_: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            # A task that is canceled before its first step never awaits ``work``.
            work.close()

        task.add_done_callback(ended)
        if self._closed:
            task.cancel()
        return task

    def repeat(
        self,
        work: Callable[[], Coroutine[Any, Any, None]],
        seconds: float,
        what: str,
        failed: Callable[[Exception], None] | None = None,
        *,
        at_once: bool = False,
    ) -> asyncio.Task[None]:
        """Runs ``work()`` every ``seconds`` in the background, counted from the end of the previous round, until the
        task is canceled. ``at_once``: the first round does not wait.

        An error ends its round, and the next round follows. An error that repeats is logged only once, because some
        tasks repeat more than once a second, and would fill the disk with tracebacks. ``failed`` is called with an
        unexpected error after it has been logged.
        """
        return self.start(self._repeat(work, seconds, what, failed, at_once), what)

    def cancel(self) -> None:
        """Cancels all tasks without waiting for their end, for which ``close()`` waits."""
        self._closed = True
        for task in self._tasks:
            task.cancel()

    async def wait(self) -> None:
        """Returns when all tasks have ended. Must not be called from one of the tasks."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def close(self) -> None:
        """Cancels all tasks and returns when they have ended. Must not be called from one of the tasks."""
        self.cancel()
        await self.wait()

    async def _run(
        self, work: Coroutine[Any, Any, None], what: str, failed: Callable[[Exception], None] | None
    ) -> None:
        try:
            await work
        except Exception as error:
            self._report(what, error, failed)

    async def _repeat(
        self,
        work: Callable[[], Coroutine[Any, Any, None]],
        seconds: float,
        what: str,
        failed: Callable[[Exception], None] | None,
        at_once: bool,
    ) -> None:
        former = ""
        if not at_once:
            await asyncio.sleep(seconds)
        while True:
            try:
                await work()
            except Exception as error:
                if repr(error) != former:
                    self._report(what, error, failed)
                former = repr(error)
            else:
                former = ""
            await asyncio.sleep(seconds)

    def _report(self, what: str, error: Exception, failed: Callable[[Exception], None] | None) -> None:
        if isinstance(error, DrawbridgeError):
            self._logger.warning("%s: %s", what, error)
            return
        self._logger.error("%s failed", what, exc_info=error)
        if failed is not None:
            failed(error)
