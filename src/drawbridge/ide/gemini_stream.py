"""The event stream of one Gemini CLI: what it is told, and what it missed while it was away."""

from __future__ import annotations

import time
from typing import Any, Final

from drawbridge.door import Exchange
from drawbridge.ide.context import Context
from drawbridge.wire import jsonrpc, sse

HEADERS: Final = [("Content-Type", sse.CONTENT_TYPE), ("Cache-Control", "no-store")]

BACKLOG_LIMIT: Final = 100
"""Verdicts kept for a stream that was cut off; the real CLI has one proposal open at a time."""


class EventStream:
    """At most one reader at a time. The state of the workspace is said whole to each; verdicts are never lost."""

    def __init__(self) -> None:
        self._reader: Exchange | None = None
        self._backlog = sse.Backlog(BACKLOG_LIMIT)
        self._context: Context | None = None
        self._said: Context | None = None
        self.left_at = time.monotonic()

    @property
    def has_reader(self) -> bool:
        return self._reader is not None

    def open(self, exchange: Exchange, last_id: int) -> None:
        """A reader comes; one that was there before gives way. It is sent what came after ``last_id``."""
        former, self._reader = self._reader, exchange
        if former is not None:
            former.end_stream()
        exchange.begin_stream(HEADERS, lambda: self._left(exchange), self._drained)
        self._said = None
        self._say()
        for missed in self._backlog.after(last_id):
            exchange.stream(missed)

    def update(self, context: Context) -> None:
        """The same state is not said twice; a slow reader gets the latest when it has read what is under way."""
        self._context = context
        self._say()

    def verdict(self, method: str, params: dict[str, Any]) -> None:
        event = self._backlog.keep(jsonrpc.notification(method, params))
        if self._reader is not None:
            self._reader.stream(event)

    def keep_alive(self) -> None:
        if self._reader is not None and not self._reader.congested:
            self._reader.stream(sse.COMMENT)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.end_stream()

    def _say(self) -> None:
        if self._reader is None or self._reader.congested or self._context in (None, self._said):
            return
        assert self._context is not None
        self._said = self._context
        data = jsonrpc.notification("ide/contextUpdate", self._context.params())
        self._reader.stream(sse.event(data, self._backlog.number()))

    def _drained(self) -> None:
        self._say()

    def _left(self, exchange: Exchange) -> None:
        if self._reader is exchange:
            self._reader = None
            self.left_at = time.monotonic()
