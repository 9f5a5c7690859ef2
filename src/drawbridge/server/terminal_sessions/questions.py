"""The questions of a terminal session's agent, from the hook that asks until the answer has reached the agent. Pure.
What has to be done is returned as values, in order.

While clients can answer a question, the agent's own dialog is usually open, too, and the first answer counts. Some
dialogs are hidden. They appear only after the hook has ended. Such a question waits here for a limited time, and only
if a client is connected that could answer it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from enum import IntEnum
from functools import partial
from typing import TypeAlias

import msgspec
from msgspec import Raw, Struct

from drawbridge.agents.base import AskedBy, Proposal, Question
from drawbridge.agents.proposals import Reader
from drawbridge.agents.terminal import AskingAgent, Call, HookEvent, Result
from drawbridge.core.approval import State
from drawbridge.server.approvals.pending import Asker, ExpectedAsker, PendingApproval
from drawbridge.server.terminal_sessions.dialog import (
    ClientDecisions,
    DecisionOutcome,
    EndedCall,
    Latest,
    Overruled,
    TerminalOnly,
    json_object,
)
from drawbridge.server.terminal_sessions.turn import Clock

ELSEWHERE = "answered elsewhere"
GONE = "the agent is no longer waiting for it"
ENDED = "the agent's program has ended or left the conversation"
NOT_DELIVERED = "overruled: the answer did not reach the agent, which is still asking in its terminal"
NO_LONGER_WAITED = "overruled: the agent was no longer waiting for the answer"

HOLD_SECONDS = 45.0
"""Seconds that a question with a hidden dialog waits for an answer from a client. This is long enough to take out a
phone and read the question. During this time, the terminal shows no dialog, so the user there should not have to wait
longer.
"""

HOLD_AGAIN_SECONDS = 5.0
"""Seconds that such a question waits if no client answered an earlier one in time. This limit applies until a client
answers again."""

SETTLING_SECONDS = 2.0
"""Seconds after a decision during which a notification may still be about the dialog that the decision has closed."""


class OpenQuestion(Struct, frozen=True):
    """An open approval request. ``asker``: what waits for the answer; the first, if there are several."""

    approval: PendingApproval
    asker: Asker


class Withdraw(Struct, frozen=True):
    """The approval request has to be withdrawn for ``reason``."""

    approval: PendingApproval
    reason: str


class HandOver(Struct, frozen=True):
    """The approval request has to be left to the dialog in the terminal, which appears when its hook ends."""

    approval: PendingApproval


class HandOverLater(Struct, frozen=True):
    """The approval request waits for an answer from a client for ``seconds``. After that, ``Questions.not_answered``
    has to be called."""

    approval: PendingApproval
    seconds: float


Step: TypeAlias = Withdraw | Overruled | HandOver | HandOverLater


class _Likelihood(IntEnum):
    """The state of a request that may be about an ended call, the most likely match first."""

    AS_DECIDED = 0
    IN_TERMINAL = 1
    OPEN = 2
    NOT_AS_DECIDED = 3


class _Match(Struct, frozen=True):
    """A request that may be about a call that has ended. ``exact``: whether the inputs are the same. ``settle``:
    settles the request with this call, and returns what has to be done."""

    exact: bool
    likelihood: _Likelihood
    approval: PendingApproval
    settle: Callable[[], list[Step]]


class _Dialogs:
    """The questions of one process that can be answered only in its terminal, and clients' decisions with effects that
    are not known yet."""

    def __init__(self, agent: AskingAgent, read: Reader) -> None:
        self.terminal_only = TerminalOnly(agent)
        self.decisions = ClientDecisions(agent, read)


class Questions:
    """The questions of one session's agent. In all methods, ``open`` contains the open approval requests, oldest first, and
    ``pid`` is the PID of a process of the agent (None if it is not known).
    """

    def __init__(self, agent: AskingAgent, root: str, read: Reader, clock: Clock, *, is_unattended: bool) -> None:
        """``root``: the session's directory. ``read``: the function that reads a file. ``is_unattended``: as in
        ``Facts``."""
        self.is_unattended = is_unattended
        """Whether a question was left to the terminal and no client has answered one since, as in ``Facts``."""
        self._agent = agent
        self._root = root
        self._read = read
        self._clock = clock
        self._known: Latest[str, PendingApproval] = Latest()
        """Approval requests by the ids that hooks and bridges give their questions."""
        self._decided_at: float | None = None
        self._calls: Latest[str, Call] = Latest()
        """The agent's latest calls without a result."""
        self._ended: Latest[str, None] = Latest()
        """The agent's ids of the calls that have ended."""
        self._undelivered: dict[str, PendingApproval] = {}
        """Questions that were answered before their hook or bridge had reconnected after a restart."""
        self._dialogs: dict[int | None, _Dialogs] = {}

    def _of(self, pid: int | None) -> _Dialogs:
        if pid not in self._dialogs:
            self._dialogs[pid] = _Dialogs(self._agent, self._read)
        return self._dialogs[pid]

    # Known questions.

    @property
    def asks_in_terminal(self) -> bool:
        """Whether a process is asking something that can be answered only in its own dialog."""
        return any(one.terminal_only for one in self._dialogs.values())

    @property
    def decided(self) -> list[PendingApproval]:
        """The approval requests that clients have decided on, until it is known what the agent did."""
        return [approval for one in self._dialogs.values() for approval in one.decisions]

    def known(self, question: str) -> PendingApproval | None:
        """The approval request for a question that a hook or bridge identifies by ``question``; None if it is new."""
        return self._known.get(question) if question else None

    def is_another(self, event: HookEvent, known_as: str) -> bool:
        """Whether the hook asks a different question under the id ``known_as`` of a known one."""
        known = self.known(known_as)
        if known is None:
            return False
        asked = event.tool_name, json_object(_input_of(event, self._root))
        return asked != (known.request.tool_name, known.request.given or {})

    def why_withdrawn(self, approval: PendingApproval, *, is_alive: bool = True) -> str:
        """The reason for withdrawing an approval request that the agent no longer waits for. ``is_alive``: whether the
        agent's program is running. While its dialog is hidden, nobody can have answered it in the terminal."""
        if not is_alive:
            return ENDED
        return GONE if self._is_hidden(approval.request.asked_by) else ELSEWHERE

    # New questions.

    def asked(self, approval: PendingApproval, pid: int | None) -> None:
        """Adds a new approval request of the process."""
        if approval.request.known_as:
            self._known[approval.request.known_as] = approval
        self._of(pid).decisions.asked_again(approval)

    def is_offered(self, approval: PendingApproval, asker: Asker, *, is_answerable: bool) -> bool:
        """Whether editors show the request, too. ``is_answerable``: whether a client is connected that receives the
        session's approval requests and may decide on them."""
        return not asker.in_editor and (is_answerable or not self._is_hidden(approval.request.asked_by))

    def hold(self, approval: PendingApproval, pid: int | None, *, is_answerable: bool) -> list[Step]:
        """Lets a question with a hidden dialog wait for a limited time if ``is_answerable`` (as in ``is_offered``).
        Otherwise leaves it to the terminal immediately."""
        if not self._is_hidden(approval.request.asked_by):
            return []
        return [self._hand_over_later(approval) if is_answerable else self._hand_over(approval, pid)]

    def restored(self, approval: PendingApproval) -> list[Step]:
        """Adds an approval request from before a restart."""
        self._known[approval.request.known_as] = approval
        if approval.is_open and self._is_hidden(approval.request.asked_by):
            return [self._hand_over_later(approval, _age_of(approval))]  # a client may still connect
        return []

    # Questions with a dialog that appears when the hook has ended.

    def _is_hidden(self, asked_by: AskedBy | None) -> bool:
        """Whether the dialog of the agent that asks appears only after its hook has ended."""
        return self._agent.hides_dialog(asked_by)

    def _hand_over_later(self, approval: PendingApproval, age: float = 0.0) -> Step:
        """The step that leaves a question to the terminal if no client answers in time. ``age``: the number of seconds
        that the question has already waited."""
        seconds = HOLD_AGAIN_SECONDS if self.is_unattended else HOLD_SECONDS
        return HandOverLater(approval, max(0.0, seconds - age))

    def not_answered(self, approval: PendingApproval, pid: int | None) -> None:
        """Leaves a question to the terminal, because no client answered in time."""
        self.is_unattended = True
        self._of(pid).terminal_only.handed_over(approval)

    def _hand_over(self, approval: PendingApproval, pid: int | None) -> Step:
        self._of(pid).terminal_only.handed_over(approval)
        return HandOver(approval)

    # Hooks and bridges that reconnect after a restart.

    def reconnected(self, approval: PendingApproval, pid: int | None) -> None:
        """Handles a known question that the process has reported again. A decision on it is sent again."""
        self._undelivered.pop(approval.id, None)
        for one in self._dialogs.values():
            one.decisions.forget(approval)
        if approval.state is State.DECIDED and approval.decision is not None:
            self._of(pid).decisions.add(approval, approval.decision)

    def stop_waiting(self, open: Sequence[OpenQuestion]) -> list[Step]:
        """Withdraws each question if its hook or bridge has not reconnected since the restart. Decisions that were made
        in the meantime but not delivered are overruled. If a hook or bridge still reports one of these questions later,
        it counts as new."""
        steps: list[Step] = []
        for approval in self._undelivered.values():
            if approval.overrule():
                self._known.pop(approval.request.known_as, None)
                steps.append(Overruled(approval, NO_LONGER_WAITED))
        self._undelivered.clear()
        for one in open:
            if not isinstance(one.asker, ExpectedAsker):
                continue
            self._known.pop(one.approval.request.known_as, None)
            if self._is_hidden(one.approval.request.asked_by):
                # Its dialog has appeared while no server was running.
                steps.append(self._hand_over(one.approval, one.asker.pid))
            else:
                steps.append(Withdraw(one.approval, GONE))
        return steps

    # Ends of questions.

    def closed(self, approval: PendingApproval, asked_by: Asker | None) -> bool:
        """Handles the end of an approval request, which was resolved or withdrawn. ``asked_by``: the asker that
        delivers the decision to the agent; None if the request was withdrawn. Returns whether it was decided on. If so,
        the effect of the decision is awaited."""
        if asked_by is None or approval.decision is None:
            return False
        self._of(asked_by.pid).decisions.add(approval, approval.decision)
        self.is_unattended = False
        self._decided_at = self._clock()
        if isinstance(asked_by, ExpectedAsker):
            self._undelivered[approval.id] = approval
        return True

    def left(self, pid: int, open: Sequence[OpenQuestion]) -> list[Step]:
        """Withdraws the questions of a process that has ended or has closed the conversation. Questions that may be
        another process's stay open."""
        certain = [one for one in open if not isinstance(one.asker, ExpectedAsker) or one.asker.is_certain]
        self.forget(pid)
        return [Withdraw(one.approval, ENDED) for one in certain if one.asker.pid == pid]

    def forget(self, pid: int | None) -> None:
        """Forgets what is known about a process that has ended or has closed the conversation. None of its questions is
        open in a terminal now, and nothing will report what its calls did."""
        self._dialogs.pop(pid, None)

    def forget_all(self) -> None:
        """Like ``forget``, for all processes."""
        self._dialogs.clear()

    def main_stopped(
        self, pid: int | None, open: Sequence[OpenQuestion], others: Collection[int], *, is_only: bool
    ) -> list[Step]:
        """Withdraws the approval requests of the main agent in the process. Since the agent has stopped, they were
        answered, or the user interrupted the run. Questions from subagents stay open, and so do those of the agent in
        another terminal that has the same conversation open. ``others``: the PIDs of the other processes that are
        alive. ``is_only``: whether only one process has the conversation open.
        """
        dialogs = self._of(pid)
        dialogs.terminal_only.continued(None)
        dialogs.decisions.main_stopped()
        return [
            Withdraw(one.approval, self.why_withdrawn(one.approval))
            for one in open
            if one.approval.request.asked_by is None
            and one.asker.pid not in others
            # When an expected hook reports again, it is known which process has asked.
            and (is_only or not isinstance(one.asker, ExpectedAsker))
        ]

    def continued(self, agent: str | None, pid: int | None) -> None:
        """Forgets the dialog of the main agent (None) or of a subagent of the process, because that agent has continued
        or stopped."""
        self._of(pid).terminal_only.continued(agent)

    def only_running(self, agents: Collection[str], pid: int | None) -> None:
        """Forgets the dialogs of all agents of the process except these subagents, because the others are not
        running."""
        self._of(pid).terminal_only.only(agents)

    def noticed(self, pid: int | None, open: Sequence[OpenQuestion]) -> list[Step]:
        """Handles a notification with which the CLI in the process alerts the user to a dialog. A dialog that is not
        about an open approval request can't be answered here."""
        dialogs = self._of(pid)
        is_settling = self._decided_at is not None and self._clock() - self._decided_at < SETTLING_SECONDS
        if open or dialogs.terminal_only.has_question or is_settling:
            return []
        dialogs.terminal_only.noticed()
        return list(dialogs.decisions.not_delivered(NOT_DELIVERED))

    # Actions of the agent.

    def called(self, calls: Iterable[Call]) -> None:
        """Adds calls that the agent wants to make, as the transcript contains them."""
        for call in calls:
            self._calls[call.id] = call

    def result(self, result: Result, open: Sequence[OpenQuestion]) -> list[Step]:
        """Settles the approval request about a call that has a result in the transcript, as ``call_ended`` does."""
        called = self._calls.pop(result.id, None)
        if called is None:
            return []
        given = json_object(called.input)
        return self.call_ended(EndedCall(result.id, called.name, given, result.fate, None, as_run=False), open)

    def call_ended(self, call: EndedCall, open: Sequence[OpenQuestion]) -> list[Step]:
        """Settles the approval request about a tool call that has ended. An open one is withdrawn, and a client's
        decision is compared with what the agent did.

        The agent may make identical calls at the same time, and does not report which request is about which call. So
        only the most likely request is settled. If a hook and the transcript both report a call, the second report is ignored.
        """
        for dialogs in self._dialogs.values():
            dialogs.terminal_only.called()
        if call.id and call.id in self._ended:
            return []
        found = list(self._may_be_about(call, open))
        if call.id and (found or call.as_run):
            self._ended[call.id] = None
        if not found:
            return []
        return min(found, key=lambda one: (not one.exact, one.likelihood, one.approval.seq)).settle()

    def _may_be_about(self, call: EndedCall, open: Sequence[OpenQuestion]) -> Iterator[_Match]:
        for dialogs in self._dialogs.values():
            decisions, terminal_only = dialogs.decisions, dialogs.terminal_only
            for outcome in decisions.about(call):
                likelihood = _Likelihood.AS_DECIDED if outcome.as_decided else _Likelihood.NOT_AS_DECIDED
                settle = partial(_compare, decisions, outcome)
                yield _Match(outcome.exact, likelihood, outcome.approval, settle)
            for approval in terminal_only.about(call):
                exact = call.is_of(self._agent, approval.request, exactly=True)
                yield _Match(exact, _Likelihood.IN_TERMINAL, approval, partial(_answered, terminal_only, approval))
        for approval in (one.approval for one in open):
            if call.is_of(self._agent, approval.request):
                exact = call.is_of(self._agent, approval.request, exactly=True)
                yield _Match(exact, _Likelihood.OPEN, approval, partial(self._answered_elsewhere, approval))

    def _answered_elsewhere(self, approval: PendingApproval) -> list[Step]:
        return [Withdraw(approval, self.why_withdrawn(approval))]


def _compare(decisions: ClientDecisions, outcome: DecisionOutcome) -> list[Step]:
    overruled = decisions.settle(outcome)
    return [] if overruled is None else [overruled]


def _answered(terminal_only: TerminalOnly, approval: PendingApproval) -> list[Step]:
    terminal_only.answered(approval)
    return []


def question_of(event: HookEvent, proposal: Proposal | None, root: str, *, changeable: bool) -> Question:
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


def _input_of(event: HookEvent, root: str) -> Raw:
    """The input of the call that an event is about, with the directory of a command if it is not ``root``."""
    if event.directory in ("", root):
        return event.tool_input
    return Raw(msgspec.json.encode({**json_object(event.tool_input), "directory": event.directory}))


def is_main_of(approval: PendingApproval, run: str | None) -> bool:
    """Whether the main agent sent the approval request in this run. One from a subagent may belong to another
    process."""
    return approval.request.agent_id is None and run is not None and approval.request.run_id == run


def _age_of(approval: PendingApproval) -> float:
    """Seconds since the agent asked; 0 if the clock was set back since."""
    return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(approval.created_at)).total_seconds())
