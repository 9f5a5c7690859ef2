"""Web Push: the browsers that have subscribed, the server's key, and the request that sends one push.

The subscriptions and the key are in ``push.json`` (0600) in the data directory. A subscription ends with the token with
which it was made. A push is encrypted for one browser (RFC 8291), and this server signs the request for it (RFC 8292).
"""

from __future__ import annotations

import base64
import logging
import re
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import http_ece
import msgspec
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from msgspec import Struct
from py_vapid import Vapid02

from drawbridge.core.errors import NotPrivate
from drawbridge.core.json_text import UNDECODABLE
from drawbridge.core.private_files import write_private
from drawbridge.server.auth.scopes import Identity
from drawbridge.server.protocol import commands
from drawbridge.server.protocol.client_errors import ClientError

logger = logging.getLogger("drawbridge.server")

FILE: Final = "push.json"

SERVICES: Final = (
    "fcm.googleapis.com",
    "push.services.mozilla.com",
    "push.apple.com",
    "notify.windows.com",
)
"""The push services of Chrome and its derivatives, Firefox, Safari and Edge. Since a device chooses the address that
this server posts to, any other address could be one inside the server's own network.
"""

OF_ONE_DEVICE: Final = 10
"""The maximum number of a device's subscriptions. If there are more, the oldest is removed. Browsers create new ones
now and then."""

AUTH_BYTES: Final = 16
LONGEST_ENDPOINT: Final = 2_000

_LABEL: Final = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
ENDPOINT: Final = re.compile(
    rf"https://(?P<host>{_LABEL}(?:\.{_LABEL})+)(?::443)?(?P<target>/[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*)"
)
"""The only form of endpoint that is accepted. In any other form, an HTTP library may interpret a backslash, a user
name, a control character, a trailing dot or a fragment differently from a check before the request.
"""


class Subscription(Struct, frozen=True):
    """The subscription of one browser, as in the Push API: where to post, and the keys to encrypt for it (base64url).

    ``device_id``: None for the owner. ``actions``: whether the user wants to decide in notifications, which may then
    contain a command.
    """

    endpoint: str
    p256dh: str
    auth: str
    device_id: str | None
    actions: bool = False

    @property
    def service(self) -> str:
        """The origin of ``endpoint``."""
        return "/".join(self.endpoint.split("/", 3)[:3])


class _File(Struct):
    """The contents of the file. ``owner``: the hash of the token with which the owner's subscriptions were made;
    empty if the file is from an earlier version."""

    private_key: str = ""
    subscriptions: list[Subscription] = []
    owner: str = ""


