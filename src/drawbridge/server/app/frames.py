"""Events as the messages that clients receive: the same bytes live and in a replay of the history. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from drawbridge.server import events
from drawbridge.server.approvals.pending import permission_request
from drawbridge.server.events import AgentLine, Announced, ApprovalRequested, ApprovalResolved, PromptAccepted, Stored
from drawbridge.server.protocol import messages
from drawbridge.server.protocol.messages import Answer
from drawbridge.server.protocol.subscriber import Frame


def frame(announced: Announced) -> Frame:
    """What clients receive when the event happens. An agent's line goes in as it came."""
    seq, timestamp = (announced.seq if isinstance(announced, Stored) else None), announced.timestamp
    project_id, event = announced.project_id, announced.event
    match event:
        case AgentLine() | PromptAccepted():
            direction, message = events.written(event)
            data = messages.agent_message(
                message,
                project_id=project_id or "",
                session_id=event.session_id if isinstance(event, AgentLine) else "",
                direction=direction,
                timestamp=timestamp,
                seq=seq,
            )
            return Frame(data, ephemeral=seq is None, project_id=project_id, seq=seq)
        case ApprovalRequested():
            return _request(project_id or "", event, timestamp or "", seq)
        case ApprovalResolved():
            fields: Any = event.shown
        case events.StateChanged(state):
            fields = state
        case events.ProjectCreated(info):
            fields = info
        case _:
            fields = event
    return _update(events.KINDS[type(event)], fields, project_id, seq)


def replayed(project_id: str, record: bytes) -> Frame:
    """The frame that a client receives for a record that it has missed. Raises ``events.NOT_OURS``."""
    found = events.parts(record)
    if found.direction != "server":
        named = msgspec.json.decode(found.message, type=events.OfAgent)
        data = messages.agent_message(
            bytes(found.message),
            project_id=project_id,
            session_id=named.id,
            direction="client" if found.direction == "client" else "claude",
            timestamp=found.timestamp,
            seq=found.seq,
        )
        return Frame(data, project_id=project_id, seq=found.seq)
    of_server = msgspec.json.decode(found.message, type=events.OfServer)
    match of_server.subtype:
        case "permission_request":
            request = msgspec.json.decode(of_server.message, type=ApprovalRequested)
            return _request(project_id, request, found.timestamp, found.seq)
        case "permission_resolved":
            fields: Any = msgspec.json.decode(of_server.message, type=ApprovalResolved).shown
        case _:
            fields = of_server.message
    return _update(of_server.subtype, fields, project_id, found.seq)


def _request(project_id: str, event: ApprovalRequested, timestamp: str, seq: int | None) -> Frame:
    data = permission_request(project_id, event, timestamp, seq or 0)
    answer = Answer(type="permission_request", project_id=project_id, seq=seq, data=data)
    return Frame(messages.encode(answer), project_id=project_id, seq=seq)


def _update(kind: str, fields: Any, project_id: str | None, seq: int | None) -> Frame:
    return Frame(messages.update(kind, fields, project_id, seq), project_id=project_id, seq=seq)
