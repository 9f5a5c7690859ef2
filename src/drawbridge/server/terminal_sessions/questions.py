"""The questions of a terminal session's agent, from the hook that asks until the answer has reached the agent.

While clients can answer a question, the agent's own dialog is usually open, too, and the first answer counts. Some
dialogs are hidden: they appear only after the hook has ended. Such a question waits here for a limited time, and only if
a client is connected that could answer it.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Raw, Struct

from drawbridge.agents.base import AskedBy, Proposal, Question
from drawbridge.agents.terminal import AskingAgent, HookEvent
from drawbridge.core.approval import State
from drawbridge.core.private_files import process_alive
from drawbridge.server.approvals.pending import ExpectedSurface, PendingApproval, Surface
from drawbridge.server.approvals.service import Approvals
from drawbridge.server.protocol import messages
from drawbridge.server.protocol.messages import IN_TERMINAL
from drawbridge.server.sessions.metadata import Metadata, now
from drawbridge.server.sessions.session import SessionStore
from drawbridge.server.terminal_sessions.activities import Activities
from drawbridge.server.terminal_sessions.dialog import EndedCall, Latest, Outcome, Outcomes, Overruled, json_object
from drawbridge.server.terminal_sessions.processes import Processes
from drawbridge.server.terminal_sessions.turn import Turn

ELSEWHERE = "answered elsewhere"
GONE = "the agent no longer waits for it"
ENDED = "the agent's program has ended"
NOT_DELIVERED = "overruled: the answer did not reach the agent, which is still asking in its terminal"
NO_LONGER_WAITED = "overruled: the agent no longer waited for the answer"

HOLD_SECONDS = 45.0
"""Seconds that a question whose dialog is hidden waits for an answer from a client: enough to take out a phone and read
the question. Meanwhile, the terminal shows no dialog, so the user there should not have to wait longer."""

HOLD_AGAIN_SECONDS = 5.0
"""Seconds that such a question waits if no client answered an earlier one in time. This limit applies until a client
answers again."""

SETTLING_SECONDS = 2.0
"""Seconds after a decision during which a notification may still be about the dialog that the decision has closed."""


class Asker(Protocol):
    """The part of ``TerminalSession`` that ``Questions`` uses. The class itself is in a higher layer."""

    agent: AskingAgent
    path: Path
    data: Metadata
    store: SessionStore
    approvals: Approvals
    activities: Activities
    processes: Processes
    turn: Turn | None

    def withdraw(self, approval: PendingApproval, reason: str) -> None:
        """Withdraws an open approval request for ``reason``, and calls ``Questions.closed``."""
        ...

    def changed(self) -> None:
        """Publishes and saves the session's state."""
        ...


class _Likelihood(IntEnum):
    """The state of a request that may be about an ended call, the most likely match first."""

    AS_DECIDED = 0
    IN_TERMINAL = 1
    OPEN = 2
    NOT_AS_DECIDED = 3


class _Match(Struct, frozen=True):
    """A request that may be about a call that has ended, and how to settle it. ``exact``: whether the inputs are the
    same."""

    exact: bool
    likelihood: _Likelihood
    approval: PendingApproval
    settle: Callable[[], None]


