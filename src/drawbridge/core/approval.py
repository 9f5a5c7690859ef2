"""The approval: a question of an agent that waits for a person. Pure; used by the bridge and the agent server alike.

An approval is offered to every reviewer that is there (an editor, a page, a terminal). The first valid answer wins, the
others are withdrawn, and the agent hears of it once. The agent has the last word on what it did with the answer::

    open ── answer ──▶ answered ── confirm ──▶ confirmed     the agent did what was decided
      │                    └────── overrule ─▶ overruled     the agent's own dialog, or its rules, decided otherwise
      └── withdraw ──▶ withdrawn                             taken back: decided elsewhere, replaced, the agent went
"""

from __future__ import annotations

from enum import Enum
from typing import Final, Generic, TypeVar

Answer = TypeVar("Answer")


class State(Enum):
    OPEN = "open"
    ANSWERED = "answered"
    WITHDRAWN = "withdrawn"
    CONFIRMED = "confirmed"
    OVERRULED = "overruled"


class Step(Enum):
    ANSWER = "answer"
    WITHDRAW = "withdraw"
    CONFIRM = "confirm"
    OVERRULE = "overrule"


TRANSITIONS: Final[dict[tuple[State, Step], State]] = {
    (State.OPEN, Step.ANSWER): State.ANSWERED,
    (State.OPEN, Step.WITHDRAW): State.WITHDRAWN,
    (State.ANSWERED, Step.CONFIRM): State.CONFIRMED,
    (State.ANSWERED, Step.OVERRULE): State.OVERRULED,
}
"""Every step that is possible; any other comes too late and changes nothing."""


class Approval(Generic[Answer]):
    """One question. Each step returns whether it took effect: False means that it came too late and changed nothing."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.state = State.OPEN
        self.answer_given: Answer | None = None
        self.answered_by: str | None = None
        self.reason: str | None = None

    def answer(self, by: str, answer: Answer) -> bool:
        """The reviewer ``by`` decided."""
        if not self._step(Step.ANSWER):
            return False
        self.answered_by, self.answer_given = by, answer
        return True

    def withdraw(self, reason: str) -> bool:
        """The question is taken back; ``reason`` is for people."""
        if not self._step(Step.WITHDRAW):
            return False
        self.reason = reason
        return True

    def confirm(self) -> bool:
        """The agent was seen to do what was decided."""
        return self._step(Step.CONFIRM)

    def overrule(self) -> bool:
        """The agent was seen to do something else."""
        return self._step(Step.OVERRULE)

    def _step(self, step: Step) -> bool:
        following = TRANSITIONS.get((self.state, step))
        if following is None:
            return False
        self.state = following
        return True
