"""Servers: tests each running server at each address that it announced, as a phone would reach it (certificate, host
name, answer), and also with the owner's token and through its private socket. Also checks for a wrong clock and a full
disk. Over TLS, the token is sent only if the certificate is the one that the server announced. Its issuer and its host
name are not checked. Without TLS, the token is sent to a loopback address only.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import ipaddress
import json
import os
import shlex
import socket
import ssl
import time
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from drawbridge.core import beside
from drawbridge.core.own_command import own_command
from drawbridge.doctor.finding import Check, Finding, finding
from drawbridge.doctor.machine import disk_of
from drawbridge.transport import private_socket, running
from drawbridge.transport.running import Running

SECONDS: Final = 3.0
"""The time limit for each step of a connection, in seconds."""

CLOCK_SECONDS: Final = 300.0
"""The clock is or was wrong if the time of a file is at least this many seconds in the future."""

LARGEST: Final = 1_000_000

EXPIRED, EARLY, OTHER_NAME, OTHER_ADDRESS = 10, 9, 62, 64
"""OpenSSL's ``X509_V_ERR_…`` codes."""

UNEXPECTED: Final = "does not answer as expected"
"""The problem of an address at which something other than the server answers."""

REFUSALS: Final = ("UNAUTHORIZED", "TOKEN_REVOKED", "TOKEN_EXPIRED")


def checks() -> list[Check]:
    found = running.announcements()
    parts = {
        "the addresses": addresses,
        "the token": token,
        "the private socket": private,
        "the clock": clock,
        "the disk": lambda server: [one for one in disk_of(Path(server.data_dir)) if one.severity != "ok"],
    }
    made = [
        Check(f"{name} of the server at {server.url}", partial(part, server))
        for server in found
        for name, part in parts.items()
    ]
    return made or [Check("the servers", none)]


def none() -> list[Finding]:
    why = "Without a server, you can't answer agents from a phone or another machine."
    return [finding("server-none", "No server is running.", why, f"`{own_command()} serve` starts one.")]


def addresses(server: Running) -> list[Finding]:
    """A finding for the address on this machine and for each one that other devices use, and one more if the server
    listens on this machine only."""
    there = list(dict.fromkeys([_page(server), *server.pages]))
    answers = beside.each(partial(_reach, server), there, 2 * SECONDS)
    found = [answer or _unreachable(server, page, TimeoutError()) for page, answer in zip(there, answers, strict=True)]
    if server.loopback:
        why = "A phone or another machine can't connect to it."
        todo = f"To let them connect, restart the server with `{own_command()} serve --host 0.0.0.0`."
        found.append(
            finding("server-loopback", f"The server at {_page(server)} listens on this machine only.", why, todo)
        )
    return found


def token(server: Running) -> list[Finding]:
    path = Path(server.data_dir) / "token"
    try:
        secret = path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return []  # a server without authentication has none
    is_encrypted = server.url.startswith("wss:")
    if not is_encrypted and not _is_loopback(urlsplit(server.url).hostname or ""):
        return []  # the token must not leave this machine unencrypted
    context = _any_certificate() if is_encrypted else None
    hello = {"type": "auth", "data": {"token": secret, "client": "drawbridge doctor"}}
    try:
        with connect(
            server.url, ssl=context, proxy=None, compression=None, open_timeout=SECONDS, close_timeout=1,
            max_size=LARGEST,
        ) as opened:  # fmt: skip
            if is_encrypted and not _is_of(server, opened.socket):
                return []  # another server answers at this address, or the certificate was renewed
            opened.send(json.dumps(hello))
            answer = json.loads(opened.recv(SECONDS))
    except (OSError, WebSocketException, ValueError):
        return []  # ``addresses`` reports the reason
    if answer.get("type") != "error" or answer["data"].get("code") not in REFUSALS:
        return []
    title = f"The server at {server.url} refuses the token in {path}."
    why = "The file was changed after the server started. `drawbridge attach` and `drawbridge pair` use it."
    todo = "Restart the server, because it reads the file only when it starts."
    return [finding("server-token", title, why, todo)]


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _any_certificate() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _is_of(server: Running, connection: socket.socket) -> bool:
    """Whether the certificate of the connection is the one that the server announced."""
    shown = connection.getpeercert(binary_form=True) if isinstance(connection, ssl.SSLSocket) else None
    return shown is not None and hashlib.sha256(shown).digest().hex(":").upper() == server.fingerprint


def private(server: Running) -> list[Finding]:
    paths = [path for path in private_socket.addresses() if path.endswith(f"-{server.pid}{private_socket.ENDING}")]
    for path in paths:
        with socket.socket(socket.AF_UNIX) as probe, contextlib.suppress(OSError):
            probe.settimeout(SECONDS)
            probe.connect(path)
            return []
    what = f"does not accept connections ({paths[0]})" if paths else f"is gone from {private_socket.directory()}"
    title = f"The private socket of the server (process {server.pid}) {what}."
    why = "Hooks and bridges can't reach the server, so terminal sessions do not appear in it."
    return [finding("server-socket", title, why, "Restart the server.")]


