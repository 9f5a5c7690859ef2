"""Server-sent events without I/O: events as bytes, and a backlog, so that a reader that reconnects misses nothing.

https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

CONTENT_TYPE: Final = "text/event-stream"
COMMENT: Final = b": keep-alive\n\n"
"""A comment, which readers ignore. It keeps proxies and clients from closing a silent connection."""

RETRY_LATER: Final = b"retry: 3000\n\n"
"""A field that asks a reader to reconnect after 3 s. A bridge takes up to 2 s to restart on a busy machine. Gemini CLI
(0.61.0) would reconnect after 1 s and, if that fails, 1.5 s later, and then gives up."""

LONGEST_ID: Final = 18
"""The maximum number of digits in an id of this module."""


def event(data: bytes, id: int) -> bytes:
    """Encodes an event. ``data`` is one line of JSON."""
    assert data, "an empty event ends the real client's session"
    assert b"\n" not in data, "the data must be one line of JSON"
    return b"event: message\nid: %d\ndata: %b\n\n" % (id, data)


def last_event_id(value: str | None) -> int:
    """The value of the ``Last-Event-ID`` header as a number; 0 if it is missing or is not an id of this module."""
    if value is None or not (value.isascii() and value.isdigit()) or len(value) > LONGEST_ID:
        return 0
    return int(value)


class _Kept(Struct, frozen=True):
    id: int
    about: str
    data: bytes


class Backlog:
    """Events that must not be lost, with their ids: at most the last ``limit`` events and the last ``size_limit``
    bytes.

    Ids count up from ``last_id``. The newest event is kept regardless of its size.
    """

    def __init__(self, limit: int, size_limit: int, last_id: int = 0) -> None:
        self._kept: list[_Kept] = []
        self._limit = limit
        self._size_limit = size_limit
        self._last_id = last_id

    def number(self) -> int:
        """Assigns and returns the id of the next event, which need not be kept."""
        self._last_id += 1
        return self._last_id

    def keep(self, data: bytes, about: str) -> None:
        """Adds an event. ``about`` is its name for ``forget``."""
        self._kept.append(_Kept(self.number(), about, data))
        size = sum(len(kept.data) for kept in self._kept)
        while len(self._kept) > 1 and (len(self._kept) > self._limit or size > self._size_limit):
            size -= len(self._kept.pop(0).data)

    def forget(self, about: str) -> None:
        """Drops the events with the name ``about``."""
        self._kept = [kept for kept in self._kept if kept.about != about]

    def after(self, last_id: int) -> Iterator[tuple[int, bytes]]:
        """The id and bytes of each event after ``last_id``, in order; of all events if ``last_id`` is not known."""
        seen = last_id if last_id <= self._last_id else 0
        return ((kept.id, event(kept.data, kept.id)) for kept in list(self._kept) if kept.id > seen)
