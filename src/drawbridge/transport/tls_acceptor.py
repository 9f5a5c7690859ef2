"""Accepts TLS connections. The number of simultaneous handshakes is limited, so that peers that never finish cost
little.

Before the handshake, no peer is authenticated and none of the application's limits apply. Each open connection takes
one of the process's file descriptors.
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

from drawbridge.core.addresses import network_of
from drawbridge.core.tasks import BackgroundTasks

HANDSHAKE_LIMIT: Final = 256
"""The maximum number of simultaneous handshakes. With normal peers, a handshake takes milliseconds, plus about one
round trip on the network."""

NETWORK_LIMIT: Final = 64
"""The maximum number of simultaneous handshakes from one address, or from one IPv6 network."""

GRACE_SECONDS: Final = 1.0
"""Seconds that each handshake gets, no matter how many others there are: enough for a network with a round trip of 400
ms.
"""

PAUSE_SECONDS: Final = 0.1
"""Seconds to wait after a connection could not be accepted, for example because the system has run out of file
descriptors."""

logger = logging.getLogger("drawbridge.http_server")


class _Shaking(NamedTuple):
    """A handshake in progress: the network of its address (``core.addresses``), and when it began."""

    network: str
    since: float


class TlsAcceptor:
    """Accepts connections until ``close``, which closes ``listener`` too. ``connect`` creates the protocol of one
    connection."""

    def __init__(
        self,
        listener: socket.socket,
        tls: SSLContext,
        connect: Callable[[], asyncio.Protocol],
        *,
        shaking: float,
        closing: float,
    ) -> None:
        """``shaking``, ``closing``: seconds that a handshake, and closing a connection's TLS session, may take."""
        listener.setblocking(False)
        self._listener = listener
        self._tls = tls
        self._connect = connect
        self._seconds = shaking, closing
        self._shaking: dict[asyncio.Task[None], _Shaking] = {}
        self._accepted: set[socket.socket] = set()
        """The sockets with a handshake that has not begun. It never begins if its task is canceled first."""
        self._tasks = BackgroundTasks(logger)
        self._tasks.repeat(self._accept, PAUSE_SECONDS, "accepting connections", at_once=True)

    @property
    def shaking(self) -> int:
        """The number of handshakes that have not ended."""
        return len(self._shaking)

    def close(self) -> None:
        """Ends every handshake, and accepts no more connections. ``wait_closed`` waits until the handshakes have
        ended."""
        self._tasks.cancel()
        self._listener.close()

    async def wait_closed(self) -> None:
        await self._tasks.close()

    async def _accept(self) -> None:
        """Accepts connections until it is canceled, or until none can be accepted. In the latter case, it is called
        again after ``PAUSE_SECONDS``."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                peer, address = await loop.sock_accept(self._listener)
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    logger.error("connections can't be accepted: %s", error.strerror)
                return
            try:
                has_room = await self._make_room(network_of(address[0]))
            except BaseException:
                peer.close()
                raise
            if not has_room:
                peer.close()
                continue
            task = self._tasks.start(self._shake_hands(peer), f"the TLS handshake with {address[0]}")
            self._shaking[task] = _Shaking(network_of(address[0]), loop.time())
            self._accepted.add(peer)
            task.add_done_callback(partial(self._shaken, peer))

    def _shaken(self, peer: socket.socket, task: asyncio.Task[None]) -> None:
        self._shaking.pop(task, None)
        if peer in self._accepted:
            self._accepted.discard(peer)
            peer.close()

    async def _make_room(self, of: str) -> bool:
        """Makes room for one more handshake. If there are too many, ends one that has used up its time. Returns False
        if the network ``of`` has reached ``NETWORK_LIMIT`` and all its handshakes still have time left. If
        ``HANDSHAKE_LIMIT`` is reached, waits until the oldest one ends or its time is up. Until then, further
        connections wait in the kernel's queue.
        """
        mine = [task for task, one in self._shaking.items() if one.network == of]
        if len(mine) >= NETWORK_LIMIT:
            if self._time_left(mine[0]) > 0:
                return False
            self._cut(mine[0])
        while len(self._shaking) >= HANDSHAKE_LIMIT:
            oldest = next(iter(self._shaking))
            left = self._time_left(oldest)
            if left > 0:
                await asyncio.wait([oldest], timeout=left)
                continue
            crowds = Counter(one.network for one in self._shaking.values())
            over = [task for task in self._shaking if self._time_left(task) <= 0]
            self._cut(max(over, key=lambda task: crowds[self._shaking[task].network]))
        return True

    def _time_left(self, task: asyncio.Task[None]) -> float:
        return GRACE_SECONDS - (asyncio.get_running_loop().time() - self._shaking[task].since)

    def _cut(self, task: asyncio.Task[None]) -> None:
        del self._shaking[task]
        task.cancel()

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
        except OSError:  # the peer did not use TLS, or was too slow
            with contextlib.suppress(OSError):
                peer.close()
