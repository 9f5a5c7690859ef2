"""The lines of a history: composes and parses them, and determines which lines of a damaged file can be trusted. No
I/O.

::

    {"seq":7,"timestamp":"2026-11-21T07:00:00.123456Z","direction":"claude","message":{"type":"assistant",…}}
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta, Raw, Struct

from drawbridge.core.errors import BadMessage
from drawbridge.core.json_text import UNDECODABLE

Direction: TypeAlias = Literal["client", "claude", "server"]

LONGEST_LINE: Final = 100 * 1024 * 1024
"""The maximum length of a line, in bytes; also the maximum size of a file."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_ROOM: Final = 200
"""Bytes that are reserved for everything in a line except its message, which is more than is ever needed."""
_DEEPEST: Final = 500
"""The maximum number of levels of nesting: low enough for readers that are called from deeper in the stack than
``compose``."""
_STRUCTURE: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[^][{}"]+', re.DOTALL)
"""Matches everything in a JSON value except its brackets: the strings, and the text between the brackets."""
_FOLLOWERS: Final = 3
SHORTEST_LINE: Final = 80
"""The minimum size of a record, in bytes."""


class Record(Struct, frozen=True, gc=False):
    """One record of a history. ``line``: the whole record as JSON, as it is on disk, without the line break."""

    seq: int
    time: datetime
    direction: Direction
    line: bytes


class _Line(Struct, frozen=True, gc=False):
    seq: Annotated[int, Meta(ge=1, lt=2**53)]
    timestamp: Annotated[datetime, Meta(tz=True)]
    direction: Direction
    message: Raw


_line: Final = msgspec.json.Decoder(_Line)
_value: Final = msgspec.json.Decoder(Raw)


def microseconds(moment: datetime) -> int:
    """The exact number of microseconds since 1970."""
    return (moment - _EPOCH) // _MICROSECOND


def from_microseconds(since_1970: int) -> datetime:
    return _EPOCH + since_1970 * _MICROSECOND


def compose(seq: int, moment: datetime, direction: Direction, message: bytes, *, is_json: bool = False) -> Record:
    """A new record that contains ``message`` byte for byte, except that line breaks between the parts of the JSON value
    become spaces; JSON strings contain none. Raises ``BadMessage`` if the message is not a single JSON value in
    valid UTF-8, is too long, or is nested too deeply. ``is_json``: the caller has parsed or encoded the message and
    knows that it is JSON in valid UTF-8. Any other message is decoded here, since a line that can't be read back would
    be lost, and clients could not read it either.

    ``moment`` is in UTC.
    """
    if len(message) > LONGEST_LINE - _ROOM:
        raise BadMessage(f"A message can't be stored in the history: it is too long ({len(message):,} bytes).")
    if not is_json:
        _check(message)
    if message.count(b"[") + message.count(b"{") > _DEEPEST and _depth(message) > _DEEPEST:
        raise BadMessage("A message can't be stored in the history: it is nested too deeply.")
    if b"\n" in message or b"\r" in message:
        message = message.replace(b"\n", b" ").replace(b"\r", b" ")
    stamp = moment.isoformat(timespec="microseconds")[:26].encode()
    head = b'{"seq":%d,"timestamp":"%bZ","direction":"%b","message":' % (seq, stamp, direction.encode())
    return Record(seq, moment, direction, b"%b%b}" % (head, message))


def timestamp(record: Record) -> str:
    """The timestamp in the line of a record that was made by ``compose``. It is copied from there, since formatting it
    again takes longer."""
    begin = len(b'{"seq":,"timestamp":"') + len(str(record.seq))
    return record.line[begin : begin + len("2026-11-21T07:00:00.123456Z")].decode()


def _check(message: bytes) -> None:
    try:
        if not message.isascii():
            message.decode()
        _value.decode(message)
    except UnicodeDecodeError:
        raise BadMessage("A message can't be stored in the history: it is not valid UTF-8.") from None
    except msgspec.DecodeError:
        raise BadMessage("A message can't be stored in the history: it is not a single JSON value.") from None
    except RecursionError:
        raise BadMessage("A message can't be stored in the history: it is nested too deeply.") from None


def _depth(value: bytes) -> int:
    """The number of levels to which a JSON value is nested. Only its brackets are counted, since the value has already
    been decoded."""
    deepest = depth = 0
    for sign in _STRUCTURE.sub(b"", value):
        depth += 1 if sign in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest


def parse(line: bytes) -> Record | None:
    """The record in a line of a file; None if the line is not a whole and valid record."""
    try:
        if not line.isascii():
            line.decode()
        found = _line.decode(line)
    except UNDECODABLE:
        return None
    return Record(found.seq, found.timestamp, found.direction, line)


class Head(NamedTuple):
    """A readable line of a file. ``line_number``: the number of lines before it, including unreadable ones; ``time`` in
    microseconds since 1970; ``length`` in bytes, with the line break."""

    line_number: int
    seq: int
    time: int
    offset: int
    length: int


def believed(heads: Sequence[Head], before: int | None, start: int, sure: int | None = None) -> list[Head]:
    """The heads with a plausible ``seq``, in ascending order. ``before``: the number of the line that ends at the
    offset ``start``; None if it is not known. ``sure``: the number that the last head is known to have; None if it is
    not known.

    Each line has one number, so the lines between two good ones must account for the numbers between them. A line that
    does not fit (because a digit or line breaks were damaged) counts only if the lines after it continue from its
    number. Otherwise, a wrong number would hide these lines. The last line counts if the damaged part before it has
    room for the missing records, or if its number is ``sure``.
    """
    good: list[Head] = []
    last, line_number, end = before, -1, start
    for number, head in enumerate(heads):
        if last is None or head.seq != last + head.line_number - line_number:
            following = heads[number + 1 : number + 1 + _FOLLOWERS]
            fits = last is None or last < head.seq <= last + 1 + _room(end, head)
            fits = _goes_on(head, following) if following else fits or head.seq == sure
            if (last is not None and head.seq <= last) or not fits:
                continue
        good.append(head)
        last, line_number, end = head.seq, head.line_number, head.offset + head.length
    return good


def _goes_on(head: Head, following: Sequence[Head]) -> bool:
    if any(other.seq - head.seq == other.line_number - head.line_number for other in following):
        return True
    return 0 < following[0].seq - head.seq <= 1 + _room(head.offset + head.length, following[0])


def _room(end: int, head: Head) -> int:
    """The maximum number of records in the damaged part between ``end`` and a line."""
    return (head.offset - end) // SHORTEST_LINE
