"""The approval request: a question from an agent that waits for a person. Does no I/O. The bridge and the agent server
use it.

A request is offered on every available surface (an editor, the web UI, a terminal). The first valid decision wins, the
request is closed on the other surfaces, and the agent receives the decision once. What the agent then does may confirm
or overrule the decision. ``TABLE`` contains every state and every step, and ``picture`` draws them.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, Generic, NamedTuple, TypeVar

Decision = TypeVar("Decision")


class State(Enum):
    OPEN = "open"
    DECIDED = "decided"
    WITHDRAWN = "withdrawn"
    CONFIRMED = "confirmed"
    OVERRULED = "overruled"


class Step(Enum):
    DECIDE = "decide"
    WITHDRAW = "withdraw"
    CONFIRM = "confirm"
    OVERRULE = "overrule"


class Transition(NamedTuple):
    """One possible step. ``meaning``: what has happened, for readers of the documentation."""

    before: State
    step: Step
    after: State
    meaning: str


TABLE: Final = (
    Transition(State.OPEN, Step.DECIDE, State.DECIDED, "a person decides"),
    Transition(State.OPEN, Step.WITHDRAW, State.WITHDRAWN, "the decision is no longer needed"),
    Transition(State.DECIDED, Step.CONFIRM, State.CONFIRMED, "the agent does what was decided"),
    Transition(State.DECIDED, Step.OVERRULE, State.OVERRULED, "the agent's own dialog or rules decide otherwise"),
)
"""Every possible step. Any other step changes nothing."""

TRANSITIONS: Final = {(row.before, row.step): row.after for row in TABLE}


def picture() -> str:
    """The table as a state diagram (Mermaid)."""
    rows = [f"    {row.before.value} --> {row.after.value}: {row.meaning}" for row in TABLE]
    return "\n".join(["stateDiagram-v2", f"    [*] --> {State.OPEN.value}", *rows])


class Approval(Generic[Decision]):
    """One approval request. The method of each step returns whether the step took effect; False means that it is not
    possible in the current state and changed nothing."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.state = State.OPEN
        self.decision: Decision | None = None
        self.decided_by: str | None = None
        self.reason: str | None = None
        """The reason for the withdrawal; None if the request was not withdrawn."""

    def decide(self, by: str, decision: Decision) -> bool:
        """Records the decision. ``by``: the person or the surface that decided."""
        if not self._step(Step.DECIDE):
            return False
        self.decided_by, self.decision = by, decision
        return True

    def withdraw(self, reason: str) -> bool:
        """Withdraws the request, because the decision is no longer needed. ``reason``: text for the user."""
        if not self._step(Step.WITHDRAW):
            return False
        self.reason = reason
        return True

    def confirm(self) -> bool:
        """Records that the agent has done what was decided."""
        return self._step(Step.CONFIRM)

    def overrule(self) -> bool:
        """Records that the agent has done something else."""
        return self._step(Step.OVERRULE)

    def _step(self, step: Step) -> bool:
        following = TRANSITIONS.get((self.state, step))
        if following is None:
            return False
        self.state = following
        return True
