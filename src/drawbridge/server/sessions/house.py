"""What all projects share: limits, the agents, the slots for runs, the warm processes, and who hears of everything."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Struct

from drawbridge.agents.base import Agent, AgentProcess, AgentUnusable, Confinement, Event, Launch, Options
from drawbridge.server.protocol import messages
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.messages import DiskWarning
from drawbridge.server.protocol.subscriber import Frame, Subscriber, one_by_one
from drawbridge.server.sessions.budgets import Budgets
from drawbridge.server.sessions.ceilings import Ceilings, check_hours, mode_fits, reported_mode_fits
from drawbridge.server.sessions.disk import Disk, Sizes
from drawbridge.server.sessions.memory import MemoryWatch
from drawbridge.server.sessions.metrics import Metrics
from drawbridge.server.sessions.orphans import Running
from drawbridge.server.sessions.reviewers import Reviewers
from drawbridge.server.sessions.terminals import Terminals
from drawbridge.server.sessions.warm import Warm


class Limits(Struct, frozen=True):
    """Numbers that the owner sets. Seconds where it is a time."""

    projects: int = 100
    runs_at_once: int = 4
    queue: int = 20
    idle_seconds: float = 300.0
    """Without any output of the agent; stands still while a person is asked."""
    total_seconds: float | None = None
    warm_processes: int = 4
    checkpoints: bool = True
    """What the files are is kept before and after each run, where they are in a git work tree."""
    warm_seconds: float = 1800.0
    memory_bytes: int | None = None
    """Of one agent with all that it started, resident."""
    confinement: Confinement = Confinement()
    sizes: Sizes = Sizes()
    continue_limited: bool = False
    """A run that a limit of its agent's account has stopped goes on by itself when that is lifted."""


class Slots:
    """How many runs there may be at once; who comes first is served first."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: deque[Callable[[], None]] = deque()

    def take(self, go: Callable[[], None]) -> Callable[[], None]:
        """Calls ``go`` once there is a slot (now, or later); what is returned takes the wish back."""
        if self._free:
            self._free -= 1
            go()
            return lambda: None
        self._waiting.append(go)
        return lambda: self._waiting.remove(go) if go in self._waiting else None

    def give_back(self) -> None:
        if self._waiting:
            self._waiting.popleft()()
        else:
            self._free += 1


class AtWork(Protocol):
    """A project with a run."""

    def stop_for(self, error: ClientError) -> None: ...


class House:
    """One server's."""

    def __init__(self, agents: Mapping[str, Agent], limits: Limits, ceilings: Ceilings, data: Path) -> None:
        self.agents = agents
        self.limits = limits
        self.ceilings = ceilings
        self.running = Running(data)
        self.disk = Disk(data, limits.sizes)
        self.disk.warned = self._disk_warning
        self.memory = MemoryWatch(limits.memory_bytes)
        self.budgets = Budgets(ceilings.project_budget_usd, ceilings.day_budget_usd)
        self.metrics = Metrics()
        self.reviewers = Reviewers()
        self.terminals = Terminals()
        self.at_work: dict[str, AtWork] = {}
        self.slots = Slots(limits.runs_at_once)
        self.warm = Warm(limits.warm_processes, limits.warm_seconds)
        self.broadcast: Callable[[Sequence[Subscriber], Frame], None] = one_by_one
        """How a frame goes to many; who owns the sockets has a quicker way."""
        self.heard: Callable[[Frame, Path], None] = lambda frame, directory: None
        """Gets what is told to who follows a topic, with the project's directory: for people who look at no page."""
        self.note: Callable[..., None] = lambda event, **fields: None
        """Into the audit, for what no client has just asked for."""
        self.within: Callable[[Options, str], Options] = lambda options, agent: options
        """Applies the owner's ceilings to options for the agent of that name; raises ``ClientError``. The part that
        knows the directories sets it."""
        self.problem_of: Callable[[Path], str | None] = lambda path: None
        """Why no agent may run in a project's directory now. Set by what knows the allowed directories."""
        self.topics: dict[str, dict[str, Subscriber]] = {"projects": {}, "approvals": {}}
        self.open_in_terminal: Callable[[str], bool] = lambda session_id: False
        """Whether a conversation is open in a terminal of this machine, as its hooks have reported; the desk sets it."""

    async def start(self, agent: str, launch: Launch, heard: Callable[[Event], None]) -> AgentProcess:
        """Starts an agent's process, which is recorded in case of a crash, and watched. The directory may have changed since
        the run was accepted."""
        problem = self.problem_of(Path(launch.directory))
        if problem is not None:
            raise AgentUnusable("INVALID_PATH", f"{problem} Nothing was started.")
        return await self.running.start(partial(self.memory.start, self.agents[agent]), launch, heard)

    def asks(self, agent: str) -> bool:
        """Whether the agent of that name can ask people."""
        return agent not in self.agents or self.agents[agent].asks

    def allows(self, mode: str, agent: str) -> bool:
        """Whether that agent may be in the mode that it reports."""
        return reported_mode_fits(self.ceilings, mode, own_modes=self._has_own_modes(agent))

    def offers(self, mode: str, agent: str) -> bool:
        """Whether a client may choose that mode of the agent's."""
        return mode_fits(self.ceilings, mode, own_modes=self._has_own_modes(agent))

    def _has_own_modes(self, agent: str) -> bool:
        return agent in self.agents and self.agents[agent].own_modes

    def granted(self, directory: str, options: Options) -> Options:
        """What a run may begin with at this moment. Raises ``ClientError``: not in this directory, out of hours, or out of
        budget."""
        self.check_place(Path(directory), "Nothing was started.")
        now = datetime.now()
        check_hours(self.ceilings, now)
        left = self.budgets.left(directory, now)
        if left is None:
            return options
        asked = options.max_budget_usd
        return msgspec.structs.replace(options, max_budget_usd=left if asked is None else min(asked, left))

    def check_place(self, path: Path, undone: str) -> None:
        """Raises ``ClientError`` where nothing may be done in a project's directory now. ``undone``: its last sentence."""
        problem = self.problem_of(path)
        if problem is not None:
            raise ClientError("INVALID_PATH", f"{problem} {undone}")

    def spend(self, directory: str, amount: float) -> None:
        """A run has cost so much. Where that was the day's last, the others are stopped."""
        now = datetime.now()
        self.budgets.spend(directory, amount, now)
        try:
            self.budgets.left("", now)
        except ClientError as error:
            for project in list(self.at_work.values()):
                project.stop_for(error)

    def _disk_warning(self, warning: DiskWarning, project_id: str | None, directory: str) -> None:
        frame = Frame(messages.update("disk_warning", warning, project_id), project_id=project_id)
        self.tell("projects", frame, Path(directory), {})

    def tell(self, topic: str, frame: Frame, path: Path, besides: Mapping[str, Subscriber]) -> None:
        """Everybody who follows ``topic`` and may know of the project at ``path``, but those who hear it anyway."""
        followers = [one for id, one in self.topics[topic].items() if id not in besides]
        self.broadcast([one for one in followers if one.sees(path)], frame)
        self.heard(frame, path)
