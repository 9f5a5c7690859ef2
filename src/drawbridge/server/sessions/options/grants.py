"""Applies what the owner allows now (the ceilings, the directories and the budgets) to the server's agents."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import msgspec

from drawbridge.agents.base import Agent, Options
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.sessions.directories.allowed_directories import AllowedDirectories
from drawbridge.server.sessions.options.ceilings import (
    Budgets,
    Ceilings,
    check_hours,
    mode_fits,
    reported_mode_fits,
    within,
)


class Grants:
    """The owner's permissions for the server's agents. ``agents``: the agents by name."""

    def __init__(self, agents: Mapping[str, Agent], ceilings: Ceilings, directories: AllowedDirectories) -> None:
        self.agents = agents
        self.ceilings = ceilings
        self.directories = directories
        self.budgets = Budgets(ceilings.project_budget_usd, ceilings.day_budget_usd)

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
        """Applies the owner's ceilings to options for the agent with that name. Raises ``ClientError``. Blocks if the
        options contain additional directories."""
        own_modes = self.has_own_modes(agent)
        return within(self.ceilings, options, datetime.now(), self.directories.usable, own_modes=own_modes)

    async def resolved(self, options: Options, agent: str) -> Options:
        """Like ``within``, but does not block, and resolves links in the additional directories now, so that a link that
        is changed while the run waits does not lead the run elsewhere."""
        if not options.add_dirs:
            return self.within(options, agent)

        def found() -> Options:
            allowed = self.within(options, agent)
            directories = tuple(str(Path(path).resolve()) for path in allowed.add_dirs)
            return msgspec.structs.replace(allowed, add_dirs=directories)

        return await asyncio.to_thread(found)

    def still_within(self, options: Options, agent: str) -> Options:
        """Applies the owner's ceilings again, to options that ``within`` has returned before. The additional
        directories are not examined. ``AgentProcesses.check_directories`` does that. Raises ``ClientError``."""
        own_modes = self.has_own_modes(agent)
        return within(self.ceilings, options, datetime.now(), lambda path: True, own_modes=own_modes)

    def granted(self, directory: str, options: Options) -> Options:
        """The options with which a run may begin now. Their budget is at most what is left of the owner's budgets.
        Raises ``ClientError`` if no run may begin at this hour, or if a budget is used up."""
        now = datetime.now()
        check_hours(self.ceilings, now)
        left = self.budgets.left(directory, now)
        if left is None:
            return options
        asked = options.max_budget_usd
        return msgspec.structs.replace(options, max_budget_usd=left if asked is None else min(asked, left))

    async def check_directory(self, path: Path) -> None:
        """Raises ``ClientError`` if the project's directory may not be used now."""
        problem = await self.directories.examine(path)
        if problem is not None:
            raise ClientError("INVALID_PATH", problem)

    def spend(self, directory: str, amount: float) -> ClientError | None:
        """Counts the cost of a run that has ended. Returns the error with which all active runs have to be stopped if
        the day's budget is used up; otherwise None."""
        now = datetime.now()
        self.budgets.spend(directory, amount, now)
        try:
            self.budgets.left("", now)
        except ClientError as error:
            return error
        return None
