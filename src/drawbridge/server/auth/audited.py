"""What the audit log contains of a client's command: who, where, which tool and file; no content. Pure.

Which commands are audited is in their rows (``app.command_table``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct

from drawbridge.server.events import ApprovalRequested
from drawbridge.server.protocol import commands
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.messages import Answer
from drawbridge.server.protocol.replies import Accepted

C = TypeVar("C", contravariant=True)
R = TypeVar("R", contravariant=True)

SECURITY: Final = frozenset(
    {"BUDGET_EXCEEDED", "DISK_LIMIT", "OUT_OF_SCOPE", "PERMISSION_DENIED", "RESOURCE_LIMIT", "UNKNOWN_OPTION"}
)
"""Refusals that are audited: a client requested more than the owner allows. The entrance audits its own refusals."""

PLACES: Final = ("file_path", "notebook_path", "path")
"""Fields of a tool's input that name its file."""


def _nothing(command: object, reply: object, asked: ApprovalRequested | None) -> dict[str, Any]:
    return {}


class Audit(Struct, Generic[C, R], frozen=True):
    """The audit line of a command that was executed: its ``event``, and ``fields`` beside the project and the sender.

    ``fields`` is called with the command, the data of its reply, and the approval that it decides, if that is open.
    """

    event: str
    fields: Callable[[C, R, ApprovalRequested | None], dict[str, Any]] = _nothing


def done(audit: Audit[C, R], command: C, answer: Answer[R], asked: ApprovalRequested | None) -> dict[str, Any]:
    """The fields of the audit line of a command that was executed."""
    project_id = answer.project_id or getattr(command, "project_id", None)
    return {"project_id": project_id, **audit.fields(command, answer.data, asked)}


def refused(error: ClientError, name: str | None, command: commands.Command | None) -> dict[str, Any] | None:
    """The fields of the audit line of a command that was refused; None if the refusal is not in ``SECURITY``.

    ``name``, ``command``: None if the message could not be parsed.
    """
    if error.code not in SECURITY:
        return None
    project_id = getattr(command, "project_id", None) or None
    return {"code": error.code, "command": name, "field": error.field, "project_id": project_id}


# the fields of each command


def execute(command: commands.Execute, reply: Accepted, asked: ApprovalRequested | None) -> dict[str, Any]:
    options = command.options
    return {
        "run_id": reply.run_id,
        "agent": command.agent,
        "permission_mode": options.permission_mode,
        "skip_permissions": options.dangerously_skip_permissions or None,
    }


def permission_response(
    command: commands.PermissionResponse, reply: object, asked: ApprovalRequested | None
) -> dict[str, Any]:
    changed = command.updated_input is not None or command.updated_input_blob is not None
    return {
        "approval_id": command.approval_id,
        "decision": command.decision,
        "remember": command.remember or None,
        "changed": changed or None,
        **_question(asked),
    }


def run_revert(command: commands.RunRevert, reply: object, asked: ApprovalRequested | None) -> dict[str, Any]:
    return {"run_id": command.run_id}


def set_mode(command: commands.SetMode, reply: object, asked: ApprovalRequested | None) -> dict[str, Any]:
    return {"permission_mode": command.mode}


def set_model(command: commands.SetModel, reply: object, asked: ApprovalRequested | None) -> dict[str, Any]:
    return {"model": command.model}


def project_create(command: commands.ProjectCreate, reply: object, asked: ApprovalRequested | None) -> dict[str, Any]:
    return {"path": command.path}


def _question(asked: ApprovalRequested | None) -> dict[str, Any]:
    if asked is None:
        return {}
    if asked.proposal is not None:
        return {"tool": asked.tool_name, "path": asked.proposal.path}
    given = asked.given or {}
    found = [given[name] for name in PLACES if isinstance(given.get(name), str)]
    return {"tool": asked.tool_name, "path": found[0] if found else None}
