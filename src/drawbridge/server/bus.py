"""The event bus: passes each event to the receivers that ``RECEIVERS`` names for its type, in that order."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeAlias

from drawbridge.agents.base import AgentLine, OffersReported, StateReported
from drawbridge.server.events import (
    Announced,
    Answered,
    ApprovalRequested,
    ApprovalResolved,
    CommentedOnReview,
    CommittedFromReview,
    DecidedOnReview,
    DiskWarning,
    ExecutionKilled,
    PermissionWithdrawn,
    ProjectCreated,
    ProjectGone,
    PromptAccepted,
    PromptEdited,
    QueueChanged,
    RevertedRun,
    ReviewChanged,
    ReviewCommented,
    ReviewCommitted,
    ReviewDecided,
    ReviewInterrupted,
    ReviewPushed,
    RunContinued,
    RunFinished,
    RunReverted,
    RunStarted,
    SessionChanged,
    SessionDeleted,
    SessionRenamed,
    SessionReset,
    StateChanged,
    SubmittedReview,
)

logger = logging.getLogger("drawbridge.server")

Receiver: TypeAlias = Literal["clients", "editors", "notices", "metrics", "audit"]

RECEIVERS: Final[Mapping[type, tuple[Receiver, ...]]] = {
    AgentLine: ("clients",),
    PromptAccepted: ("clients",),
    PromptEdited: ("clients",),
    QueueChanged: ("clients",),
    RunStarted: ("clients",),
    RunFinished: ("clients", "notices", "metrics"),
    RunReverted: ("clients",),
    ReviewDecided: ("clients",),
    ReviewInterrupted: ("clients",),
    ReviewCommented: ("clients", "editors"),
    ReviewCommitted: ("clients",),
    ReviewPushed: ("clients",),
    ReviewChanged: ("clients", "editors", "notices"),
    RunContinued: ("audit",),
    Answered: ("audit",),
    DecidedOnReview: ("audit",),
    CommentedOnReview: ("audit",),
    SubmittedReview: ("audit",),
    CommittedFromReview: ("audit",),
    RevertedRun: ("audit",),
    ExecutionKilled: ("clients",),
    ApprovalRequested: ("clients", "notices"),
    ApprovalResolved: ("clients", "notices"),
    PermissionWithdrawn: ("clients", "notices"),
    SessionChanged: ("clients",),
    SessionDeleted: ("clients",),
    SessionRenamed: ("clients",),
    SessionReset: ("clients",),
    StateReported: ("clients",),
    OffersReported: ("clients",),
    StateChanged: ("clients",),
    ProjectCreated: ("clients",),
    ProjectGone: ("clients",),
    DiskWarning: ("clients",),
}

TOPICS: Final[Mapping[type, tuple[Literal["projects", "approvals", "reviews"], ...]]] = {
    ApprovalRequested: ("approvals",),
    ApprovalResolved: ("approvals",),
    PermissionWithdrawn: ("approvals",),
    RunFinished: ("projects",),
    RunReverted: ("reviews",),
    ReviewChanged: ("projects", "reviews"),
    ReviewDecided: ("reviews",),
    ReviewInterrupted: ("reviews",),
    ReviewCommented: ("projects", "reviews"),
    ReviewCommitted: ("projects", "reviews"),
    ReviewPushed: ("projects", "reviews"),
    SessionDeleted: ("projects",),
    SessionRenamed: ("projects",),
    StateChanged: ("projects",),
    ProjectCreated: ("projects",),
    ProjectGone: ("projects",),
    DiskWarning: ("projects",),
}
"""Maps types of events to topics. Clients that follow one of the topics receive these events even if they have not
joined the session."""

Handler: TypeAlias = Callable[[Announced], None]


class Bus:
    """Passes events to their receivers, immediately and in order. A handler for every kind of receiver is required, so
    that none can be forgotten.

    An error in a receiver is logged and does not reach the caller, because what the event reports has already happened.
    An agent, for example, must receive the decision that its history contains.
    """

    def __init__(
        self, *, clients: Handler, editors: Handler, notices: Handler, metrics: Handler, audit: Handler
    ) -> None:
        handlers: dict[Receiver, Handler] = {
            "clients": clients,
            "editors": editors,
            "notices": notices,
            "metrics": metrics,
            "audit": audit,
        }
        self._handlers = {
            kind: tuple((one, handlers[one]) for one in receivers) for kind, receivers in RECEIVERS.items()
        }

    def publish(self, announced: Announced) -> None:
        for receiver, handle in self._handlers[type(announced.event)]:
            try:
                handle(announced)
            except Exception:
                kind = type(announced.event).__name__
                whose = announced.project_id or "the server"
                logger.exception("%s: %s failed to handle an event of type %s", whose, receiver, kind)
