"""The frames that wait to be sent to a client: bounded, and written once in each iteration of the event loop.

Each frame is encoded as a WebSocket message only once, and the frames of one iteration that the same clients receive
are joined only once. For a slow client, frames that are of no use later (partial text, statistics) are left out first.
If that is not enough, the client is disconnected, and can reconnect with its cursor.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol, cast

from drawbridge.protocols.compression import compressed
from drawbridge.protocols.websocket import framed
from drawbridge.server.protocol.frames import Frame, Subscriber
from drawbridge.transport.http_app import WebSocket

LIMIT: Final = 8 * 1024 * 1024
"""The maximum number of bytes that wait for one client, unless a single frame is larger."""

EPHEMERAL_LIMIT: Final = 256 * 1024
"""The number of bytes waiting for a client above which further ephemeral frames are left out."""

BATCH: Final = 256 * 1024
"""The number of bytes after which an outbox passes nothing more to its connection in this iteration of the event loop,
so that ephemeral frames can still be left out of the rest."""

ROOM: Final = 512 * 1024
"""The number of waiting bytes above which ``room`` waits. It also waits while the connection is congested, but not
after the outbox is closed."""


COMPRESSED_FROM: Final = 4_096
"""The minimum size of a frame that is compressed, in bytes. It is compressed once for all clients that accept
compression. Smaller ones would shrink by half at most. Messages with a token are smaller, and are therefore never
compressed, so that an attacker can't guess the token from their compressed size.
"""


class Addressee(Protocol):
    outbox: Outbox


class Writers:
    """Collects the frames for all clients during one iteration of the event loop, and writes them in the same order at
    the end of the iteration."""

    def __init__(self) -> None:
        self._collected: list[tuple[Frame, Sequence[Addressee]]] = []

    def collect(self, audience: Sequence[Addressee], frame: Frame) -> None:
        """Adds a frame for these clients. ``audience`` must not change afterwards."""
        if not self._collected:
            # One flush at the end of this iteration writes all frames, in the order of the list.
            asyncio.get_running_loop().call_soon(self.flush)
        self._collected.append((frame, audience))

    def broadcast(self, audience: Sequence[Subscriber], frame: Frame) -> None:
        """Like ``collect``, but for subscribers. All subscribers of a server are its clients."""
        self.collect(cast("Sequence[Addressee]", audience), frame)

    def flush(self) -> None:
        collected, self._collected = self._collected, []
        begin = 0
        for end, (_, audience) in enumerate(collected, 1):
            if end == len(collected) or collected[end][1] != audience:
                self._write([frame for frame, _ in collected[begin:end]], audience)
                begin = end

    def _write(self, frames: list[Frame], audience: Sequence[Addressee]) -> None:
        """Writes the frames to all these clients. They are added to a client's outbox instead if the client lags, if
        they have more than ``BATCH`` bytes in total, or if one of them is compressed for the client."""
        wires = [framed(frame.data) for frame in frames]
        whole = wires[0] if len(wires) == 1 else b"".join(wires)
        small = len(whole) <= BATCH
        large = any(len(frame.data) >= COMPRESSED_FROM for frame in frames)
        remote: list[Outbox] = []
        for addressee in audience:
            outbox = addressee.outbox
            if large and outbox.compressed:
                remote.append(outbox)
            elif small and outbox.is_free and not outbox.websocket.congested:
                outbox.websocket.send_framed(whole)
            else:
                outbox.add(frames, wires)
        if remote:
            wires = [_smaller(frame, wire) for frame, wire in zip(frames, wires, strict=True)]
            for outbox in remote:
                outbox.add(frames, wires)


def _smaller(frame: Frame, wire: bytes) -> bytes:
    return compressed(frame.data) if len(frame.data) >= COMPRESSED_FROM else wire


class Outbox:
    """The frames that wait for one client. ``too_slow`` is called once, when they exceed the limit."""

    def __init__(self, websocket: WebSocket, too_slow: Callable[[], None]) -> None:
        self.websocket = websocket
        self.compressed = websocket.compressed
        """Whether its client accepts compressed messages."""
        self.is_free = True
        """Whether the connection is open and nothing waits."""
        self.left_out = 0
        """The number of ephemeral frames that were not sent."""
        self._too_slow = too_slow
        self._queue: deque[tuple[bytes, bool]] = deque()
        self._bytes = 0
        self._open = True
        self._will_pass_on = False
        self._want_room: list[asyncio.Future[None]] = []

    def add(self, frames: Sequence[Frame], wires: Sequence[bytes]) -> None:
        """Queues frames. ``wires``: the same frames as encoded WebSocket messages."""
        if not self._open:
            return
        for frame, wire in zip(frames, wires, strict=True):
            if frame.ephemeral and self._bytes > EPHEMERAL_LIMIT:
                self.left_out += 1
                continue
            self._queue.append((wire, frame.ephemeral))
            self._bytes += len(wire)
        self.is_free = not self._queue
        if self._is_too_much():
            self._leave_out()
            if self._is_too_much():
                self._too_slow()
                return
        self._pass_on_soon()

    def drained(self) -> None:
        """Resumes sending after the connection was congested."""
        self._pass_on()

    async def room(self) -> None:
        if self._is_full():
            future = asyncio.get_running_loop().create_future()
            self._want_room.append(future)
            await future

    def close(self) -> None:
        """Drops the frames that wait, and accepts no more."""
        self._open = self.is_free = False
        self._queue.clear()
        self._bytes = 0
        self._notify_room()

    def _pass_on_soon(self) -> None:
        if self._queue and not self._will_pass_on and not self.websocket.congested:
            self._will_pass_on = True
            # Until the next iteration of the loop, the frames stay in the queue, so ephemeral ones can still be left
            # out.
            asyncio.get_running_loop().call_soon(self._pass_on)

    def _pass_on(self) -> None:
        """Writes at most about ``BATCH`` bytes. The remaining frames follow in the next iteration of the loop, or once
        the connection has drained."""
        self._will_pass_on = False
        batch, size = [], 0
        while self._queue and size < BATCH:
            wire, _ = self._queue.popleft()
            batch.append(wire)
            size += len(wire)
        self._bytes -= size
        self.is_free = self._open and not self._queue
        if batch:
            self.websocket.send_framed(b"".join(batch))
            self._pass_on_soon()
        self._notify_room()

    def _is_too_much(self) -> bool:
        return self._bytes > LIMIT and len(self._queue) > 1

    def _is_full(self) -> bool:
        return self._open and (self._bytes > ROOM or self.websocket.congested)

    def _leave_out(self) -> None:
        kept = [(wire, ephemeral) for wire, ephemeral in self._queue if not ephemeral]
        self.left_out += len(self._queue) - len(kept)
        self._queue = deque(kept)
        self._bytes = sum(len(wire) for wire, _ in kept)

    def _notify_room(self) -> None:
        if self._want_room and not self._is_full():
            waiting, self._want_room = self._want_room, []
            for future in waiting:
                if not future.done():
                    future.set_result(None)
