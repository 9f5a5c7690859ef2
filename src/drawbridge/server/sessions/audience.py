"""Sends each event to the clients that have joined its session or follow a topic, in the message for it. Pure.

All clients receive an event in the same frame, with the same bytes live and in a replay of the history.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec

from drawbridge.server import updates
from drawbridge.server.bus import TOPICS
from drawbridge.server.events import Announced, ProjectGone, Stored
from drawbridge.server.protocol.frames import Frame, Subscriber
from drawbridge.server.store import records

Broadcast: TypeAlias = Callable[[Sequence[Subscriber], Frame], None]
"""The type of a function that sends a frame to many clients."""


class Audience:
    """The clients that have joined a session or follow a topic, by their ids. A session is identified by the id of its
    project or terminal session.

    A client that has joined and is still being sent the records that it has missed is *catching up*: it receives new
    records after these, in order.
    """

    def __init__(self, broadcast: Broadcast) -> None:
        self._broadcast = broadcast
        self._joined: dict[str, dict[str, Subscriber]] = {}
        self._catching_up: dict[str, dict[str, Subscriber]] = {}
        self._topics: dict[str, dict[str, Subscriber]] = {"projects": {}, "approvals": {}, "reviews": {}}

    def __len__(self) -> int:
        """The number of subscriptions to sessions and topics."""
        of_sessions = sum(len(clients) for some in (self._joined, self._catching_up) for clients in some.values())
        return of_sessions + sum(map(len, self._topics.values()))

    def join(self, project_id: str, client: Subscriber) -> None:
        """Subscribes ``client`` to the session's events. It is no longer catching up."""
        self._catching_up.get(project_id, {}).pop(client.id, None)
        self._joined.setdefault(project_id, {})[client.id] = client

    def catch_up(self, project_id: str, client: Subscriber) -> None:
        """Marks ``client`` as catching up. It has joined, and has to be sent what it has missed before anything new."""
        self._catching_up.setdefault(project_id, {})[client.id] = client

    def end_catching_up(self, project_id: str, client: Subscriber) -> None:
        """Marks ``client`` as no longer catching up, whether or not it has received everything."""
        self._catching_up.get(project_id, {}).pop(client.id, None)

    def leave(self, project_id: str, client: Subscriber) -> None:
        for some in (self._joined, self._catching_up):
            clients = some.get(project_id, {})
            clients.pop(client.id, None)
            if not clients:
                some.pop(project_id, None)

    def remove(self, client: Subscriber) -> None:
        """Removes a client that has disconnected."""
        for project_id in {*self._joined, *self._catching_up}:
            self.leave(project_id, client)
        self.unfollow(list(self._topics), client)

    def forget(self, project_id: str) -> None:
        """Forgets the clients of a session that was removed. Another session may get its id later."""
        self._joined.pop(project_id, None)
        self._catching_up.pop(project_id, None)

    def follow(self, topics: Sequence[str], client: Subscriber) -> None:
        """Subscribes ``client`` to these topics. The "stats" topic is ignored, because it is handled elsewhere."""
        for topic in topics:
            if topic in self._topics:
                self._topics[topic][client.id] = client

    def unfollow(self, topics: Sequence[str], client: Subscriber) -> None:
        for topic in topics:
            if topic in self._topics:
                self._topics[topic].pop(client.id, None)

    def joined(self, project_id: str) -> dict[str, Subscriber]:
        """The clients that receive the session's events immediately."""
        return self._joined.get(project_id, {})

    def is_catching_up(self, project_id: str, client_id: str) -> bool:
        return client_id in self._catching_up.get(project_id, {})

    def all_joined(self, project_id: str) -> dict[str, Subscriber]:
        """The joined clients, including those that are still catching up."""
        return {**self.joined(project_id), **self._catching_up.get(project_id, {})}

    def followers(self, topics: Sequence[str], path: Path) -> dict[str, Subscriber]:
        """The clients that follow any of ``topics`` and may see a session in the directory ``path``, each once."""
        return {id: client for topic in topics for id, client in self._topics[topic].items() if client.sees(path)}

    def can_decide(self, project_id: str, path: Path) -> bool:
        """Whether a connected client receives this session's approval requests and may decide on them."""
        clients = {**self._topics["approvals"], **self.all_joined(project_id)}.values()
        return any(client.decides and client.sees(path) for client in clients)

    def published(self, announced: Announced) -> None:
        """The "clients" receiver of the event bus. Clients that have joined the session receive every event, except
        while they are catching up. Clients that have not joined receive the events of the topics that they follow, but
        no quiet ones. In both cases, clients have to be allowed to see the session's directory. The client that caused
        the event with a request gets a reply instead."""
        event, project_id = announced.event, announced.project_id or ""
        # Clients that are catching up receive this, too, because a removed session has no more records to send.
        is_over = isinstance(event, ProjectGone)
        joined = self.all_joined(project_id) if is_over else self.joined(project_id)
        first = [client for id, client in joined.items() if id != announced.sender and client.sees(announced.path)]
        topics = () if announced.quiet else TOPICS.get(type(event), ())
        others: list[Subscriber] = []
        if topics:
            known = {*self.all_joined(project_id), announced.sender}
            followers = self.followers(topics, announced.path)
            others = [client for id, client in followers.items() if id not in known]
        if is_over:
            self.forget(project_id)
        if not first and not others:
            return
        made = frame(announced)
        for audience in (first, others):
            if audience:
                self._broadcast(audience, made)


def frame(announced: Announced) -> Frame:
    """The frame that clients receive when the event happens."""
    seq = announced.seq if isinstance(announced, Stored) else None
    return updates.frame_of(announced.project_id, announced.event, announced.timestamp, seq)


def replayed(project_id: str, record: bytes) -> Frame:
    """The frame that a client receives for a record that it has missed. A record of an unknown kind, such as one of a
    newer version, is passed on as it is. Raises one of ``records.NOT_OURS`` if the record is damaged or was not written
    by Drawbridge."""
    found = records.parts(record)
    event = records.event_of(found)
    if event is not None:
        return updates.frame_of(project_id, event, found.timestamp, found.seq)
    if found.direction == "server":
        unknown = msgspec.json.decode(found.message, type=records.OfServer)
        return updates.update_frame(unknown.subtype, unknown.message, project_id, found.seq)
    named = msgspec.json.decode(found.message, type=records.OfAgent)
    return updates.line_frame(bytes(found.message), "claude", project_id, named.id, found.timestamp, found.seq)
