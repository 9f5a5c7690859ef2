"""The agent's own dialog in its terminal, which is open at the same time as most approval requests.

This module tracks the questions that can be answered only in the dialog, and what the agent did with a client's
decision, because the user may have answered in the dialog at the same moment.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw, Struct

from drawbridge.agents.base import Decision
from drawbridge.agents.proposals import Reader
from drawbridge.agents.terminal import AskingAgent, Fate
from drawbridge.core.approval import State
from drawbridge.core.errors import UnusableFile
from drawbridge.core.json_text import object_in
from drawbridge.server.approvals.pending import PendingApproval
from drawbridge.server.events import ApprovalRequested

REMEMBERED: Final = 100

OVERRULED: Final = "overruled: it was {} in the terminal at the same moment"

Key = TypeVar("Key")
Value = TypeVar("Value")


class Latest(OrderedDict[Key, Value]):
    """A dictionary that keeps only the last ``REMEMBERED`` keys that were added."""

    def __setitem__(self, key: Key, value: Value) -> None:
        super().__setitem__(key, value)
        if len(self) > REMEMBERED:
            self.popitem(last=False)


class EndedCall(Struct, frozen=True):
    """A tool call that has ended. ``id``: the agent's id for it; empty if it is not known. ``agent_id``: the subagent that
    made it; None for the main agent. ``as_run``: whether ``input`` is what the call ran with, not what the agent
    requested."""

    id: str
    tool: str
    input: Mapping[str, Any]
    fate: Fate
    agent_id: str | None
    as_run: bool

    def is_of(self, agent: AskingAgent, approval: ApprovalRequested, *, exactly: bool = False) -> bool:
        """Whether the approval request may be about this call. ``exactly``: whether the input must be the same."""
        if self.tool != approval.tool_name or self.agent_id != approval.agent_id:
            return False
        as_run = self.as_run and not exactly
        return agent.is_same_call(self.tool, approval.given or {}, self.input, as_run=as_run)


class TerminalOnly:
    """Questions that can be answered only in the agent's own dialog, until the agent is known to have continued.

    There are two kinds: an approval request that was handed over to the terminal, and a dialog that is known only from
    the CLI's notification.
    """

    def __init__(self, agent: AskingAgent) -> None:
        self._agent = agent
        self._asked: list[PendingApproval] = []
        self._noticed = False

    def __bool__(self) -> bool:
        return self._noticed or bool(self._asked)

    @property
    def has_question(self) -> bool:
        """Whether an approval request that was handed over to the terminal is waiting for an answer there."""
        return bool(self._asked)

    def handed_over(self, approval: PendingApproval) -> None:
        self._asked.append(approval)

    def noticed(self) -> None:
        """Adds a dialog that the CLI notified the user of, and for which no approval request is known."""
        self._noticed = True

    def called(self) -> None:
        """Forgets the dialog that is known only from a notification. It is closed, because a tool call has ended."""
        self._noticed = False

    def about(self, call: EndedCall) -> list[PendingApproval]:
        """The approval requests that may be about ``call``."""
        return [approval for approval in self._asked if call.is_of(self._agent, approval.request)]

    def answered(self, approval: PendingApproval) -> None:
        """Forgets a question that was answered."""
        self._asked.remove(approval)

    def continued(self, agent_id: str | None) -> None:
        """Forgets the dialog of an agent that has continued with something else."""
        self._noticed = False
        self._asked = [approval for approval in self._asked if approval.request.agent_id != agent_id]

    def only(self, agents: Collection[str]) -> None:
        """Forgets the questions of all agents except the subagents ``agents``, which are still running."""
        self._asked = [approval for approval in self._asked if approval.request.agent_id in agents]


class Overruled(Struct, frozen=True):
    """A client's decision that did not take effect. ``reason``: the explanation that clients show."""

    approval: PendingApproval
    reason: str


class _ClientDecision(Struct, frozen=True):
    """A client's decision. ``repeated``: whether the agent has asked about the same call again. Such a
    decision is never overruled."""

    approval: PendingApproval
    decision: Decision
    repeated: bool = False


class DecisionOutcome(Struct, frozen=True):
    """The effect of a client's decision on ``approval``. ``otherwise``: what happened instead, in words; None if the
    decision took effect, or if that can't be determined. ``as_decided``: whether the decision took effect. ``exact``:
    whether the input of the call is exactly the one that was decided on."""

    approval: PendingApproval
    otherwise: str | None
    as_decided: bool
    exact: bool


