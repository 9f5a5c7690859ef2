"""Accepts TLS connections. The number of handshakes at once is bounded, so that peers that never finish one cost little.

Before the handshake no peer is authenticated and no limit of the application applies yet; each open connection takes one of
the process's file descriptors.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
from collections import Counter
from collections.abc import Callable
from functools import partial
from ssl import SSLContext
from typing import Final, NamedTuple

from drawbridge.core.tasks import BackgroundTasks

HANDSHAKE_LIMIT: Final = 64
"""Handshakes at once. Those of normal peers take milliseconds, plus the time of two messages on the network."""

GRACE_SECONDS: Final = 0.25
"""Seconds that each handshake gets, even while its address opens more of them."""

PAUSE_SECONDS: Final = 0.1
"""Seconds without an attempt after one that has failed: the system may have no file descriptor left."""

logger = logging.getLogger("drawbridge.http_server")


class _Shaking(NamedTuple):
    """The address of a handshake that is under way, and when it began."""

    address: str
    since: float


class TlsAcceptor:
    """``connect`` makes the protocol of one connection. Open until ``close``, which closes ``listener`` too."""

    def __init__(
        self,
        listener: socket.socket,
        tls: SSLContext,
        connect: Callable[[], asyncio.Protocol],
        *,
        shaking: float,
        closing: float,
    ) -> None:
        """Seconds that a handshake, and the end of a connection's TLS, may take."""
        listener.setblocking(False)
        self._listener = listener
        self._tls = tls
        self._connect = connect
        self._seconds = shaking, closing
        self._shaking: dict[asyncio.Task[None], _Shaking] = {}
        self._accepted: set[socket.socket] = set()
        """The connections whose handshake has not begun: it never does if its task is cancelled before."""
        self._tasks = BackgroundTasks(logger)
        self._tasks.repeat(self._accept, PAUSE_SECONDS, "accepting connections", at_once=True)

    @property
    def shaking(self) -> int:
        """The number of handshakes that have not ended."""
        return len(self._shaking)

    def close(self) -> None:
        """Ends every handshake; no more connections are accepted. ``wait_closed`` waits for their end."""
        self._tasks.cancel()
        self._listener.close()

    async def wait_closed(self) -> None:
        await self._tasks.close()

    async def _accept(self) -> None:
        """Accepts connections until it is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                peer, address = await loop.sock_accept(self._listener)
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    logger.error("no connection can be accepted: %s", error.strerror)
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            try:
                await self._make_room(address[0])
            except BaseException:
                peer.close()
                raise
            task = self._tasks.start(self._shake_hands(peer), f"the TLS handshake with {address[0]}")
            self._shaking[task] = _Shaking(address[0], loop.time())
            self._accepted.add(peer)
            task.add_done_callback(partial(self._shaken, peer))

    def _shaken(self, peer: socket.socket, task: asyncio.Task[None]) -> None:
        self._shaking.pop(task, None)
        if peer in self._accepted:
            self._accepted.discard(peer)
            peer.close()

    async def _make_room(self, address: str) -> None:
        """Closes the oldest handshake of the address that has the most. A new client of that address waits until the oldest one
        has had its time: otherwise clients that reconnect all the time would lock out the others at their address.
        """
        loop = asyncio.get_running_loop()
        while len(self._shaking) >= HANDSHAKE_LIMIT:
            crowds = Counter(one.address for one in self._shaking.values())
            oldest = max(self._shaking, key=lambda task: crowds[self._shaking[task].address])
            found = self._shaking[oldest]
            left = GRACE_SECONDS - (loop.time() - found.since)
            if left > 0 and found.address == address:
                await asyncio.wait([oldest], timeout=left)
            else:
                del self._shaking[oldest]
                oldest.cancel()

    async def _shake_hands(self, peer: socket.socket) -> None:
        self._accepted.discard(peer)
        peer.setblocking(False)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._connect,
                peer,
                ssl=self._tls,
                ssl_handshake_timeout=self._seconds[0],
                ssl_shutdown_timeout=self._seconds[1],
            )
        except OSError:  # not TLS, or not in time
            with contextlib.suppress(OSError):
                peer.close()
