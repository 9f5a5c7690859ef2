"""Watches the memory of each agent and everything that it started, and ends an agent that exceeds the limit.

Resident memory is counted. A limit on the address space would be cheaper but wrong: Node 22 reserves 750 MB of address
space when it starts, although it uses only 43 MB of memory. With a limit below 10 GB, it can't create even the smallest
WebAssembly memory. Between two measurements an agent can exceed the limit, because only the service manager can set a
hard limit (``MemoryMax``). If that is exceeded, the kernel kills an agent before it kills the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Callable, Collection, Iterator
from typing import Final

import msgspec
import psutil

from drawbridge.agents.base import Agent, AgentProcess, Event, Exited, Launch, TurnEnded
from drawbridge.core.tasks import BackgroundTasks

EVERY_SECONDS: Final = 1.0
"""Seconds between measurements. If 100 processes run on the machine, a measurement occupies a thread for 4 ms, no
matter how many of them are agents.
"""

MB: Final = 1024 * 1024

logger = logging.getLogger("drawbridge.server")


class MemoryWatch:
    """Ends agents that use more than ``limit`` bytes, including everything that they started. If ``limit`` is None,
    nothing is measured. ``every``: seconds between measurements."""

    def __init__(self, limit: int | None, every: float = EVERY_SECONDS) -> None:
        self._limit = limit
        self._every = every
        self._watched: set[_Watched] = set()
        self._tasks = BackgroundTasks(logger)
        self._measuring: asyncio.Task[None] | None = None

    async def start(self, agent: Agent, launch: Launch, report: Callable[[Event], None]) -> AgentProcess:
        """Starts the agent (see ``Agent.start``), and watches its process until it exits."""
        if self._limit is None:
            return await agent.start(launch, report)
        watched = _Watched(self, report)
        process = await agent.start(launch, watched.receive)
        watched.runs_as(process.pid)
        if not watched.has_exited:
            self._begin(watched)
        return process

    @contextlib.contextmanager
    def watching(self, pid: int) -> Iterator[None]:
        """Watches a process that runs git under a supervisor, for the duration of the context."""
        if self._limit is None:
            yield
            return
        watched = _Watched(self, lambda event: None, "git process")
        watched.runs_as(pid)
        self._begin(watched)
        try:
            yield
        finally:
            self.end(watched)

    def _begin(self, watched: _Watched) -> None:
        self._watched.add(watched)
        if self._measuring is None:
            self._measuring = self._tasks.repeat(self._measure, self._every, "measuring the memory of agents")

    def end(self, watched: _Watched) -> None:
        self._watched.discard(watched)
        if not self._watched and self._measuring is not None:
            self._measuring.cancel()
            self._measuring = None

    async def _measure(self) -> None:
        used = await asyncio.to_thread(resident, {watched.pid for watched in self._watched})
        for watched in list(self._watched):
            if self._limit is not None and used.get(watched.pid, 0) > self._limit:
                watched.stop(used[watched.pid], self._limit)


class _Watched:
    """One watched process. Its events pass through here, so that a turn that is ended by the limit reports this
    reason.
    """

    pid = 0
    has_exited = False

    def __init__(self, watch: MemoryWatch, report: Callable[[Event], None], kind: str = "agent") -> None:
        """``kind``: what the process is, in the log."""
        self._watch = watch
        self._kind = kind
        self._report = report
        self._why: str | None = None

    def runs_as(self, pid: int) -> None:
        self.pid = pid

    def receive(self, event: Event) -> None:
        if isinstance(event, Exited):
            self.has_exited = True
            self._watch.end(self)
        elif isinstance(event, TurnEnded) and self._why is not None:
            event = msgspec.structs.replace(event, ok=False, interrupted=False, error=self._why, code="MEMORY_LIMIT")
        self._report(event)

    def stop(self, used: int, limit: int) -> None:
        """Kills the agent immediately, as the kernel would, because during an orderly shutdown it could use even more
        memory. ``used`` and ``limit`` are in bytes."""
        if self._why is None:
            self._why = (
                f"The agent and its processes used {used // MB:,} MB of memory ({limit // MB:,} MB allowed) and were stopped. "
                "Changes made so far are kept. The owner can raise the limit (--max-memory)."
            )
            logger.warning(
                "%s %d was stopped: it and its processes used %d MB of memory; the limit is %d MB",
                self._kind,
                self.pid,
                used // MB,
                limit // MB,
            )
        with contextlib.suppress(OSError):
            os.kill(self.pid, signal.SIGKILL)


def resident(agents: Collection[int]) -> dict[int, int]:
    """The resident bytes of each agent, including everything that it started, by the agent's process id. Blocking.

    On Linux, processes whose parents have ended are included, since the supervisor becomes their parent.
    """
    parents: dict[int, int] = {}
    for pid in psutil.pids():
        with contextlib.suppress(psutil.Error):
            parents[pid] = psutil.Process(pid).ppid()
    roots = {}
    for agent in agents:
        parent = parents.get(agent, 0)
        roots[parent if parents.get(parent) == os.getpid() else agent] = agent
    used = dict.fromkeys(agents, 0)
    for pid in parents:
        at = pid
        while at not in roots and parents.get(at, 0) > 1:
            at = parents[at]
        if at in roots:
            with contextlib.suppress(psutil.Error):
                used[roots[at]] += psutil.Process(pid).memory_info().rss
    return used
