"""The HTTP responses for the page's files. They are read from the package once; no path of a request opens a file.

They need no token, since they are the same for everybody. The policy in their headers lets the page load from this
server alone, run no script that is not one of these files, and make no HTML from text (Trusted Types).
"""

from __future__ import annotations

import gzip
import hashlib
from importlib.resources import files
from typing import Final

from msgspec import Struct

from drawbridge.protocols.gate import Head

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
        """Responds to a GET or HEAD of a known path. Browsers revalidate each time, and are not sent again what they have."""
        file = self._files[head.path]
        headers = [("ETag", file.tag), ("Cache-Control", "no-cache"), ("Vary", "Accept-Encoding"), *SECURITY]
        if file.tag in head.tokens("if-none-match"):
            return Answer(304, b"", tuple(headers))
        headers.append(("Content-Type", file.type))
        encodings = {token.partition(";")[0] for token in head.tokens("accept-encoding")}
        if "gzip" in encodings and len(file.packed) < len(file.body):
            return Answer(200, file.packed, (*headers, ("Content-Encoding", "gzip")))
        return Answer(200, file.body, tuple(headers))
