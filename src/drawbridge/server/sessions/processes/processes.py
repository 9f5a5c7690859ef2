"""Starts the agent processes of this server, and keeps a record of all of them and a pool of idle ones.

When the server starts, it uses the record to end processes that were left behind by a crash.

A supervisor ends its agent when the server dies. The record is for cases in which the supervisor can't do that, because
it was killed together with the server, or because it can't find detached descendants on its operating system.
``running.json`` identifies each agent by the mark that is in the environment of everything it starts, and by process id
and start time. A process id alone proves nothing, since the operating system may have reused it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, Protocol, TypeAlias

import msgspec
import psutil
from msgspec import Struct

from drawbridge.agents import process_tree
from drawbridge.agents.base import Agent, AgentProcess, AgentUnusable, Event, Launch, Options
from drawbridge.agents.environment import MARK
from drawbridge.agents.memory import MemoryWatch
from drawbridge.core.errors import NotPrivate
from drawbridge.core.json_text import UNDECODABLE
from drawbridge.core.private_files import write_private
from drawbridge.core.process_start import StartTime, is_same_process, started_at
from drawbridge.server.sessions.directories.allowed_directories import ADDITIONAL_NOT_HERE, AllowedDirectories
from drawbridge.server.sessions.options.limits import Limits

FILE: Final = "running.json"

LEAST_AVAILABLE: Final = 0.1
"""The share of the machine's memory that must be available. Below that, one idle process is ended at each check. An
idle ``claude`` uses some 200 MB."""

MOST_SCHEDULED: Final = 8
"""The maximum number of idle processes that are kept because their agents have scheduled something, in addition to the
others."""

CHECK_SECONDS = 5.0

Start: TypeAlias = Callable[[Launch, Callable[[Event], None]], Awaitable[AgentProcess]]

logger = logging.getLogger("drawbridge.server")


class Entry(Struct):
    """An agent process. ``pid`` is 0 and ``started`` is None until they are known."""

    mark: str
    pid: int = 0
    started: StartTime | None = None


class RunningProcesses:
    """The record of agent processes, a file in ``data``. If the file can't be written, the server logs an error, and
    agents run anyway."""

    def __init__(self, data: Path) -> None:
        self._file = data / FILE
        self._entries: dict[str, Entry] = {}

    async def start(self, begin: Start, launch: Launch, report: Callable[[Event], None]) -> AgentProcess:
        """Starts a process with ``begin``. It is in the file from before its start until ``remove``, which the caller
        has to call when the process has exited. If the process can't be started, this method calls ``remove``."""
        self._entries[launch.mark] = Entry(launch.mark)
        self._save()
        try:
            process = await begin(launch, report)
        except BaseException:
            self.remove(launch.mark)
            raise
        if launch.mark in self._entries:
            self._entries[launch.mark] = Entry(launch.mark, process.pid, started_at(process.pid))
            self._save()
        return process

    def remove(self, mark: str) -> None:
        """Removes the process that was started with this ``Launch.mark`` from the file."""
        if self._entries.pop(mark, None) is not None:
            self._save()

    def _save(self) -> None:
        try:
            write_private(str(self._file), msgspec.json.encode(list(self._entries.values())) + b"\n")
        except NotPrivate as error:
            logger.error("the list of running agents can't be saved for recovery after a crash: %s", error)

    def end_leftovers(self) -> None:
        """Ends the processes that were left behind by an earlier server. Blocking. Called before any agent is started."""
        entries = self._load()
        if not entries:
            return
        found = {process.pid: process.name() for process in _leftovers(entries)}
        left = process_tree.end_all(lambda: _leftovers(entries))
        for pid, name in found.items():
            if pid not in left:
                logger.warning(
                    "ended process %d (%s), which was left behind by an agent of a crashed server", pid, name
                )
        if left:
            logger.error("could not stop processes %s, which were left behind by an agent of a crashed server", left)
            self._entries = {entry.mark: entry for entry in entries}
        self._save()

    def _load(self) -> list[Entry]:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=list[Entry])
        except FileNotFoundError:
            pass
        except (OSError, *UNDECODABLE) as error:
            logger.error(
                "%s can't be read (%s): not searching for processes that a crash left behind",
                FILE,
                type(error).__name__,
            )
        return []


def _leftovers(entries: list[Entry]) -> list[psutil.Process]:
    """The processes of these agents that still exist, with their descendants. This process and its ancestors are never
    included, because the server may have been started by an agent.
    """
    marks = {entry.mark for entry in entries}
    starts = {entry.pid: entry.started for entry in entries}
    own = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    found = []
    for pid in psutil.pids():
        with contextlib.suppress(psutil.Error, OSError):
            process = psutil.Process(pid)
            if pid not in own and process.uids().real == os.getuid() and _is_ours(process, marks, starts):
                found.append(process)
    return [process for process in process_tree.with_descendants(found) if process.pid not in own]


def _is_ours(process: psutil.Process, marks: set[str], starts: dict[int, StartTime | None]) -> bool:
    """Whether a process belongs to one of these agents: by its mark, or, if its environment can't be read, by process
    id and start time together."""
    try:
        return process.environ().get(MARK) in marks
    except psutil.AccessDenied:
        started = starts.get(process.pid)
        return started is not None and is_same_process(process.pid, started)


