"""Background tasks with an owner: no running task is lost, no error is swallowed, and all tasks end with their owner.

There is one policy for errors. An expected error (``DrawbridgeError``) is logged as a warning. An unexpected one is logged
with its traceback, and ``failed`` lets the owner answer whoever waits for the task: a connection, a session, a person.
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
        """Runs ``work`` in the background; after ``cancel()`` or ``close()`` it never begins.

        ``what`` names it in the log. ``failed`` is called with an unexpected error once that is logged.
        """
        task = asyncio.get_running_loop().create_task(self._run(work, what, failed), name=what)
        # The event loop itself keeps weak references only.
        self._tasks.add(task)

        def ended(_: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            # A task that is cancelled before its first step never awaits ``work``.
            work.close()

        task.add_done_callback(ended)
        if self._closed:
            task.cancel()
        return task

    def cancel(self) -> None:
        """Cancels all tasks, for an owner that cannot wait; ``close()`` does."""
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
        except DrawbridgeError as error:
            self._logger.warning("%s: %s", what, error)
        except Exception as error:
            self._logger.exception("%s failed", what)
            if failed is not None:
                failed(error)
