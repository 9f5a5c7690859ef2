"""The agent's own dialog in its terminal, which is open at the same time as most approval requests.

This module tracks the questions that can be answered only in the dialog, and what the agent did with a client's
decision: the user may have answered in the dialog at the same moment.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw, Struct

from drawbridge.agents.base import Decision
from drawbridge.agents.proposals import Reader, changed_text
from drawbridge.agents.terminal import Fate, TerminalAgent
from drawbridge.core.errors import UnusableFile
from drawbridge.server.approvals.pending import PendingApproval
from drawbridge.server.events import ApprovalRequested

REMEMBERED: Final = 100

OVERRULED: Final = "overruled: it was {} in the terminal at the same moment"

Key = TypeVar("Key")
Value = TypeVar("Value")


class Latest(OrderedDict[Key, Value]):
    """A dictionary that keeps at most ``REMEMBERED`` keys: those that were added last."""

    def __setitem__(self, key: Key, value: Value) -> None:
        super().__setitem__(key, value)
        if len(self) > REMEMBERED:
            self.popitem(last=False)


class TerminalOnly:
    """Questions that can be answered only in the agent's own dialog, until the agent is known to have continued.

    There are two kinds: an approval request that was handed over to the terminal, and a dialog that is known only from
    the CLI's notification.
    """

    def __init__(self, agent: TerminalAgent) -> None:
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
        """Notes that the CLI has notified the user of a dialog for which no approval request is known."""
        self._noticed = True

    def called(self, tool: str, given: Raw, agent_id: str | None, *, as_run: bool) -> None:
        """Notes that a tool call has ended: the questions about it have been answered."""
        after = json_object(given)
        self._noticed = False
        self._asked = [
            approval
            for approval in self._asked
            if approval.request.agent_id != agent_id
            or not same_call(self._agent, approval.request, tool, after, as_run=as_run)
        ]

    def continued(self, agent_id: str | None) -> None:
        """Notes that the agent has continued with something else, so its dialog is closed."""
        self._noticed = False
        self._asked = [approval for approval in self._asked if approval.request.agent_id != agent_id]

    def only(self, agents: Collection[str]) -> None:
        """Forgets the questions of all agents except the subagents ``agents``, which are still running."""
        self._asked = [approval for approval in self._asked if approval.request.agent_id in agents]


class Overruled(Struct, frozen=True):
    """A client's decision that did not take effect. ``reason``: the explanation that clients show."""

    approval: PendingApproval
    reason: str


class Outcomes:
    """Clients' decisions, until it is known whether the agent followed them. ``read``: the function that reads a
    file."""

    def __init__(self, agent: TerminalAgent, read: Reader) -> None:
        self._agent = agent
        self._read = read
        self._given: Latest[str, tuple[PendingApproval, Decision]] = Latest()

    def __iter__(self) -> Iterator[PendingApproval]:
        return iter([approval for approval, _ in self._given.values()])

    def add(self, approval: PendingApproval, decision: Decision) -> None:
        self._given[approval.id] = (approval, decision)

    def asked_again(self, approval: PendingApproval) -> None:
        """Forgets the earlier decisions on the same call, because the agent asks about it again."""
        given = json_object(approval.request.input)
        for id, (former, _) in list(self._given.items()):
            same_agent = former.request.agent_id == approval.request.agent_id
            if same_agent and same_call(self._agent, former.request, approval.request.tool_name, given, as_run=True):
                del self._given[id]

    def forget(self, approval: PendingApproval) -> None:
        self._given.pop(approval.id, None)

    def main_stopped(self) -> None:
        """Forgets the decisions on the main agent's questions: its turn is over, so their outcome will not be seen."""
        for id, (approval, _) in list(self._given.items()):
            if approval.request.agent_id is None:
                del self._given[id]

    def not_delivered(self, reason: str) -> list[Overruled]:
        """Overrules the decisions that allowed a call of the main agent: it asks in its terminal although no approval
        request is open, so the decisions did not reach it. Returns what was overruled."""
        overruled = []
        for id, (approval, decision) in list(self._given.items()):
            if approval.request.agent_id is None and decision.allow and approval.overrule():
                del self._given[id]
                overruled.append(Overruled(approval, reason))
        return overruled

    def called(
        self, tool: str, given: Raw, fate: Fate, agent_id: str | None = None, *, as_run: bool
    ) -> list[Overruled]:
        """Compares a tool call that has ended with the decisions on it, and returns the decisions that were overruled.
        ``as_run``: whether ``given`` is the input that the call ran with, not the one that the agent requested."""
        overruled = []
        for id, (approval, decision) in list(self._given.items()):
            changed = json_object(decision.updated_input) if decision.updated_input is not None else None
            after = json_object(given)
            same = same_call(self._agent, approval.request, tool, after, as_run=as_run)
            if approval.request.agent_id != agent_id:
                continue
            if not same and not (as_run and changed and _holds(after, changed)):
                continue
            del self._given[id]
            did = self._otherwise(approval, decision, changed, after if as_run else None, fate)
            if did is None:
                approval.confirm()
            elif approval.overrule():
                overruled.append(Overruled(approval, OVERRULED.format(did)))
        return overruled

    def _otherwise(
        self,
        approval: PendingApproval,
        decision: Decision,
        changed: Mapping[str, Any] | None,
        ran_with: Mapping[str, Any] | None,
        fate: Fate,
    ) -> str | None:
        """What happened instead of the decision, in words; None if the decision took effect, or if that can't be
        determined."""
        if fate == "denied" or not decision.allow:
            return "allowed" if fate == "ran" else None
        if fate == "rejected":
            return "rejected"
        if not self._agent.reports_input(approval.request.tool_name):
            return None
        wanted = json_object(approval.request.input) if changed is None else changed
        if ran_with is not None and _holds(ran_with, wanted):
            return None
        proposal = approval.request.proposal
        if proposal is None:
            return "allowed unchanged" if changed is not None and ran_with is not None else None
        try:
            text = self._read(proposal.path)
        except UnusableFile:
            return None
        expected = changed_text(approval.request.tool_name, wanted, proposal.old_text)
        return None if text == expected or expected is None else "allowed with different text"


def _holds(after: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(name in after and after[name] == value for name, value in wanted.items())


def same_call(
    agent: TerminalAgent, approval: ApprovalRequested, tool: str, after: Mapping[str, Any], *, as_run: bool
) -> bool:
    """Whether a call with the input ``after`` is the one that the approval request is about. ``as_run``: as in
    ``TerminalAgent.is_same_call``."""
    if tool != approval.tool_name:
        return False
    return agent.is_same_call(tool, json_object(approval.input), after, as_run=as_run)


def json_object(data: Raw) -> Mapping[str, Any]:
    """The JSON object in ``data``; an empty object if ``data`` contains anything else."""
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except msgspec.MsgspecError:
        return {}
