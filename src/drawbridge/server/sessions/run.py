"""A run, which is one turn of an agent from the accepted prompt to its end. Pure.

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
from drawbridge.server.protocol.messages import PromptFile, PromptImage, Submission

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
"""Every step that is possible; any other step changes nothing."""


class Order(Struct, frozen=True):
    """A request for a run: the prompt and its options."""

    run_id: str
    prompt: str
    by: str
    client_id: str = ""
    """The id of the connection that sent the prompt; empty if the server sends the prompt again, or the agent began the
    turn without one."""
    request_id: str | None = None
    agent: str | None = None
    options: Options | None = None
    wishes: frozenset[str] = frozenset()
    """The names of the options that were chosen for this prompt alone."""
    attachments: tuple[Attachment, ...] = ()
    images: tuple[PromptImage, ...] = ()
    """The attached images that are stored beside the history."""
    files: tuple[PromptFile, ...] = ()
    """The attachments that are stored for the agent."""
    review: Submission | None = None
    """The review comments that the prompt sends to the agent; None for other prompts."""
    unprompted: bool = False
    """Whether the agent began the turn without a prompt; ``prompt`` is empty then."""


class Run:
    """The state of a run. Each step returns whether it took effect."""

    def __init__(self, order: Order, seq: int = 0) -> None:
        """``seq``: the number of the record that contains its prompt; 0 if no record does."""
        self.order = order
        self.seq = seq
        self.state = State.QUEUED
        self.stopped_as: Outcome | None = None
        """The outcome that the run gets because it is being stopped; None if it is not being stopped."""
        self.stopped_for: dict[str, Any] | None = None
        """The error for which the run is being stopped, if there is one: ``code`` and ``message``."""
        self.outcome: Outcome | None = None
        self.elsewhere: str | None = None
        """The directory in which the agent has worked, if changes in it are not changes to the project."""
        self.started_at = 0.0
        """When the run started, in seconds on the monotonic clock; 0 if it has not started."""

    @property
    def id(self) -> str:
        return self.order.run_id

    def start(self, now: float) -> bool:
        self.started_at = now
        return self._step(Step.START)

    def worked_in(self, elsewhere: str | None) -> None:
        """Notes where the agent works. ``elsewhere``: a directory in which changes are not changes to the project; None
        for any other directory."""
        self.elsewhere = elsewhere or self.elsewhere

    def ask(self) -> bool:
        return self._step(Step.ASK)

    def answered(self) -> bool:
        """Continues the run after its last open approval request was resolved or withdrawn."""
        return self._step(Step.ANSWERED)

    def stop(self, reason: Outcome, error: dict[str, Any] | None = None) -> bool:
        """Stops the run early. The first reason counts, but a kill overrides an interrupt that has had no effect
        yet."""
        harder = self.state is State.STOPPING and (self.stopped_as, reason) == ("interrupted", "killed")
        if not self._step(Step.STOP) and not harder:
            return False
        self.stopped_as, self.stopped_for = reason, error
        return True

    def finish(self, outcome: Outcome) -> bool:
        """Ends the run with ``outcome``, or with the outcome that it was stopped with."""
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
