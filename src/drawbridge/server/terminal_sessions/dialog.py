"""The agent's own dialog in its terminal, which is open beside every approval: what only it can answer, and what the agent
did with a client's decision, while the person may have answered there at the same moment.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, TypeVar

from msgspec import Raw, Struct

from drawbridge.agents.base import Decision
from drawbridge.agents.claude.prompts import LEAVING_PLAN
from drawbridge.agents.claude.transcript import Fate
from drawbridge.agents.proposals import Reader, changed_text
from drawbridge.core.errors import UnusableFile
from drawbridge.server.approvals.pending import PendingApproval
from drawbridge.server.terminal_sessions.hook_events import json_object, same_call

REMEMBERED: Final = 100

OVERRULED: Final = "overruled: it was {} in the terminal at the same moment"

Key = TypeVar("Key")
Value = TypeVar("Value")


class Latest(OrderedDict[Key, Value]):
    """Contains the ``REMEMBERED`` latest keys; the oldest are removed."""

    def __setitem__(self, key: Key, value: Value) -> None:
        super().__setitem__(key, value)
        if len(self) > REMEMBERED:
            self.popitem(last=False)


class TerminalOnly:
    """Questions that only the agent's own dialog can answer, until they are known to be over.

    There are two kinds: an approval that was handed over to the terminal, and a dialog of which nothing is known but the CLI's
    notification.
    """

    def __init__(self) -> None:
        self._asked: list[PendingApproval] = []
        self._noticed = False

    def __bool__(self) -> bool:
        return self._noticed or bool(self._asked)

    @property
    def has_question(self) -> bool:
        """Whether an approval that was handed over waits there."""
        return bool(self._asked)

    def handed_over(self, approval: PendingApproval) -> None:
        self._asked.append(approval)

    def noticed(self) -> None:
        """The CLI has notified the person of a dialog. One that is known already is not counted twice."""
        self._noticed = not self._asked

    def called(self, tool: str, given: Raw, agent_id: str | None, *, as_run: bool) -> None:
        """A call was seen to end: what was asked about it is answered."""
        after = json_object(given)
        self._noticed = False
        self._asked = [
            approval
            for approval in self._asked
            if approval.request.agent_id != agent_id or not same_call(approval.request, tool, after, as_run=as_run)
        ]

    def continued(self, agent_id: str | None) -> None:
        """The agent has continued with something else, so its dialog is closed."""
        self._noticed = False
        self._asked = [approval for approval in self._asked if approval.request.agent_id != agent_id]

    def only(self, agents: Collection[str]) -> None:
        """Only these subagents still run."""
        self._asked = [approval for approval in self._asked if approval.request.agent_id in agents]


class Overruled(Struct, frozen=True):
    """``reason`` is for people."""

    approval: PendingApproval
    reason: str


class Outcomes:
    """Decisions of clients, until it is seen what the agent did. ``read``: how a file is read."""

    def __init__(self, read: Reader) -> None:
        self._read = read
        self._given: Latest[str, tuple[PendingApproval, Decision]] = Latest()

    def __iter__(self) -> Iterator[PendingApproval]:
        return iter([approval for approval, _ in self._given.values()])

    def add(self, approval: PendingApproval, decision: Decision) -> None:
        self._given[approval.id] = (approval, decision)

    def asked_again(self, approval: PendingApproval) -> None:
        """The agent asks about the same thing: what was answered before is over."""
        given = json_object(approval.request.input)
        for id, (former, _) in list(self._given.items()):
            same_agent = former.request.agent_id == approval.request.agent_id
            if same_agent and same_call(former.request, approval.request.tool_name, given, as_run=True):
                del self._given[id]

    def forget(self, approval: PendingApproval) -> None:
        self._given.pop(approval.id, None)

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
        """What was done instead; None if what was decided was done."""
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
            return "allowed unchanged" if changed is not None and ran_with is not None else None
        try:
            text = self._read(proposal.path)
        except UnusableFile:
            return None
        expected = changed_text(approval.request.tool_name, wanted, proposal.old_text)
        return None if text == expected or expected is None else "allowed with different text"


def _holds(after: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(name in after and after[name] == value for name, value in wanted.items())
