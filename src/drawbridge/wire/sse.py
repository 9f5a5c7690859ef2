"""Server-sent events without I/O: an event as bytes, and what was sent, so that a reader that was cut off misses nothing.

https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

from collections import deque

CONTENT_TYPE = "text/event-stream"
COMMENT = b": keep-alive\n\n"
"""Says nothing; keeps the connection from being taken for dead."""


def event(data: bytes, id: int) -> bytes:
    """``data`` is one line: JSON as our encoder writes it."""
    assert data, "an empty event ends the real client's session"
    assert b"\n" not in data, "one line of JSON"
    return b"event: message\nid: %d\ndata: %b\n\n" % (id, data)


class Backlog:
    """Events that must not be lost, with the ids they were sent under. Holds the last ``limit``."""

    def __init__(self, limit: int) -> None:
        self._kept: deque[tuple[int, bytes]] = deque(maxlen=limit)
        self._last_id = 0

    def number(self) -> int:
        """The id of the next event, also of one that is not kept."""
        self._last_id += 1
        return self._last_id

    def keep(self, data: bytes) -> bytes:
        """The event, numbered and remembered."""
        id = self.number()
        self._kept.append((id, data))
        return event(data, id)

    def after(self, last_id: int) -> list[bytes]:
        """What a reader that saw ``last_id`` has not seen, in order."""
        return [event(data, id) for id, data in self._kept if id > last_id]
