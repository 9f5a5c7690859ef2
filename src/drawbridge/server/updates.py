"""Converts events to the messages of the client protocol in which clients receive them. Pure.

Events and the protocol's structures are different types, even where they have the same fields: the protocol changes
only for its clients, and events only for the server.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw, Struct

from drawbridge.agents.base import AgentLine, OffersReported, StateReported
from drawbridge.server import events
from drawbridge.server.events import ApprovalRequested, ApprovalResolved, Event, PromptAccepted, SessionSummary
from drawbridge.server.protocol import frames, messages
from drawbridge.server.protocol.answers import Answer, updated
from drawbridge.server.protocol.frames import Frame, shortened
from drawbridge.server.protocol.messages import Direction

S = TypeVar("S", bound=Struct)

_encode: Final = msgspec.json.Encoder().encode

UPDATES: Final[Mapping[type, tuple[str, type[Struct]]]] = {
    events.ExecutionKilled: ("execution_killed", messages.ExecutionKilled),
    events.DiskWarning: ("disk_warning", messages.DiskWarning),
    events.PermissionWithdrawn: ("permission_withdrawn", messages.PermissionWithdrawn),
    events.ProjectGone: ("project_deleted", messages.ProjectGone),
    events.PromptEdited: ("prompt_edited", messages.PromptEdited),
    events.QueueChanged: ("queue_changed", messages.QueueChanged),
    events.ReviewChanged: ("review_changed", messages.ReviewChanged),
    events.ReviewCommented: ("review_commented", messages.ReviewCommented),
    events.ReviewCommitted: ("review_committed", messages.ReviewCommitted),
    events.ReviewDecided: ("review_decided", messages.ReviewDecided),
    events.ReviewInterrupted: ("review_interrupted", messages.ReviewInterrupted),
    events.ReviewPushed: ("review_pushed", messages.ReviewPushed),
    events.RunFinished: ("run_finished", messages.RunFinished),
    events.RunReverted: ("run_reverted", messages.RunReverted),
    events.RunStarted: ("run_started", messages.RunStarted),
    events.SessionChanged: ("session_changed", messages.SessionChanged),
    events.SessionDeleted: ("session_deleted", messages.SessionDeleted),
    events.SessionRenamed: ("session_renamed", messages.SessionRenamed),
    events.SessionReset: ("session_reset", messages.SessionReset),
}
"""Maps each event that clients receive as an ``update`` with the same fields to its ``update_type`` and its
structure."""


def converted(value: object, kind: type[S]) -> S:
    """A value as the protocol's structure with the same fields, whatever their names in a message are. Fields that the
    structure does not have are left out."""
    return msgspec.convert(value, kind, from_attributes=True)


def _with(value: Struct, **more: object) -> SimpleNamespace:
    """The fields of ``value`` and ``more``, to be converted."""
    return SimpleNamespace(**(msgspec.structs.asdict(value) | more))


def answered(event: Event, kind: type[S], project_id: str, seq: int | None = None) -> Answer[S]:
    """The reply to a command that caused this event: the ``update`` that other clients receive. ``kind``: its
    structure in ``UPDATES``."""
    return updated(UPDATES[type(event)][0], converted(event, kind), project_id, seq)


def frame_of(project_id: str | None, event: Event, timestamp: str | None, seq: int | None) -> Frame:
    """The frame in which clients receive an event. An agent's line is in the frame unchanged, unless it is too large
    for a message. ``timestamp`` and ``seq``: those of the event's record; None if it has none."""
    match event:
        case AgentLine(raw, session_id):
            return line_frame(raw, "claude", project_id, session_id, timestamp, seq)
        case PromptAccepted():
            return line_frame(_encode(prompt(event)), "client", project_id, "", timestamp, seq)
        case ApprovalRequested():
            request = permission_request(project_id or "", event, timestamp or "", seq or 0)
            answer = Answer(type="permission_request", project_id=project_id, seq=seq, data=request)
            return Frame(frames.encode(answer), project_id=project_id, seq=seq)
        case ApprovalResolved():
            return update_frame("permission_resolved", permission_resolved(event), project_id, seq)
        case events.StateChanged(summary):
            return update_frame("project_state", project_state(summary), project_id, seq)
        case events.ProjectCreated(summary):
            return update_frame("project_created", project_info(summary), project_id, seq)
        case StateReported(state):
            return update_frame("agent_state", converted(state, messages.AgentState), project_id, seq)
        case OffersReported(offers):
            return update_frame("agent_offers", converted(offers, messages.AgentOffers), project_id, seq)
        case _:
            name, kind = UPDATES[type(event)]
            return update_frame(name, converted(event, kind), project_id, seq)


