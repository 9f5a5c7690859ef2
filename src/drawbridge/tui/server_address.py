"""The server's address and token: from flags, or from the files of this user's server on this machine."""

from __future__ import annotations

import hashlib
import re
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import platformdirs

from drawbridge import settings
from drawbridge.core.errors import BadSetting
from drawbridge.settings.serve import ServeSettings
from drawbridge.transport import running

LOOPBACK: Final = re.compile(r"localhost|127\.\d+\.\d+\.\d+|::1")
FINGERPRINT: Final = re.compile(r"([0-9A-F]{2}:){31}[0-9A-F]{2}")


@dataclass(frozen=True)
class ServerAddress:
    """The data that is needed to connect to a server. ``fingerprint``: SHA-256 of the expected certificate, which then
    does not need a trusted signature; None if the certificate is verified in the usual way, or if the server does not
    use TLS.

    ``token``: empty without a token file, since a server may not need one. ``token_file``: for error texts.
    """

    url: str
    token: str = field(repr=False)
    token_file: Path
    tls: ssl.SSLContext | None
    fingerprint: str | None


class Finder:
    """Finds a server according to the flags. ``find`` searches each time, because a restarted server may have another
    address. ``elsewhere``: whether to look for a server with any other data directory if none is running with the one
    in the settings. Raises ``BadSetting`` if the flags can't be used.
    """

    def __init__(
        self,
        url: str | None = None,
        token_file: str | None = None,
        ca: str | None = None,
        fingerprint: str | None = None,
        *,
        elsewhere: bool = False,
    ) -> None:
        self._url = None if url is None else _checked_url(url)
        self._token_file = None if token_file is None else Path(token_file)
        self._ca = ca
        self._elsewhere = elsewhere and url is None
        self._data: Path | None = None
        """The data directory of the server that was found first, so that a client that reconnects never gets another
        server; None until then."""
        self._fingerprint = None if fingerprint is None else _checked_fingerprint(fingerprint)
        if ca is not None and fingerprint is not None:
            raise BadSetting("--ca and --fingerprint can't be combined.")
        if self._token_file is None and self._url is not None and not is_here(self._url):
            raise BadSetting(
                f"The server at {self._url} is not on this machine, so a token is required. Name the file that "
                "contains it with --token-file."
            )

    def find(self) -> ServerAddress:
        """The server's current address, which may not answer. Raises ``BadSetting`` if the settings, the token or a
        certificate can't be used, or if ``elsewhere`` finds several servers."""
        own = settings.load("serve", ServeSettings, {})
        data = self._data or Path(own.data_dir or platformdirs.user_data_dir("drawbridge", appauthor=False)).absolute()
        found = running.find(data)
        if found is None and self._data is None and self._elsewhere:
            found = _only_one(running.announcements())
        if found is not None:
            data = self._data = Path(found.data_dir or data)
        url = self._url or (found.url if found else _configured(own))
        token_file = self._token_file or data / "token"
        fingerprint = self._fingerprint
        if fingerprint is None and self._ca is None and found is not None and url == found.url:
            fingerprint = found.fingerprint
        token = _token(token_file, named=self._token_file is not None)
        return ServerAddress(url, token, token_file, self._tls(url, own, data, fingerprint), fingerprint)

    def _tls(self, url: str, own: ServeSettings, data: Path, fingerprint: str | None) -> ssl.SSLContext | None:
        if not url.startswith("wss:"):
            return None
        context = ssl.create_default_context()
        if fingerprint is not None:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE  # the fingerprint is compared before the token is sent
            return context
        trusted = Path(self._ca or own.cert or data / "tls" / "cert.pem")
        if self._ca is not None or (is_here(url) and trusted.exists()):
            try:
                context.load_verify_locations(cafile=trusted)
            except ssl.SSLError:
                raise BadSetting(
                    f"{trusted} does not contain a PEM certificate. Use --ca to name a file that does."
                ) from None
            except OSError as error:
                why = (error.strerror or "unknown reason").lower()
                raise BadSetting(f"{trusted} can't be read: {why}. Name a certificate with --ca.") from None
        return context


def fingerprint_of(certificate: bytes) -> str:
    """The fingerprint of a certificate in DER, as ``drawbridge serve`` shows it: "86:EE:…"."""
    return hashlib.sha256(certificate).digest().hex(":").upper()


def _checked_url(url: str) -> str:
    """The address of the WebSocket. ``url`` may also be the web UI's address. Raises ``BadSetting``."""
    found = urlsplit(url if "//" in url else f"wss://{url}")
    scheme = {"https": "wss", "http": "ws"}.get(found.scheme, found.scheme)
    try:
        good = scheme in ("wss", "ws") and bool(found.hostname) and (found.port or 1) > 0
    except ValueError:
        good = False
    if not good:
        raise BadSetting(f"--url {url} is not a valid server address. Use one such as wss://HOST:8443/ws.")
    address = f"{scheme}://{found.netloc}{found.path if found.path.strip('/') else '/ws'}"
    if scheme == "ws" and not is_here(address):
        raise BadSetting(f"--url {url} would send the token over the network unencrypted. Use wss:// instead.")
    return address


def _checked_fingerprint(given: str) -> str:
    text = given.strip().upper().removeprefix("SHA-256").strip(" ,=")
    text = text if ":" in text else ":".join(text[at : at + 2] for at in range(0, len(text), 2))
    if not FINGERPRINT.fullmatch(text):
        raise BadSetting("--fingerprint must be the SHA-256 fingerprint that `drawbridge serve` shows, such as 86:EE:…")
    return text


def is_here(url: str) -> bool:
    return bool(LOOPBACK.fullmatch(urlsplit(url).hostname or ""))


def _only_one(servers: Sequence[running.Running]) -> running.Running | None:
    """The only element of ``servers``; None if the list is empty. Raises ``BadSetting`` if it has several."""
    if len(servers) > 1:
        names = ", ".join(f"{one.url} ({one.data_dir})" for one in servers)
        raise BadSetting(
            f"{len(servers)} servers are running: {names}. Choose one with --url, --token-file (the `token` file in "
            "its data directory) and, if it uses TLS, --fingerprint."
        )
    return servers[0] if servers else None


def _configured(own: ServeSettings) -> str:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(own.host, own.host)  # noqa: S104
    return f"{'wss' if own.tls else 'ws'}://{f'[{host}]' if ':' in host else host}:{own.port}/ws"


def _token(path: Path, *, named: bool) -> str:
    try:
        return path.read_text("ascii").strip()
    except FileNotFoundError:
        if not named:
            return ""
        raise BadSetting(f"The token file {path} does not exist. Name the right one with --token-file.") from None
    except (OSError, UnicodeDecodeError) as error:
        why = (
            "it does not contain a token"
            if isinstance(error, UnicodeDecodeError)
            else (error.strerror or str(error)).lower()
        )
        raise BadSetting(
            f"The token can't be read from {path}: {why}. Correct the file, or choose another one with --token-file."
        ) from None
