"""The event stream of one Gemini CLI, with a backlog for times when it is disconnected or does not read."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from drawbridge.protocols import sse
from drawbridge.transport.http_server import Exchange

HEADERS: Final = [("Content-Type", sse.CONTENT_TYPE), ("Cache-Control", "no-store")]

BACKLOG_LIMIT: Final = 100
BACKLOG_BYTES: Final = 32 * 1024 * 1024
"""The maximum number, and total size in bytes, of the decisions that are kept for a stream that is interrupted or not
read. The real CLI opens one proposal at a time."""


class EventStream:
    """A stream with at most one reader, which receives every decision, in order, and the latest state of the workspace.

    ``state`` and decisions are complete, checked messages. A slow reader is sent nothing more until it has read what
    was sent before, so that it takes up no more memory than the backlog.
    """

    def __init__(self, state: bytes, on_change: Callable[[], None] = lambda: None) -> None:
        """``on_change`` is called when a reader connects without replacing another one, and when the reader
        disconnects."""
        self._on_change = on_change
        self._reader: Exchange | None = None
        # Ids increase across restarts of the bridge, because a CLI may reconnect with an id from before a restart.
        self._backlog = sse.Backlog(BACKLOG_LIMIT, BACKLOG_BYTES, last_id=time.time_ns() // 1_000_000)
        self._sent_id = 0
        self._state = state
        self._sent_state = b""
        self.left_at = time.monotonic()

    @property
    def has_reader(self) -> bool:
        return self._reader is not None

    def open(self, exchange: Exchange, last_id: int) -> None:
        """Connects a reader, which replaces an earlier one. The new reader receives the decisions after ``last_id``,
        and the state."""
        former, self._reader = self._reader, exchange
        if former is None:
            self._on_change()
        else:
            former.end_stream()
        exchange.begin_stream(HEADERS, lambda: self._left(exchange), self._send)
        self._sent_id = last_id
        self._sent_state = b""
        self._send()

    def update(self, state: bytes) -> None:
        """Sends the state unless it is unchanged. A slow reader receives the latest one once it has caught up."""
        self._state = state
        self._send()

    def decided(self, message: bytes, file_path: str) -> None:
        self._backlog.keep(message, file_path)
        self._send()

    def forget(self, file_path: str) -> None:
        """Drops an earlier decision on a file that the CLI proposes again, because the CLI would mistake it for the
        answer to the new proposal.
        """
        self._backlog.forget(file_path)

    def keep_alive(self) -> None:
        if self._reader is not None and not self._reader.congested:
            self._reader.stream(sse.COMMENT)

    def close(self) -> None:
        """Ends the stream after all decisions have been sent, even to a slow reader."""
        if self._reader is not None:
            self._send(hold_back=False)
            self._reader.stream(sse.RETRY_LATER)
            self._reader.end_stream()

    def _send(self, *, hold_back: bool = True) -> None:
        reader = self._reader
        if reader is None:
            return
        for id, event in self._backlog.after(self._sent_id):
            if hold_back and reader.congested:
                return
            self._sent_id = id
            reader.stream(event)
        if self._state != self._sent_state and not reader.congested:
            self._sent_state = self._state
            reader.stream(sse.event(self._state, self._backlog.number()))

    def _left(self, exchange: Exchange) -> None:
        if self._reader is exchange:
            self._reader = None
            self.left_at = time.monotonic()
            self._on_change()
