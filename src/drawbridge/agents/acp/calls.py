"""The tool calls in progress, as reported by the agent so far. By the time the agent asks about a call, it may already
have sent the call's diff. Pure.

codex-acp (2.6.0) sends the diff with ``tool_call``, and then asks with only a title and a path.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final

import msgspec
from msgspec import Raw

from drawbridge.agents.acp.messages import read_as

REPORTS: Final = ("tool_call", "tool_call_update")

OVER: Final = ("completed", "failed")
"""The final states of a call, after which the agent no longer asks about it."""

MOST_CALLS: Final = 200
MOST_BYTES: Final = 32 * 1024 * 1024


class Calls:
    """The calls in progress, of all sessions in one process. If they exceed ``MOST_CALLS`` or ``MOST_BYTES``, the calls
    with the oldest reports are dropped."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], dict[str, Raw]] = OrderedDict()
        self._bytes = 0

    def report(self, session_id: str, update: Raw) -> tuple[str, dict[str, Raw]] | None:
        """Records a ``tool_call`` or ``tool_call_update``. Its fields replace earlier ones. A call that has ended is
        forgotten. Returns the call's id and all its fields; None if it has no id."""
        fields = _fields(update)
        id = _id(fields)
        if id is None:
            return None
        fields.pop("sessionUpdate", None)
        known = {**self._forget((session_id, id)), **fields}
        if _text(known.get("status")) in OVER:
            return id, known
        self._known[session_id, id] = known
        self._bytes += _size(known)
        while len(self._known) > MOST_CALLS or self._bytes > MOST_BYTES:
            self._forget(next(iter(self._known)))
        return id, known

    def whole(self, session_id: str, call: Raw) -> Raw:
        """The call that a question is about, completed with what was reported earlier. The question's own fields take
        precedence. Its content is added to the earlier content or, if it contains a diff, replaces it."""
        asked = _fields(call)
        known = self._known.get((session_id, _id(asked) or ""))
        if not known:
            return call
        content = [*_list(known.get("content")), *_list(asked.get("content"))]
        if any(_is_diff(one) for one in _list(asked.get("content"))):
            content = _list(asked.get("content"))
        merged: dict[str, Any] = {**known, **asked} | ({"content": content} if content else {})
        return Raw(msgspec.json.encode(merged))

    def _forget(self, key: tuple[str, str]) -> dict[str, Raw]:
        known = self._known.pop(key, {})
        self._bytes -= _size(known)
        return known


def _fields(data: Raw) -> dict[str, Raw]:
    """The fields that are not null. Null means that a field has not changed."""
    found = read_as(dict[str, Raw], data) or {}
    return {name: value for name, value in found.items() if bytes(value) != b"null"}


def _text(value: Raw | None) -> str | None:
    return read_as(str, value) if value is not None else None


def _id(fields: dict[str, Raw]) -> str | None:
    return _text(fields.get("toolCallId"))


def _list(value: Raw | None) -> list[Raw]:
    return (read_as(list[Raw], value) or []) if value is not None else []


def _is_diff(content: Raw) -> bool:
    return _text(_fields(content).get("type")) == "diff"


def _size(fields: dict[str, Raw]) -> int:
    return sum(len(bytes(value)) for value in fields.values())
