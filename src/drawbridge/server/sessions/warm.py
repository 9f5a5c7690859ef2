"""The pool of idle agent processes that are kept for a next prompt: bounded in number and time, and only while the machine has
free memory; the least recently used is ended first.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Protocol

import psutil

LEAST_AVAILABLE: Final = 0.1
"""Of the machine's memory. Below that idle processes go, one at each look; one of ``claude`` has some 200 MB."""

LOOK_SECONDS = 5.0


def available() -> float:
    """The share of the machine's memory that can be had without swapping."""
    memory = psutil.virtual_memory()
    return memory.available / memory.total


class Idle(Protocol):
    """A session with an idle process."""

    id: str

    def cool(self) -> None:
        """End that process, or ``Warm.retain`` it while it works by itself."""
        ...


class Warm:
    """At most ``processes``, for at most ``seconds``."""

    def __init__(self, processes: int, seconds: float, available: Callable[[], float] = available) -> None:
        self._processes = processes
        self._seconds = seconds
        self._available = available
        self._kept: OrderedDict[str, tuple[Idle, asyncio.TimerHandle]] = OrderedDict()
        self._next_look: asyncio.TimerHandle | None = None

    def keep(self, project: Idle) -> None:
        """Its process is idle from now on."""
        self.retain(project)
        for one in list(self._kept):
            if len(self._kept) <= self._processes:
                break
            self._cool(one)

    def retain(self, project: Idle) -> None:
        """It counts as used just now; no other process is ended for it."""
        self.forget(project)
        timer = asyncio.get_running_loop().call_later(self._seconds, self._cool, project.id)
        self._kept[project.id] = (project, timer)
        self._look_again()

    def forget(self, project: Idle) -> None:
        """Its process is in use again, or has ended."""
        _, timer = self._kept.pop(project.id, (None, None))
        if timer is not None:
            timer.cancel()

    def _cool(self, project_id: str) -> None:
        project, timer = self._kept.pop(project_id)
        timer.cancel()
        project.cool()

    def _look_again(self) -> None:
        if self._kept and self._next_look is None:
            self._next_look = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        self._next_look = None
        self._look_again()  # first: a look that fails must not be the last
        if self._kept and self._available() < LEAST_AVAILABLE:
            self._cool(next(iter(self._kept)))