def available() -> float:
    """The share of the machine's memory that is available without swapping, from 0 to 1."""
    memory = psutil.virtual_memory()
    return memory.available / memory.total


class IdleSession(Protocol):
    """A session with an idle process."""

    id: str

    @property
    def is_scheduled(self) -> bool:
        """Whether the process is needed for a turn that its agent has scheduled."""
        ...

    def end_if_idle(self) -> None:
        """Ends the session's idle process, or calls ``IdlePool.retain`` if the process is working in the background."""
        ...


class IdlePool:
    """The idle processes that are kept for the next prompt: at most ``processes``, for at most ``seconds``, and only
    while the machine has free memory. The least recently used is ended first.

    Processes of agents that have scheduled a turn are kept until that turn, but at most ``MOST_SCHEDULED`` of them. If
    memory is short, they are ended after the others. A process that is working in the background is kept in any case.
    """

    def __init__(self, processes: int, seconds: float, available: Callable[[], float] = available) -> None:
        self._processes = processes
        self._seconds = seconds
        self._available = available
        self._kept: OrderedDict[str, tuple[IdleSession, asyncio.TimerHandle]] = OrderedDict()
        self._next_check: asyncio.TimerHandle | None = None

    def keep(self, session: IdleSession) -> None:
        """Keeps the session's process, which is idle from now on. If this makes too many, the least recently used ones
        are ended."""
        self.retain(session)
        scheduled, others = self._by_schedule()
        self._reduce(others, self._processes)
        self._reduce(scheduled, MOST_SCHEDULED)

    def retain(self, session: IdleSession) -> None:
        """Keeps the session's process as the most recently used one, without ending another for it."""
        self.forget(session)
        timer = asyncio.get_running_loop().call_later(self._seconds, self._expire, session.id)
        self._kept[session.id] = (session, timer)
        self._schedule_check()

    def forget(self, session: IdleSession) -> None:
        """Stops keeping the session's process, which is in use again or has ended."""
        _, timer = self._kept.pop(session.id, (None, None))
        if timer is not None:
            timer.cancel()

    def _reduce(self, kept: list[str], most: int) -> None:
        """Ends the idle processes of the sessions ``kept``, in this order, until at most ``most`` are left. Processes
        that are working in the background are kept."""
        for one in kept:
            if sum(id in self._kept for id in kept) <= most:
                break
            self._end(one)

    def _by_schedule(self) -> tuple[list[str], list[str]]:
        """The ids of the sessions with a scheduled turn, and of the others; least recently used first."""
        scheduled = [id for id, (session, _) in self._kept.items() if session.is_scheduled]
        return scheduled, [id for id in self._kept if id not in scheduled]

    def _expire(self, session_id: str) -> None:
        session, _ = self._kept[session_id]
        if session.is_scheduled:
            self.retain(session)
        else:
            self._end(session_id)

    def _end(self, session_id: str) -> None:
        session, timer = self._kept.pop(session_id)
        timer.cancel()
        session.end_if_idle()

    def _schedule_check(self) -> None:
        if self._kept and self._next_check is None:
            self._next_check = asyncio.get_running_loop().call_later(CHECK_SECONDS, self._check_memory)

    def _check_memory(self) -> None:
        self._next_check = None
        self._schedule_check()  # first, so that the checks continue even if this one fails
        if self._kept and self._available() < LEAST_AVAILABLE:
            scheduled, others = self._by_schedule()
            self._end([*others, *scheduled][0])


class AgentProcesses:
    """Starts agent processes. ``agents``: the agents by name. ``data``: the directory with the record of the
    processes."""

    def __init__(
        self, agents: Mapping[str, Agent], directories: AllowedDirectories, limits: Limits, data: Path
    ) -> None:
        self.agents = agents
        self._directories = directories
        self.limits = limits
        self.running = RunningProcesses(data)
        self.memory = MemoryWatch(limits.memory_bytes)
        self.idle = IdlePool(limits.warm_processes, limits.warm_seconds)

    async def check_directories(self, directory: str, options: Options) -> None:
        """Raises ``AgentUnusable`` if agents may not run in ``directory`` now, or may not be given one of the
        additional directories in ``options``, because directories may have been moved or replaced since the run was
        accepted.
        """
        problem = await self._directories.examine(Path(directory))
        for path in options.add_dirs:
            if problem is None and not await asyncio.to_thread(self._directories.usable, path):
                problem = ADDITIONAL_NOT_HERE
        if problem is not None:
            raise AgentUnusable("INVALID_PATH", problem)

    async def start(self, agent: str, launch: Launch, report: Callable[[Event], None]) -> AgentProcess:
        """Starts an agent process, records it in case of a crash, and watches its memory. When the process has exited,
        the caller has to call ``running.remove``. Raises ``AgentUnusable`` if the agent can't be started, or as
        ``check_directories`` does."""
        await self.check_directories(launch.directory, launch.options)
        return await self.running.start(partial(self.memory.start, self.agents[agent]), launch, report)
