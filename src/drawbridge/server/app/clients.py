"""All connected clients: those that have signed in, and those that have not yet."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

import msgspec

from drawbridge.server.app.client import Client
from drawbridge.server.app.core import Core
from drawbridge.server.app.outbox import Writers
from drawbridge.server.auth.entrance import Entrance
from drawbridge.server.auth.scopes import Identity
from drawbridge.server.protocol.messages import Stats, update
from drawbridge.server.protocol.subscriber import Frame

STRANGERS: Final = 32
"""The maximum of open WebSockets that have not signed in; above it the oldest is closed."""

TRY_LATER: Final = 1013

CHECK_SECONDS: Final = 1.0
"""Seconds between two checks of which clients may still be connected."""

logger = logging.getLogger("drawbridge.server")


class Clients:
    """Iterates over the clients that have signed in."""

    def __init__(self, entrance: Entrance, core: Core, writers: Writers) -> None:
        """``writers`` write to all of them."""
        self.writers = writers
        self._entrance = entrance
        self._core = core
        self._known: dict[str, Client] = {}
        self._strangers: dict[Client, None] = {}

    def __iter__(self) -> Iterator[Client]:
        return iter(list(self._known.values()))

    def __len__(self) -> int:
        return len(self._known)

    def add(self, client: Client, identity: Identity | None) -> None:
        """Adds a client whose connection has been opened. ``identity``: that of the token in its request; None without one."""
        self._entrance.came(client.address)
        if identity is not None:
            self.let_in(client, identity)
            return
        self._strangers[client] = None
        if len(self._strangers) > STRANGERS:
            next(iter(self._strangers)).close(TRY_LATER, "too many clients without a token")

    def let_in(self, client: Client, identity: Identity) -> None:
        client.let_in(identity)
        logger.info("%s (%s) is connected from %s", client.id, client.name, client.address)
        self._entrance.note("connected", **client.audited)
        self._strangers.pop(client, None)
        self._known[client.id] = client

    def gone(self, client: Client) -> None:
        """Removes a client that has disconnected and all of whose requests are done. The last call for it."""
        self._strangers.pop(client, None)
        self._entrance.went(client.address)
        if self._known.pop(client.id, None) is not None:
            logger.info("%s has disconnected", client.id)
            self._entrance.note("gone", **client.audited)
            self._core.gone(client)

    async def check(self) -> None:
        """Disconnects clients whose rights have ended."""
        for client in self:
            why = self._entrance.refusal_of(client.known)
            if why is not None:
                self._entrance.note("dismissed", **client.audited, code=why.code)
                client.dismiss(why)

    def send_stats(self, stats: Stats) -> None:
        """A device that is confined to some projects receives only the part about those."""
        whole = Frame(update("stats", stats), ephemeral=True)
        for client in self:
            if "stats" in client.topics:
                client.send(whole if client.known.projects is None else self._part(stats, client.known))

    def _part(self, stats: Stats, identity: Identity) -> Frame:
        seen = {id: state for id, state in stats.project_states.items() if identity.sees(self._core.path_of(id))}
        part = msgspec.structs.replace(stats, projects=len(seen), project_states=seen)
        return Frame(update("stats", part), ephemeral=True)

    def follows(self, topic: str) -> bool:
        """Whether any client follows the topic."""
        return any(topic in client.topics for client in self)