class Questions:
    """The questions of one session's agent. ``can_be_answered``: whether a client is connected that receives the
    session's approval requests and may decide on them. ``is_unattended``: as in ``Facts``.
    """

    def __init__(self, session: Asker, can_be_answered: Callable[[], bool], *, is_unattended: bool) -> None:
        self.is_unattended = is_unattended
        """As in ``Facts``."""
        self._session = session
        self._can_be_answered = can_be_answered
        self._known: Latest[str, PendingApproval] = Latest()
        """Approval requests by the ids that hooks and bridges give their questions."""
        self._held: dict[str, asyncio.TimerHandle] = {}
        """The timers that hand over approval requests to the terminal, by the requests' ids."""
        self._decided_at = 0.0
        self._ended: Latest[str, None] = Latest()
        """The agent's ids of the calls that have ended."""
        self._undelivered: dict[str, PendingApproval] = {}
        """Questions that were answered before their hook or bridge had reconnected after a restart."""

    def ask(self, question: Question, surface: Surface) -> PendingApproval:
        """Opens an approval request for a question from the agent. ``surface``: where it was asked."""
        session = self._session
        approval = PendingApproval.new(question, session.turn.id if session.turn else "", now(), surface.known_as)
        if surface.known_as:
            self._known[surface.known_as] = approval
        session.activities.of(surface.pid).outcomes.asked_again(approval)
        offered = not surface.in_editor and (not self._is_hidden(question.asked_by) or self._can_be_answered())
        session.approvals.request(approval, session.data.agent, surface, offered=offered)
        self._hold(approval)
        return approval

    def restore(self, approvals: Iterable[PendingApproval], works: int | None, latest: int | None) -> None:
        """Restores approval requests from the history. Open ones wait for a decision and for their surface to
        reconnect. They are not published again. ``works``: as in ``Facts``; ``latest``: the PID of the process that
        reported last, which is used if ``works`` is None."""
        session = self._session
        is_single = not session.processes.has_others
        for approval in approvals:
            self._known[approval.request.known_as] = approval
            is_certain = is_single or is_main_of(approval, session.turn.id if session.turn is not None else None)
            expected = ExpectedSurface(latest if works is None else works, is_certain=is_certain)
            session.approvals.restore(approval, session.data.agent, expected, offered=not expected.in_editor)
            if approval.is_open:
                if approval.request.agent_id is not None:
                    session.activities.of(works).background.subagent(approval.request.agent_id)
                if self._is_hidden(approval.request.asked_by):  # it is not known yet whether a client will connect
                    self._hand_over_later(approval, _age_of(approval))

    # Questions whose dialog appears when the hook has ended.

    def _is_hidden(self, asked_by: AskedBy | None) -> bool:
        """Whether the dialog of the agent that asks appears only after its hook has ended."""
        return self._session.agent.hides_dialog(asked_by)

    def _hold(self, approval: PendingApproval) -> None:
        """Lets a question whose dialog is hidden wait for a limited time if a client is connected that could decide;
        otherwise leaves it to the terminal immediately."""
        if not self._is_hidden(approval.request.asked_by):
            return
        if self._can_be_answered():
            self._hand_over_later(approval)
        else:
            self._hand_over(approval)

    def _hand_over_later(self, approval: PendingApproval, age: float = 0.0) -> None:
        """Leaves a question to the terminal when its time is over. ``age``: for how many seconds it has waited."""
        seconds = HOLD_AGAIN_SECONDS if self.is_unattended else HOLD_SECONDS
        later = asyncio.get_running_loop().call_later(max(0.0, seconds - age), self._not_answered, approval)
        self._held[approval.id] = later

    def _not_answered(self, approval: PendingApproval) -> None:
        self.is_unattended = True
        self._hand_over(approval)

    def _hand_over(self, approval: PendingApproval) -> None:
        """Leaves a question to the dialog in the terminal, which appears when the hook ends."""
        surface = self._session.approvals.surfaces(approval)[0]
        self._session.activities.of(surface.pid).terminal_only.handed_over(approval)
        self._session.withdraw(approval, IN_TERMINAL)
        self._session.changed()

    # Hooks and bridges that reconnect after a restart.

    def known(self, question: str) -> PendingApproval | None:
        """The approval request for a question that a hook or bridge identifies by ``question``; None if it is new."""
        return self._known.get(question) if question else None

    def is_another(self, event: HookEvent, surface: Surface) -> bool:
        """Whether the hook asks a different question under the id of a known one."""
        known = self.known(surface.known_as)
        if known is None:
            return False
        asked = event.tool_name, json_object(_input_of(event, self._session.path))
        return asked != (known.request.tool_name, json_object(known.request.input))

    def reconnect(self, approval: PendingApproval, surface: Surface) -> None:
        """Connects ``surface`` to the approval request for its question: the surface receives the decision or waits for
        it, or is closed if the request was withdrawn."""
        session = self._session
        self._undelivered.pop(approval.id, None)
        session.activities.asks(approval, surface.pid)
        given, by = approval.decision, approval.decided_by
        if session.approvals.replace(approval, surface):
            pass
        elif approval.state is State.DECIDED and given is not None and by is not None:
            session.activities.of(surface.pid).outcomes.add(approval, given)
            surface.decided(approval, given, by)
        else:
            surface.closed()

    def stop_waiting(self) -> bool:
        """Withdraws the questions whose hook or bridge has not reconnected since the restart. Decisions that were made
        in the meantime but not delivered are recorded as overruled. If a hook or bridge reports one of these questions
        later after all, it counts as new. Returns whether a question was withdrawn."""
        for approval in self._undelivered.values():
            if approval.overrule():
                self._known.pop(approval.request.known_as, None)
                self._record(Overruled(approval, NO_LONGER_WAITED))
        self._undelivered.clear()
        approvals = self._session.approvals
        missed = [one for one in approvals if isinstance(approvals.surfaces(one)[0], ExpectedSurface)]
        for approval in missed:
            self._known.pop(approval.request.known_as, None)
            if self._is_hidden(approval.request.asked_by):
                self._hand_over(approval)  # its dialog has appeared while no server was running
            else:
                self._session.withdraw(approval, GONE)
        return bool(missed)

    # How questions end.

    def closed(self, approval: PendingApproval, asked_by: Surface | None) -> bool:
        """Notes that an approval request was resolved or withdrawn. ``asked_by``: the surface that delivers the
        decision to the agent; None if the request was withdrawn. Returns whether there is a decision, whose effect is
        then awaited."""
        if held := self._held.pop(approval.id, None):
            held.cancel()
        if asked_by is None or approval.decision is None:
            return False
        self._session.activities.of(asked_by.pid).outcomes.add(approval, approval.decision)
        self.is_unattended = False
        self._decided_at = time.monotonic()
        if isinstance(asked_by, ExpectedSurface):
            self._undelivered[approval.id] = approval
        return True

    def disconnect(self, surface: Surface) -> None:
        """Removes a surface that can no longer reach the agent, for example because the agent's dialog is closed or its
        program has ended. If the surface is the one that asked, the approval request is withdrawn."""
        alive = surface.pid is None or process_alive(surface.pid)
        approvals = self._session.approvals
        for approval in approvals:
            surfaces = approvals.surfaces(approval)
            if surface not in surfaces:
                continue
            if surfaces[0] is surface:
                self._session.withdraw(approval, self._why_withdrawn(approval) if alive else ENDED)
            else:
                approvals.remove(approval, surface)

    def _why_withdrawn(self, approval: PendingApproval) -> str:
        """The reason for withdrawing an approval request that the agent no longer waits for. While its dialog is
        hidden, nobody can have answered it in the terminal."""
        return GONE if self._is_hidden(approval.request.asked_by) else ELSEWHERE

    def left(self, pid: int) -> None:
        """Withdraws the questions of a process that has ended or has closed the conversation. Questions that may be
        another process's stay open."""
        approvals = self._session.approvals
        for approval in approvals:
            surface = approvals.surfaces(approval)[0]
            if surface.pid == pid and (not isinstance(surface, ExpectedSurface) or surface.is_certain):
                self._session.withdraw(approval, ENDED)

    def main_stopped(self, pid: int | None) -> None:
        """Withdraws the approval requests of the main agent in the process ``pid``: since the agent has stopped, they were
        answered, or the user has interrupted the run. Questions from subagents stay open, and so do those of the agent in
        another terminal that has the same conversation open.
        """
        session = self._session
        for approval in session.approvals:
            surface = session.approvals.surfaces(approval)[0]
            if isinstance(surface, ExpectedSurface) and session.processes.has_others:
                continue  # when its hook reports again, it is known which process has asked
            if approval.request.asked_by is None and surface.pid not in session.processes.beside(pid):
                session.withdraw(approval, self._why_withdrawn(approval))
        activity = session.activities.of(pid)
        activity.terminal_only.continued(None)
        activity.outcomes.main_stopped()

    def noticed(self, pid: int | None) -> None:
        """Notes that the CLI in the process ``pid`` has notified the user of a dialog. A dialog that is not about an
        open approval request can't be answered here."""
        activity = self._session.activities.of(pid)
        known = self._session.approvals or activity.terminal_only.has_question
        if known or time.monotonic() - self._decided_at < SETTLING_SECONDS:
            return
        activity.terminal_only.noticed()
        for overruled in activity.outcomes.not_delivered(NOT_DELIVERED):
            self._record(overruled)

    def called(self, call: EndedCall) -> None:
        """Settles the approval request about a tool call that has ended: one that is open is withdrawn, and a client's
        decision is compared with what the agent did.

        The agent may make identical calls at the same time, and does not report which request is about which call. So
        only the most likely request is settled. If a hook and the transcript both report a call, the second report is ignored.
        """
        for activity in self._session.activities:
            activity.terminal_only.called()
        if call.id and call.id in self._ended:
            return
        found = list(self._may_be_about(call))
        if call.id and (found or call.as_run):
            self._ended[call.id] = None
        if found:
            min(found, key=lambda one: (not one.exact, one.likelihood, one.approval.seq)).settle()

    def _may_be_about(self, call: EndedCall) -> Iterator[_Match]:
        session = self._session
        for activity in session.activities:
            outcomes, terminal_only = activity.outcomes, activity.terminal_only
            for outcome in outcomes.about(call):
                likelihood = _Likelihood.AS_DECIDED if outcome.as_decided else _Likelihood.NOT_AS_DECIDED
                settle = partial(self._compare, outcomes, outcome)
                yield _Match(outcome.exact, likelihood, outcome.approval, settle)
            for approval in terminal_only.about(call):
                exact = call.is_of(session.agent, approval.request, exactly=True)
                answered = partial(terminal_only.answered, approval)
                yield _Match(exact, _Likelihood.IN_TERMINAL, approval, answered)
        for approval in session.approvals:
            if call.is_of(session.agent, approval.request):
                exact = call.is_of(session.agent, approval.request, exactly=True)
                withdraw = partial(session.withdraw, approval, self._why_withdrawn(approval))
                yield _Match(exact, _Likelihood.OPEN, approval, withdraw)

    def _compare(self, outcomes: Outcomes, outcome: Outcome) -> None:
        overruled = outcomes.settle(outcome)
        if overruled is not None:
            self._record(overruled)

    def _record(self, overruled: Overruled) -> None:
        self._session.store.record(messages.PermissionWithdrawn(overruled.approval.id, overruled.reason))

    def close(self, reason: str) -> None:
        """Withdraws the questions that no hook or bridge will report again, and leaves the others open."""
        for approval in self._session.approvals:
            if not approval.request.known_as:
                self._session.withdraw(approval, reason)
        for held in self._held.values():
            held.cancel()
        self._held.clear()


