"""Tokens in notifications. Each lets the browser that was notified decide on one approval request, and do nothing else.

The browser receives the token in the encrypted push, so its service worker does not need the device's token. The server
keeps only a hash of the token, in memory, so no token remains valid after a restart.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from typing import Final

from msgspec import Struct

from drawbridge.server.auth.devices import hashed

PREFIX: Final = "drawbridge_answer_"

SECONDS: Final = 3_600.0
"""Seconds for which a token is valid. A push service keeps an urgent push for the same time."""

MOST: Final = 1_000
"""The maximum number of valid tokens. The oldest ones become invalid first."""


class Answerable(Struct, frozen=True):
    """The approval request and the browser that a token is for. ``endpoint``: the endpoint of the subscription that was
    notified; ``device_id``: None for the owner."""

    project_id: str
    approval_id: str
    endpoint: str
    device_id: str | None


class AnswerTokens:
    """The tokens that were issued. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._issued: OrderedDict[str, tuple[float, Answerable]] = OrderedDict()

    def issue(self, answerable: Answerable) -> str:
        token = f"{PREFIX}{secrets.token_urlsafe(32)}"
        with self._lock:
            self._issued[hashed(token)] = (time.monotonic() + SECONDS, answerable)
            while len(self._issued) > MOST:
                self._issued.popitem(last=False)
        return token

    def find(self, token: str) -> Answerable | None:
        """The approval request and the browser that the token is for; None if it is not valid.

        A token stays valid after the decision, so that a second attempt gets the decision that was made.
        """
        with self._lock:
            until, answerable = self._issued.get(hashed(token), (0.0, None))
        return answerable if time.monotonic() < until else None
