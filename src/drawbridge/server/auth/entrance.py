"""Who is let in, and how often anybody may try: the one place where a token, a code or a signature is looked at.

Every refusal is counted for the address that it went to, logged and written into the audit; never with the secret.
"""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, TypeVar

from msgspec import Struct

from drawbridge.protocols.gate import Head, Refusal
from drawbridge.server.auth.access import Access
from drawbridge.server.auth.addresses import is_loopback
from drawbridge.server.auth.audit import Audit
from drawbridge.server.auth.rate_limits import Buckets, Refused, place
from drawbridge.server.auth.scopes import Identity
from drawbridge.server.events import Announced, RunContinued
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.commands import SshAuth

HANDSHAKES: Final = (60, 2.0)
"""Of one address: at once, and a second. This machine's own are not counted: name the proxies that stand on it."""

REQUESTS: Final = (600, 20.0)
"""Plain requests of one address: at once, and a second. A page that is opened for the first time makes about forty."""

FAILURES: Final = (10, 1 / 6)
"""Wrong tokens, codes and signatures of one address, this machine's too."""

WRONG_CODES: Final = (10, 1 / 30)
"""Wrong pairing codes of one address."""

ALL_WRONG_CODES: Final = (1_000, 10.0)
"""Wrong pairing codes of all addresses together. Neither limit may defeat the other:

- Guessing: a code is one of 2**40 and lives for 10 minutes, in which it sees 1,000 + 600 * 10 = 7,000 guesses at most: it is
  found once in 157 million codes. Somebody who tries for a whole year, while a code is always open, finds one with a
  probability of 0.03 %.
- Keeping others out: to use it up takes 300 addresses that guess all the time (one address may do it once in 30 seconds).
  With 10 in all, one neighbour was enough.
"""

DENIALS: Final = (30, 1 / 6)
"""Of one device: lines about what it asked for and may not. Whoever floods the audit would wash out what it did before."""

RETRY_SECONDS: Final = 30

Found = TypeVar("Found")

logger = logging.getLogger("drawbridge.server")


class Crowd(Struct, frozen=True):
    """How many clients there may be at once, and how many prompts of a device in a minute."""

    clients: int = 256
    per_address: int = 64
    prompts: int = 120


