"""Background tasks that one object owns: none is lost while it runs, no error is swallowed, and all end with their owner."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from drawbridge.core.errors import DrawbridgeError


class BackgroundTasks:
    def __init__(self, logger: logging.Logger) -> None:
        """``logger``: where errors are logged."""
        self._logger = logger
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def start(self, work: Coroutine[Any, Any, None], what: str) -> None:
        """Runs ``work`` in the background; after ``close()`` it is dropped. ``what`` names it in the log."""
        if self._closed:
            work.close()
            return
        task = asyncio.get_running_loop().create_task(self._run(work, what), name=what)
        # The event loop itself keeps weak references only.
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # A task that is cancelled before it begins does not reach ``work``.
        task.add_done_callback(lambda _: work.close())

    async def close(self) -> None:
        """Cancels all tasks and returns when they have ended. Called from one of the tasks, it would wait for itself."""
        self._closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, work: Coroutine[Any, Any, None], what: str) -> None:
        try:
            await work
        except DrawbridgeError as error:
            self._logger.warning("%s: %s", what, error)
        except Exception:
            self._logger.exception("%s failed", what)
