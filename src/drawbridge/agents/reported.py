"""Reads what agents report about themselves. Fields may be of any type. What is read is limited in number and length.
Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw

from drawbridge.agents.base import Todo
from drawbridge.agents.output import readable, valid
from drawbridge.core.json_text import UNDECODABLE

LONGEST_NAME: Final = 200
LONGEST_TEXT: Final = 500
LONGEST_DESCRIPTION: Final = 200
"""The maximum lengths of a name, a text and a description, in characters."""

MOST: Final = 200
"""The maximum number of entries in one list."""

Found = TypeVar("Found")


def decoded(data: bytes | Raw, kind: type[Found]) -> Found | None:
    """The JSON in ``data`` as ``kind``; None if it is not valid JSON or has another shape."""
    try:
        return msgspec.json.decode(data, type=kind)
    except UNDECODABLE:
        return None


def each(given: object, read: Callable[[Any], Found | None]) -> tuple[Found, ...]:
    """The results of ``read`` for the first ``MOST`` entries of the list ``given``, except None; empty if ``given`` is
    not a list."""
    items: Iterable[Any] = given[:MOST] if isinstance(given, list) else ()
    return tuple(found for found in map(read, items) if found is not None)


def name_of(given: object) -> str | None:
    """``given`` as one line of at most ``LONGEST_NAME`` readable characters; None if it is empty or not a string."""
    return text_of(given, LONGEST_NAME)


def text_of(given: object, longest: int = LONGEST_TEXT) -> str | None:
    """``given`` as one line of at most ``longest`` readable characters; None if it is empty or not a string."""
    if not isinstance(given, str):
        return None
    line = " ".join(readable(valid(given[: 2 * longest])).split())
    return (line if len(line) <= longest else f"{line[: longest - 1]}…") or None


def count_of(given: object) -> int | None:
    """``given``, rounded down, if it is a number from 0 to less than 2**53; None for anything else."""
    if isinstance(given, float) and 0 <= given < 2**53:
        given = int(given)
    return given if isinstance(given, int) and not isinstance(given, bool) and 0 <= given < 2**53 else None


def moment_of(given: object) -> datetime | None:
    """The ISO 8601 time in ``given``, converted to UTC; None if it has no offset, or for anything else."""
    try:
        moment = datetime.fromisoformat(given) if isinstance(given, str) else None
        return moment.astimezone(UTC) if moment is not None and moment.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def todo_of(given: Any) -> Todo | None:
    """An entry of a to-do list with ``content`` and ``status``, the form that Claude Code and the Agent Client Protocol
    use; None if it has another form or its text is empty."""
    if not isinstance(given, dict):
        return None
    words, status = text_of(given.get("content")), given.get("status")
    if words is None or status not in ("pending", "in_progress", "completed"):
        return None
    return Todo(words, status, text_of(given.get("activeForm")))