def question_of(event: HookEvent, proposal: Proposal | None, root: Path, *, changeable: bool) -> Question:
    """The question that a hook reports. ``proposal``: the change that it is about. ``root``: the session's directory.
    ``changeable``: whether an answer may change the input."""
    asked_by = None if event.agent_id is None else AskedBy(event.agent_id, event.agent_type)
    return Question(
        question_id=uuid.uuid4().hex,
        tool_name=event.tool_name,
        input=_input_of(event, root),
        suggestions=event.suggestions,
        proposal=proposal,
        changeable=changeable,
        asked_by=asked_by,
        reason=event.reason,
        blocked_path=event.blocked_path,
    )


def _input_of(event: HookEvent, root: Path) -> Raw:
    """The input of the call that an event is about, with the directory of a command if it is not ``root``."""
    if event.directory in ("", str(root)):
        return event.tool_input
    return Raw(msgspec.json.encode({**json_object(event.tool_input), "directory": event.directory}))


def is_main_of(approval: PendingApproval, run: str | None) -> bool:
    """Whether the main agent sent the approval request in this run. One from a subagent may belong to another
    process."""
    return approval.request.agent_id is None and run is not None and approval.request.run_id == run


def _age_of(approval: PendingApproval) -> float:
    """Seconds since the agent asked; 0 if the clock was set back since."""
    return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(approval.created_at)).total_seconds())
