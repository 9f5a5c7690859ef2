"""An approval request as the server stores it, and the interfaces of its two sides: the askers, through which an agent
waits for the decision, and the surfaces, on which a person decides. Pure.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from msgspec import Struct

from drawbridge.agents.base import Decision, Question
from drawbridge.agents.tool_calls import ToolCall, Tools, UnknownTools
from drawbridge.core.approval import Approval, State
from drawbridge.server.events import ApprovalRequested


class Verdict(Struct, frozen=True, omit_defaults=True):
    """The end of an approval request: the ``decision`` that resolved it, and ``by`` whom it was made; or the ``reason``
    why the request was withdrawn."""

    by: str | None = None
    decision: str | None = None
    reason: str | None = None
    client_id: str | None = None


class PendingApproval(Approval[Decision]):
    """An approval request: its content as the history stores it (``request``), and the id of the agent's question
    (``Question.question_id``). It is interpreted before it is opened or restored."""

    def __init__(
        self, request: ApprovalRequested, question_id: str, created_at: str, seq: int = 0, *, is_described: bool = False
    ) -> None:
        super().__init__(request.approval_id)
        self.request = request
        self._tools: Tools = UnknownTools()
        self.question_id = question_id
        self.created_at = created_at
        self.seq = seq
        self.is_described = is_described
        """Whether ``request`` contains what the server adds to the agent's request."""
        self._predicted: tuple[Decision, str | None] | None = None
        """The decision that ``text_after`` was called with, and the text that it returned; None before."""

    @classmethod
    def new(
        cls,
        question: Question,
        run_id: str,
        created_at: str,
        known_as: str = "",
        look: ApprovalRequested | None = None,
    ) -> PendingApproval:
        """``look``: the result of ``service.look_at`` for the question; None if the disk does not respond."""
        own: dict[str, Any] = {"approval_id": f"appr_{uuid.uuid4().hex}", "run_id": run_id, "known_as": known_as}
        if look is not None:
            return cls(look.described(**own), question.question_id, created_at, is_described=True)
        return cls(ApprovalRequested.of(question, **own), question.question_id, created_at)

    @property
    def is_open(self) -> bool:
        return self.state is State.OPEN

    def interpret(self, tools: Tools) -> None:
        """Sets what the request is about, if it is not known yet. ``tools``: those of the agent that asks."""
        self._tools = tools
        if self.request.call is None:
            self.request = with_call(self.request, tools)

    @property
    def call(self) -> ToolCall:
        """The tool call that the request is about."""
        assert self.request.call is not None, "it has not been interpreted"
        return self.request.call

    def text_after(self, decision: Decision) -> str | None:
        """The text of the file once the agent has done what ``decision`` allows; None if the request does not propose a
        change, or if the text can't be predicted. It is predicted only once for each decision, because the history, an
        editor and the comparison with what the agent does need the same text."""
        request, proposal = self.request, self.request.proposal
        if proposal is None:
            return None
        if self._predicted is None or self._predicted[0] is not decision:
            given = (request.given or {}) if decision.updated_input is None else decision.updated_input
            self._predicted = (decision, self._tools.changed_text(request.tool_name, given, proposal.old_text))
        return self._predicted[1]

    def with_text(self, text: str) -> Mapping[str, Any] | None:
        """The input with which the tool writes ``text``; None if it can't do that, or if the request does not propose a
        change that can be edited."""
        request = self.request
        if request.proposal is None or request.given is None or not request.changeable:
            return None
        return self._tools.with_text(request.tool_name, request.given, request.proposal.old_text, text)

    def shown_fields(self) -> tuple[str, ...]:
        """The fields of the input that the diff of the proposal shows completely; empty without a proposal."""
        request = self.request
        if request.proposal is None or request.given is None:
            return ()
        return self._tools.shown_fields(request.tool_name, request.given, request.proposal)

    def described(self, **fields: Any) -> None:
        """Sets what the server adds to the agent's request: its description, and the targets of its links."""
        self.request = self.request.described(**fields)
        self.is_described = True

    def recorded(self, seq: int | None) -> None:
        """Sets the record's number in the history. ``seq``: None if the record could not be written. The number is then
        0."""
        self.seq = seq or 0

    def verdict(self, client_id: str | None = None) -> Verdict:
        """The decision or the reason with which the request ended. ``client_id``: the connection that decided."""
        if self.decision is None:
            return Verdict(reason=self.reason)
        return Verdict(self.decided_by, "allow" if self.decision.allow else "deny", client_id=client_id)


class Asker(Protocol):
    """Something through which an agent waits for the decision: its process, a hook, or the editor in which the agent
    itself shows the change. ``pid``: the id of the agent's process, if it is known."""

    pid: int | None
    in_editor: bool
    """Whether this asker itself shows the request in an editor."""
    known_as: str
    """A key that identifies the question when another connection reports it again; empty if it can't be identified."""

    def decided(self, approval: PendingApproval, decision: Decision, by: str) -> None:
        """Passes the decision to the agent."""
        ...

    def closed(self) -> None:
        """Closes the request, because its decision is no longer needed or the agent has received it through another
        asker."""
        ...


class Surface(Protocol):
    """Something on which a person decides: a connected client, or an editor. Its ``name`` is for other clients and the
    history."""

    id: str
    name: str

    @property
    def audited(self) -> Mapping[str, Any]:
        """The fields of an audit log entry that identify it."""
        ...


class AskingProcess:
    """The agent's own process, which the server runs. ``answer`` sends it the decision on the question with this id."""

    pid: int | None = None
    in_editor = False
    known_as = ""

    def __init__(self, answer: Callable[[str, Decision], None]) -> None:
        self._answer = answer

    def decided(self, approval: PendingApproval, decision: Decision, by: str) -> None:
        self._answer(approval.question_id, decision)

    def closed(self) -> None:
        """Does nothing, because the process is stopped or interrupted by other means, or no longer waits."""


class ExpectedAsker:
    """Represents a hook or an editor that asked before a restart and is expected to report again."""

    known_as = ""

    def __init__(self, pid: int | None, *, is_certain: bool) -> None:
        """``is_certain``: whether this process is known to be the one that asked."""
        self.pid = pid
        self.is_certain = is_certain
        self.in_editor = pid is None  # only bridges ask on behalf of an agent whose process is unknown

    def decided(self, approval: PendingApproval, decision: Decision, by: str) -> None:
        """Does nothing, because the asker receives the decision when it reports again."""

    def closed(self) -> None:
        pass


def with_call(request: ApprovalRequested, tools: Tools) -> ApprovalRequested:
    """The request with its ``call`` and its ``kind``, also for a record of an earlier version. ``tools``: those of the
    agent that asks."""
    call = tools.call(request.tool_name, request.given or {}, request.suggestions, request.form)
    return request.described(call=call, kind=request.kind or call.kind)