def line_frame(
    line: bytes,
    direction: Direction,
    project_id: str | None,
    session_id: str,
    timestamp: str | None,
    seq: int | None,
) -> Frame:
    """The frame of an agent's line, or of a prompt in the same form."""
    data = frames.agent_message(
        line,
        project_id=project_id or "",
        session_id=session_id,
        direction=direction,
        timestamp=timestamp,
        seq=seq,
    )
    return Frame(data, ephemeral=seq is None, project_id=project_id, seq=seq)


def update_frame(name: str, fields: Any, project_id: str | None, seq: int | None) -> Frame:
    """The frame of an ``update`` with the ``update_type`` ``name``."""
    return Frame(frames.update(name, fields, project_id, seq), project_id=project_id, seq=seq)


def prompt(event: PromptAccepted) -> messages.Prompt:
    return converted(_with(event, message=messages.PromptText(event.prompt)), messages.Prompt)


def permission_request(
    project_id: str,
    request: ApprovalRequested,
    created_at: str,
    seq: int,
    limit: int = messages.FRAME_BYTES - frames.ROOM,
) -> Any:
    """An approval request as clients see it: a ``PermissionRequest`` or, if that has more than ``limit`` bytes, the
    JSON of its preview. ``created_at`` and ``seq``: the time and the number of its record.
    """
    shown = converted(_with(request, created_at=created_at, seq=seq), messages.PermissionRequest)
    whole = _encode(shown)
    if len(whole) <= limit:
        return shown
    blob = _encode(messages.Truncated(frames.history_blob(project_id, seq), len(whole)))
    return Raw(shortened(whole, limit)[:-1] + b',"truncated":' + blob + b"}")


def permission_resolved(event: ApprovalResolved) -> messages.PermissionResolved:
    """The part of a decision for clients, in a frame of at most ``FRAME_BYTES``. A message that does not fit is cut. An
    edit that does not fit into the remaining space, or an edited input of more than ``SHOWN_TEXT`` bytes, is left out.
    """
    message, room = event.message, messages.FRAME_BYTES - frames.ROOM
    whole = _encode(message)
    encoded = shortened(whole, room)
    if encoded is not whole:
        message = msgspec.json.decode(encoded)
    room -= len(encoded)
    instead = event.updated_input if event.edited and event.new_text is None else None
    given = None if instead is None else Raw(_encode(instead))
    return messages.PermissionResolved(
        approval_id=event.approval_id,
        by=event.by,
        decision=event.decision,
        message=message,
        client_id=event.client_id,
        edited=event.edited,
        new_text=event.new_text if len(_encode(event.new_text)) <= room else None,
        updated_input=given if given is not None and len(bytes(given)) <= min(events.SHOWN_TEXT, room) else None,
    )


def project_info(summary: SessionSummary) -> messages.ProjectInfo:
    return converted(_project(summary), messages.ProjectInfo)


def project_state(summary: SessionSummary) -> messages.ProjectState:
    return converted(_project(summary), messages.ProjectState)


def project_joined(summary: SessionSummary, **more: object) -> messages.ProjectJoined:
    """The snapshot for a client that joins. ``more``: the fields of ``ProjectJoined`` that the summary does not
    have."""
    return converted(_project(summary, **more), messages.ProjectJoined)


def _project(summary: SessionSummary, **more: object) -> SimpleNamespace:
    """The fields of a project. Unknown ones are left out, so that they have the protocol's defaults."""
    fields = msgspec.structs.asdict(summary) | {"desk": summary.terminal}
    return SimpleNamespace(**{name: value for name, value in fields.items() if value is not None}, **more)
