"""A project's open questions, each an approval that the first answer settles; and the latest settled ones, for who
comes late. Pure.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Raw

from drawbridge.agents.base import Decision, Question
from drawbridge.core.approval import Approval, State
from drawbridge.server.events import ApprovalRequested
from drawbridge.server.protocol import messages
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.preview import shortened
from drawbridge.server.sessions import records

SETTLED_KEPT = 200


class Asked:
    """A question: the approval, what the history keeps of it, and the agent's own number for it."""

    def __init__(self, record: ApprovalRequested, question_id: str, created_at: str, seq: int = 0) -> None:
        self.approval: Approval[Decision] = Approval(record.approval_id)
        self.question_id = question_id
        self.changeable = record.changeable
        self.created_at = created_at
        self.seq = seq
        self.record = record

    @classmethod
    def new(cls, question: Question, run_id: str, created_at: str, known_as: str = "") -> Asked:
        record = ApprovalRequested(
            approval_id=f"appr_{uuid.uuid4().hex}",
            run_id=run_id,
            tool_name=question.tool_name,
            input=question.input,
            suggestions=question.suggestions,
            proposal=question.proposal,
            changeable=question.changeable,
            known_as=known_as,
            asked_by=question.asked_by,
            reason=question.reason,
            blocked_path=question.blocked_path,
        )
        return cls(record, question.question_id, created_at)

    def leads(self, link_targets: dict[str, str]) -> None:
        """Which of its paths lead through a symbolic link, with their ends."""
        self.record = msgspec.structs.replace(self.record, link_targets=link_targets)

    def recorded(self, seq: int | None) -> None:
        """It is in the history as number ``seq``; None: that can't be written."""
        self.seq = seq or 0


class Questions:
    """Iterates over the open ones, the oldest first. ``before``: what became of those of earlier lives of the server."""

    def __init__(self, before: Mapping[str, records.Verdict]) -> None:
        self._before = before
        self._open: dict[str, Asked] = {}
        self._settled: OrderedDict[str, records.Verdict] = OrderedDict()

    def __iter__(self) -> Iterator[Asked]:
        return iter(list(self._open.values()))

    def __len__(self) -> int:
        return len(self._open)

    def add(self, asked: Asked) -> None:
        """A new one, or one of before a restart, however it stands."""
        self._open[asked.approval.id] = asked
        if asked.approval.state is not State.OPEN:
            self._settle(asked)

    def find(self, approval_id: str) -> Asked | None:
        """One that is open."""
        return self._open.get(approval_id)

    def answerable(self, approval_id: str, decision: Decision) -> Asked:
        """The open question that this can be the answer to. Raises ``ClientError`` where there is no such question, or it is
        resolved."""
        asked = self._open.get(approval_id)
        if asked is not None and decision.updated_input is not None and not asked.changeable:
            text = (
                "This agent takes no other input than its own. The question stays open: allow it as it is, or deny it."
            )
            raise ClientError("NOT_SUPPORTED", text, field="data.updated_input")
        if asked is None or asked.approval.state is not State.OPEN:
            raise self._too_late(approval_id)
        return asked

    def answer(self, approval_id: str, decision: Decision, by: str, client_id: str | None = None) -> Asked:
        """The first answer, of the client ``client_id`` whose name is ``by``. Raises ``ClientError`` as ``answerable`` does."""
        asked = self.answerable(approval_id, decision)
        asked.approval.decide(by, decision)
        self._settle(asked, client_id)
        return asked

    def withdraw(self, asked: Asked, reason: str) -> bool:
        """Whether it was still open."""
        if not asked.approval.withdraw(reason):
            return False
        self._settle(asked)
        return True

    def _too_late(self, approval_id: str) -> ClientError:
        verdict = self._verdict(approval_id)
        if verdict is None:
            return ClientError("APPROVAL_NOT_FOUND", "There is no such question here.", field="data.approval_id")
        if verdict.decision is None:
            reason = {"reason": verdict.reason}
            return ClientError("APPROVAL_RESOLVED", "The question was taken back.", details=reason)
        given = {"by": verdict.by, "decision": verdict.decision}
        if verdict.client_id is not None:
            given["client_id"] = verdict.client_id
        return ClientError("APPROVAL_RESOLVED", f"{verdict.by} has answered already.", details=given)

    def _verdict(self, approval_id: str) -> records.Verdict | None:
        return self._settled.get(approval_id) or self._before.get(approval_id)

    def _settle(self, asked: Asked, client_id: str | None = None) -> None:
        approval = asked.approval
        del self._open[approval.id]
        if approval.decision is None:
            verdict = records.Verdict(reason=approval.reason)
        else:
            decision = "allow" if approval.decision.allow else "deny"
            verdict = records.Verdict(approval.decided_by, decision, client_id=client_id)
        self._settled[approval.id] = verdict
        if len(self._settled) > SETTLED_KEPT:
            self._settled.popitem(last=False)


def permission_request(
    project_id: str,
    asked: ApprovalRequested,
    created_at: str,
    seq: int,
    limit: int = messages.FRAME_BYTES - messages.ROOM,
) -> Any:
    """An approval as clients are shown it: a ``PermissionRequest``, or the JSON of its preview where that has more than
    ``limit`` bytes. ``created_at``, ``seq``: of its record.
    """
    proposal = asked.proposal
    shown = messages.PermissionRequest(
        **{name: getattr(asked, name) for name in ("approval_id", "run_id", "tool_name", "input", "suggestions")},
        created_at=created_at,
        seq=seq,
        proposal=messages.ProposalOf(proposal.path, proposal.old_text, proposal.new_text) if proposal else None,
        changeable=asked.changeable,
        link_targets=asked.link_targets,
        asked_by=asked.asked_by,
        reason=asked.reason,
        blocked_path=asked.blocked_path,
    )
    whole = msgspec.json.encode(shown)
    if len(whole) <= limit:
        return shown
    blob = msgspec.json.encode(messages.Truncated(messages.history_blob(project_id, seq), len(whole)))
    return Raw(shortened(whole, limit)[:-1] + b',"truncated":' + blob + b"}")
