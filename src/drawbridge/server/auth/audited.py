"""The fields that the audit log records about a client's command, such as the project, the tool and the file, but never
contents. Pure.

The commands' rows (``app.command_table``) determine which commands are audited.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, Protocol, TypeVar

from msgspec import Struct

from drawbridge.server.events import (
    Answered,
    ApprovalRequested,
    Audited,
    CommentedOnReview,
    CommittedFromReview,
    DecidedOnReview,
    RevertedRun,
    RunContinued,
    SubmittedReview,
)
from drawbridge.server.protocol import commands
from drawbridge.server.protocol.answers import Answer
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.messages import ReviewPushed
from drawbridge.server.protocol.replies import Accepted, DeviceRevoked, DirectoryCreated, PairCreated

C = TypeVar("C", contravariant=True)
R = TypeVar("R", contravariant=True)

SECURITY: Final = frozenset(
    {"BUDGET_EXCEEDED", "DISK_LIMIT", "OUT_OF_SCOPE", "PERMISSION_DENIED", "RESOURCE_LIMIT", "UNKNOWN_OPTION"}
)
"""The error codes of refusals that are audited: a client requested more than the owner allows. The entrance audits its
own refusals."""

PLACES: Final = ("file_path", "notebook_path", "path")
"""The fields of a tool's input that name its file."""


def _nothing(command: object, reply: object) -> dict[str, Any]:
    return {}


class AuditEntry(Struct, Generic[C, R], frozen=True):
    """The audit log entry for a command that was executed: its ``event``, and ``fields``, which returns the fields that
    it has in addition to the project and the sender. ``fields`` is called with the command and the data of its reply.

    ``by_bus``: whether the entry is written for an event on the bus, instead of for the command; the event reports the
    action on every surface (see ``Entrance.published``).
    """

    event: str
    fields: Callable[[C, R], dict[str, Any]] = _nothing
    by_bus: bool = False


def done(audit: AuditEntry[C, R], command: C, answer: Answer[R]) -> dict[str, Any]:
    """The fields of the audit log entry for a command that was executed, except the ones about the sender."""
    project_id = answer.project_id or getattr(command, "project_id", None)
    return {"project_id": project_id, **audit.fields(command, answer.data)}


def refused(error: ClientError, name: str | None, command: commands.Command | None) -> dict[str, Any] | None:
    """The fields of the audit log entry for a command that was refused, except the ones about the sender; None if the
    code of the refusal is not in ``SECURITY``.

    ``name`` is the type of the command. Both ``name`` and ``command`` are None if the message could not be parsed.
    """
    if error.code not in SECURITY:
        return None
    project_id = getattr(command, "project_id", None) or None
    return {"code": error.code, "command": name, "field": error.field, "project_id": project_id}


# the fields of each command


def execute(command: commands.Execute, reply: Accepted) -> dict[str, Any]:
    options = command.options
    return {
        "run_id": reply.run_id,
        "agent": command.agent,
        "permission_mode": options.permission_mode,
        "steer": command.steer or None,
        "skip_permissions": options.dangerously_skip_permissions or None,
    }


def agent_interrupt(command: commands.AgentInterrupt, reply: object) -> dict[str, Any]:
    return {"all": command.all or None, "schedule": command.schedule or None}


class OfSession(Protocol):
    """A command that names a session. ``session_id``: None for the project's current session."""

    @property
    def session_id(self) -> str | None: ...


def of_session(command: OfSession, reply: object) -> dict[str, Any]:
    return {"session_id": command.session_id}


class OfRun(Protocol):
    """A command that names a run."""

    run_id: str


def of_run(command: OfRun, reply: object) -> dict[str, Any]:
    return {"run_id": command.run_id}


def review_push(command: commands.ReviewPush, reply: ReviewPushed) -> dict[str, Any]:
    return {
        "commit": reply.commit,
        "remote": reply.remote,
        "branch": reply.branch,
        "pull_request": reply.pull_request,
    }


def set_mode(command: commands.SetMode, reply: object) -> dict[str, Any]:
    return {"permission_mode": command.mode}


def set_model(command: commands.SetModel, reply: object) -> dict[str, Any]:
    return {"model": command.model}


def set_effort(command: commands.SetEffort, reply: object) -> dict[str, Any]:
    return {"effort": command.effort}


def project_create(command: commands.ProjectCreate, reply: object) -> dict[str, Any]:
    return {"path": command.path}


def dir_create(command: commands.DirCreate, reply: DirectoryCreated) -> dict[str, Any]:
    return {"path": reply.path}


def device_revoke(command: commands.DeviceRevoke, reply: DeviceRevoked) -> dict[str, Any]:
    return {"device": reply.name, "revoked": reply.device_id}


def pair_create(command: commands.PairCreate, reply: PairCreated) -> dict[str, Any]:
    return {"device": reply.name, "scope": reply.scope}


def _question(request: ApprovalRequested) -> dict[str, Any]:
    if request.proposal is not None:
        return {"tool": request.tool_name, "path": request.proposal.path}
    given = request.given or {}
    found = [given[name] for name in PLACES if isinstance(given.get(name), str)]
    return {"tool": request.tool_name, "path": found[0] if found else None}


# entries for what happened on any surface

ANSWERED: Final = AuditEntry[commands.PermissionResponse, object]("answered", by_bus=True)
REVIEW_DECIDED: Final = AuditEntry[commands.ReviewDecide, object]("review_decided", by_bus=True)
REVIEW_COMMENTED: Final = AuditEntry[commands.ReviewComment, object]("review_commented", by_bus=True)
REVIEW_SUBMITTED: Final = AuditEntry[commands.ReviewSubmit, object]("review_submitted", by_bus=True)
REVIEW_COMMITTED: Final = AuditEntry[commands.ReviewCommit, object]("review_committed", by_bus=True)
REVERTED: Final = AuditEntry[commands.RunRevert, object]("reverted", by_bus=True)


def published(event: Audited) -> tuple[str, Mapping[str, Any], dict[str, Any]]:
    """The entry for an event on the bus: its name, the fields about who caused it, and all other fields except the
    project."""
    match event:
        case RunContinued():
            return "continued", {"by": event.by}, {"run_id": event.run_id}
        case Answered():
            answer = {
                "approval_id": event.request.approval_id,
                "decision": event.decision,
                "remember": event.remember or None,
                "changed": event.changed or None,
            }
            return ANSWERED.event, event.surface, answer | _question(event.request)
        case DecidedOnReview():
            decision = {"decision": event.decision, "hunks": event.hunks, "files": event.files}
            return REVIEW_DECIDED.event, event.surface, decision
        case CommentedOnReview():
            comment = {
                "comment_id": event.comment_id,
                "path": event.path,
                "removed": event.removed or None,
                "resolved": event.resolved,
            }
            return REVIEW_COMMENTED.event, event.surface, comment
        case SubmittedReview():
            return REVIEW_SUBMITTED.event, event.surface, {"run_id": event.run_id, "steer": event.steer or None}
        case CommittedFromReview():
            return REVIEW_COMMITTED.event, event.surface, {"commit": event.commit, "branch": event.branch}
        case RevertedRun():
            return REVERTED.event, event.surface, {"run_id": event.run_id}
