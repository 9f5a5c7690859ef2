"""Authenticates clients and limits how often an address may try. Every token, code and signature is checked through
this module.

Failed attempts are counted for the client's address. They are logged and audited, within limits, and never with the
secret.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

from drawbridge.core.addresses import network_of
from drawbridge.core.disk_threads import DiskThreads
from drawbridge.protocols.gate import Head, Refusal
from drawbridge.server.auth import audited
from drawbridge.server.auth.access import Access, is_loopback
from drawbridge.server.auth.audit import AuditLog
from drawbridge.server.auth.rate_limits import Buckets, Refused
from drawbridge.server.auth.scopes import Identity
from drawbridge.server.events import Announced, Audited
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.commands import SshAuth

HANDSHAKES: Final = (60, 2.0)
"""The limit for WebSockets that one address opens without a valid token, together with the challenges that it requests.
Like the other pairs below, it consists of the number in one burst and the number per second in the long run. WebSockets
from this machine are not counted, so a proxy on it should be configured (``--trusted-proxy``)."""

REQUESTS: Final = (600, 20.0)
"""The limit for plain requests from one address. Requests from this machine are not counted. Opening the web UI for the
first time takes about forty requests."""

FAILURES: Final = (10, 1 / 6)
"""The limit for wrong tokens, codes and signatures from one address, including this machine's."""

WRONG_CODES: Final = (10, 1 / 30)
"""The limit for wrong pairing codes from one address."""

ALL_WRONG_CODES: Final = (1_000, 10.0)
"""The limit for wrong pairing codes from all addresses together. It prevents guessing, and is too high for one address
to lock others out:

- Guessing: a code is one of 2**40 and is valid for 10 minutes, in which at most 1,000 + 600 * 10 = 7,000 guesses are
  possible. They find a code with a probability of 1 in 157 million. Somebody who tries for a whole year in which a code
  is always valid finds one with a probability of 0.03%.
- Locking others out: using up the limit takes 300 addresses that guess all the time (one address may guess once in 30
  seconds). With a total limit of 10, one address would be enough.
"""

DENIALS: Final = (30, 1 / 6)
"""The limit for audit log entries about refused requests from one device, or from one address for clients without a
device. Without a limit, a device could flood the audit log until the entries about its earlier actions are rotated
out."""

CHANGES: Final = (300, 2.0)
"""The limit for audited commands from one device or SSH key. With its connections and prompts, a device causes at most
about seven entries a second in the long run, so it takes hours to rotate out the entries about its earlier actions (ten
10 MB files).
"""

CONNECTS: Final = (120, 1.0)
"""The limit for connections from one device or SSH key. Each adds two entries to the audit log."""

REFUSALS: Final = (1_000, 1.0)
"""The limit for log lines and audit log entries about clients that were refused or limited, from all addresses
together. Without a limit, an attacker with many addresses could fill the log.
"""

LIMITED_SECONDS: Final = 600
"""The minimum number of seconds between two audit log entries that report that one device, or one address, has reached
the same limit. A client that stays just above a limit reaches it again with each attempt that is allowed in between.
Also the time between the first refusal beyond ``REFUSALS`` and the log line with the number of such refusals."""

RETRY_SECONDS: Final = 30

KEYS_SECONDS: Final = 5.0
"""The maximum time that reading the file with the SSH keys may take."""

UNCHECKED: Final = "RESOURCE_LIMIT"
"""The error code for a token that could not be checked, as raised by ``Devices.identify``."""

logger = logging.getLogger("drawbridge.server")


OWNERS_PART: Final = 8
"""One in this many client slots is reserved for the owner."""

DEVICES_PART: Final = 8
"""One device may use one in this many client slots, but always at least ``LEAST_PER_DEVICE``."""

LEAST_PER_DEVICE: Final = 4

OWNER: Final = ""
"""The key for the owner's clients, where clients are counted by device."""

NEWCOMER: Final = Identity(name="a new device", scope="view", device_id="new")
"""The identity of a device while it is being paired."""


