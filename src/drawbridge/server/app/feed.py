"""Passes events on to clients: one frame for all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from drawbridge.server.app.frames import frame
from drawbridge.server.events import TOPICS, Announced, ProjectGone
from drawbridge.server.protocol.subscriber import Frame, Subscriber
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
