"""Server-sent events without I/O: an event as bytes, and what was sent, so that a reader that was cut off misses nothing.

https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

CONTENT_TYPE: Final = "text/event-stream"
COMMENT: Final = b": keep-alive\n\n"
"""Says nothing; keeps the connection from being taken for dead."""

COME_BACK: Final = b"retry: 3000\n\n"
"""To a reader that is sent away: so many milliseconds later. A bridge takes up to two seconds to restart on a busy machine, and
Gemini CLI (0.61.0), which else comes after one, gives the editor up at the first attempt that fails."""

LONGEST_ID: Final = 18
"""Digits of an id of ours at most."""


def event(data: bytes, id: int) -> bytes:
    """``data`` is one line: JSON as our encoder writes it."""
    assert data, "an empty event ends the real client's session"
    assert b"\n" not in data, "one line of JSON"
    return b"event: message\nid: %d\ndata: %b\n\n" % (id, data)


def last_event_id(value: str | None) -> int:
    """The header of that name as a number; 0 for none and for one that can't be ours."""
    if value is None or not (value.isascii() and value.isdigit()) or len(value) > LONGEST_ID:
        return 0
    return int(value)


class _Kept(Struct, frozen=True):
    id: int
    about: str
    data: bytes


class Backlog:
    """Events that must not be lost, with the ids they are sent under: the last ``limit``, the last ``size_limit`` bytes.

    Ids grow from ``last_id``. The newest event is kept whatever its size.
    """

    def __init__(self, limit: int, size_limit: int, last_id: int = 0) -> None:
        self._kept: list[_Kept] = []
        self._limit = limit
        self._size_limit = size_limit
        self._last_id = last_id

    def number(self) -> int:
        """The id of the next event, also of one that is not kept."""
        self._last_id += 1
        return self._last_id

    def keep(self, data: bytes, about: str) -> None:
        """One more event; ``about`` says what for ``forget``."""
        self._kept.append(_Kept(self.number(), about, data))
        size = sum(len(kept.data) for kept in self._kept)
        while len(self._kept) > 1 and (len(self._kept) > self._limit or size > self._size_limit):
            size -= len(self._kept.pop(0).data)

    def forget(self, about: str) -> None:
        """Nobody wants these any more."""
        self._kept = [kept for kept in self._kept if kept.about != about]

    def after(self, last_id: int) -> Iterator[tuple[int, bytes]]:
        """Id and bytes of each event that a reader who saw ``last_id`` has not seen, in order.

        All of them for an id that was never given out.
        """
        seen = last_id if last_id <= self._last_id else 0
        return ((kept.id, event(kept.data, kept.id)) for kept in list(self._kept) if kept.id > seen)