class Entrance:
    """``audit`` None: nothing is written down."""

    def __init__(self, access: Access, crowd: Crowd = Crowd(), audit: Audit | None = None) -> None:  # noqa: B008
        self._access = access
        self._crowd = crowd
        self._audit = audit
        self._handshakes = Buckets(*HANDSHAKES)
        self._requests = Buckets(*REQUESTS)
        self._failures = Buckets(*FAILURES)
        self._wrong_codes = Buckets(*WRONG_CODES)
        self._all_wrong_codes = Buckets(*ALL_WRONG_CODES)
        self._prompts = Buckets(crowd.prompts, crowd.prompts / 60)
        self._denials = Buckets(*DENIALS)
        self._turned_away = Buckets(1, 1 / RETRY_SECONDS)
        """What an address is told at the door, each reason once in a while."""
        self._here: Counter[str] = Counter()
        self._all = 0
        self._warned_of_proxy = False

    def refusal(self, head: Head, upgrade: bool) -> Refusal | None:
        """Why this request may not enter; None where nothing speaks against it."""
        refusal = self._access.refusal(head)
        if refusal is not None:
            self._turn_away(head, "FOREIGN_REQUEST")
            return refusal
        self._warn_of_proxy(head)
        refusal = self._crowded(head) if upgrade else self._over(self._requests, "requests", head)
        if refusal is not None:
            return refusal
        try:
            self.shown(head)
        except ClientError as error:
            return as_refusal(error)
        return None

    def address(self, head: Head) -> str:
        """Where the request comes from, as far as the proxies that are trusted say so."""
        return self._access.address(head)

    def shown(self, head: Head) -> Identity | None:
        """Who the head's own token makes it; None where it has none. Raises ``ClientError``."""
        if not head.all("authorization"):
            return self._access.shown(head)
        return self._tried(lambda: self._access.shown(head), self.address(head))

    def by_token(self, token: str, address: str) -> Identity:
        """Raises ``ClientError``."""
        return self._tried(lambda: self._access.identify(token), address)

    def by_code(self, code: str, name: str | None, address: str) -> tuple[Identity, str]:
        """A new device and its token. Raises ``ClientError``."""
        key = place(address)
        refused = self._wrong_codes.look(key, now()) or self._all_wrong_codes.look("", now())
        if refused is not None:
            raise self._too_often("wrong pairing codes", refused, address)
        try:
            identity, token = self._tried(lambda: self._access.pair(code, name), address, short=True)
        except ClientError as error:
            if error.code == "PAIRING_WRONG":
                self._wrong_codes.take(key, now())
                self._all_wrong_codes.take("", now())
            raise
        self.note("paired", device=identity.name, device_id=identity.device_id, scope=identity.scope, address=address)
        return identity, token

    def nonce(self) -> str:
        """For a challenge. Raises ``ClientError`` where no SSH keys are taken."""
        return self._access.nonce()

    def certificate(self) -> str | None:
        """The SHA-256 of the certificate that new connections get; None without TLS."""
        return self._access.certificate()

    def by_signature(self, answer: SshAuth, nonce: str | None, certificate: str | None, address: str) -> Identity:
        """``nonce``: of the challenge that this connection was given last; ``certificate``: what it was shown.

        Raises ``ClientError``.
        """
        return self._tried(lambda: self._access.signed(answer, nonce, certificate), address, short=True)

    def count_prompt(self, identity: Identity, address: str) -> None:
        """Raises ``ClientError`` where the device gives too many. The owner's own clients are told apart by address."""
        refused = self._prompts.take(identity.device_id or place(address), now())
        if refused is not None:
            raise self._too_often("prompts", refused, address, identity.name)

    def refusal_of(self, identity: Identity) -> ClientError | None:
        """Why somebody who was let in may not stay."""
        return self._access.refusal_of(identity)

    def came(self, address: str) -> None:
        self._all += 1
        self._here[place(address)] += 1

    def went(self, address: str) -> None:
        key = place(address)
        self._all -= 1
        self._here[key] -= 1
        if not self._here[key]:
            del self._here[key]

    def denied(self, identity: Identity, *, by: str, address: str, code: str, **fields: Any) -> None:
        """Somebody who is in has asked for what it may not: into the log and the audit. ``by``: the name it goes by."""
        refused = self._denials.take(identity.device_id or place(address), now())
        if refused is None:
            logger.warning("denied %s (%s): %s", address, by, code)
            self.note("denied", by=by, address=address, code=code, **fields)
        elif refused.first:
            logger.warning(
                "%s (%s) keeps sending requests that it may not send: further ones are not logged for now", address, by
            )
            self.note("limited", what="denials", device=by, address=address)

    def _warn_of_proxy(self, head: Head) -> None:
        if not self._warned_of_proxy and self._access.is_unnamed_proxy(head):
            self._warned_of_proxy = True
            logger.warning(
                "a proxy on this machine forwards requests: they are not limited by address. Name it with --trusted-proxy %s",
                head.peer,
            )

    def _turn_away(self, head: Head, code: str) -> None:
        """Into the log and the audit; a crowd that knocks on and on is one line."""
        address = self.address(head)
        if self._turned_away.take(f"{code} {place(address)}", now()) is None:
            device = self._device(head)
            logger.warning("refused %s%s: %s", address, f" ({device})" if device else "", code)
            self.note("refused", code=code, device=device, address=address)

    def _device(self, head: Head) -> str | None:
        """The name of whose token the head shows, where somebody is to be named who is not let in anyway."""
        try:
            identity = self._access.shown(head)
        except ClientError as error:
            return (error.details or {}).get("device")
        return (identity.name or None) if identity is not None else None

    def _over(self, buckets: Buckets, what: str, head: Head) -> Refusal | None:
        """Counts one more of the head's address; this machine's own are not counted."""
        address = self.address(head)
        refused = None if is_loopback(address) else buckets.take(place(address), now())
        if refused is None:
            return None
        device = self._device(head) if refused.first else None
        return as_refusal(self._too_often(what, refused, address, device or ""))

    def _crowded(self, head: Head) -> Refusal | None:
        address = self.address(head)
        key, local = place(address), is_loopback(address)
        refusal = self._over(self._handshakes, "handshakes", head)
        if refusal is not None:
            return refusal
        if self._all >= self._crowd.clients:
            self._turn_away(head, "TOO_MANY_CLIENTS")
            return Refusal(503, "TOO_MANY_CLIENTS: This server has as many clients as it takes.", RETRY_SECONDS)
        if self._here[key] >= self._crowd.per_address and not local:
            self._turn_away(head, "TOO_MANY_FROM_ADDRESS")
            return Refusal(429, "TOO_MANY_FROM_ADDRESS: Too many clients come from your address.", RETRY_SECONDS)
        return None

    def _tried(self, attempt: Callable[[], Found], address: str, *, short: bool = False) -> Found:
        """Counts what fails. Who has the right token is let in however often others of the address have failed: nobody
        guesses 256 bits, and nobody is to be locked out by a neighbour. What is ``short`` is not even looked at then.
        """
        key = place(address)
        refused = self._failures.look(key, now())
        if refused is not None and short:
            raise self._too_often("failed logins", refused, address)
        try:
            return attempt()
        except ClientError as error:
            if refused is not None:
                raise self._too_often("failed logins", refused, address) from None
            self._failures.take(key, now())
            device = (error.details or {}).get("device")
            logger.warning("refused %s%s: %s", address, f" ({device})" if device else "", error.code)
            self.note("refused", code=error.code, device=device, address=address)
            raise

    def _too_often(self, what: str, refused: Refused, address: str, device: str = "") -> ClientError:
        if refused.first:
            logger.warning("too many %s from %s%s: refused for now", what, address, f" ({device})" if device else "")
            self.note("limited", what=what, device=device or None, address=address)
        seconds = math.ceil(refused.seconds)
        text = f"Too many {what}. Nothing was done; try again in {seconds} s."
        return ClientError("RATE_LIMITED", text, details={"retry_after": seconds})

    def note(self, event: str, **fields: Any) -> None:
        """Into the audit."""
        if self._audit is not None:
            self._audit.write(event, **fields)

    def published(self, announced: Announced) -> None:
        """The receiver "audit" of the event bus: what no client has just asked for. Commands are audited where they arrive."""
        event = announced.event
        if isinstance(event, RunContinued):
            self.note("went_on", by=event.by, project_id=announced.project_id, run_id=event.run_id)


def as_refusal(error: ClientError) -> Refusal:
    after = (error.details or {}).get("retry_after")
    return Refusal(401 if after is None else 429, f"{error.code}: {error.text}", after)


def now() -> float:
    return time.monotonic()
