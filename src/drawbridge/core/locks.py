"""A lock that lets urgent callers go first."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator


class UrgentLock:
    """A lock with one holder at a time. Callers get it in order of arrival, urgent ones first."""

    def __init__(self) -> None:
        self._held = False
        self._urgent: deque[asyncio.Future[None]] = deque()
        self._others: deque[asyncio.Future[None]] = deque()

    def locked(self) -> bool:
        return self._held

    @contextlib.asynccontextmanager
    async def held(self, *, urgent: bool = False) -> AsyncIterator[None]:
        await self._acquire(self._urgent if urgent else self._others)
        try:
            yield
        finally:
            self._release()

    async def _acquire(self, queue: deque[asyncio.Future[None]]) -> None:
        if not self._held:
            self._held = True
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                with contextlib.suppress(ValueError):  # the holder has already removed this waiter
                    queue.remove(turn)
            else:
                self._release()  # the caller had just received the lock
            raise

    def _release(self) -> None:
        """Passes the lock to the next waiting caller, or releases it if none is waiting. A lock that is passed on stays
        held, so that no other caller can take it."""
        for queue in (self._urgent, self._others):
            while queue:
                turn = queue.popleft()
                if not turn.done():
                    turn.set_result(None)
                    return
        self._held = False