class Subscriptions:
    """The subscriptions of a server. Thread-safe."""

    def __init__(self, directory: Path, owner: str | None = None, services: tuple[str, ...] = SERVICES) -> None:
        """``owner``: the hash of the owner's token. If the owner's subscriptions were made with another token, they are
        removed. None if the server does not require tokens: it keeps the subscriptions.
        """
        self._path = directory / FILE
        self._services = services
        self._lock = threading.Lock()
        self._file = self._read()
        if owner is not None and owner != self._file.owner:
            self._owner_changed(owner)

    def __iter__(self) -> Iterator[Subscription]:
        return iter(list(self._file.subscriptions))

    @property
    def private_key(self) -> str:
        """The server's private key, in base64url. It is created at its first use. Raises ``NotPrivate``."""
        with self._lock:
            if not self._file.private_key:
                number = ec.generate_private_key(ec.SECP256R1()).private_numbers().private_value
                self._write(msgspec.structs.replace(self._file, private_key=packed(number.to_bytes(32, "big"))))
            return self._file.private_key

    @property
    def public_key(self) -> str:
        """The server's public key, which a browser calls ``applicationServerKey``, in base64url. Raises
        ``NotPrivate``."""
        number = int.from_bytes(unpacked(self.private_key), "big")
        point = ec.derive_private_key(number, ec.SECP256R1()).public_key()
        return packed(point.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint))

    def add(self, new: Subscription) -> None:
        """Adds a subscription, which replaces one with the same endpoint. Raises ``ClientError`` if it is not valid,
        and ``NotPrivate`` if the file can't be written."""
        new = self._checked(new)
        with self._lock:
            others = [one for one in self._file.subscriptions if one.endpoint != new.endpoint]
            of_device = [one for one in others if one.device_id == new.device_id]
            surplus = of_device[: max(0, len(of_device) + 1 - OF_ONE_DEVICE)]
            kept = [one for one in others if one not in surplus]
            self._write(msgspec.structs.replace(self._file, subscriptions=[*kept, new]))

    def subscribe(self, command: commands.PushSubscribe, who: Identity) -> None:
        """Adds a subscription of this device. Raises ``ClientError`` if it is not valid or the client signed in with an
        SSH key, and ``NotPrivate`` if the file can't be written.
        """
        if who.key is not None:
            raise ClientError("NOT_SUPPORTED", "Only devices with a token can receive notifications.")
        self.add(Subscription(command.endpoint, command.p256dh, command.auth, who.device_id, command.actions))

    def own(self, endpoint: str, who: Identity) -> Subscription | None:
        """This device's subscription with that endpoint; None if this device has none."""
        mine = (one for one in self if one.device_id == who.device_id and who.key is None)
        return next((one for one in mine if one.endpoint == self._posted_to(endpoint)), None)

    def unsubscribe(self, command: commands.PushUnsubscribe, who: Identity) -> None:
        """Removes a subscription of this device. An endpoint of another device is ignored. Raises ``NotPrivate``."""
        mine = self.own(command.endpoint, who)
        if mine is not None:
            self.remove(mine.endpoint)

    def remove(self, endpoint: str) -> None:
        """Removes a subscription, if it exists. Raises ``NotPrivate``."""
        with self._lock:
            kept = [one for one in self._file.subscriptions if one.endpoint != endpoint]
            if len(kept) < len(self._file.subscriptions):
                self._write(msgspec.structs.replace(self._file, subscriptions=kept))

    def _owner_changed(self, owner: str) -> None:
        """Stores the hash of the owner's token. Removes the subscriptions that were made with the previous token. An
        earlier version did not store the hash, so its subscriptions are kept."""
        old = self._file.subscriptions
        kept = [one for one in old if one.device_id is not None] if self._file.owner else old
        self._file = msgspec.structs.replace(self._file, subscriptions=kept, owner=owner)
        if len(kept) < len(old):
            logger.info("removed the subscriptions of browsers that signed in with the owner's previous token")
        if old:
            try:
                self._write(self._file)
            except NotPrivate as error:
                # The next start tries again. A full disk must not keep the server from starting.
                logger.error("the browsers' subscriptions could not be stored: %s", error)

    def _checked(self, new: Subscription) -> Subscription:
        """Checks a subscription. Returns it with the endpoint to post to. Raises ``ClientError``."""
        endpoint = self._posted_to(new.endpoint)
        if endpoint is None:
            text = "data.endpoint: this is not the address of a push service for Chrome, Firefox, Safari or Edge."
            raise ClientError("VALIDATION_FAILED", text, "data.endpoint")
        if not _is_point(unpacked(new.p256dh)):
            text = "data.p256dh: this is not a point on the P-256 curve in base64url."
            raise ClientError("VALIDATION_FAILED", text, "data.p256dh")
        if len(unpacked(new.auth)) != AUTH_BYTES:
            text = f"data.auth: this is not a key of {AUTH_BYTES} bytes in base64url."
            raise ClientError("VALIDATION_FAILED", text, "data.auth")
        return msgspec.structs.replace(new, endpoint=endpoint)

    def _posted_to(self, endpoint: str) -> str | None:
        """The endpoint, rebuilt from its parsed parts; None if it is too long, does not have the form of ``ENDPOINT``,
        or does not belong to one of the push services."""
        found = ENDPOINT.fullmatch(endpoint) if len(endpoint) <= LONGEST_ENDPOINT else None
        if found is None or not any(
            found["host"] == one or found["host"].endswith(f".{one}") for one in self._services
        ):
            return None
        return f"https://{found['host']}{found['target']}"

    def _read(self) -> _File:
        try:
            file = msgspec.json.decode(self._path.read_bytes(), type=_File)
            # An earlier version may have accepted other endpoints.
            file.subscriptions = [one for one in file.subscriptions if self._posted_to(one.endpoint) == one.endpoint]
            return file
        except FileNotFoundError:
            return _File(subscriptions=[])
        except (OSError, *UNDECODABLE) as error:
            why = error.strerror if isinstance(error, OSError) else error
            logger.error("%s can't be read (%s), so browsers have to subscribe to notifications again", self._path, why)
            return _File(subscriptions=[])

    def _write(self, file: _File) -> None:
        data = msgspec.json.format(msgspec.json.encode(file), indent=1) + b"\n"
        write_private(str(self._path), data, synced=True)
        self._file = file


def packed(data: bytes) -> str:
    """The bytes in base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unpacked(text: str) -> bytes:
    """The decoded bytes; empty if the text is not base64url."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError:
        return b""


def _is_point(data: bytes) -> bool:
    """Whether a browser's key is valid for encryption."""
    try:
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), data)
    except ValueError:
        return False
    return True


LIFETIME: Final = {True: 3_600, False: 600}
"""Seconds for which a service keeps a push for a device that is offline, by whether the push is urgent."""

SIGNED_SECONDS: Final = 12 * 3_600
"""Seconds for which a signature is valid. Services accept at most 24 hours."""

DOTTED: Final = re.compile(r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+")


def contact(public: Sequence[str], host: str) -> str:
    """The host name in the contact address for push services: a public name, otherwise the machine's own name.

    Push services refuse names without a dot, such as those of most machines. ``.invalid`` (RFC 2606) marks a name that
    is not reachable.
    """
    dotted = next((name for name in (*public, host) if DOTTED.fullmatch(name)), None)
    return dotted or f"{re.sub(r'[^A-Za-z0-9-]+', '-', host).strip('-') or 'drawbridge'}.invalid"


def request(to: Subscription, payload: bytes, *, urgent: bool, key: str, contact: str) -> tuple[dict[str, str], bytes]:
    """The headers and the body of the request to ``to.endpoint``. ``key``: this server's
    ``Subscriptions.private_key``."""
    body = http_ece.encrypt(
        payload,
        private_key=ec.generate_private_key(ec.SECP256R1()),
        dh=unpacked(to.p256dh),
        auth_secret=unpacked(to.auth),
        version="aes128gcm",
    )
    claims = {"aud": to.service, "sub": f"https://{contact}", "exp": int(time.time()) + SIGNED_SECONDS}
    headers = {
        **Vapid02.from_string(key).sign(claims),
        "Content-Type": "application/octet-stream",
        "Content-Encoding": "aes128gcm",
        "TTL": str(LIFETIME[urgent]),
        "Urgency": "high" if urgent else "normal",
    }
    return headers, body
