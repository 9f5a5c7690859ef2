"""Everything that the server serves over HTTP: the WebSocket for clients, the web UI, a health check, and the
certificate of the server's own authority.

The web UI's files are read from the package once. A request's path is never used to open a file. They are served
without a token, because they are the same for everybody. The security policy in their headers restricts the web UI. It
can load only from this server, run only scripts that are among these files, and never parse text as HTML (Trusted
Types).
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import os
import re
import secrets
from collections.abc import Callable, Set
from functools import cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import count
from typing import Final

from msgspec import Struct

from drawbridge.protocols.gate import Head, Refusal
from drawbridge.server.app.clients import Clients
from drawbridge.server.app.connection import Connection
from drawbridge.server.app.dispatch import Dispatch
from drawbridge.server.auth.access import is_loopback
from drawbridge.server.auth.entrance import Entrance
from drawbridge.transport.http_server import Exchange, WebSocket

INDEX: Final = "index.html"

TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "png": "image/png",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
    "webmanifest": "application/manifest+json",
}
"""Maps a file's suffix to its media type. Files with other suffixes are not served."""

BROTLI: Final = ".br"
"""What the build adds to the name of a file that it has compressed with Brotli."""

STYLE: Final = re.compile(rb"<style>(.*?)</style>", re.DOTALL)

REFUSED: Final = re.compile(r"q *= *0(\.0*)?")

POLICY: Final = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src {styles}",
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
"""The security policy. ``styles``: the style sheets that browsers may use."""

SECURITY: Final = (
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


class _File:
    """A file of the web UI. ``brotli``: the same file as the build has compressed it with Brotli; empty if it has not.

    Brotli takes an eighth less than gzip, but browsers accept it only over TLS and from this machine. For all others, a
    file is compressed with gzip when it is first requested, because most servers only ever serve a few of the many
    files."""

    def __init__(self, type: str, body: bytes, brotli: bytes = b"") -> None:
        self.type = type
        self.body = body
        self._brotli = brotli

    def packed(self, encodings: Set[str]) -> tuple[str, bytes]:
        """The best of these encodings, which is empty if none makes the file smaller, and the file in it."""
        if "br" in encodings and self._brotli:
            return "br", self._brotli
        if "gzip" in encodings and len(self._gzip) < len(self.body):
            return "gzip", self._gzip
        return "", self.body

    @cached_property
    def _gzip(self) -> bytes:
        return gzip.compress(self.body, mtime=0)

    @cached_property
    def tag(self) -> str:
        return f'"{hashlib.sha256(self.body).hexdigest()[:32]}"'


NOT_BUILT: Final = b"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Drawbridge</title>
<h1>The web UI isn\xe2\x80\x99t built</h1>
<p>This server runs from a checkout in which the web UI was not built. Agents, <code>drawbridge attach</code> and all other
clients work. To build the web UI, run <code>make page</code> in the checkout, then restart the server.</p>
"""

FAILED: Final = "DRAWBRIDGE_PAGE_FAILED"
"""The environment variable in which `make serve` passes the reason why the web UI could not be built."""


def not_built() -> bytes:
    """The page that is served if the web UI was not built, with the reason if it is known."""
    reason = os.environ.get(FAILED)
    paragraph = f"<p>{html.escape(reason)}</p>\n" if reason else ""
    return NOT_BUILT + paragraph.encode(errors="replace") + b"</html>\n"


class Page:
    """The web UI's response for each path."""

    def __init__(self, folder: Traversable | None = None) -> None:
        """``folder``: the build output of web/; by default, the one in this package."""
        self._files: dict[str, _File] = {}
        built = files("drawbridge").joinpath("page") if folder is None else folder
        entries = {entry.name: entry for entry in built.iterdir()} if built.is_dir() else {}
        for name, entry in entries.items():
            kind = TYPES.get(name.rpartition(".")[2])
            if kind is not None:
                path = "/" if name == INDEX else f"/{name}"
                brotli = entries.get(f"{name}{BROTLI}")
                self._files[path] = _File(kind, entry.read_bytes(), brotli.read_bytes() if brotli else b"")
        if os.environ.get(FAILED) or "/" not in self._files:  # what was built before an update must not be served
            self._files["/"] = _File(TYPES["html"], not_built())
        policy = POLICY.format(styles=_styles(self._files["/"].body))
        self._security = (("Content-Security-Policy", policy), *SECURITY)

    def __contains__(self, path: str) -> bool:
        return path in self._files

    def answer(self, head: Head) -> Answer:
        """Responds to a GET or HEAD request for a known path. Browsers revalidate each time, and unchanged files are
        not sent again."""
        file = self._files[head.path]
        headers = [("ETag", file.tag), ("Cache-Control", "no-cache"), ("Vary", "Accept-Encoding"), *self._security]
        if file.tag in head.tokens("if-none-match"):
            return Answer(304, b"", tuple(headers))
        headers.append(("Content-Type", file.type))
        encoding, body = file.packed(_accepted(head))
        if encoding:
            headers.append(("Content-Encoding", encoding))
        return Answer(200, body, tuple(headers))


def _styles(index: bytes) -> str:
    """The value of the policy's ``style-src``: only the style sheets in the index itself, named by their hashes."""
    hashes = (base64.b64encode(hashlib.sha256(style).digest()).decode() for style in STYLE.findall(index))
    return " ".join(f"'sha256-{hash}'" for hash in hashes) or "'none'"


def _accepted(head: Head) -> Set[str]:
    """The content codings that the request accepts, without those that it refuses with a weight of 0 (RFC 9110,
    12.5.3)."""
    elements = (element.lower().partition(";") for element in head.tokens("accept-encoding"))
    return {name.strip() for name, _, weight in elements if not REFUSED.fullmatch(weight.strip())}


PATH: Final = "/ws"
HEALTH: Final = "/health"
AUTHORITY: Final = "/ca.crt"
"""The path of the certificate authority's public certificate, which a phone has to trust. No token is required."""

NO_AUTHORITY: Final = b"There is no certificate to install: this server does not use its own certificate authority.\n"

NOT_HERE: Final = Refusal(404, "Not found.")
ONLY_WEBSOCKET: Final = Refusal(400, "This path serves WebSockets only.")


class ServerSite:
    """The application that the server's HTTP transport serves."""

    def __init__(
        self,
        entrance: Entrance,
        clients: Clients,
        dispatch: Dispatch,
        authority: Callable[[], bytes | None] = lambda: None,
    ) -> None:
        """``authority`` returns the public certificate (PEM) of the server's own certificate authority, which anybody
        may download; None if the server's certificate was not issued by that authority.
        """
        self._entrance = entrance
        self._clients = clients
        self._dispatch = dispatch
        self._authority = authority
        self._page = Page()
        self._life = secrets.token_hex(4)
        """Part of each client's id, so that after a restart no browser mistakes another client's id for its own."""
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

    def compresses(self, head: Head) -> bool:
        """Whether frames are compressed. They are not for clients on the server's own machine, where that would only
        cost time."""
        return not is_loopback(self._entrance.address(head))

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
            authority = self._authority()
            kind = "application/x-x509-ca-cert" if authority else "text/plain"
            exchange.answer(200 if authority else 404, authority or NO_AUTHORITY, [("Content-Type", kind)])
        else:
            page = self._page.answer(head)
            exchange.answer(page.status, page.body, page.headers)
