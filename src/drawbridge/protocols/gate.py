"""Authentication of HTTP requests, before anything but the head of a request is read. The bridge has one gate for each
protocol that agents use to connect.

The order is fixed: first the ``Origin`` of a web page, then the ``Host`` (against DNS rebinding), then the token. A
gate can't be built without a token.
"""

from __future__ import annotations

import hmac

from msgspec import Struct

LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})


class Head(Struct, frozen=True):
    """The head of an HTTP request. ``headers``: pairs of a lower-case name and a value, in the order received.

    ``peer``: the address that the request came from; empty if the server does not know it.
    """

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    peer: str = ""

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key == name]

    def one(self, name: str) -> str | None:
        """The only value of a header; None if it is missing *or ambiguous* (sent more than once)."""
        values = self.all(name)
        return values[0] if len(values) == 1 else None

    def tokens(self, name: str) -> list[str]:
        """The elements of a comma-separated header."""
        return [part.strip() for value in self.all(name) for part in value.split(",") if part.strip()]

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]


class Refusal(Struct, frozen=True):
    """The reason why a request is refused: an HTTP ``status`` and a sentence for the peer and the log.

    ``retry_after``: the seconds to wait before the next attempt; None unless a limit was reached. Such refusals are
    logged where the limit is enforced, so the HTTP server logs them only at the debug level.
    """

    status: int
    reason: str
    retry_after: int | None = None


FOREIGN_ORIGIN = Refusal(403, "Requests from web pages (with an Origin header) are not accepted.")
FOREIGN_HOST = Refusal(403, "The host name is missing or not accepted. Use localhost or 127.0.0.1.")
BAD_TOKEN = Refusal(401, "Unauthorized: the token is missing or wrong.")


class Gate:
    """Accepts requests that name one of ``hosts``, do not come from a web page, and have the token.

    ``token_header`` (lower case) carries the token. With ``scheme`` its value is "<scheme> <token>".
    """

    def __init__(
        self, token: str, token_header: str, *, scheme: str | None = None, hosts: frozenset[str] = LOOPBACK_HOSTS
    ) -> None:
        if not token:
            raise ValueError("a gate needs a token")
        self._expected = (f"{scheme} {token}" if scheme else token).encode()
        self._header = token_header
        self._hosts = hosts

    def check_place(self, head: Head) -> Refusal | None:
        """Checks only Origin and Host, for requests that don't require a token. Returns the same as ``check``."""
        return check_place(head, self._hosts)

    def check(self, head: Head) -> Refusal | None:
        """Checks a request. Returns its refusal; None if it is accepted."""
        refusal = self.check_place(head)
        if refusal is None:
            given = (head.one(self._header) or "").encode("utf-8", "surrogateescape")
            if not hmac.compare_digest(given, self._expected):
                refusal = BAD_TOKEN
        return refusal


def check_place(head: Head, hosts: frozenset[str]) -> Refusal | None:
    """Checks only Origin and Host. Returns the refusal of the request; None if it is accepted. ``hosts``: in lower
    case."""
    if head.all("origin"):
        return FOREIGN_ORIGIN
    host = head.one("host")
    if host is None or _without_port(host).lower() not in hosts:
        return FOREIGN_HOST
    return None


def _without_port(host: str) -> str:
    name, separator, port = host.rpartition(":")
    return name if separator and port.isascii() and port.isdigit() else host
