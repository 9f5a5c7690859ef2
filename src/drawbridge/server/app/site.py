"""What the server serves over HTTP: the WebSocket of its clients, the page, its health and its certificate authority."""

from __future__ import annotations

import secrets
from itertools import count
from pathlib import Path
from typing import Final

from drawbridge.protocols.gate import Head, Refusal
from drawbridge.server.app.clients import Clients
from drawbridge.server.app.connection import Connection
from drawbridge.server.app.dispatch import Dispatch
from drawbridge.server.app.page import Page
from drawbridge.server.auth.entrance import Entrance
from drawbridge.server.auth.tls import authority_of
from drawbridge.transport.http_server import Exchange, WebSocket

PATH: Final = "/ws"
HEALTH: Final = "/health"
AUTHORITY: Final = "/ca.crt"
"""The path of the certificate authority's public certificate, which a phone has to trust. It needs no token."""

NO_AUTHORITY: Final = b"The certificate of this server was not issued by an authority of its own.\n"

NOT_HERE: Final = Refusal(404, "Not found.")
ONLY_WEBSOCKET: Final = Refusal(400, "This path serves WebSockets only.")


class ServerSite:
    """The application of the server's HTTP transport."""

    def __init__(self, entrance: Entrance, clients: Clients, dispatch: Dispatch, tls: Path | None = None) -> None:
        """``tls``: the directory of the server's own certificate, whose authority anybody may download."""
        self._entrance = entrance
        self._clients = clients
        self._dispatch = dispatch
        self._tls = tls
        self._page = Page()
        self._life = secrets.token_hex(4)
        """Part of each client's id: after a restart a page must not take another client's id for its own."""
        self._numbers = count(1)

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

    def opened(self, head: Head, websocket: WebSocket) -> Connection:
        identity = self._entrance.shown(head)
        connection = Connection(
            f"client_{self._life}_{next(self._numbers)}",
            websocket,
            self._dispatch,
            self._clients,
            address=self._entrance.address(head),
            host=head.one("host") or "",
            certificate=self._entrance.certificate(),
        )
        self._clients.add(connection.client, identity)
        return connection

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