class ClientDecisions:
    """Clients' decisions, until it is known whether the agent followed them. ``read``: the function that reads a
    file."""

    def __init__(self, agent: AskingAgent, read: Reader) -> None:
        self._agent = agent
        self._read = read
        self._decisions: Latest[str, _ClientDecision] = Latest()

    def __iter__(self) -> Iterator[PendingApproval]:
        return iter([given.approval for given in self._decisions.values() if not given.repeated])

    def add(self, approval: PendingApproval, decision: Decision) -> None:
        self._decisions[approval.id] = _ClientDecision(approval, decision)

    def asked_again(self, approval: PendingApproval) -> None:
        """Marks earlier decisions as repeated if the agent may be asking about the same call again. It may also be an
        identical call at the same time, so the earlier decisions are kept."""
        asked = approval.request
        again = EndedCall("", asked.tool_name, asked.given or {}, "ran", asked.agent_id, as_run=True)
        for id, former in self._decisions.items():
            if again.is_of(self._agent, former.approval.request):
                self._decisions[id] = msgspec.structs.replace(former, repeated=True)

    def forget(self, approval: PendingApproval) -> None:
        self._decisions.pop(approval.id, None)

    def main_stopped(self) -> None:
        """Forgets the decisions on the main agent's questions, because its turn is over, so their outcome will not be
        seen.
        """
        for id, given in list(self._decisions.items()):
            if given.approval.request.agent_id is None:
                del self._decisions[id]

    def not_delivered(self, reason: str) -> list[Overruled]:
        """Overrules the decisions that allowed a call by the main agent. They did not reach the agent, because it asks
        in its terminal although no approval request is open. Returns what was overruled."""
        overruled = []
        for approval in self:
            if (
                approval.request.agent_id is None
                and self._decisions[approval.id].decision.allow
                and approval.overrule()
            ):
                del self._decisions[approval.id]
                overruled.append(Overruled(approval, reason))
        return overruled

    def about(self, call: EndedCall) -> list[DecisionOutcome]:
        """The outcomes of the decisions that may be about ``call``."""
        found = []
        for given in self._decisions.values():
            approval, decision = given.approval, given.decision
            if approval.state is not State.DECIDED:
                continue  # the decision was overruled in the meantime, so this call may belong to another request
            changed = decision.updated_input
            same_agent = call.agent_id == approval.request.agent_id
            is_changed = bool(call.as_run and same_agent and changed and _holds(call.input, changed))
            if is_changed or call.is_of(self._agent, approval.request):
                exact = is_changed or call.is_of(self._agent, approval.request, exactly=True)
                did = self._otherwise(approval, decision, call.input if call.as_run else None, call.fate)
                as_decided = did is None and decision.allow == (call.fate == "ran")
                found.append(DecisionOutcome(approval, did, as_decided, exact))
        return found

    def settle(self, outcome: DecisionOutcome) -> Overruled | None:
        """Forgets a decision, because its outcome is known. Returns it if it was overruled."""
        approval, repeated = outcome.approval, self._decisions.pop(outcome.approval.id).repeated
        if outcome.otherwise is None:
            approval.confirm()
        elif not repeated and approval.overrule():
            return Overruled(approval, OVERRULED.format(outcome.otherwise))
        return None

    def _otherwise(
        self,
        approval: PendingApproval,
        decision: Decision,
        ran_with: Mapping[str, Any] | None,
        fate: Fate,
    ) -> str | None:
        """A description of what happened instead of the decision; None if the decision took effect, or if that can't be
        determined."""
        if fate == "denied" or not decision.allow:
            return "allowed" if fate == "ran" else None
        if fate == "rejected":
            return "rejected"
        if not self._agent.reports_input(approval.request.tool_name):
            return None
        changed = decision.updated_input
        wanted = (approval.request.given or {}) if changed is None else changed
        if ran_with is not None and _holds(ran_with, wanted):
            return None
        proposal = approval.request.proposal
        if proposal is None:
            return "allowed unchanged" if changed is not None and ran_with is not None else None
        try:
            text = self._read(proposal.path)
        except UnusableFile:
            return None
        expected = approval.text_after(decision)
        return None if text == expected or expected is None else "allowed with different text"


def _holds(after: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(name in after and after[name] == value for name, value in wanted.items())


def json_object(data: Raw) -> Mapping[str, Any]:
    """The JSON object in ``data``; an empty object if ``data`` contains anything else."""
    return object_in(bytes(data)) or {}
