"""The event stream of one Gemini CLI: what it is told, and what it missed while it was away or did not read."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from drawbridge.protocols import sse
from drawbridge.transport.http_server import Exchange

HEADERS: Final = [("Content-Type", sse.CONTENT_TYPE), ("Cache-Control", "no-store")]

BACKLOG_LIMIT: Final = 100
BACKLOG_BYTES: Final = 32 * 1024 * 1024
"""Verdicts kept for a stream that was cut off or is not read; the real CLI has one proposal open at a time."""


class EventStream:
    """At most one reader at a time. It hears of every verdict in order, and of the workspace as it is by then.

    ``state`` and verdicts are whole messages, checked. A reader that is behind is sent nothing more until it has read, so
    that it costs no more than the backlog.
    """

    def __init__(self, state: bytes, on_change: Callable[[], None] = lambda: None) -> None:
        """``on_change``: a reader has come where there was none, or gone."""
        self._on_change = on_change
        self._reader: Exchange | None = None
        # Ids grow from one life of the bridge to the next: a CLI may come back with one that a former bridge gave out.
        self._backlog = sse.Backlog(BACKLOG_LIMIT, BACKLOG_BYTES, last_id=time.time_ns() // 1_000_000)
        self._sent_id = 0
        self._state = state
        self._said_state = b""
        self.left_at = time.monotonic()

    @property
    def has_reader(self) -> bool:
        return self._reader is not None

    def open(self, exchange: Exchange, last_id: int) -> None:
        """A reader comes; one that was there before gives way. It is sent what came after ``last_id``, and the state."""
        former, self._reader = self._reader, exchange
        if former is None:
            self._on_change()
        else:
            former.end_stream()
        exchange.begin_stream(HEADERS, lambda: self._left(exchange), self._send)
        self._sent_id = last_id
        self._said_state = b""
        self._send()

    def update(self, state: bytes) -> None:
        """The same state is not said twice; a slow reader gets the latest when it has read what is under way."""
        self._state = state
        self._send()

    def verdict(self, message: bytes, file_path: str) -> None:
        self._backlog.keep(message, file_path)
        self._send()

    def forget(self, file_path: str) -> None:
        """The CLI asks anew: an earlier verdict must not reach it again and be taken for the answer."""
        self._backlog.forget(file_path)

    def keep_alive(self) -> None:
        if self._reader is not None and not self._reader.congested:
            self._reader.stream(sse.COMMENT)

    def close(self) -> None:
        """Ends when everything is said: also to a reader that is behind, who is owed its last verdicts."""
        if self._reader is not None:
            self._send(hold_back=False)
            self._reader.stream(sse.COME_BACK)
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
        if self._state != self._said_state and not reader.congested:
            self._said_state = self._state
            reader.stream(sse.event(self._state, self._backlog.number()))

    def _left(self, exchange: Exchange) -> None:
        if self._reader is exchange:
            self._reader = None
            self.left_at = time.monotonic()
            self._on_change()
