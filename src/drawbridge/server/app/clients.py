"""The connected clients: the name, permissions and frames of each client (``Client``), and the list of all clients,
signed in or not (``Clients``).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from drawbridge.core.addresses import network_of
from drawbridge.server.app.core import Core
from drawbridge.server.app.outbox import Outbox, Writers
from drawbridge.server.auth.entrance import Entrance
from drawbridge.server.auth.scopes import DECIDES, RUNS, Identity
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.frames import Frame, error, update
from drawbridge.server.protocol.messages import Stats
from drawbridge.transport.http_app import WebSocket

logger = logging.getLogger("drawbridge.server")

AUTH_SECONDS: Final = 5.0
"""Seconds that a client has to sign in after its WebSocket is opened, unless it requests a challenge."""

SIGNING_SECONDS: Final = 60.0
"""Seconds that a client has to sign in after its WebSocket is opened, if it requests a challenge."""

AUTH_BYTES: Final = 4_096
"""The maximum size of a message from a client that has not signed in, in bytes."""

UNFINISHED_BYTES: Final = 4 * AUTH_BYTES
"""The maximum number of bytes that are kept of an unfinished message from a client that has not signed in."""

UNAUTHORIZED: Final = 4401
DISMISSED: Final = 4403
TOO_SLOW: Final = 4408
TOO_OFTEN: Final = 4429


class Client:
    """A connected client, as a ``Subscriber``. Until ``let_in`` is called, it has no permissions, and must sign in
    within a time limit (``AUTH_SECONDS``, or ``SIGNING_SECONDS`` after a challenge).

    ``host``: the ``Host`` header of its request. ``certificate``: the SHA-256 of its connection's certificate; None
    without TLS. ``leads_to``: see ``AllowedDirectories.leads_to``. ``ended`` is called once, when the client is closed or its
    connection is lost.
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
        leads_to: Callable[[Path], Path],
    ) -> None:
        self.id = id
        self.address = address
        self.network = network_of(address)
        self.name = address or "unknown"
        self.host = host
        self.certificate = certificate
        self.topics: set[str] = set()
        self.identity: Identity | None = None
        self._nonce: str | None = None
        """The nonce of the challenge that waits for a signature; None if no challenge is waiting."""
        self.is_closed = self.is_dismissed = False
        self.outbox = Outbox(websocket, self._too_slow)
        self._websocket = websocket
        self._writers = writers
        self._ended = ended
        self._leads_to = leads_to
        self._myself = (self,)
        self._requests = 0
        self._made_at = asyncio.get_running_loop().time()
        websocket.limit_unfinished(UNFINISHED_BYTES)
        self._timer: asyncio.TimerHandle | None = None
        self._expect_within(AUTH_SECONDS, f"the client did not sign in within {AUTH_SECONDS:g} seconds")

    @property
    def decides(self) -> bool:
        return self.identity is not None and self.identity.may(DECIDES)

    @property
    def runs(self) -> bool:
        return self.identity is not None and self.identity.may(RUNS)

    @property
    def owns(self) -> bool:
        return self.identity is not None and self.identity.may("admin")

    @property
    def device(self) -> str | None:
        return self.identity.device if self.identity is not None else None

    def sees(self, path: Path) -> bool:
        return self.identity is not None and self.identity.sees(path, self._leads_to)

    @property
    def known(self) -> Identity:
        """The identity of a client that has signed in."""
        assert self.identity is not None, "a client that has not signed in has no identity"
        return self.identity

    @property
    def is_new(self) -> bool:
        """Whether its token may still be in transit (``GRACE_SECONDS``)."""
        return asyncio.get_running_loop().time() - self._made_at < GRACE_SECONDS

    @property
    def audited(self) -> dict[str, Any]:
        """The fields of an audit log entry that identify this client."""
        device_id = self.identity.device_id if self.identity is not None else None
        return {"by": self.name, "device_id": device_id, "client": self.id, "address": self.address}

    def let_in(self, identity: Identity) -> None:
        """Accepts the client's commands from now on. A client that signed in as a device, or with an SSH key, is named
        after it.
        """
        if not identity.is_owner:
            self.name = identity.name
        self.identity = identity
        self._websocket.limit_unfinished(None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def rename(self, name: str) -> None:
        """Gives the client the name that it has chosen."""
        self.name = name

    def wait_for_signature(self, nonce: str) -> None:
        """Remembers the nonce of a challenge. Extends the time limit, because a person may have to type a passphrase or
        touch a key. Further challenges don't extend it again."""
        self._nonce = nonce
        if self._timer is not None:
            left = self._made_at + SIGNING_SECONDS - asyncio.get_running_loop().time()
            self._expect_within(left, f"the challenge was not signed within {SIGNING_SECONDS:g} seconds")

    def take_nonce(self) -> str | None:
        """The nonce of the challenge that waits for a signature; None if no challenge is waiting. The first signature
        uses it up, also if it is not valid."""
        nonce, self._nonce = self._nonce, None
        return nonce

    def next_correlation_id(self) -> str:
        """An id for one request, which the request's log lines and its error share."""
        self._requests += 1
        return f"{self.id}-{self._requests}"

    def send(self, frame: Frame) -> None:
        self._writers.collect(self._myself, frame)

    async def room(self) -> None:
        await self.outbox.room()

    def fail(self, failure: ClientError, correlation_id: str, request_id: str | None, project_id: str | None) -> None:
        logger.info("%s: %s: %s", correlation_id, failure.code, failure.text)
        self.send(Frame(error(failure, correlation_id, request_id, project_id)))

    def dismiss(self, why: ClientError) -> None:
        """Sends the client the reason, then disconnects it. Requests that have not begun yet are not executed."""
        self.is_dismissed = True
        self.fail(why, self.next_correlation_id(), None, None)
        self.close_after(DISMISSED, why.text)

    def close_after(self, code: int, reason: str) -> None:
        """Passes on the frames that were sent in this iteration of the event loop, then closes the connection. Frames
        that still wait after that are dropped."""
        self._writers.flush()
        self.close(code, reason)

    def close(self, code: int, reason: str) -> None:
        """Closes the connection. Drops frames that wait to be sent. Requests that have already arrived are still
        executed."""
        if not self.is_closed:
            level = (
                logging.DEBUG if self.identity is None else logging.INFO
            )  # strangers must not be able to fill the log
            logger.log(level, "%s: closing, %d %s", self.id, code, reason)
            self.end()
            self._websocket.close(code, reason)

    def end(self) -> None:
        """Cleans up because the connection is lost or is being closed: cancels the time limit for signing in, drops the
        frames that wait, and calls ``ended``."""
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


STRANGERS: Final = 128
"""The maximum number of open WebSockets that have not signed in."""

NETWORK_STRANGERS: Final = 64
"""The maximum number of open WebSockets from one network (``core.addresses``) that have not signed in."""

GRACE_SECONDS: Final = 1.0
"""Seconds that each new WebSocket gets to send its token, no matter how many others there are: enough for a network
with a round trip of 400 ms."""

TRY_LATER: Final = 1013

CROWDED: Final = "too many connections that have not signed in"

REFUSED_WITH: Final = {"RATE_LIMITED": TOO_OFTEN, "RESOURCE_LIMIT": TRY_LATER}
"""The close code of the connection of a client that could not sign in, by the error code that the client received. For
other errors, the close code is ``UNAUTHORIZED``."""

CHECK_SECONDS: Final = 1.0
"""Seconds between checks of whether clients may stay connected. No event can replace them: other processes revoke tokens
and change the file of SSH keys, tokens expire, and Python can't watch files on every system."""


class Clients:
    """All connected clients. Iterating yields those that have signed in."""

    def __init__(self, entrance: Entrance, core: Core, writers: Writers) -> None:
        """``writers`` collects and writes the frames for all clients."""
        self.writers = writers
        self._entrance = entrance
        self._core = core
        self.leads_to = core.leads_to
        self._known: dict[str, Client] = {}
        self._strangers: dict[Client, None] = {}

    def __iter__(self) -> Iterator[Client]:
        return iter(list(self._known.values()))

    def __len__(self) -> int:
        return len(self._known)

    def add(self, client: Client, identity: Identity | None) -> None:
        """Adds a client after its connection has been opened. ``identity``: the identity of the token in its request;
        None if a token is required but missing. If a limit for clients is reached, the connection is closed."""
        if identity is not None:
            try:
                self.let_in(client, identity)
            except ClientError as full:  # other clients may have connected since this one's request was accepted
                client.close(TRY_LATER, full.text)
            return
        if not self._make_room(client.network):
            client.close(TRY_LATER, CROWDED)
            return
        self._strangers[client] = None

    def _make_room(self, of: str) -> bool:
        """Makes room for one more client that has not signed in. If there are too many, closes one after its
        ``GRACE_SECONDS``: the oldest one from the network ``of`` or, if the limit for all networks together is reached,
        from the network with the most of them. Returns False if there are too many, and none of them can be closed yet.
        """
        mine = [stranger for stranger in self._strangers if stranger.network == of]
        if len(mine) >= NETWORK_STRANGERS:
            crowd = mine
        elif len(self._strangers) >= STRANGERS:
            crowd = list(self._strangers)
        else:
            return True
        over = [stranger for stranger in crowd if not stranger.is_new]
        if not over:
            return False
        crowds = Counter(stranger.network for stranger in crowd)
        gives_way = max(over, key=lambda stranger: crowds[stranger.network])
        self._strangers.pop(gives_way, None)  # the connection of that client takes a moment to end
        gives_way.close(TRY_LATER, CROWDED)
        return True

    def let_in(self, client: Client, identity: Identity) -> None:
        """Signs a client in. Raises ``ClientError`` if a limit for clients is reached."""
        self._entrance.admit(identity, client.address)
        client.let_in(identity)
        logger.info("%s (%s) connected from %s", client.id, client.name, client.address)
        self._entrance.note("connected", **client.audited)
        self._strangers.pop(client, None)
        self._known[client.id] = client

    def remove(self, client: Client) -> None:
        """Removes a client that has disconnected, after all its requests are done. No other method may be called for it
        afterwards.
        """
        self._strangers.pop(client, None)
        if self._known.pop(client.id, None) is not None:
            self._entrance.left(client.known, client.address)
            logger.info("%s disconnected", client.id)
            self._entrance.note("gone", **client.audited)
            self._core.remove_client(client)

    async def check(self) -> None:
        """Disconnects clients with a token or an SSH key that is no longer valid."""
        await self._entrance.refresh_keys()
        for client in self:
            if client.is_dismissed:
                continue  # it stays in the list until its last request is done
            why = self._entrance.refusal_of(client.known)
            if why is not None:
                self._entrance.note("dismissed", **client.audited, code=why.code)
                client.dismiss(why)

    def send_stats(self, stats: Stats) -> None:
        """Sends the statistics to the clients that follow them. For a device that is confined to some projects,
        ``projects`` and ``project_states`` cover only those."""
        whole = Frame(update("stats", stats), ephemeral=True)
        for client in self:
            if "stats" in client.topics:
                client.send(whole if client.known.projects is None else self._part(stats, client.known))

    def _part(self, stats: Stats, identity: Identity) -> Frame:
        seen = {id: state for id, state in stats.project_states.items() if self._core.sees(identity, id)}
        part = msgspec.structs.replace(stats, projects=len(seen), project_states=seen)
        return Frame(update("stats", part), ephemeral=True)

    def follows(self, topic: str) -> bool:
        """Whether any client follows the topic."""
        return any(topic in client.topics for client in self)
