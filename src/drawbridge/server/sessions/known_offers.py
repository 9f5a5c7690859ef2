"""What agents offer, as it is known before their first process reports it: their last reports, stored in files.

An agent's models, with their levels of effort, do not depend on the directory: one file has them for all projects. The
rest may come from a project's own files, so each project has a file with it. The agent's version is not stored: agents
are updated often, the next process replaces what has changed, and until then, an agent answers a command or model that
it no longer has with an error.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from functools import cached_property
from pathlib import Path
from typing import Final

import msgspec

from drawbridge.agents.base import AgentOffers
from drawbridge.core.errors import NotPrivate
from drawbridge.core.private_files import write_private

FILE: Final = "offers.json"

logger = logging.getLogger("drawbridge.server")


class KnownOffers:
    """The offers of agents by the agents' names, in a file of ``directory``. It is read when it is first needed, on the
    event loop's thread, and may be lost: if it can't be read or written, that is logged."""

    def __init__(self, directory: Path, agents: Collection[str]) -> None:
        """``agents``: the names of the server's agents; what the file contains about others is dropped."""
        self._file = directory / FILE
        self._agents = agents

    @cached_property
    def _known(self) -> dict[str, AgentOffers]:
        try:
            found = msgspec.json.decode(self._file.read_bytes(), type=dict[str, AgentOffers])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            logger.warning(
                "%s can't be read (%s); the agents' next reports replace it", self._file, type(error).__name__
            )
            return {}
        return {agent: offers for agent, offers in found.items() if agent in self._agents}

    def of(self, agent: str) -> AgentOffers:
        """What the agent offered when that was last stored; nothing if it never was."""
        return self._known.get(agent, AgentOffers())

    def store(self, agent: str, offers: AgentOffers) -> None:
        """Stores what the agent offers now, if that has changed."""
        if offers == self.of(agent):
            return
        self._known[agent] = offers
        try:
            write_private(str(self._file), msgspec.json.encode(self._known) + b"\n")
        except NotPrivate as error:
            logger.warning("what %s offers is not known after a restart: %s", agent, error)