def clock(server: Running) -> list[Finding]:
    try:
        newest = max((entry.stat().st_mtime, entry.path) for entry in os.scandir(server.data_dir))
    except (OSError, ValueError):
        return []
    ahead = newest[0] - time.time()
    if ahead < CLOCK_SECONDS:
        return []
    title = f"{newest[1]} is dated {_duration(ahead)} in the future, so the clock is or was wrong."
    why = "Tokens and certificates expire at the wrong time, and histories show wrong times."
    todo = "Compare the output of `date` with the time on a phone, and turn on time synchronization."
    return [finding("clock", title, why, todo)]


def _duration(seconds: float) -> str:
    return f"{seconds / 3600:.1f} hours" if seconds >= 3600 else f"{seconds / 60:.0f} minutes"


def _page(server: Running) -> str:
    return server.url.removesuffix("/ws").replace("ws", "http", 1) + "/"


def _reach(server: Running, page: str) -> Finding:
    """Tests one address as a browser would on a device that trusts the server's own certificate authority."""
    try:
        context = _trusting(server) if page.startswith("https:") else None
        status = _health(page, context)
    except ssl.SSLCertVerificationError as error:
        return _certificate(page, error)
    except (OSError, http.client.HTTPException) as error:
        return _unreachable(server, page, error)
    if status == http.client.FORBIDDEN:
        host = urlsplit(page).hostname
        title = f"The server refuses requests for {page}: it is not configured for this host name."
        todo = f"Restart it with `{own_command()} serve --public-host {shlex.quote(host or '')}`."
        return finding("server-host", title, "Devices that use this address see an error.", todo)
    if status not in (http.client.OK, http.client.SERVICE_UNAVAILABLE):
        return _unreachable(server, page, OSError(None, f"status {status}"), UNEXPECTED)
    return finding("server-works", f"The server answers at {page}.")


def _health(page: str, context: ssl.SSLContext | None) -> int:
    place = urlsplit(page)
    host, port = place.hostname or "", place.port
    connection = (
        http.client.HTTPConnection(host, port, timeout=SECONDS)
        if context is None
        else http.client.HTTPSConnection(host, port, timeout=SECONDS, context=context)
    )
    with contextlib.closing(connection):
        connection.request("GET", "/health")
        return connection.getresponse().status


def _trusting(server: Running) -> ssl.SSLContext:
    """A context that trusts what this machine trusts, and the server's own certificates."""
    context = ssl.create_default_context()
    for name in ("ca.pem", "cert.pem"):
        with contextlib.suppress(OSError, ssl.SSLError):
            context.load_verify_locations(cafile=Path(server.data_dir) / "tls" / name)
    return context


def _certificate(page: str, error: ssl.SSLCertVerificationError) -> Finding:
    host = urlsplit(page).hostname or ""
    own = "Restart the server: it renews its own certificate. If you set one with --cert, renew that first."
    if error.verify_code == EXPIRED:
        why = "Browsers and phones refuse the connection or show a warning."
        return finding("server-certificate-expired", f"The certificate at {page} has expired.", why, own)
    if error.verify_code == EARLY:
        why = "The clock of this machine is wrong, or was wrong when the certificate was created."
        todo = "Compare the output of `date` with the time on a phone, then restart the server."
        return finding("server-certificate-early", f"The certificate at {page} is not valid yet.", why, todo)
    if error.verify_code in (OTHER_NAME, OTHER_ADDRESS):
        why = "Browsers and phones refuse the connection or show a warning, even if they trust the certificate."
        restart = f"Restart it with `{own_command()} serve --public-host {shlex.quote(host)}`"
        todo = f"{restart} (with --cert, also use a certificate that includes {host}), or use another address."
        return finding("server-certificate-name", f"The certificate at {page} is not for {host}.", why, todo)
    title = f"The certificate at {page} is not trusted on this machine: {error.verify_message}."
    why = "Phones that don't trust it show a warning and get no notifications."
    todo = "Use --cert with a file that contains the whole chain, or install the certificate authority on the devices."
    return finding("server-certificate-untrusted", title, why, todo)


def _unreachable(server: Running, page: str, error: Exception, problem: str = "does not answer") -> Finding:
    late = isinstance(error, TimeoutError)
    reason = f"no answer within {SECONDS:g} seconds" if late else _reason(error)
    if page == _page(server):
        title = f"The server (process {server.pid}) {problem} at {page}: {reason}."
        todo = f"Check its log. To restart it, run `kill {server.pid}`, then `{own_command()} serve`."
        why = "Clients can't use it, not even the terminal client on this machine."
        return finding("server-silent", title, why, todo)
    host = urlsplit(page).hostname or ""
    why = "A phone that uses this address can't connect."
    todo = (
        "Allow the port in the firewall, or restart the server if the machine's address has changed."
        if _is_address(host)
        else "Check that the name resolves to this machine, and that the firewall allows the port."
    )
    if problem == UNEXPECTED:  # a program answered, so neither the name nor the firewall is the reason
        why = "A phone that uses this address can't use Drawbridge."
        todo = "Check which program answers there, such as a proxy in front of the server."
    return finding("server-unreachable", f"The server {problem} at {page}: {reason}.", why, todo)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error or "the connection broke").lower()
