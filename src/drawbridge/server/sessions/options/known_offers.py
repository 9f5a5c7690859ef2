"""Stores what agents offer, as they last reported it, so that it is known before their next process reports it.

An agent's models, with their levels of effort, do not depend on the directory, so one file contains them for all
projects. Everything else may depend on the project, so each project has its own file. The agent's version is not
stored, because agents are updated often, and the next process replaces what has changed. Until then, an agent answers a
command or model that it no longer has with an error.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

import msgspec

from drawbridge.agents.base import AgentOffers
from drawbridge.core.errors import NotPrivate
from drawbridge.core.json_text import UNDECODABLE
from drawbridge.core.private_files import write_private
from drawbridge.core.tasks import BackgroundTasks

FILE: Final = "offers.json"

logger = logging.getLogger("drawbridge.server")


class KnownOffers:
    """The offers of each agent, by the agent's name, in a file in ``directory``. If the file can't be read or written,
    that is only logged."""

    def __init__(self, directory: Path, agents: Collection[str]) -> None:
        """Reads the file. Blocking. ``agents``: the names of the server's agents. What the file contains about other
        agents is ignored, and dropped the next time the file is written."""
        self._file = directory / FILE
        self._agents = agents
        self._known = self._read()
        self._tasks = BackgroundTasks(logger)
        self._is_written = True
        self._is_writing = False

    def _read(self) -> dict[str, AgentOffers]:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=dict[str, AgentOffers])
        except FileNotFoundError:
            return {}
        except (OSError, *UNDECODABLE) as error:
            logger.warning(
                "%s can't be read (%s); it will be written again when an agent next reports what it offers",
                self._file,
                type(error).__name__,
            )
            return {}

    def of(self, agent: str) -> AgentOffers:
        """The offers that were last stored for the agent; empty if none were stored."""
        return self._known.get(agent, AgentOffers()) if agent in self._agents else AgentOffers()

    def store(self, agent: str, offers: AgentOffers) -> None:
        """Stores what the agent offers now, if that has changed. The file is written in a thread."""
        if offers == self.of(agent):
            return
        self._known[agent] = offers
        self._known = {name: known for name, known in self._known.items() if name in self._agents}
        self._is_written = False
        if not self._is_writing:
            self._is_writing = True
            self._tasks.start(self._write(), f"writing {self._file}")

    async def close(self) -> None:
        """Returns when the file contains everything that was stored."""
        await self._tasks.wait()

    async def _write(self) -> None:
        """Writes the file until it contains the latest offers."""
        try:
            while not self._is_written:
                self._is_written = True
                with _logged():
                    await asyncio.to_thread(write_private, str(self._file), msgspec.json.encode(self._known) + b"\n")
        finally:
            self._is_writing = False


@contextlib.contextmanager
def _logged() -> Iterator[None]:
    try:
        yield
    except NotPrivate as error:
        logger.warning("what agents offer will not be known after a restart: %s", error)
