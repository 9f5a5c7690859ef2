"""Threads for functions that may wait for a disk that does not respond, such as a network disk.

They are daemon threads, each for one call. A thread of asyncio's executor would not be available for other work while
the disk does not respond, and the process could not end before that thread does.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def in_thread(work: Callable[[], T]) -> asyncio.Future[T]:
    """Calls ``work`` in its own thread. Returns a future with its result."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def finish(setter: Callable[[Any], None], value: object) -> None:
        if not done.done():
            setter(value)

    def run() -> None:
        report: tuple[Callable[[Any], None], object]
        try:
            report = (done.set_result, work())
        except Exception as error:
            report = (done.set_exception, error)
        with contextlib.suppress(RuntimeError):  # the event loop has been closed in the meantime
            loop.call_soon_threadsafe(finish, *report)

    threading.Thread(target=run, daemon=True, name="waiting for a disk").start()
    return done


class DiskThreads:
    """At most ``most`` such threads at a time."""

    def __init__(self, most: int) -> None:
        self._free = asyncio.Semaphore(most)

    async def run(self, work: Callable[[], T], seconds: float) -> T:
        """The result of ``work``, which is called in a thread. Raises ``TimeoutError`` after ``seconds``, including the
        time until a thread is free. The thread then continues to wait for the disk."""
        async with asyncio.timeout(seconds):
            await self._free.acquire()
            running = in_thread(work)
            running.add_done_callback(self._ended)
            return await asyncio.shield(running)

    def _ended(self, running: asyncio.Future[Any]) -> None:
        self._free.release()
        if not running.cancelled():
            running.exception()  # so that asyncio does not report the error if nothing waits for the result anymore
