"""A surface: where an approval is shown besides the clients, or waited for, and where its decision has to arrive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from drawbridge.agents.base import Decision
from drawbridge.server.approvals.pending import PendingApproval


class Surface(Protocol):
    """The agent's process, a hook that waits, or the editor that the agent itself has opened. ``pid``: the agent's process."""

    pid: int | None
    in_editor: bool
    """Whether this surface itself shows the approval in an editor."""
    known_as: str
    """A key that recognises the question when another connection reports it again; empty if it can't be recognised."""

    def decided(self, approval: PendingApproval, decision: Decision, by: str) -> None:
        """The agent receives the decision by this surface."""
        ...

    def closed(self) -> None:
        """Nobody needs the decision any more, or the agent has received it by another surface."""
        ...


class AgentSurface:
    """A process of Drawbridge (a hook, a bridge) that waits: ``answer`` sends it the decision."""

    pid: int | None = None
    in_editor = False
    known_as = ""

    def __init__(self, answer: Callable[[PendingApproval, Decision], None]) -> None:
        self._answer = answer

    def decided(self, approval: PendingApproval, decision: Decision, by: str) -> None:
        self._answer(approval, decision)

    def closed(self) -> None:
        """The process is stopped or interrupted by other means, or does not wait any more."""


class ExpectedSurface:
    """Represents a hook or an editor that asked before a restart, and is expected to report again."""

    known_as = ""

    def __init__(self, pid: int | None) -> None:
        self.pid = pid
        self.in_editor = pid is None  # only a bridge asks for an agent whose process is not known

    def decided(self, approval: PendingApproval, decision: Decision, by: str) -> None:
        """The surface receives the decision when it reports again."""

    def closed(self) -> None:
        pass
