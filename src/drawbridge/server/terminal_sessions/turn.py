"""One turn of an agent in a terminal, and what it left running in the background. Pure.

The CLI identifies a turn by the id of a prompt. When a background task ends, the CLI sends the agent a prompt with a
new id. That prompt belongs to the turn that began the task. The turn is over when the agent has stopped and no task is
left running.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import islice
from typing import Final, TypeAlias

from drawbridge.agents import base
from drawbridge.agents.terminal import SUBAGENT, Task

TASK_SECONDS: Final = 600.0
"""Seconds for which background tasks that are not subagents keep a run open after the agent has stopped, or after
another task has ended. Tests and builds are done by then. A development server never ends on its own, and must not keep
the run open forever. After a restart, the limit also applies to a subagent until a hook reports it, because it may have
ended while no server ran."""

LAST_SECONDS: Final = 10.0
"""Seconds for which a run stays open after its last background task has ended. Within a second, the CLI notifies the
agent, which then continues the run."""


MOST_TASKS: Final = 100
"""The maximum number of background tasks that are shown to clients or stored."""


Clock: TypeAlias = Callable[[], float]
"""The type of a function that returns the time in seconds since an arbitrary moment, as ``time.monotonic`` does."""


class Turn:
    """One turn of an agent. ``prompt``: the prompt that began it. ``process``: the PID of the agent's process that works
    on it; None if it is not known.

    ``recorded``: whether its prompt was found in the transcript, so that what follows there belongs to this turn.
    (A copy of a conversation is written together with its first new prompt, after that prompt's hook has reported.)

    ``reported``: whether a hook has reported it to this server, so that a hook will also report its end.
    """

    def __init__(
        self,
        id: str,
        clock: Clock,
        prompt: str = "",
        *,
        process: int | None = None,
        recorded: bool = True,
        reported: bool = True,
        age: float = 0.0,
    ) -> None:
        """``age``: seconds since it began."""
        self.id = id
        self.prompt = prompt
        self.process = process
        self.recorded = recorded
        self.reported = reported
        self.is_resting = False
        """Whether the agent has stopped while its background tasks were running."""
        self._clock = clock
        self.began = clock() - age
        self._also: set[str] = set()

    @property
    def age(self) -> float:
        """Seconds since it began."""
        return self._clock() - self.began

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the prompts that belong to it, except its own, in alphabetical order."""
        return tuple(sorted(self._also - {self.id}))

    def has(self, id: str) -> bool:
        return id == self.id or id in self._also

    def add(self, id: str) -> None:
        """Adds a prompt's id to the turn, because the agent is working on that prompt."""
        self._also.add(id)
        self.is_resting = False

    def continued(self, process: int | None, prompt: str, *, reported: bool) -> None:
        """Updates the turn, because the agent is working on it. An argument is used only if its value is not known yet.
        ``process`` always replaces the earlier one, unless it is None."""
        self.reported = self.reported or reported
        self.prompt = self.prompt or prompt
        self.process = process or self.process

    def found(self) -> None:
        """Marks its prompt as found in the transcript."""
        self.recorded = True

    def rest(self) -> None:
        """Marks the turn as resting, because the agent has stopped while its background tasks are running."""
        self.is_resting = True


class Background:
    """The tasks of a process that are running, according to its hooks. ``is_complete``: whether its hooks report all of
    them when it stops. Otherwise, the end of a subagent may not be reported, for example if its request to the model
    has failed, and ``TASK_SECONDS`` applies to subagents, too."""

    def __init__(self, clock: Clock, *, is_complete: bool = True) -> None:
        self._clock = clock
        self._is_complete = is_complete
        self._tasks: dict[str, Task] = {}
        self._carried: set[str] = set()
        """The ids of the tasks that were running before a restart, and that no hook has reported since."""
        self._changed = self._clock()

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def ids(self) -> Collection[str]:
        return self._tasks.keys()

    @property
    def shown(self) -> tuple[base.Task, ...]:
        """The tasks as clients see them, at most ``MOST_TASKS``."""
        return tuple(task.shown for task in self._tasks.values())[:MOST_TASKS]

    @property
    def stored(self) -> tuple[Task, ...]:
        """The tasks as they are stored for a restart, at most ``MOST_TASKS``."""
        return tuple(task.stored for task in islice(self._tasks.values(), MOST_TASKS))

    def set(self, tasks: Mapping[str, Task]) -> None:
        self._tasks = dict(tasks)
        self._carried.clear()
        self._changed = self._clock()

    def carry(self, tasks: Iterable[Task]) -> None:
        """Sets the tasks that were running before a restart. Each may have ended since."""
        self.set({task.id: task for task in tasks})
        self._carried.update(self._tasks)

    def forget_carried(self) -> None:
        """Forgets the tasks that were running before a restart, and that no hook has reported since."""
        for id in self._carried:
            self._tasks.pop(id, None)
        self._carried.clear()

    def add_subagent(self, agent_id: str, agent_type: str | None = None) -> None:
        """Adds a subagent that is running."""
        self._tasks.setdefault(agent_id, Task(agent_id, SUBAGENT, agent_type=agent_type))
        self._carried.discard(agent_id)
        if not self._is_complete:
            self._changed = self._clock()

    def remove(self, id: str) -> None:
        if self._tasks.pop(id, None):
            self._changed = self._clock()

    @property
    def is_over(self) -> bool:
        """Whether a resting run no longer has to wait for any of these tasks."""
        lasting = self._tasks if self._is_complete else ()
        if any(self._tasks[id].type == SUBAGENT and id not in self._carried for id in lasting):
            return False
        return self._clock() - self._changed > (TASK_SECONDS if self._tasks else LAST_SECONDS)
