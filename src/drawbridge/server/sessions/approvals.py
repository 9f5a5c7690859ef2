"""The open questions of one project: asked, answered or taken back, and everybody told. An editor hears of them too."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Final, Literal

import msgspec

from drawbridge.agents.base import Decision
from drawbridge.agents.proposals import changed_text
from drawbridge.core.errors import DrawbridgeError, HistoryNotWritten
from drawbridge.server.events import NOTHING, SHOWN_TEXT, ApprovalResolved
from drawbridge.server.protocol import messages
from drawbridge.server.protocol.client_errors import ClientError, not_written
from drawbridge.server.protocol.messages import Answer
from drawbridge.server.protocol.subscriber import Subscriber
from drawbridge.server.sessions.links import link_targets
from drawbridge.server.sessions.questions import Asked, Questions, permission_request
from drawbridge.server.sessions.reviewers import Answering, Reviewers
from drawbridge.server.sessions.session_store import SessionStore

logger = logging.getLogger("drawbridge.server")

LONGEST_NAME: Final = 200
"""Characters of a tool's name that lists have."""


class Approvals:
    """Iterates over the open ones, the oldest first. ``answering``: what an editor's answer goes to, as a client's does."""

    def __init__(self, project_id: str, store: SessionStore, reviewers: Reviewers, answering: Answering) -> None:
        self.questions = Questions(store.memory.verdicts)
        self._project_id = project_id
        self._store = store
        self._reviewers = reviewers
        self._answering = answering

    def __iter__(self) -> Iterator[Asked]:
        return iter(self.questions)

    def __len__(self) -> int:
        return len(self.questions)

    def ask(self, asked: Asked, agent: str, *, besides: int | None = None, offered: bool = True) -> None:
        """``agent``: its name. ``besides``: a process whose own editor shows this anyway; not ``offered``: some editor does."""
        asked.leads(link_targets(asked.record.given, _path(asked), asked.record.blocked_path))
        self.questions.add(asked)
        asked.recorded(self._store.record(asked.record))
        if offered:
            self._reviewers.offer(asked, agent, self._answering, besides)

    def carry_on(self, asked: Asked, agent: str, *, besides: int | None, offered: bool) -> None:
        """A question of before a restart, of which everybody was told; one that is settled is known to be."""
        self.questions.add(asked)
        if offered and self.questions.find(asked.approval.id):
            self._reviewers.offer(asked, agent, self._answering, besides)

    def let_go(self) -> None:
        """The server ends: what is open stays so in the history."""
        self.questions = Questions(self._store.memory.verdicts)

    def answer(
        self, approval_id: str, decision: Decision, by: Subscriber
    ) -> tuple[Asked, Answer[messages.PermissionResolved]]:
        """The first answer: it is in the history and the others are notified. Raises ``ClientError`` for any other, and for one
        that can't be written: the question stays open, since an agent must not get an answer that is not in the history."""
        asked = self.questions.answerable(approval_id, decision)
        word: Literal["allow", "deny"] = "allow" if decision.allow else "deny"
        resolved = ApprovalResolved(
            approval_id=approval_id,
            by=by.name,
            decision=word,
            message=decision.message,
            updated_input=NOTHING if decision.updated_input is None else decision.updated_input,
            remember=decision.remember,
            client_id=by.id,
            **_edited(asked, decision),
        )
        try:
            seq = self._store.write(resolved, by)
        except DrawbridgeError as error:
            logger.error("%s: the answer to %s could not be written: %s", self._project_id, approval_id, error)
            refused = not_written(error)
            text = f"{refused.text} The agent was not given the answer, and the question stays open."
            raise ClientError(refused.code, text, retryable=isinstance(error, HistoryNotWritten)) from None
        self.questions.answer(approval_id, decision, by.name, by.id)
        return asked, messages.updated("permission_resolved", resolved.shown, self._project_id, seq)

    def withdraw(self, asked: Asked, reason: str) -> bool:
        """Whether it was still open."""
        if not self.questions.withdraw(asked, reason):
            return False
        self._store.record(messages.PermissionWithdrawn(asked.approval.id, reason))
        return True

    def waiting(self) -> list[messages.Waiting]:
        """As lists have them."""
        return [
            messages.Waiting(asked.approval.id, asked.record.tool_name[:LONGEST_NAME], asked.created_at)
            for asked in self
        ]

    def shown(self, room: int) -> list[messages.PermissionRequest]:
        """As a snapshot has them: in ``room`` bytes altogether."""
        each = room // max(len(self), 1) - messages.ROOM
        return [permission_request(self._project_id, asked.record, asked.created_at, asked.seq, each) for asked in self]


def _path(asked: Asked) -> str | None:
    return asked.record.proposal.path if asked.record.proposal else None


def _edited(asked: Asked, decision: Decision) -> dict[str, Any]:
    """The fields of a record that show whether the agent may do something else than it asked for, and the file's new text."""
    if not decision.allow or decision.updated_input is None:
        return {}
    try:
        given = msgspec.json.decode(bytes(decision.updated_input))
    except (msgspec.MsgspecError, RecursionError):
        return {"edited": True}
    record = asked.record
    if record.proposal is None or not isinstance(given, dict):
        same = _encode(given) == _encode(record.given)
        return {} if same else {"edited": True}
    text = changed_text(record.tool_name, given, record.proposal.old_text)
    if text == record.proposal.new_text:
        return {}
    return {"edited": True, "new_text": text if text is not None and len(text) <= SHOWN_TEXT else None}


def _encode(value: Any) -> bytes:
    """Equal for equal JSON values only: in Python ``1 == True``."""
    return msgspec.json.encode(value, order="deterministic")
