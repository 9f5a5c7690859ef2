"""Decides who may use the server, by the tokens of the owner and of devices, SSH keys, the web pages that may send
requests, and the host names and addresses for which requests are accepted."""

from __future__ import annotations

import ipaddress
import logging
import re
import secrets
import socket
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import psutil

from drawbridge.core.addresses import unmapped
from drawbridge.core.errors import BadSetting, DrawbridgeError
from drawbridge.core.private_files import PRIVATE_FILE, make_private_directory, write_private
from drawbridge.protocols.gate import Head, Refusal
from drawbridge.server.auth.devices import Device, Devices, redeem, same, wrong_token
from drawbridge.server.auth.scopes import Identity, owner
from drawbridge.server.auth.ssh_keys import (
    NO_CERTIFICATE,
    BadSignature,
    Entry,
    Keys,
    challenge,
    earlier_challenge,
    verified,
)
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.commands import SshAuth

logger = logging.getLogger("drawbridge.server")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

EVERYWHERE: Final = ("0.0.0.0", "::")  # noqa: S104


def of_this_machine() -> set[Address]:
    """All IP addresses that this machine has now."""
    found = set()
    for addresses in psutil.net_if_addrs().values():
        for one in addresses:
            if one.family in (socket.AF_INET, socket.AF_INET6):
                found.add(ipaddress.ip_address(one.address.partition("%")[0]))
    return found


def served(host: str, public: Sequence[str]) -> tuple[str, ...]:
    """The names and addresses at which other machines can reach the server: first ``public``, then the addresses that
    it listens on. If ``host`` is one of ``EVERYWHERE``, loopback and link-local addresses are left out. If it is a
    loopback address, only ``public`` is returned."""
    if host not in EVERYWHERE:
        own: tuple[str, ...] = () if is_loopback(host) else (host,)
    else:
        reachable = [one for one in of_this_machine() if not (one.is_loopback or one.is_link_local)]
        if host == EVERYWHERE[0]:
            reachable = [one for one in reachable if one.version == 4]
        own = tuple(str(one) for one in sorted(reachable, key=lambda one: (not one.is_private, one.version, int(one))))
    return tuple(dict.fromkeys([*public, *own]))


