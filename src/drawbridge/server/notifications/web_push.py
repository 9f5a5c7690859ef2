"""One Web Push as an HTTP request: encrypted for one browser (RFC 8291), signed by this server (RFC 8292). Pure."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Final

import http_ece
from cryptography.hazmat.primitives.asymmetric import ec
from py_vapid import Vapid02

from drawbridge.server.notifications.push import Subscription, unpacked

LIFETIME: Final = {True: 3_600, False: 600}
"""Seconds for which a service keeps an urgent push, or one that is not, for a phone that is off."""

SIGNED_SECONDS: Final = 12 * 3_600
"""Seconds for which a signature is valid; services accept at most 24 hours."""

DOTTED: Final = re.compile(r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+")


def contact(public: Sequence[str], host: str) -> str:
    """The host name in the contact address for push services: a public one, or else the machine's own.

    They refuse names without a dot, such as most machines have: ``.invalid`` (RFC 2606) marks a name that is not reachable.
    """
    dotted = next((name for name in (*public, host) if DOTTED.fullmatch(name)), None)
    return dotted or f"{re.sub(r'[^A-Za-z0-9-]+', '-', host).strip('-') or 'drawbridge'}.invalid"


def request(to: Subscription, payload: bytes, *, urgent: bool, key: str, contact: str) -> tuple[dict[str, str], bytes]:
    """Headers and body for ``to.endpoint``. ``key``: this server's own, as ``Subscriptions.private_key``."""
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
