"""What stands behind the server's door: who is let in, who is connected, what they are all told."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from drawbridge.protocols.gate import Head, Refusal
from drawbridge.server.app import dispatch
from drawbridge.server.app.client import Client
from drawbridge.server.app.outbox import Writers
from drawbridge.server.app.page import Page
from drawbridge.server.auth.entrance import Entrance
from drawbridge.server.auth.scopes import Identity
from drawbridge.server.auth.ssh_keys import NO_CERTIFICATE, challenge
from drawbridge.server.auth.tls import authority_of
from drawbridge.server.protocol import replies
from drawbridge.server.protocol.commands import Auth, ClientError, Command, Pair, SshAuth, SshChallenge
from drawbridge.server.protocol.messages import Answer, State, update
from drawbridge.server.protocol.replies import Stats
from drawbridge.server.protocol.subscriber import Frame, Subscriber
from drawbridge.transport.http_server import Exchange, WebSocket

PATH: Final = "/ws"
HEALTH: Final = "/health"
AUTHORITY: Final = "/ca.crt"
"""What a phone is to trust: the public part, for everybody."""

NO_AUTHORITY: Final = b"The certificate here is none of an authority of this server's own.\n"

STRANGERS: Final = 32
"""Open WebSockets that have not shown the token yet; the oldest gives way."""

TRY_LATER: Final = 1013

WATCH_SECONDS: Final = 1.0
"""Between two looks at who may still be here."""

NOT_HERE: Final = Refusal(404, "There is nothing here.")
ONLY_WEBSOCKET: Final = Refusal(400, "Here a WebSocket is served, nothing else.")

logger = logging.getLogger("drawbridge.server")


class Core(Protocol):
    """What the site itself wants of it; commands go by ``Dispatch``."""

    def gone(self, client: Subscriber) -> None: ...

    def states(self) -> Mapping[str, State]: ...

    def path_of(self, project_id: str) -> Path | None: ...


class ServerSite:
    """A ``Site`` of the door and what ``Client`` needs of its server. ``dispatch`` is set before the door opens."""

    dispatch: dispatch.Dispatch

    def __init__(self, entrance: Entrance, core: Core, writers: Writers, tls: Path | None = None) -> None:
        """``writers`` write to all clients. ``tls``: the directory of a certificate of our own, whose authority is public."""
        self.writers = writers
        self.clients: dict[str, Client] = {}
        self._entrance = entrance
        self._tls = tls
        self._core = core
        self._page = Page()
        self._strangers: dict[Client, None] = {}
        self._life = secrets.token_hex(4)
        """Part of each client's id: a page that was connected before a restart must not take another one's for its own."""
        self._numbers = count(1)

    # what the door asks

    def admit(self, head: Head, upgrade: bool) -> Refusal | None:
        refusal = self._entrance.refusal(head, upgrade)
        if refusal is not None:
            return refusal
        if head.path == PATH:
            return None if upgrade else ONLY_WEBSOCKET
        here = head.path in (HEALTH, AUTHORITY) or head.path in self._page
        return None if here and head.method in ("GET", "HEAD") and not upgrade else NOT_HERE

    def subprotocol(self, head: Head) -> str | None:
        return None

    def opened(self, head: Head, websocket: WebSocket) -> Client:
        identity = self._entrance.shown(head)
        address = self._entrance.address(head)
        self._entrance.came(address)
        host = head.one("host") or ""
        client = Client(
            f"client_{self._life}_{next(self._numbers)}", websocket, self, identity, address=address, host=host
        )
        client.certificate = self._entrance.certificate()
        if not client.is_known:
            self._strangers[client] = None
            if len(self._strangers) > STRANGERS:
                next(iter(self._strangers)).close(TRY_LATER, "too many clients without a token")
        return client

    def requested(self, head: Head, body: bytes, exchange: Exchange) -> None:
        if head.path == HEALTH:
            exchange.answer(200, b'{"status":"ok"}', [("Content-Type", "application/json")])
        elif head.path == AUTHORITY:
            authority = authority_of(self._tls) if self._tls is not None else None
            kind = "application/x-x509-ca-cert" if authority else "text/plain"
            exchange.answer(200 if authority else 404, authority or NO_AUTHORITY, [("Content-Type", kind)])
        else:
            page = self._page.answer(head)
            exchange.answer(page.status, page.body, page.headers)

    # what a client asks

    def log_in(self, command: Command, client: Client) -> Answer:
        """Who is known already stays who it is."""
        if isinstance(command, Pair):
            return self._pair(command, client)
        if isinstance(command, SshChallenge):
            return self._challenge(client)
        identity = self._identified(command, client)
        if client.identity is None:
            client.let_in(identity)
        elif identity != client.identity:
            raise ClientError(
                "UNAUTHORIZED", "The token is another device's. You are still who you were.", "data.token"
            )
        name = getattr(command, "client", None)
        if name is not None and identity.is_owner:
            client.name = name
        return Answer(type="auth", data=replies.Authenticated(client.id, client.name))

    def _identified(self, command: Command, client: Client) -> Identity:
        if isinstance(command, SshAuth):
            nonce, client.nonce = client.nonce, None
            return self._entrance.by_signature(command, nonce, client.certificate, client.address)
        assert isinstance(command, Auth)
        return self._entrance.by_token(command.token, client.address)

    def _challenge(self, client: Client) -> Answer:
        client.nonce = self._entrance.nonce()
        client.wait_longer()
        text = challenge(client.host, client.certificate, client.nonce).decode()
        given = replies.SshChallenge(client.nonce, client.host, client.certificate or NO_CERTIFICATE, text)
        return Answer(type="ssh_challenge", data=given)

    def _pair(self, command: Pair, client: Client) -> Answer:
        identity, token = self._entrance.by_code(command.code, command.name, client.address)
        if client.identity is None:
            client.let_in(identity)
        device = replies.DeviceOf(name=identity.name, scope=identity.scope, projects=identity.projects)
        paired = replies.Paired(client_id=client.id, client=client.name, token=token, device=device)
        return Answer(type="paired", data=paired)

    def authenticated(self, client: Client) -> None:
        logger.info("%s (%s) is connected from %s", client.id, client.name, client.address)
        self.note("connected", client)
        self._strangers.pop(client, None)
        self.clients[client.id] = client

    def note(self, event: str, client: Client, **fields: Any) -> None:
        self._entrance.note(event, **_who(client), **fields)

    def denied(self, client: Client, **fields: Any) -> None:
        assert client.identity is not None
        self._entrance.denied(client.identity, **_who(client), **fields)

    def count_prompt(self, client: Client) -> None:
        assert client.identity is not None
        self._entrance.count_prompt(client.identity, client.address)

    def takes_long(self, command: Command) -> bool:
        return dispatch.takes_long(command)

    async def answer(self, command: Command, client: Client, correlation_id: str) -> Answer:
        return await self.dispatch.answer(command, client, correlation_id)

    def gone(self, client: Client) -> None:
        self._strangers.pop(client, None)
        self._entrance.went(client.address)
        if self.clients.pop(client.id, None) is not None:
            logger.info("%s is gone", client.id)
            self.note("gone", client)
            self._core.gone(client)

    async def watch(self, every: float = WATCH_SECONDS) -> None:
        """Until it is cancelled: who may not stay any more is told so and cut off."""
        while True:
            await asyncio.sleep(every)
            for client in list(self.clients.values()):
                why = self._entrance.refusal_of(client.identity) if client.identity is not None else None
                if why is not None:
                    self.note("dismissed", client, code=why.code)
                    client.dismiss(why)

    # what all are told

    def tell_stats(self, stats: Stats) -> None:
        """Who is confined to some projects is told of those."""
        whole = Frame(update("stats", stats), ephemeral=True)
        for client in list(self.clients.values()):
            if "stats" in client.topics and client.identity is not None:
                client.send(whole if client.identity.projects is None else self._part(stats, client.identity))

    def _part(self, stats: Stats, identity: Identity) -> Frame:
        seen = {id: state for id, state in stats.project_states.items() if identity.sees(self._core.path_of(id))}
        part = msgspec.structs.replace(stats, projects=len(seen), project_states=seen)
        return Frame(update("stats", part), ephemeral=True)

    def follows(self, topic: str) -> bool:
        """Whether anybody does."""
        return any(topic in client.topics for client in self.clients.values())


def _who(client: Client) -> dict[str, Any]:
    device_id = client.identity.device_id if client.identity is not None else None
    return {"by": client.name, "device_id": device_id, "client": client.id, "address": client.address}
