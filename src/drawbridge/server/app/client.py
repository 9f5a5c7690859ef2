"""One connected client: its name, its rights, and the frames that it is sent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from drawbridge.server.app.outbox import Outbox, Writers
from drawbridge.server.auth.scopes import DECIDES, Identity
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.messages import error
from drawbridge.server.protocol.subscriber import Frame
from drawbridge.transport.http_app import WebSocket

AUTH_SECONDS: Final = 5.0
"""Seconds from the open WebSocket to the token."""

SIGNING_SECONDS: Final = 60.0
"""Seconds from the challenge to its signature."""

AUTH_BYTES: Final = 4_096
"""Bytes of one message of a client that has not signed in."""

UNFINISHED_BYTES: Final = 4 * AUTH_BYTES
"""Bytes that are kept of an unfinished message of a client that has not signed in."""

UNAUTHORIZED: Final = 4401
DISMISSED: Final = 4403
TOO_SLOW: Final = 4408
TOO_OFTEN: Final = 4429

logger = logging.getLogger("drawbridge.server")


class Client:
    """A ``Subscriber``. It has no rights, and a few seconds to sign in, until ``let_in``.

    ``host``: the name by which it has reached the server. ``certificate``: the SHA-256 of the certificate of its connection,
    None without TLS. ``ended`` is called once, when the client is closed or its connection is lost.
    """

    def __init__(
        self,
        id: str,
        websocket: WebSocket,
        writers: Writers,
        ended: Callable[[], None],
        *,
        address: str,
        host: str,
        certificate: str | None,
    ) -> None:
        self.id = id
        self.address = address
        self.name = address or "unknown"
        self.host = host
        self.certificate = certificate
        self.topics: set[str] = set()
        self.identity: Identity | None = None
        self.nonce: str | None = None
        """The nonce of the challenge that waits for a signature."""
        self.is_closed = self.is_dismissed = False
        self.outbox = Outbox(websocket, self._too_slow)
        self._websocket = websocket
        self._writers = writers
        self._ended = ended
        self._myself = (self,)
        self._requests = 0
        websocket.limit_unfinished(UNFINISHED_BYTES)
        self._timer: asyncio.TimerHandle | None = None
        self._expect_within(AUTH_SECONDS, "the token did not arrive in time")

    @property
    def decides(self) -> bool:
        return self.identity is not None and self.identity.may(DECIDES)

    def sees(self, path: Path) -> bool:
        return self.identity is not None and self.identity.sees(path)

    @property
    def known(self) -> Identity:
        """The identity of a client that has signed in."""
        assert self.identity is not None, "only clients that have signed in have their commands run"
        return self.identity

    @property
    def audited(self) -> dict[str, Any]:
        """The fields of an audit line that name this client."""
        device_id = self.identity.device_id if self.identity is not None else None
        return {"by": self.name, "device_id": device_id, "client": self.id, "address": self.address}

    def let_in(self, identity: Identity) -> None:
        """Accepts commands from now on. A device has the name that its owner gave it."""
        if not identity.is_owner:
            self.name = identity.name
        self.identity = identity
        self._websocket.limit_unfinished(None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def wait_for_signature(self) -> None:
        """Extends the time limit: a person may have to type a passphrase or touch a key."""
        if self._timer is not None:
            self._expect_within(SIGNING_SECONDS, "the signature did not arrive in time")

    def next_correlation_id(self) -> str:
        """An id for one request, which its log lines and its error have in common."""
        self._requests += 1
        return f"{self.id}-{self._requests}"

    def send(self, frame: Frame) -> None:
        self._writers.tell(self._myself, frame)

    async def room(self) -> None:
        await self.outbox.room()

    def fail(self, failure: ClientError, correlation_id: str, request_id: str | None, project_id: str | None) -> None:
        logger.info("%s: %s: %s", correlation_id, failure.code, failure.text)
        self.send(Frame(error(failure, correlation_id, request_id, project_id)))

    def dismiss(self, why: ClientError) -> None:
        """Disconnects the client and sends it the reason. Its requests that still wait are not executed."""
        self.is_dismissed = True
        self.fail(why, self.next_correlation_id(), None, None)
        self.close_after(DISMISSED, why.text)

    def close_after(self, code: int, reason: str) -> None:
        """Closes once everything that was sent in this iteration of the event loop is with the connection."""
        self._writers.flush()
        self.close(code, reason)

    def close(self, code: int, reason: str) -> None:
        """Drops what waits to be sent; the client's requests are still executed."""
        if not self.is_closed:
            logger.info("%s: closing, %d %s", self.id, code, reason)
            self.end()
            self._websocket.close(code, reason)

    def end(self) -> None:
        """The connection is lost, or is being closed."""
        if self.is_closed:
            return
        self.is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        self.outbox.close()
        self._ended()

    def _expect_within(self, seconds: float, late: str) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.close, UNAUTHORIZED, late)

    def _too_slow(self) -> None:
        self.close(TOO_SLOW, "too slow: connect again and join with after_seq")
