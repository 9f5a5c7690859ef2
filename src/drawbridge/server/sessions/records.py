"""The state of a session that follows from its records up to ``seq``. Pure.

It is saved now and then with the metadata, and updated by reading the rest of the history.
"""

from __future__ import annotations

from datetime import datetime
from hashlib import blake2b
from typing import Final

from msgspec import Struct

from drawbridge.server.approvals.pending import Verdict
from drawbridge.server.events import (
    ApprovalRequested,
    ApprovalResolved,
    PermissionWithdrawn,
    PromptAccepted,
    Recorded,
    RunFinished,
    RunStarted,
    SessionChanged,
    SessionReset,
)
from drawbridge.server.protocol import messages
from drawbridge.server.sessions.ceilings import day_of, forget_old

REMEMBERED_REQUESTS: Final = 500

REMEMBERED_VERDICTS: Final = 50


def request_key(request_id: str, text: str) -> str:
    """A client that numbers its requests reuses numbers after it reconnects: only the same prompt makes it a repetition."""
    return f"{request_id} {blake2b(text.encode(), digest_size=8).hexdigest()}"


class Memory(Struct):
    """The state that follows from the records up to ``seq``."""

    seq: int = 0
    session_id: str = ""
    unfinished: dict[str, str] = {}
    """run → the client that requested it, in the order of the requests."""
    requests: dict[str, str] = {}
    """``request_key`` → run, the newest last."""
    approvals: dict[str, str] = {}
    """Open approvals → their run."""
    verdicts: dict[str, Verdict] = {}
    """Approvals that were resolved or withdrawn, the newest last."""
    unproven: bool = False
    """No run of the conversation has completed yet: the agent may have ended before it wrote the conversation down."""
    agent: str = ""
    """The agent of the conversation ``session_id``; empty if not known."""
    last_outcome: str | None = None
    cost_usd: float = 0.0
    days: dict[str, float] = {}
    """The part of the cost on each of the latest days, in local time."""

    def run_of(self, request_id: str, text: str) -> str | None:
        """The run that this request has begun already. An older server kept the id alone."""
        return self.requests.get(request_key(request_id, text)) or self.requests.get(request_id)

    def apply(self, event: Recorded | None, moment: datetime, seq: int | None = None) -> None:
        """One more event, recorded at ``moment`` as number ``seq`` (None: it could not be written). Agents' lines change
        nothing but ``seq``.
        """
        if seq is not None:
            self.seq = seq
        match event:
            case PromptAccepted(run_id, text, by, request_id):
                self.unfinished[run_id] = by
                if request_id is not None:
                    self.requests[request_key(request_id, text)] = run_id
                    while len(self.requests) > REMEMBERED_REQUESTS:
                        del self.requests[next(iter(self.requests))]
            case RunStarted(run_id, _, agent, unprompted):
                self.agent = agent
                if unprompted:  # the others are known by their prompt
                    self.unfinished[run_id] = agent
            case RunFinished(run_id=run_id, outcome=outcome, cost_usd=cost):
                self._finished(run_id, outcome, cost, moment)
            case ApprovalRequested(approval_id, run_id):
                self.approvals[approval_id] = run_id
            case ApprovalResolved():
                self._closed(event.approval_id, Verdict(event.by, event.decision, client_id=event.client_id))
            case PermissionWithdrawn(approval_id, reason):
                self._closed(approval_id, Verdict(reason=reason))
            case SessionChanged(session_id, agent=agent):
                self._in_session(session_id, agent)
            case SessionReset():
                self._in_session("", None)
                self.last_outcome = None

    def _finished(self, run_id: str, outcome: messages.Outcome, cost: float | None, moment: datetime) -> None:
        self.unfinished.pop(run_id, None)
        self.last_outcome = outcome
        self.unproven = self.unproven and outcome != "completed"
        if cost:
            day = day_of(moment)
            self.cost_usd += cost
            self.days[day] = self.days.get(day, 0.0) + cost
            forget_old(self.days)

    def _closed(self, approval_id: str, verdict: Verdict) -> None:
        self.approvals.pop(approval_id, None)
        self.verdicts.setdefault(approval_id, verdict)
        while len(self.verdicts) > REMEMBERED_VERDICTS:
            del self.verdicts[next(iter(self.verdicts))]

    def _in_session(self, session_id: str, agent: str | None) -> None:
        self.session_id = session_id
        self.unproven = bool(session_id) and agent is None  # a conversation that a person chose is there
        self.agent = agent or self.agent
