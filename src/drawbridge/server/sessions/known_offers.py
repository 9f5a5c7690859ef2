"""What agents offer, as it is known before their first process reports it: their last reports, stored in files.

An agent's models, with their levels of effort, do not depend on the directory: one file has them for all projects. The
rest may come from a project's own files, so each project has a file with it. The agent's version is not stored: agents
are updated often, the next process replaces what has changed, and until then, an agent answers a command or model that
it no longer has with an error.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from pathlib import Path
from typing import Final

import msgspec

from drawbridge.agents.base import AgentOffers
from drawbridge.core.errors import NotPrivate
from drawbridge.core.private_files import write_private

FILE: Final = "offers.json"

logger = logging.getLogger("drawbridge.server")


class KnownOffers:
    """The offers of agents by the agents' names, in a file of ``directory``. It may be lost: if it can't be read or
    written, that is logged."""

    def __init__(self, directory: Path, agents: Collection[str]) -> None:
        """Reads the file; blocking. ``agents``: the names of the server's agents; what the file contains about others is
        ignored, and dropped the next time it is written."""
        self._file = directory / FILE
        self._agents = agents
        self._known = self._read()

    def _read(self) -> dict[str, AgentOffers]:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=dict[str, AgentOffers])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            logger.warning(
                "%s can't be read (%s); the agents' next reports replace it", self._file, type(error).__name__
            )
            return {}

    def of(self, agent: str) -> AgentOffers:
        """What the agent offered when that was last stored; nothing if it never was."""
        return self._known.get(agent, AgentOffers()) if agent in self._agents else AgentOffers()

    def store(self, agent: str, offers: AgentOffers) -> None:
        """Stores what the agent offers now, if that has changed."""
        if offers == self.of(agent):
            return
        self._known[agent] = offers
        self._known = {name: known for name, known in self._known.items() if name in self._agents}
        try:
            write_private(str(self._file), msgspec.json.encode(self._known) + b"\n")
        except NotPrivate as error:
            logger.warning("what %s offers is not known after a restart: %s", agent, error)