def is_loopback(host: str) -> bool:
    """Whether ``host`` is ``localhost`` or a loopback address, so that only this machine can reach a server there."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def bracketed(host: str) -> str:
    """The host as it is written in a URL: an IPv6 address in brackets."""
    try:
        return f"[{host}]" if ipaddress.ip_address(host).version == 6 else host
    except ValueError:
        return host


HOST_NAME: Final = r"[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*"
TOKEN: Final = re.compile(r"[\x21-\x7e]{32,256}")

FOREIGN_PAGE: Final = Refusal(
    403,
    "Requests from web pages on other origins are refused. The server's owner can allow an origin with --allow-origin.",
)
FOREIGN_NAME: Final = Refusal(
    403, "The server is not configured for this host name. Its owner can add the name with --public-host."
)


NEW_TOKEN: Final = "If you remove the file, the server will create a new one."


def owner_token(path: Path) -> str:
    """The token in the file. If the file is missing, it is created with a new token. Only the owner can read it (0600).
    Raises ``BadSetting`` if the file can't be read or made private, or does not contain a token. Raises ``NotPrivate``
    if it can't be created, or its directory can't be made private."""
    make_private_directory(str(path.parent))
    try:
        token = path.read_text("ascii").strip()
        if path.stat().st_mode & 0o077:
            path.chmod(PRIVATE_FILE)
    except FileNotFoundError:
        token = secrets.token_urlsafe(32)
        write_private(str(path), f"{token}\n".encode())
    except OSError as error:
        why = (error.strerror or "unknown reason").lower()
        raise BadSetting(f"{path} can't be read or made private: {why}. {NEW_TOKEN}") from None
    except UnicodeDecodeError:
        token = ""
    if not TOKEN.fullmatch(token):
        raise BadSetting(f"{path} does not contain a valid token. {NEW_TOKEN}")
    return token


class OwnNames:
    """The names of this machine: its loopback names, its host name, ``public``, and any address that it has now."""

    def __init__(self, public: Iterable[str] = ()) -> None:
        host = socket.gethostname()
        named = [host, host.partition(".")[0]] if re.fullmatch(HOST_NAME, host) else []
        self.public = tuple(public)
        self.names = tuple(dict.fromkeys(["localhost", "127.0.0.1", "::1", *named, *self.public]))
        self._names = frozenset(name.lower() for name in self.names)

    def __contains__(self, host: str) -> bool:
        """Whether ``host``, from a ``Host`` header and without its port, is one of the names or addresses."""
        name = host.lower().removeprefix("[").removesuffix("]").removesuffix(".")
        if name in self._names:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        # The addresses are looked up each time, because laptops change networks, and requests that use an IP address
        # are rare.
        return address.is_loopback or address in of_this_machine()

    def dialled(self, host: str, port: int, default_port: int) -> bool:
        """Whether a client that connected to exactly ``host`` has reached the server at ``port`` of this machine.
        ``default_port``: the port if ``host`` does not contain one.

        This check is stricter than the one for requests. It accepts neither other spellings of a name (except its
        lower-case form) nor other ports, where another program may listen. With a public name, any port is accepted,
        because the name may belong to a proxy or a router with its own port.
        """
        bare = _without_port(host)
        at = host[len(bare) + 1 :] or str(default_port)
        bracketed = bare.startswith("[") and bare.endswith("]")
        name = bare[1:-1] if bracketed else bare
        if bracketed != (":" in name):  # as in a URL, brackets are required around an IPv6 address and nothing else
            return False
        if name in self.public:
            return True
        own = {
            *self.names,
            *map(str.lower, self.names),
            *(str(one) for one in of_this_machine() if not one.is_loopback),
        }
        return at == str(port) and name in own


class Access:
    """Decides which requests, tokens, pairing codes and signatures are accepted.

    ``token``: the owner's token. If it is None, every client that uses one of the server's names is accepted
    (``--insecure-no-auth``, on loopback only).
    """

    def __init__(
        self,
        token: str | None,
        names: OwnNames,
        *,
        secure: bool,
        devices: Devices | None = None,
        origins: Sequence[str] = (),
        proxies: Sequence[str] = (),
        keys: Keys | None = None,
        port: int = 0,
        certificate: Callable[[], str | None] = lambda: None,
        notified: Callable[[str], Identity | None] = lambda token: None,
    ) -> None:
        """``origins``: the origins of other web pages that may connect. ``proxies``: addresses and networks from which
        ``X-Forwarded-For`` is trusted.

        ``port``: the port that the server listens on. ``certificate`` returns the SHA-256 of the certificate that new
        connections get; None without TLS. ``notified`` returns the identity for a notification's token; None if the
        token is not valid.
        """
        self._port = port
        self.certificate = certificate
        self._token = token
        self._names = names
        self._scheme = "https" if secure else "http"
        self._devices = devices
        self._keys = keys
        self._notified = notified
        self._origins = frozenset(origin.lower().removesuffix("/") for origin in origins)
        self._proxies = [ipaddress.ip_network(one, strict=False) for one in proxies]

    def refusal(self, head: Head) -> Refusal | None:
        """Checks Origin and Host. Returns None if the request is acceptable."""
        host = head.one("host")
        if host is None or _without_port(host) not in self._names:
            return FOREIGN_NAME
        origins = head.all("origin")
        # A browser sends the page's origin, which the page can't forge. Only the server's own pages and pages on the
        # configured origins are accepted.
        own = origins == [f"{self._scheme}://{host}"]
        if origins and not own and not (len(origins) == 1 and origins[0].lower() in self._origins):
            return FOREIGN_PAGE
        return None

    def address(self, head: Head) -> str:
        """The client's address: the peer's address, or the address that a chain of trusted proxies reports."""
        found = head.peer
        reported = [_bare(one) for one in head.tokens("x-forwarded-for")]
        while reported and self._is_proxy(found) and is_address(reported[-1]):
            found = unmapped(reported.pop())
        return found

    def is_unnamed_proxy(self, head: Head) -> bool:
        """Whether an unconfigured proxy on this machine forwards the request, so that its clients can't be
        distinguished.
        """
        return bool(head.all("x-forwarded-for")) and is_loopback(head.peer) and not self._is_proxy(head.peer)

    def _is_proxy(self, address: str) -> bool:
        return is_address(address) and any(ipaddress.ip_address(address) in network for network in self._proxies)

    def shown(self, head: Head) -> Identity | None:
        """The identity of the token in the request's head; None if a token is required but missing. Raises
        ``ClientError`` if the token is not valid."""
        if self._token is None:
            return owner("")
        if not head.all("authorization"):
            return None
        scheme, _, given = (head.one("authorization") or "").partition(" ")
        if scheme.lower() != "bearer":
            raise wrong_token()
        return self.identify(given.strip())

    def identify(self, token: str) -> Identity:
        """The identity of a token. The token is compared in constant time. If no token is required, the identity is
        always the owner's. Raises ``ClientError`` if the token is not valid."""
        if self._token is None or same(token, self._token):
            return owner("")
        notified = self._notified(token)
        if notified is not None:
            return notified
        if self._devices is None:
            raise wrong_token()
        return self._devices.identify(token)

    def pair(self, code: str, name: str | None) -> tuple[Device, str]:
        """Pairs a device with a one-time code. Returns the device and its token. Raises ``ClientError``.
        Blocking."""
        if self._devices is None:
            raise ClientError(
                "NOT_SUPPORTED", "Devices can't be paired: this server runs without tokens (--insecure-no-auth)."
            )
        self.refresh_keys()
        try:
            return redeem(self._devices, code, name, self._keys if self._keys is not None else ())
        except DrawbridgeError as error:
            logger.error("a device could not be paired: %s", error)
            text = "The server could not save the new device. See the server's log for the reason."
            raise ClientError("FILE_OPERATION", text) from None

    @property
    def accepts_keys(self) -> bool:
        """Whether the server accepts SSH keys."""
        return self._keys is not None

    def refresh_keys(self) -> None:
        """Reads the file with the SSH keys again, if it has changed. Blocking."""
        if self._keys is not None:
            self._keys.refresh()

    def nonce(self) -> str:
        """A nonce for a challenge. Raises ``ClientError`` if the server does not accept SSH keys."""
        if self._keys is None:
            raise ClientError(
                "NOT_SUPPORTED", "The server does not accept SSH keys. Its owner can allow them with --authorized-keys."
            )
        return secrets.token_urlsafe(32)

    def signed(self, answer: SshAuth, nonce: str | None, certificate: str | None) -> Identity:
        """The identity of the key that signed the challenge. ``nonce``: the nonce of the open challenge; None if no
        challenge is open. ``certificate``: the SHA-256 of the connection's certificate; None without TLS.

        Raises ``ClientError``.
        """
        if self._keys is None:
            self.nonce()
        if nonce is None or not same(answer.nonce, nonce):
            raise ClientError(
                "SIGNATURE_REPLAYED",
                "The challenge was already answered, or is not this connection's latest one. Request a new challenge.",
            )
        if not self._names.dialled(answer.host, self._port, 443 if self._scheme == "https" else 80):
            text = (
                "The signature is for a host name or port that is not this server's. Connect to the server's own port: "
                "a tunnel needs the same port at both ends. A name that is not the machine's own must be set with "
                "--public-host."
            )
            raise ClientError("SIGNATURE_FOREIGN", text, "data.host")
        if answer.certificate is not None and answer.certificate.lower() != (certificate or NO_CERTIFICATE):
            text = (
                "The signature is for a certificate that is not this server's. If a proxy terminates TLS, sign in with a "
                "token; otherwise somebody may have intercepted the connection."
            )
            raise ClientError("SIGNATURE_FOREIGN", text, "data.certificate")
        entry, why = self._signer(answer, challenge(answer.host, certificate, nonce))
        if entry is None:
            logger.info("refused a signature: %s", why)
            text = "The signature is not valid for this challenge, or its key is not authorized by the owner."
            if self._signer(answer, earlier_challenge(answer.host, nonce))[0] is not None:
                text = (
                    "The signature has an earlier format (drawbridge-login-v1), which does not name the server's "
                    "certificate. Update the client."
                )
            raise ClientError("SIGNATURE_WRONG", text, "data.signature")
        return Identity(name=entry.name, scope="admin", key=entry.fingerprint)

    def _signer(self, answer: SshAuth, message: bytes) -> tuple[Entry | None, str]:
        """The key that signed ``message``; or None and the reason, if it is not authorized or the signature is not
        valid."""
        try:
            entry = self._keys.find(verified(answer.signature, message)) if self._keys else None
        except BadSignature as error:
            return None, str(error)
        return entry, "" if entry else "its key is not authorized"

    def refusal_of(self, identity: Identity) -> ClientError | None:
        """The reason why a client that is signed in may not stay connected; None if it may stay."""
        if identity.key is not None and self._keys is not None and identity.key not in self._keys:
            return ClientError("TOKEN_REVOKED", "This SSH key is no longer authorized.")
        if identity.device_id is None or self._devices is None:
            return None
        return self._devices.refusal(identity.device_id)


def is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _bare(text: str) -> str:
    """The address without its port and brackets: some proxies write "[2001:db8::1]:4711" or "192.0.2.7:4711"."""
    host = _without_port(text) if text.startswith("[") or text.count(":") == 1 else text
    return host.removeprefix("[").removesuffix("]")


def _without_port(host: str) -> str:
    name, separator, port = host.rpartition(":")
    return name if separator and port.isdecimal() and port.isascii() else host


def is_local(page: str) -> bool:
    """Whether the URL leads to the machine on which it is opened. Raises ``ValueError`` for an invalid host or port."""
    parts = urlsplit(page)
    _ = parts.port  # the port is checked only when it is read
    return is_loopback(parts.hostname or "")
