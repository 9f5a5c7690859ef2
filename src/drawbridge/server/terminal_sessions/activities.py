"""What the server knows about each process of a terminal session besides the current turn: background tasks, questions
in the terminal, and clients' decisions whose effect is not known yet.
"""

from __future__ import annotations

from collections.abc import Iterator

from drawbridge.agents import base
from drawbridge.agents.proposals import Reader
from drawbridge.agents.terminal import AskingAgent
from drawbridge.server.approvals.pending import PendingApproval
from drawbridge.server.terminal_sessions.dialog import Outcomes, TerminalOnly
from drawbridge.server.terminal_sessions.turn import MOST_TASKS, Background


class Activity:
    """The background tasks of one process, its questions in the terminal, and clients' decisions on its questions."""

    def __init__(self, agent: AskingAgent, read: Reader) -> None:
        self.background = Background(is_complete=agent.reports_tasks)
        self.terminal_only = TerminalOnly(agent)
        self.outcomes = Outcomes(agent, read)

    def forget_tasks(self) -> None:
        """Forgets the background tasks, and what they ask in the terminal. The main agent is not working."""
        self.background.set({})
        self.terminal_only.only(())


class Activities:
    """The activities of a session's processes. ``read``: the function that reads a file."""

    def __init__(self, agent: AskingAgent, read: Reader) -> None:
        self._agent = agent
        self._read = read
        self._of: dict[int | None, Activity] = {}

    def __iter__(self) -> Iterator[Activity]:
        return iter(list(self._of.values()))

    def of(self, pid: int | None) -> Activity:
        """The activity of the process ``pid`` (None if it is not known); it is created if it does not exist yet."""
        if pid not in self._of:
            self._of[pid] = Activity(self._agent, self._read)
        return self._of[pid]

    @property
    def asks_in_terminal(self) -> bool:
        """Whether a process is asking something that can be answered only in its own dialog."""
        return any(one.terminal_only for one in self)

    @property
    def running(self) -> int:
        """The number of background tasks."""
        return sum(len(one.background) for one in self)

    @property
    def shown(self) -> tuple[base.Task, ...]:
        """The background tasks as clients see them, at most ``MOST_TASKS``."""
        return tuple(task for one in self for task in one.background.shown)[:MOST_TASKS]

    @property
    def decided(self) -> list[PendingApproval]:
        """The approval requests that clients have decided on, until it is known what the agent did."""
        return [approval for one in self for approval in one.outcomes]

    def asks(self, approval: PendingApproval, pid: int | None) -> None:
        """Notes that the process ``pid`` or one of its subagents has reported the approval request ``approval`` again.
        Forgets any decision on it; a subagent that asked counts as running in this process."""
        agent = approval.request.agent_id
        for one in self:
            one.outcomes.forget(approval)
            if agent is not None:
                one.background.ended(agent)
        if agent is not None:
            self.of(pid).background.subagent(agent)

    def ended(self, pid: int | None) -> None:
        """Forgets the activity of a process that has ended or has closed the conversation: no question is open in its
        terminal any longer, and nothing will report what its calls did. ``pid`` is None for an activity whose process
        is not known."""
        self._of.pop(pid, None)

    def clear(self) -> None:
        """Forgets all activities, because their processes have ended or closed the conversation."""
        self._of.clear()
