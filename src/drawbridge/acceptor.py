"""Accepts for a door behind TLS: so many handshakes at once, so that a crowd of peers that never finish one costs little.

Before the handshake nobody is known and no limit of a site holds yet; each open connection takes a file descriptor, which
whatever else the process does needs as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import Callable
from ssl import SSLContext
from typing import Final

MOST: Final = 128
"""Handshakes at once; the oldest gives way. Those of honest peers take milliseconds."""

OF_ONE_ADDRESS: Final = 32

BREATH_SECONDS: Final = 0.1
"""After the system had no descriptor left."""

logger = logging.getLogger("drawbridge.door")


class Acceptor:
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
        self._shaking: dict[asyncio.Task[None], str] = {}
        self._accepting = asyncio.get_running_loop().create_task(self._accept())

    @property
    def shaking(self) -> int:
        """Handshakes that go on."""
        return len(self._shaking)

    def close(self) -> None:
        for task in (self._accepting, *self._shaking):
            task.cancel()
        self._listener.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                peer, address = await loop.sock_accept(self._listener)
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    logger.error("no connection can be accepted: %s", error.strerror)
                await asyncio.sleep(BREATH_SECONDS)
                continue
            self._make_room(address[0])
            task = loop.create_task(self._shake_hands(peer))
            self._shaking[task] = address[0]
            task.add_done_callback(self._shaken)

    def _shaken(self, task: asyncio.Task[None]) -> None:
        self._shaking.pop(task, None)

    def _make_room(self, address: str) -> None:
        """The oldest gives way: of this address, where it has its share, else of all."""
        there = [task for task, other in self._shaking.items() if other == address]
        if len(there) >= OF_ONE_ADDRESS or len(self._shaking) >= MOST:
            oldest = there[0] if len(there) >= OF_ONE_ADDRESS else next(iter(self._shaking))
            del self._shaking[oldest]
            oldest.cancel()

    async def _shake_hands(self, peer: socket.socket) -> None:
        peer.setblocking(False)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._connect,
                peer,
                ssl=self._tls,
                ssl_handshake_timeout=self._seconds[0],
                ssl_shutdown_timeout=self._seconds[1],
            )
        except OSError:  # no TLS, or not in time
            with contextlib.suppress(OSError):
                peer.close()
