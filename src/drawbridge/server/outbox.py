"""What waits to be sent to a client: bounded, and one write a turn of the loop for however many frames there are.

A frame is made into the bytes of a WebSocket message once for all clients. Where a client is slow, what is of no use
later (partial text, statistics) is left out first; then the client is cut off and comes back with its cursor.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from drawbridge.server.subscriber import Frame
from drawbridge.site import WebSocket
from drawbridge.wire.websocket import framed

LIMIT: Final = 8 * 1024 * 1024
"""Bytes that may wait for one client."""

EPHEMERAL_LIMIT: Final = 256 * 1024
"""Bytes that wait for a client above which ephemeral frames are left out."""

BATCH: Final = 256 * 1024
"""Bytes handed to a connection in one turn: the rest can still be left out."""

ROOM: Final = 512 * 1024
"""Below this ``room`` returns."""


class _Ready(Struct, frozen=True):
    wire: bytes
    ephemeral: bool


class Writers:
    """All clients' outboxes: makes a frame's bytes once, and writes at the end of a turn to those who have got something."""

    def __init__(self) -> None:
        self._frame: Frame | None = None
        self._ready = _Ready(b"", True)
        self._waiting: list[Outbox] = []

    def ready(self, frame: Frame) -> _Ready:
        if frame is not self._frame:  # the same one comes again for the next client
            self._frame, self._ready = frame, _Ready(framed(frame.data), frame.ephemeral)
        return self._ready

    def flush_soon(self, outbox: Outbox) -> None:
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._flush)
        self._waiting.append(outbox)

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        for outbox in waiting:
            outbox.flush()


class Outbox:
    """Of one client. ``too_slow`` is called once, when more waits than may."""

    def __init__(self, writers: Writers, websocket: WebSocket, too_slow: Callable[[], None]) -> None:
        self._writers = writers
        self._websocket = websocket
        self._too_slow = too_slow
        self._queue: deque[_Ready] = deque()
        self._bytes = 0
        self._will_flush = False
        self._open = True
        self._want_room: list[asyncio.Future[None]] = []
        self.left_out = 0
        """Ephemeral frames that were not sent."""

    def send(self, frame: Frame) -> None:
        if not self._open:
            return
        ready = self._writers.ready(frame)
        if ready.ephemeral and self._bytes > EPHEMERAL_LIMIT:
            self.left_out += 1
            return
        self._queue.append(ready)
        self._bytes += len(ready.wire)
        if self._bytes > LIMIT and len(self._queue) > 1:
            self._leave_out()
            if self._bytes > LIMIT and len(self._queue) > 1:
                self._too_slow()
                return
        if not self._will_flush and not self._websocket.congested:
            self._will_flush = True
            self._writers.flush_soon(self)

    def flush(self) -> None:
        """As much as the connection takes without piling up there."""
        self._will_flush = False
        queue = self._queue
        if self._bytes <= BATCH:
            batch = [ready.wire for ready in queue]
            queue.clear()
            self._bytes = 0
        else:
            batch, size = [], 0
            while queue and size < BATCH:
                batch.append(queue.popleft().wire)
                size += len(batch[-1])
            self._bytes -= size
        if batch:
            self._websocket.send_framed(batch)
        if queue and self._open and not self._websocket.congested:
            self._will_flush = True
            self._writers.flush_soon(self)
        if self._want_room:
            self._tell_room()

    def drained(self) -> None:
        """The connection takes more again."""
        if self._queue and not self._will_flush:
            self.flush()
        self._tell_room()

    async def room(self) -> None:
        if self._open and (self._bytes > ROOM or self._websocket.congested):
            future = asyncio.get_running_loop().create_future()
            self._want_room.append(future)
            await future

    def close(self) -> None:
        """What waits goes nowhere."""
        self._open = False
        self._queue.clear()
        self._bytes = 0
        self._tell_room()

    def _leave_out(self) -> None:
        kept = [ready for ready in self._queue if not ready.ephemeral]
        self.left_out += len(self._queue) - len(kept)
        self._queue = deque(kept)
        self._bytes = sum(len(ready.wire) for ready in kept)

    def _tell_room(self) -> None:
        if self._want_room and not (self._open and (self._bytes > ROOM or self._websocket.congested)):
            waiting, self._want_room = self._want_room, []
            for future in waiting:
                if not future.done():
                    future.set_result(None)
