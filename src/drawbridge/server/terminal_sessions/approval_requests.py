"""The approval requests of a terminal session: opens, restores and closes them as ``Questions`` decides.

The hook or bridge of a question may disconnect and connect again, also to the next server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from drawbridge.agents.base import Question
from drawbridge.core.approval import State
from drawbridge.core.private_files import process_alive
from drawbridge.server.approvals.pending import Asker, ExpectedAsker, PendingApproval
from drawbridge.server.approvals.service import Approvals
from drawbridge.server.events import ApprovalRequested, PermissionWithdrawn
from drawbridge.server.protocol.messages import IN_TERMINAL
from drawbridge.server.sessions.audience import Audience
from drawbridge.server.sessions.metadata import Metadata, now
from drawbridge.server.sessions.session import SessionStore
from drawbridge.server.terminal_sessions.continuation import RestoredRequests
from drawbridge.server.terminal_sessions.dialog import Overruled
from drawbridge.server.terminal_sessions.processes import Processes
from drawbridge.server.terminal_sessions.questions import (
    HandOver,
    HandOverLater,
    OpenQuestion,
    Questions,
    Step,
    Withdraw,
    is_main_of,
)
from drawbridge.server.terminal_sessions.turns import Turns


class AskingSession(Protocol):
    """The part of ``TerminalSession`` that ``ApprovalRequests`` uses. The class itself is in a higher layer."""

    id: str
    path: Path
    data: Metadata
    store: SessionStore
    approvals: Approvals
    processes: Processes
    turns: Turns
    questions: Questions

    def withdraw(self, approval: PendingApproval, reason: str) -> None:
        """Withdraws an open approval request for ``reason``, and calls ``ApprovalRequests.closed``."""
        ...

    def changed(self) -> None:
        """Publishes and saves the session's state."""
        ...


class ApprovalRequests:
    """The approval requests of ``session``. ``audience``: the clients that may decide on them."""

    def __init__(self, session: AskingSession, audience: Audience) -> None:
        self._session = session
        self._audience = audience
        self._held: dict[str, asyncio.TimerHandle] = {}
        """The timers that hand over approval requests to the terminal, by the requests' ids."""

    @property
    def open(self) -> list[OpenQuestion]:
        """The open approval requests, oldest first."""
        approvals = self._session.approvals
        return [OpenQuestion(approval, approvals.askers(approval)[0]) for approval in approvals]

    def ask(self, question: Question, asker: Asker, look: ApprovalRequested | None) -> PendingApproval:
        """Opens an approval request for a question from the agent. ``asker``: what waits for the answer. ``look``: as
        in ``PendingApproval.new``."""
        session, questions = self._session, self._session.questions
        run = session.turns.current.id if session.turns.current is not None else ""
        approval = PendingApproval.new(question, run, now(), asker.known_as, look)
        is_answerable = self._audience.can_decide(session.id, session.path)
        questions.asked(approval, asker.pid)
        offered = questions.is_offered(approval, asker, is_answerable=is_answerable)
        session.approvals.request(approval, session.data.agent, asker, offered=offered)
        self.carry_out(questions.hold(approval, asker.pid, is_answerable=is_answerable))
        session.changed()
        return approval

    def carry_out(self, steps: Iterable[Step]) -> None:
        """Carries out what ``Questions`` returned."""
        session = self._session
        for step in steps:
            match step:
                case Withdraw(approval, reason):
                    session.withdraw(approval, reason)
                case Overruled(approval, reason):
                    session.store.record(PermissionWithdrawn(approval.id, reason))
                case HandOver(approval):
                    self._hand_over(approval)
                case HandOverLater(approval, seconds):
                    later = asyncio.get_running_loop().call_later(seconds, self._not_answered, approval)
                    self._held[approval.id] = later

    def _not_answered(self, approval: PendingApproval) -> None:
        """Leaves a question to the terminal, because no client answered in time."""
        asker = self._session.approvals.askers(approval)[0]
        self._session.questions.not_answered(approval, asker.pid)
        self._hand_over(approval)

    def _hand_over(self, approval: PendingApproval) -> None:
        self._session.withdraw(approval, IN_TERMINAL)
        self._session.changed()

    def closed(self, approval: PendingApproval, asked_by: Asker | None) -> None:
        """Handles the end of an approval request, which was resolved or withdrawn. ``asked_by``: the asker that
        delivers the decision to the agent; None if the request was withdrawn."""
        if held := self._held.pop(approval.id, None):
            held.cancel()
        if self._session.questions.closed(approval, asked_by):
            self._session.changed()

    # Hooks and bridges that disconnect, and connect again after a restart.

    def disconnect(self, asker: Asker) -> None:
        """Removes an asker that can no longer reach the agent, for example because the agent's dialog is closed or its
        program has ended. If the asker is the one that asked, the approval request is withdrawn."""
        session, approvals = self._session, self._session.approvals
        is_alive = asker.pid is None or process_alive(asker.pid)
        for approval in approvals:
            askers = approvals.askers(approval)
            if asker not in askers:
                continue
            if askers[0] is asker:
                session.withdraw(approval, session.questions.why_withdrawn(approval, is_alive=is_alive))
            else:
                approvals.remove(approval, asker)
        session.changed()

    def restore(self, restored: RestoredRequests, works: int | None, run: str | None) -> None:
        """Restores approval requests from the history. Open ones wait for a decision and for their asker to
        reconnect. They are not published again. ``works``: as in ``Facts``. ``run``: the active run, if any."""
        session, questions = self._session, self._session.questions
        questions.called(restored.calls)
        pid = session.processes.latest.pid if works is None else works
        for approval in restored.approvals:
            is_certain = not session.processes.has_others or is_main_of(approval, run)
            expected = ExpectedAsker(pid, is_certain=is_certain)
            session.approvals.restore(approval, session.data.agent, expected, offered=not expected.in_editor)
            if approval.is_open and approval.request.agent_id is not None:
                session.turns.subagent_runs(approval.request.agent_id, works)
            self.carry_out(questions.restored(approval))

    def reconnect(self, approval: PendingApproval, asker: Asker) -> None:
        """Connects ``asker``, which has reported the question again, to its approval request. The asker receives
        the decision or waits for it, or is closed if the request was withdrawn."""
        session = self._session
        session.turns.reconnected(approval.request.run_id, approval.request.agent_id, asker.pid)
        session.questions.reconnected(approval, asker.pid)
        if not session.approvals.replace(approval, asker):
            given, by = approval.decision, approval.decided_by
            if approval.state is State.DECIDED and given is not None and by is not None:
                asker.decided(approval, given, by)
            else:
                asker.closed()
        session.changed()

    def stop_waiting(self) -> bool:
        """Stops waiting for hooks and bridges that have not reconnected since the restart, as
        ``Questions.stop_waiting`` does. Returns whether an approval request was withdrawn."""
        steps = self._session.questions.stop_waiting(self.open)
        self.carry_out(steps)
        return any(not isinstance(step, Overruled) for step in steps)

    def close(self, reason: str) -> None:
        """Withdraws the questions that no hook or bridge will report again, and leaves the others open."""
        for approval in self._session.approvals:
            if not approval.request.known_as:
                self._session.withdraw(approval, reason)
        for held in self._held.values():
            held.cancel()
        self._held.clear()
