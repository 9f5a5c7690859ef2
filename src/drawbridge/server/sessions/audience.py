"""Which clients have joined which session, and which of them follow a topic. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from drawbridge.server.protocol.messages import Subscriber


class Audience:
    """All clients by their ids. Sessions are named by the ids of projects and terminal sessions.

    A client that has joined and is still sent the records it has missed is *catching up*: new records reach it in their order.
    """

    def __init__(self) -> None:
        self._joined: dict[str, dict[str, Subscriber]] = {}
        self._catching_up: dict[str, dict[str, Subscriber]] = {}
        self._topics: dict[str, dict[str, Subscriber]] = {"projects": {}, "approvals": {}}

    def __len__(self) -> int:
        """The number of subscriptions to sessions and topics."""
        of_sessions = sum(len(clients) for some in (self._joined, self._catching_up) for clients in some.values())
        return of_sessions + sum(map(len, self._topics.values()))

    def join(self, project_id: str, client: Subscriber) -> None:
        """``client`` receives the session's events from now on."""
        self._catching_up.get(project_id, {}).pop(client.id, None)
        self._joined.setdefault(project_id, {})[client.id] = client

    def catch_up(self, project_id: str, client: Subscriber) -> None:
        """``client`` has joined, and has to be sent what it has missed before it receives anything new."""
        self._catching_up.setdefault(project_id, {})[client.id] = client

    def end_catching_up(self, project_id: str, client: Subscriber) -> None:
        """The client has stopped catching up, whether it has succeeded or not."""
        self._catching_up.get(project_id, {}).pop(client.id, None)

    def leave(self, project_id: str, client: Subscriber) -> None:
        for some in (self._joined, self._catching_up):
            clients = some.get(project_id, {})
            clients.pop(client.id, None)
            if not clients:
                some.pop(project_id, None)

    def gone(self, client: Subscriber) -> None:
        """The client has disconnected."""
        for project_id in {*self._joined, *self._catching_up}:
            self.leave(project_id, client)
        self.unfollow(list(self._topics), client)

    def forget(self, project_id: str) -> None:
        """The session was removed. Another one may get its id later."""
        self._joined.pop(project_id, None)
        self._catching_up.pop(project_id, None)

    def follow(self, topics: Sequence[str], client: Subscriber) -> None:
        """Unknown topics ("stats") are ignored."""
        for topic in topics:
            if topic in self._topics:
                self._topics[topic][client.id] = client

    def unfollow(self, topics: Sequence[str], client: Subscriber) -> None:
        for topic in topics:
            if topic in self._topics:
                self._topics[topic].pop(client.id, None)

    def joined(self, project_id: str) -> dict[str, Subscriber]:
        """The clients that receive the session's events at once."""
        return self._joined.get(project_id, {})

    def is_catching_up(self, project_id: str, client_id: str) -> bool:
        return client_id in self._catching_up.get(project_id, {})

    def all_joined(self, project_id: str) -> dict[str, Subscriber]:
        """The joined clients, with those that are still catching up."""
        return {**self.joined(project_id), **self._catching_up.get(project_id, {})}

    def followers(self, topic: str, path: Path) -> dict[str, Subscriber]:
        """The followers of ``topic`` that may see a session in the directory ``path``."""
        return {id: client for id, client in self._topics[topic].items() if client.sees(path)}

    def can_decide(self, project_id: str, path: Path) -> bool:
        """Whether a connected client receives approvals of this session and may decide about them."""
        clients = {**self._topics["approvals"], **self.all_joined(project_id)}.values()
        return any(client.decides and client.sees(path) for client in clients)
