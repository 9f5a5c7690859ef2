"""What the server serves over HTTP: the WebSocket of its clients, the page, its health and its certificate authority.

The page's files are read from the package once; no path of a request opens a file. They need no token, since they are the same
for everybody. The policy in their headers lets the page load from this server alone, run no script that is not one of these
files, and make no HTML from text (Trusted Types).
"""

from __future__ import annotations

import gzip
import hashlib
import secrets
from importlib.resources import files
from itertools import count
from pathlib import Path
from typing import Final

from msgspec import Struct

from drawbridge.protocols.gate import Head, Refusal
from drawbridge.server.app.clients import Clients
from drawbridge.server.app.connection import Connection
from drawbridge.server.app.dispatch import Dispatch
from drawbridge.server.auth.entrance import Entrance
from drawbridge.server.auth.tls import authority_of
from drawbridge.transport.http_server import Exchange, WebSocket

INDEX: Final = "index.html"

TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "png": "image/png",
    "svg": "image/svg+xml",
    "webmanifest": "application/manifest+json",
}
"""A file's suffix → its type. A file of another kind is not served."""

POLICY: Final = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob:",
        "connect-src 'self'",
        "manifest-src 'self'",
        "worker-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types drawbridge",
    ]
)

SECURITY: Final = (
    ("Content-Security-Policy", POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Permissions-Policy", "camera=(), microphone=(), geolocation=()"),
)


class Answer(Struct, frozen=True):
    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...]


class _File(Struct, frozen=True):
    type: str
    body: bytes
    packed: bytes
    tag: str


class Page:
    """The response for each path."""

    def __init__(self) -> None:
        self._files: dict[str, _File] = {}
        for entry in files("drawbridge").joinpath("web").iterdir():
            kind = TYPES.get(entry.name.rpartition(".")[2])
            if kind is not None:
                body = entry.read_bytes()
                tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
                path = "/" if entry.name == INDEX else f"/{entry.name}"
                self._files[path] = _File(kind, body, gzip.compress(body, mtime=0), tag)

    def __contains__(self, path: str) -> bool:
        return path in self._files

    def answer(self, head: Head) -> Answer:
        """Responds to a GET or HEAD of a known path. Browsers revalidate each time, and unchanged files are not sent again."""
        file = self._files[head.path]
        headers = [("ETag", file.tag), ("Cache-Control", "no-cache"), ("Vary", "Accept-Encoding"), *SECURITY]
        if file.tag in head.tokens("if-none-match"):
            return Answer(304, b"", tuple(headers))
        headers.append(("Content-Type", file.type))
        encodings = {token.partition(";")[0] for token in head.tokens("accept-encoding")}
        if "gzip" in encodings and len(file.packed) < len(file.body):
            return Answer(200, file.packed, (*headers, ("Content-Encoding", "gzip")))
        return Answer(200, file.body, tuple(headers))


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
