"""Which commands of clients go into the audit, and what of them: who, where, which tool and file; no content. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from drawbridge.server.events import ApprovalRequested
from drawbridge.server.protocol import commands as say
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.messages import Accepted, Answer

EVENTS: Final[Mapping[type[say.Command], str]] = {
    say.Execute: "ran",
    say.PermissionResponse: "answered",
    say.AgentInterrupt: "interrupted",
    say.AgentKill: "killed",
    say.AgentNewSession: "new_session",
    say.SessionResume: "session_resumed",
    say.SessionFork: "session_forked",
    say.RunRevert: "reverted",
    say.SetMode: "mode_set",
    say.SetModel: "model_set",
    say.ProjectCreate: "project_created",
    say.ProjectDelete: "project_deleted",
}
"""Whatever changes something; what only reads is left out."""

SECURITY: Final = frozenset(
    {"BUDGET_EXCEEDED", "DISK_LIMIT", "OUT_OF_SCOPE", "PERMISSION_DENIED", "RESOURCE_LIMIT", "UNKNOWN_OPTION"}
)
"""Refusals that are written down: somebody wanted more than the owner allows. Those of the entrance it writes itself."""

PLACES: Final = ("file_path", "notebook_path", "path")
"""Where a tool's input says which file it is about."""


def done(command: say.Command, answer: Answer, asked: ApprovalRequested | None) -> tuple[str, dict[str, Any]] | None:
    """What to write of a command that was done; None where nothing is. ``asked``: the question that it answers."""
    event = EVENTS.get(type(command))
    if event is None:
        return None
    fields: dict[str, Any] = {"project_id": answer.project_id or getattr(command, "project_id", None)}
    match command:
        case say.Execute(options=options, agent=agent):
            run = answer.data.run_id if isinstance(answer.data, Accepted) else None
            mode, skips = options.permission_mode, options.dangerously_skip_permissions or None
            fields |= {"run_id": run, "agent": agent, "permission_mode": mode, "skip_permissions": skips}
        case say.PermissionResponse(approval_id=id, decision=decision):
            changed = command.updated_input is not None or command.updated_input_blob is not None
            fields |= {"approval_id": id, "decision": decision, "remember": command.remember or None}
            fields |= {"changed": changed or None, **_question(asked)}
        case say.RunRevert(run_id=run_id):
            fields |= {"run_id": run_id}
        case say.SetMode(mode=mode):
            fields |= {"permission_mode": mode}
        case say.SetModel(model=model):
            fields |= {"model": model}
        case say.ProjectCreate(path=path):
            fields |= {"path": path}
    return event, fields


def refused(error: ClientError, command: say.Command | None) -> dict[str, Any] | None:
    """What to write of one that was refused; None where it is none of the owner's business."""
    if error.code not in SECURITY:
        return None
    project_id = getattr(command, "project_id", None) or None
    kind = say.TYPE_OF[type(command)] if command is not None else None
    return {"code": error.code, "command": kind, "field": error.field, "project_id": project_id}


def _question(asked: ApprovalRequested | None) -> dict[str, Any]:
    if asked is None:
        return {}
    if asked.proposal is not None:
        return {"tool": asked.tool_name, "path": asked.proposal.path}
    given = asked.given or {}
    found = [given[name] for name in PLACES if isinstance(given.get(name), str)]
    return {"tool": asked.tool_name, "path": found[0] if found else None}