class ClientLimits(Struct, frozen=True):
    """The maximum numbers of simultaneous clients in total and per address, and of prompts per device and minute.
    Clients are counted once they have signed in."""

    clients: int = 256
    per_address: int = 64
    prompts: int = 120

    @property
    def of_devices(self) -> int:
        """The maximum number of simultaneous clients of all devices together. The rest is reserved for the owner's
        clients."""
        return self.clients - self.clients // OWNERS_PART

    @property
    def per_device(self) -> int:
        return max(LEAST_PER_DEVICE, self.clients // DEVICES_PART)


class Entrance:
    """Checks requests, tokens, codes and signatures, and applies the limits. ``audit``: None without an audit log."""

    def __init__(self, access: Access, limits: ClientLimits = ClientLimits(), audit: AuditLog | None = None) -> None:  # noqa: B008
        self._access = access
        self._limits = limits
        self._audit = audit
        self._handshakes = Buckets(*HANDSHAKES)
        self._requests = Buckets(*REQUESTS)
        self._failures = Buckets(*FAILURES)
        self._wrong_codes = Buckets(*WRONG_CODES)
        self._all_wrong_codes = Buckets(*ALL_WRONG_CODES)
        self._prompts = Buckets(limits.prompts, limits.prompts / 60)
        self._denials = Buckets(*DENIALS)
        self._changes = Buckets(*CHANGES)
        self._connects = Buckets(*CONNECTS)
        self._refusals = Buckets(*REFUSALS)
        self._unlogged = 0
        """The number of refusals beyond ``REFUSALS`` that no log line has reported yet."""
        self._limited = Buckets(1, 1 / LIMITED_SECONDS)
        self._pairing = asyncio.Lock()
        self._reading_keys = DiskThreads(1)
        self._are_keys_late = False
        """Whether the file with the SSH keys could not be read in time. This is logged once."""
        self._logged_refusals = Buckets(1, 1 / RETRY_SECONDS)
        """Limits the log lines and audit log entries for refused connections. Per address, each reason is reported at
        most once in ``RETRY_SECONDS``."""
        self._signed_in: Counter[str] = Counter()
        """The number of clients of each device or SSH key, and of the owner ("")."""
        self._at: Counter[str] = Counter()
        """The number of these clients by the network of their address (``core.addresses``)."""
        self._warned_of_proxy = False

    def refusal(self, head: Head, upgrade: bool) -> Refusal | None:
        """The refusal of this request; None if it is accepted."""
        refusal = self._access.refusal(head)
        if refusal is not None:
            self._log_refusal(head, "FOREIGN_REQUEST")
            return refusal
        self._warn_of_proxy(head)
        refusal = self._too_many_clients(head) if upgrade else self._over(self._requests, "requests", head)
        if refusal is not None:
            return refusal
        try:
            self.shown(head)
        except ClientError as error:
            return as_refusal(error)
        return None

    def address(self, head: Head) -> str:
        """The address that the request comes from, as reported by trusted proxies."""
        return self._access.address(head)

    def shown(self, head: Head) -> Identity | None:
        """The identity of the token in the request's head; None if a token is required but missing. Raises
        ``ClientError`` if the token is not valid."""
        if not head.all("authorization"):
            return self._access.shown(head)
        with self._counted(self.address(head)):
            return self._access.shown(head)

    def by_token(self, token: str, address: str) -> Identity:
        """The identity of a token. Raises ``ClientError`` if the token is not valid."""
        with self._counted(address):
            return self._access.identify(token)

    async def by_code(self, code: str, name: str | None, address: str) -> tuple[Identity, str]:
        """Pairs a device. Returns its identity and its token. Raises ``ClientError``. The code stays valid if the
        limit for clients is reached."""
        key = network_of(address)
        # Codes are checked one at a time, so that a wrong one is counted before the next check.
        async with self._pairing:
            refused = self._wrong_codes.peek(key, now()) or self._all_wrong_codes.peek("", now())
            if refused is not None:
                raise self._too_often("wrong pairing codes", refused, address)
            try:
                # Room is reserved before the code is used up, so that a refused device can try again with the code.
                with self._place_for_newcomer(address), self._counted(address, short=True):
                    device, token = await asyncio.to_thread(self._access.pair, code, name)
            except ClientError as error:
                if error.code == "PAIRING_WRONG":
                    self._wrong_codes.admit(key, now())
                    self._all_wrong_codes.admit("", now())
                raise
        made_by, scope = device.made_by, device.scope
        self.note("paired", device=device.name, device_id=device.id, scope=scope, address=address, made_by=made_by)
        return device.identity, token

    def nonce(self, address: str) -> str:
        """Returns a nonce for a challenge. Raises ``ClientError`` if the server does not accept SSH keys, or if the
        address has requested too many challenges. Each counts as a handshake."""
        nonce = self._access.nonce()
        refused = None if is_loopback(address) else self._handshakes.admit(network_of(address), now())
        if refused is not None:
            raise self._too_often("handshakes", refused, address)
        return nonce

    def certificate(self) -> str | None:
        """The SHA-256 of the certificate that new connections get; None without TLS."""
        return self._access.certificate()

    async def refresh_keys(self) -> None:
        """Reads the file with the SSH keys again, if it has changed. If its disk does not respond within
        ``KEYS_SECONDS``, the keys that were last read remain valid."""
        if self._access.accepts_keys:
            try:
                await self._reading_keys.run(self._access.refresh_keys, KEYS_SECONDS)
                self._are_keys_late = False
            except TimeoutError:
                if self._are_keys_late:
                    return
                self._are_keys_late = True
                logger.warning("the file with the authorized SSH keys can't be read now: its disk does not respond")

    async def by_signature(self, answer: SshAuth, nonce: str | None, certificate: str | None, address: str) -> Identity:
        """The identity of the key that signed the challenge. ``nonce``: the nonce of the connection's open
        challenge; None if it has no open challenge. ``certificate``: the SHA-256 of the certificate that the connection
        uses; None without TLS.

        Raises ``ClientError``.
        """
        await self.refresh_keys()
        with self._counted(address, short=True):
            return self._access.signed(answer, nonce, certificate)

    def count_prompt(self, identity: Identity, address: str) -> None:
        """Counts a prompt. Raises ``ClientError`` if there were too many. Prompts are counted by device, but those from
        the owner's clients, and from clients with an SSH key, by address."""
        refused = self._prompts.admit(identity.device_id or network_of(address), now())
        if refused is not None:
            raise self._too_often("prompts", refused, address, identity.name)

    def count_change(self, identity: Identity, address: str) -> None:
        """Counts a command that is audited, unless it is the owner's. Raises ``ClientError`` if there were too many
        from this device or SSH key."""
        refused = None if identity.device is None else self._changes.admit(identity.device, now())
        if refused is not None:
            raise self._too_often("commands", refused, address, identity.name)

    def refusal_of(self, identity: Identity) -> ClientError | None:
        """The reason why a client that is signed in may not stay connected; None if it may stay."""
        return self._access.refusal_of(identity)

    def admit(self, identity: Identity, address: str) -> None:
        """Counts a signed-in client until ``left`` is called. Raises ``ClientError`` if a limit for clients is reached
        (``_full``)."""
        self._check_room(identity, address)
        if identity.device is not None:
            self._connects.admit(identity.device, now())
        self._count(identity, address)

    def _count(self, identity: Identity, address: str) -> None:
        self._signed_in[identity.device or OWNER] += 1
        self._at[network_of(address)] += 1

    def left(self, identity: Identity, address: str) -> None:
        for counter, key in ((self._signed_in, identity.device or OWNER), (self._at, network_of(address))):
            counter[key] -= 1
            if not counter[key]:
                del counter[key]

    @contextlib.contextmanager
    def _place_for_newcomer(self, address: str) -> Iterator[None]:
        """Reserves a place for the device that is being paired. Raises ``ClientError`` if a limit for clients is
        reached."""
        self._check_room(NEWCOMER, address)
        self._count(NEWCOMER, address)
        try:
            yield
        finally:
            self.left(NEWCOMER, address)

    def _check_room(self, identity: Identity, address: str) -> None:
        """Raises ``ClientError`` if a limit for clients with this identity is reached (``_full``)."""
        full = self._full(identity, address)
        if full is not None:
            if self._logged_refusals.admit(f"{full[0]} {network_of(address)}", now()) is None:
                self._report_refusal(full[0], address, identity.name or None, identity.name or "the owner")
            raise ClientError("RESOURCE_LIMIT", full[1])

    def _full(self, identity: Identity, address: str) -> tuple[str, str] | None:
        """A code and a text for the limit that is reached: the device has too many clients or connects too often, or
        all devices together have too many clients, in total or at this address. None if no limit is reached."""
        all, device = self._signed_in.total(), identity.device
        if device is not None and self._signed_in[device] >= self._limits.per_device:
            return "TOO_MANY_FROM_DEVICE", "This device has too many connections. Close some, or try again later."
        if device is not None and self._connects.peek(device, now()) is not None:
            return "TOO_MANY_FROM_DEVICE", "This device connects too often. Try again later."
        if all >= self._limits.clients:
            return "TOO_MANY_CLIENTS", "The server has reached its maximum number of clients. Try again later."
        if device is not None and all - self._signed_in[OWNER] >= self._limits.of_devices:
            text = "The server has reached its maximum number of clients for all devices together. Try again later."
            return "TOO_MANY_CLIENTS", text
        if self._at[network_of(address)] >= self._limits.per_address and not is_loopback(address):
            text = "Your address has too many connections. Close some, or try again later."
            return "TOO_MANY_FROM_ADDRESS", text
        return None

    def denied(self, identity: Identity, *, by: str, address: str, code: str, **fields: Any) -> None:
        """Logs and audits a request that the signed-in client is not allowed to make, within limits (``DENIALS``).
        ``by``: the client's name."""
        refused = self._denials.admit(identity.device_id or network_of(address), now())
        if refused is None:
            logger.warning("denied %s (%s): %s", address, by, code)
            self.note("denied", by=by, address=address, code=code, **fields)
        elif self._is_news("denials", refused, identity.device_id or network_of(address)):
            text = "keeps sending requests that it is not allowed to send: further refusals are not logged for now"
            self._report(f"{address} ({by}) {text}", "limited", what="denials", device=by, address=address)

    def _warn_of_proxy(self, head: Head) -> None:
        if not self._warned_of_proxy and self._access.is_unnamed_proxy(head):
            self._warned_of_proxy = True
            logger.warning(
                "requests through a proxy on this machine are not limited by address. Name the proxy with --trusted-proxy %s",
                head.peer,
            )

    def _log_refusal(self, head: Head, code: str) -> None:
        """Logs and audits a refusal, at most once in ``RETRY_SECONDS`` for the same code and address."""
        address = self.address(head)
        if self._logged_refusals.admit(f"{code} {network_of(address)}", now()) is None:
            self._report_refusal(code, address, self._device(head))

    def _device(self, head: Head) -> str | None:
        """The name of the token's device, for the log line about a request that is refused anyway; None if it is not
        known.
        """
        try:
            identity = self._access.shown(head)
        except ClientError as error:
            return (error.details or {}).get("device")
        return (identity.name or None) if identity is not None else None

    def _over(self, buckets: Buckets, what: str, head: Head) -> Refusal | None:
        """Counts a connection or request from the head's address, unless that is this machine. Returns the refusal if
        there are too many."""
        address = self.address(head)
        refused = None if is_loopback(address) else buckets.admit(network_of(address), now())
        if refused is None:
            return None
        device = self._device(head) if refused.first else None
        return as_refusal(self._too_often(what, refused, address, device or ""))

    def _too_many_clients(self, head: Head) -> Refusal | None:
        try:
            identity = self._access.shown(head)
        except ClientError:
            identity = None  # ``refusal`` refuses the request for this later
        # A connection with a valid token is not counted, because a neighbor must not be able to lock a device out.
        if identity is None:
            return self._over(self._handshakes, "handshakes", head)
        # For a client that sends its token in its first message, room is checked when that message arrives.
        full = self._full(identity, self.address(head))
        if full is None:
            return None
        self._log_refusal(head, full[0])
        return Refusal(503 if full[0] == "TOO_MANY_CLIENTS" else 429, ": ".join(full), RETRY_SECONDS)

    @contextlib.contextmanager
    def _counted(self, address: str, *, short: bool = False) -> Iterator[None]:
        """Counts a failure if the block raises ``ClientError``. A valid token is accepted no matter how often others at
        the address have failed, because 256 bits can't be guessed, and a neighbor must not be able to lock a device
        out. After too many failures, a pairing code or a signature (``short``) is not even checked.

        A token that could not be checked (``UNCHECKED``) is not a failure. ``Devices`` logs the reason once, not each
        attempt.
        """
        key = network_of(address)
        refused = self._failures.peek(key, now())
        if refused is not None and short:
            raise self._too_often("failed sign-in attempts", refused, address)
        try:
            yield
        except ClientError as error:
            if error.code == UNCHECKED:
                raise
            if refused is not None:
                raise self._too_often("failed sign-in attempts", refused, address) from None
            self._failures.admit(key, now())
            self._report_refusal(error.code, address, (error.details or {}).get("device"))
            raise

    def _too_often(self, what: str, refused: Refused, address: str, device: str = "") -> ClientError:
        if self._is_news(what, refused, device or network_of(address)):
            line = f"too many {what} from {_from(address, device)}; more are refused for now"
            self._report(line, "limited", what=what, device=device or None, address=address)
        seconds = math.ceil(refused.seconds)
        text = f"Too many {what}. Try again in {seconds} s."
        return ClientError("RATE_LIMITED", text, details={"retry_after": seconds})

    def _is_news(self, what: str, refused: Refused, who: str) -> bool:
        """Whether to report that ``who`` has reached the limit ``what`` (``LIMITED_SECONDS``)."""
        return refused.first and self._limited.admit(f"{what} {who}", now()) is None

    def _report_refusal(self, code: str, address: str, device: str | None, who: str | None = None) -> None:
        """Logs and audits a refusal. ``who``: the client's name in the log (default: ``device``)."""
        line = f"refused {_from(address, who or device)}: {code}"
        self._report(line, "refused", code=code, device=device, address=address)

    def _report(self, line: str, event: str, **fields: Any) -> None:
        """Writes a line to the log and an entry to the audit log, within the limit for all addresses (``REFUSALS``)."""
        if self._refusals.admit("", now()) is None:
            logger.warning("%s", line)
            self.note(event, **fields)
            return
        if not self._unlogged:
            logger.warning(
                "refusing connections from a large number of addresses: further refusals are not logged for now"
            )
            self.note("limited", what="refusals")
            asyncio.get_running_loop().call_later(LIMITED_SECONDS, self._report_unlogged)
        self._unlogged += 1

    def _report_unlogged(self) -> None:
        unlogged, self._unlogged = self._unlogged, 0
        logger.warning("refusals in the last %d minutes that were not logged: %d", LIMITED_SECONDS // 60, unlogged)

    def note(self, event: str, **fields: Any) -> None:
        """Writes an entry to the audit log."""
        if self._audit is not None:
            self._audit.write(event, **fields)

    def published(self, announced: Announced) -> None:
        """Receives events from the bus as "audit", and writes to the audit log which runs were continued automatically,
        and what people did on any surface. ``Dispatch`` audits commands that only clients have.
        """
        event = announced.event
        if isinstance(event, Audited):
            name, by, fields = audited.published(event)
            self.note(name, **by, project_id=announced.project_id, **fields)


def _from(address: str, device: str | None) -> str:
    return f"{address} ({device})" if device else address


def as_refusal(error: ClientError) -> Refusal:
    if error.code == UNCHECKED:
        return Refusal(503, f"{error.code}: {error.text}", RETRY_SECONDS)
    after = (error.details or {}).get("retry_after")
    return Refusal(401 if after is None else 429, f"{error.code}: {error.text}", after)


def now() -> float:
    return time.monotonic()
