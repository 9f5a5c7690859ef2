"""What the agent of a terminal session did with a client's decision: its own dialog is open all the time, and may be answered
at the same moment. What the agent has done counts; the client that had decided is notified then.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Raw, Struct

from drawbridge.agents.base import Decision
from drawbridge.agents.claude.prompts import LEAVING_PLAN
from drawbridge.agents.proposals import Reader, changed_text
from drawbridge.core.errors import UnusableFile
from drawbridge.server.approvals.pending import PendingApproval
from drawbridge.server.terminal_sessions.hook_events import json_object, same_call
from drawbridge.server.terminal_sessions.transcript import Fate

REMEMBERED: Final = 100

OVERRULED: Final = "overruled: it was {} in the terminal at the same moment"


class Overruled(Struct, frozen=True):
    """``reason`` is for people."""

    approval: PendingApproval
    reason: str


class Outcomes:
    """Answers that were given, until it is seen what became of them. ``read``: how a file is read."""

    def __init__(self, read: Reader) -> None:
        self._read = read
        self._given: OrderedDict[str, tuple[PendingApproval, Decision]] = OrderedDict()

    def __iter__(self) -> Iterator[PendingApproval]:
        return iter([approval for approval, _ in self._given.values()])

    def add(self, approval: PendingApproval, decision: Decision) -> None:
        self._given[approval.id] = (approval, decision)
        if len(self._given) > REMEMBERED:
            self._given.popitem(last=False)

    def asked_again(self, approval: PendingApproval) -> None:
        """The agent asks about the same thing: what was answered before is over."""
        given = json_object(approval.request.input)
        for id, (former, _) in list(self._given.items()):
            same_agent = former.request.agent_id == approval.request.agent_id
            if same_agent and same_call(former.request, approval.request.tool_name, given, as_run=True):
                del self._given[id]

    def clear(self) -> None:
        """No hook will report about any of them any more."""
        self._given.clear()

    def main_stopped(self) -> None:
        """The main agent's turn is over: nothing more will be seen of what it has asked."""
        for id, (approval, _) in list(self._given.items()):
            if approval.request.agent_id is None:
                del self._given[id]

    def not_delivered(self, reason: str) -> list[Overruled]:
        """The main agent asks in its terminal, and nothing is open: what was allowed did not reach it."""
        overruled = []
        for id, (approval, decision) in list(self._given.items()):
            if approval.request.agent_id is None and decision.allow and approval.overrule():
                del self._given[id]
                overruled.append(Overruled(approval, reason))
        return overruled

    def called(
        self, tool: str, given: Raw, fate: Fate, agent_id: str | None = None, *, as_run: bool
    ) -> list[Overruled]:
        """A call was seen. ``as_run``: ``given`` is the input that it ran with, not the one that the agent had in mind."""
        overruled = []
        for id, (approval, decision) in list(self._given.items()):
            changed = json_object(decision.updated_input) if decision.updated_input is not None else None
            after = json_object(given)
            same = same_call(approval.request, tool, after, as_run=as_run)
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
        """What was done instead; None: what was decided."""
        if fate == "denied" or not decision.allow:
            return "allowed" if fate == "ran" else None
        if fate == "rejected":
            return "rejected"
        if approval.request.tool_name == LEAVING_PLAN:  # its hook reports another input than it ran with (2.1.329)
            return None
        wanted = json_object(approval.request.input) if changed is None else changed
        if ran_with is not None and _holds(ran_with, wanted):
            return None
        proposal = approval.request.proposal
        if proposal is None:
            return "allowed as it was" if changed is not None and ran_with is not None else None
        try:
            text = self._read(proposal.path)
        except UnusableFile:
            return None
        expected = changed_text(approval.request.tool_name, wanted, proposal.old_text)
        return None if text == expected or expected is None else "allowed with another text"


def _holds(after: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(name in after and after[name] == value for name, value in wanted.items())
