"""What clients receive of the events: which clients, and as which message. One frame for all of them, with the same bytes live
and in a replay of the history. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from drawbridge.server import events
from drawbridge.server.approvals.pending import permission_request
from drawbridge.server.events import (
    TOPICS,
    AgentLine,
    Announced,
    ApprovalRequested,
    ApprovalResolved,
    ProjectGone,
    PromptAccepted,
    Stored,
)
from drawbridge.server.protocol import messages
from drawbridge.server.protocol.messages import Answer, Frame, Subscriber
from drawbridge.server.sessions.audience import Audience

Broadcast: TypeAlias = Callable[[Sequence[Subscriber], Frame], None]
"""Sends a frame to many clients."""


class Feed:
    """The receiver "clients" of the event bus."""

    def __init__(self, audience: Audience, broadcast: Broadcast) -> None:
        self._audience = audience
        self._broadcast = broadcast

    def published(self, announced: Announced) -> None:
        """Clients that have joined receive every event, others those of the topics that they follow."""
        event, project_id = announced.event, announced.project_id or ""
        # A client can't catch up with a session that was removed.
        is_over = isinstance(event, ProjectGone)
        joined = self._audience.all_joined(project_id) if is_over else self._audience.joined(project_id)
        first = [client for client in joined.values() if client.id != announced.asker]
        topic = None if announced.quiet else TOPICS.get(type(event))
        others: list[Subscriber] = []
        if topic is not None:
            known = {*self._audience.all_joined(project_id), announced.asker}
            followers = self._audience.followers(topic, announced.path)
            others = [client for id, client in followers.items() if id not in known]
        if is_over:
            self._audience.forget(project_id)
        if not first and not others:
            return
        made = frame(announced)
        for audience in (first, others):
            if audience:
                self._broadcast(audience, made)


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
