"""A run: one turn of an agent, from the accepted prompt to its only end. Pure.

::

    queued ─ start ▶ running ◀─ answered ─ asking
       │               │  └───── ask ─────▶  │
       │               ├─ stop ▶ stopping ◀──┤ stop
       └─── finish ────┴── finish ──┴── finish ──▶ finished
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

from drawbridge.agents.base import Attachment, Options

Outcome: TypeAlias = Literal["completed", "failed", "killed", "timeout", "interrupted"]


class State(Enum):
    QUEUED = "queued"
    RUNNING = "running"
    ASKING = "asking"
    STOPPING = "stopping"
    FINISHED = "finished"


class Step(Enum):
    START = "start"
    ASK = "ask"
    ANSWERED = "answered"
    STOP = "stop"
    FINISH = "finish"


TRANSITIONS: Final[dict[tuple[State, Step], State]] = {
    (State.QUEUED, Step.START): State.RUNNING,
    (State.RUNNING, Step.ASK): State.ASKING,
    (State.ASKING, Step.ANSWERED): State.RUNNING,
    (State.RUNNING, Step.STOP): State.STOPPING,
    (State.ASKING, Step.STOP): State.STOPPING,
    **{(state, Step.FINISH): State.FINISHED for state in State if state is not State.FINISHED},
}
"""Every step that is possible; any other comes too late and changes nothing."""


class Order(Struct, frozen=True):
    """The request: the prompt and its options."""

    run_id: str
    prompt: str
    by: str
    request_id: str | None = None
    agent: str | None = None
    options: Options | None = None
    attachments: tuple[Attachment, ...] = ()
    unprompted: bool = False
    """The agent began it by itself; ``prompt`` is empty."""


class Run:
    """The state of a run. Each step returns whether it took effect."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.state = State.QUEUED
        self.stopped_as: Outcome | None = None
        """The reason for which it is being stopped; None before."""
        self.stopped_for: dict[str, Any] | None = None
        """The error that it is stopped for, if there is one: ``code`` and ``message``."""
        self.outcome: Outcome | None = None
        self.started_at = 0.0
        """Seconds on the monotonic clock."""

    @property
    def id(self) -> str:
        return self.order.run_id

    def start(self, now: float) -> bool:
        self.started_at = now
        return self._step(Step.START)

    def ask(self) -> bool:
        return self._step(Step.ASK)

    def answered(self) -> bool:
        """The last open approval of this run was resolved or withdrawn."""
        return self._step(Step.ANSWERED)

    def stop(self, reason: Outcome, error: dict[str, Any] | None = None) -> bool:
        """Stops it early; the first reason counts, but a kill overrides an interrupt that had no effect."""
        harder = self.state is State.STOPPING and (self.stopped_as, reason) == ("interrupted", "killed")
        if not self._step(Step.STOP) and not harder:
            return False
        self.stopped_as, self.stopped_for = reason, error
        return True

    def finish(self, outcome: Outcome) -> bool:
        """It has ended: by ``outcome``, or as what it was stopped for."""
        if not self._step(Step.FINISH):
            return False
        self.outcome = self.stopped_as or outcome
        return True

    def _step(self, step: Step) -> bool:
        following = TRANSITIONS.get((self.state, step))
        if following is None:
            return False
        self.state = following
        return True
