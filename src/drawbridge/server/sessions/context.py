"""What all sessions share: limits, the agents, the slots for runs, the idle processes, and the function that publishes
events."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct

from drawbridge.agents.base import Agent, AgentProcess, AgentUnusable, Confinement, Event, Launch, Options
from drawbridge.agents.memory import MemoryWatch
from drawbridge.server.approvals.editors import Editors
from drawbridge.server.checkpoints.unsaved import FindUnsaved
from drawbridge.server.events import Announced
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.sessions.audience import Audience
from drawbridge.server.sessions.ceilings import Budgets, Ceilings, check_hours, mode_fits, reported_mode_fits, within
from drawbridge.server.sessions.disk import Disk, Sizes
from drawbridge.server.sessions.known_offers import KnownOffers
from drawbridge.server.sessions.metrics import RunMetrics
from drawbridge.server.sessions.places import Places
from drawbridge.server.sessions.processes import IdlePool, Running


class Limits(Struct, frozen=True):
    """Limits that the owner sets. Times are in seconds."""

    projects: int = 100
    runs_at_once: int = 4
    queue: int = 20
    idle_seconds: float = 300.0
    """A run is stopped after this many seconds without output from the agent. Time in which a person is being asked
    does not count."""
    total_seconds: float | None = None
    warm_processes: int = 4
    checkpoints: bool = True
    """Whether a checkpoint is taken before and after each run."""
    warm_seconds: float = 1800.0
    memory_bytes: int | None = None
    """The maximum resident memory of one agent process and everything that it has started, in bytes; None for no
    limit."""
    confinement: Confinement = Confinement()
    sizes: Sizes = Sizes()
    continue_limited: bool = False
    """Whether a run that was stopped by a limit of its agent's account continues automatically when the limit
    resets."""


class Slots:
    """The slots for simultaneous runs, assigned in the order of the requests."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: deque[Callable[[], None]] = deque()

    def take(self, go: Callable[[], None]) -> Callable[[], None]:
        """Calls ``go`` once a slot is free (now or later). Returns a function that withdraws the request; it does
        nothing once ``go`` has been called."""
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


class Context:
    """The context of one server. ``publish`` passes an event to its receivers. ``audience``: the clients that have
    joined a session or follow a topic."""

    def __init__(
        self,
        agents: Mapping[str, Agent],
        limits: Limits,
        ceilings: Ceilings,
        data: Path,
        roots: Sequence[Path],
        publish: Callable[[Announced], None],
        audience: Audience,
        metrics: RunMetrics,
        editors: Editors,
        find_unsaved: FindUnsaved,
    ) -> None:
        self.agents = agents
        self.limits = limits
        self.ceilings = ceilings
        self.places = Places(roots, data)
        self.publish = publish
        self.audience = audience
        self.metrics = metrics
        self.editors = editors
        self.find_unsaved = find_unsaved
        self.running = Running(data)
        self.disk = Disk(data, limits.sizes, publish)
        self.models = KnownOffers(data, agents)
        """Only the models of each agent, as it last reported them in any project."""
        self.memory = MemoryWatch(limits.memory_bytes)
        self.budgets = Budgets(ceilings.project_budget_usd, ceilings.day_budget_usd)
        self.slots = Slots(limits.runs_at_once)
        self.idle = IdlePool(limits.warm_processes, limits.warm_seconds)
        self.at_work: dict[str, Callable[[ClientError], None]] = {}
        """Project id → the function that stops the project's run, if there is one."""

    async def start(self, agent: str, launch: Launch, report: Callable[[Event], None]) -> AgentProcess:
        """Starts an agent process, records it in case of a crash, and watches its memory. When the process has exited,
        the caller has to call ``running.ended``. Raises ``AgentUnusable`` if the agent can't be started, or may not run
        in the directory: the directory may have been moved or replaced since the run was accepted."""
        problem = self.places.problem(Path(launch.directory))
        if problem is not None:
            raise AgentUnusable("INVALID_PATH", problem)
        return await self.running.start(partial(self.memory.start, self.agents[agent]), launch, report)

    def asks(self, agent: str) -> bool:
        """Whether the agent with that name can ask for approval; True if the server does not have that agent."""
        return agent not in self.agents or self.agents[agent].asks

    def allows(self, mode: str, agent: str) -> bool:
        """Whether the owner allows the mode that the agent reports."""
        return reported_mode_fits(self.ceilings, mode, own_modes=self.has_own_modes(agent))

    def offers(self, mode: str, agent: str) -> bool:
        """Whether clients may choose that mode for the agent."""
        return mode_fits(self.ceilings, mode, own_modes=self.has_own_modes(agent))

    def has_own_modes(self, agent: str) -> bool:
        return agent in self.agents and self.agents[agent].own_modes

    def within(self, options: Options, agent: str) -> Options:
        """Applies the owner's ceilings to options for the agent with that name. Raises ``ClientError``."""
        own_modes = self.has_own_modes(agent)
        return within(self.ceilings, options, datetime.now(), self.places.usable, own_modes=own_modes)

    def granted(self, directory: str, options: Options) -> Options:
        """The options with which a run may begin now: their budget is at most what is left of the owner's budgets.
        Raises ``ClientError`` if agents may not run in this directory or at this hour, or if a budget is used up."""
        self.check_place(Path(directory))
        now = datetime.now()
        check_hours(self.ceilings, now)
        left = self.budgets.left(directory, now)
        if left is None:
            return options
        asked = options.max_budget_usd
        return msgspec.structs.replace(options, max_budget_usd=left if asked is None else min(asked, left))

    def check_place(self, path: Path) -> None:
        """Raises ``ClientError`` if the project's directory may not be used now."""
        problem = self.places.problem(path)
        if problem is not None:
            raise ClientError("INVALID_PATH", problem)

    def spend(self, directory: str, amount: float) -> None:
        """Counts the cost of a run that has ended. If this uses up the day's budget, all active runs are stopped."""
        now = datetime.now()
        self.budgets.spend(directory, amount, now)
        try:
            self.budgets.left("", now)
        except ClientError as error:
            for stop in list(self.at_work.values()):
                stop(error)
