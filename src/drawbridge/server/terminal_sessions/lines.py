"""How an agent at a desk is reached, which has asked something."""

from __future__ import annotations

from typing import Protocol

from drawbridge.agents.base import Decision
from drawbridge.server.sessions.questions import Asked


class Line(Protocol):
    """One way in which a question was heard of: the agent is reached by it."""

    pid: int | None
    in_editor: bool
    """The question is shown in an editor anyway."""
    question: str
    """What the question is known by when it is heard of again, from another connection; empty: it is not."""

    def answer(self, asked: Asked, decision: Decision, by: str) -> None: ...

    def settled(self) -> None:
        """The question is no more."""
        ...


class Awaited:
    """Stands for who has asked before a restart and is to come again."""

    question = ""

    def __init__(self, pid: int | None) -> None:
        self.pid = pid
        self.in_editor = pid is None  # only a bridge asks for who has no process known

    def answer(self, asked: Asked, decision: Decision, by: str) -> None:
        pass  # it hears of it when it comes

    def settled(self) -> None:
        pass
