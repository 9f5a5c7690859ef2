"""One turn of an agent at a terminal, and what it has left running in the background. Pure.

The CLI names a turn by a prompt's id. What a background task reports when it ends gets an id of its own, and belongs to the
turn that began the task: that turn is over when the agent has stopped and no task runs any more.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Final

SUBAGENT: Final = "subagent"

TASK_SECONDS: Final = 600.0
"""Seconds for which a background task that is not a subagent keeps a run open after the agent has stopped. Tests and
builds are done by then; a development server never is, and must not keep the session from being finished."""

LAST_SECONDS: Final = 10.0
"""Seconds for which a run stays open after its last subagent has ended: the agent is notified within a second, and answers."""


class Turn:
    """``prompt`` is what it was begun with. ``resting``: when the agent stopped while tasks of its own ran; None: it is
    working.

    ``recorded``: its prompt was seen in the record, so that what follows there is not of before it. A copy of a conversation
    is written with its first new prompt, after the hook of that has reported.
    """

    def __init__(self, id: str, prompt: str = "", *, recorded: bool = True) -> None:
        self.id = id
        self.prompt = prompt
        self.recorded = recorded
        self.began = time.monotonic()
        self.resting: float | None = None
        self._also: set[str] = set()

    def has(self, id: str) -> bool:
        return id == self.id or id in self._also

    def take(self, id: str) -> None:
        """``id`` belongs to it as well, and the agent is working."""
        self._also.add(id)
        self.resting = None


class Background:
    """The tasks that are running, according to the hooks."""

    def __init__(self) -> None:
        self._tasks: dict[str, str] = {}
        self._changed = time.monotonic()

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def agents(self) -> Iterable[str]:
        return [id for id, type in self._tasks.items() if type == SUBAGENT]

    def set(self, tasks: Mapping[str, str]) -> None:
        self._tasks = dict(tasks)
        self._changed = time.monotonic()

    def subagent(self, agent_id: str) -> None:
        """A subagent is running."""
        self._tasks.setdefault(agent_id, SUBAGENT)

    def ended(self, id: str) -> None:
        if self._tasks.pop(id, None):
            self._changed = time.monotonic()

    @property
    def over(self) -> bool:
        """Whether a run that rests need not wait for anything here any more."""
        if self.agents:
            return False
        return time.monotonic() - self._changed > (TASK_SECONDS if self._tasks else LAST_SECONDS)
