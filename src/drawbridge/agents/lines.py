"""Creates history lines for agents with output that does not have Claude Code's form: text, tool calls and results.
Pure.

The lines have the form of Claude Code's stream (``stream-json``), which clients, search and export read. An agent's
driver converts the lines of its own protocol, so nothing else has to know that protocol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from drawbridge.agents.base import AgentLine
from drawbridge.text.hunks import diff, unified
from drawbridge.text.review_words import lines_of

Said = Literal["text", "thinking"]
"""The kind of a block of text: part of the agent's answer, or its thinking."""

_MOST_DIFFED: Final = 1_000_000
"""The maximum length of a text that is compared, in characters."""


def block(session_id: str, content: Mapping[str, Any]) -> AgentLine:
    """A block of an agent's answer, as a line."""
    message = {"role": "assistant", "content": [content]}
    return _line({"type": "assistant", "message": message, "parent_tool_use_id": None}, session_id)


def said(session_id: str, kind: Said, words: str) -> AgentLine:
    """A complete block of an agent's text."""
    return block(session_id, {"type": kind, kind: words})


def piece(session_id: str, kind: Said, words: str, *, is_first: bool) -> list[AgentLine]:
    """A piece of an agent's text, for clients that show the text while it arrives. ``is_first``: whether it begins a
    block."""
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": f"{kind}_delta", kind: words}}
    start = {"type": "content_block_start", "index": 0, "content_block": {"type": kind, kind: ""}}
    return [
        _line({"type": "stream_event", "event": event, "parent_tool_use_id": None}, session_id, durable=False)
        for event in ([start, delta] if is_first else [delta])
    ]


def image_block(media_type: str, data: str) -> dict[str, Any]:
    """The content block for an image. ``data``: the image in base64."""
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


def call(session_id: str, id: str, name: str, given: Mapping[str, Any]) -> AgentLine:
    """A call to the tool ``name`` with the input ``given``. Until the call has a result, a later line with the same
    ``id`` replaces the earlier one."""
    return block(session_id, {"type": "tool_use", "id": id, "name": name, "input": given})


def input_of(given: object, name: str) -> dict[str, Any]:
    """The input of a call: ``given`` if it is an object, empty if it is None, otherwise an object with ``given`` as its
    only field, ``name``."""
    if given is None:
        return {}
    return given if isinstance(given, dict) else {name: given}


def result(
    session_id: str,
    id: str,
    content: str | Sequence[Mapping[str, Any]],
    *,
    is_error: bool,
    patch: Sequence[Mapping[str, Any]] = (),
) -> AgentLine:
    """The result of the call ``id``: text, or blocks of text and images. ``patch``: what the call has changed in its
    file (see ``patch_of``)."""
    given = {"type": "tool_result", "tool_use_id": id, "content": content, "is_error": is_error}
    message = {"type": "user", "message": {"role": "user", "content": [given]}, "parent_tool_use_id": None}
    return _line(message | ({"tool_use_result": {"structuredPatch": patch}} if patch else {}), session_id)


def patch_of(old: str, new: str) -> list[dict[str, Any]]:
    """The diff of two texts, as Claude Code's results contain it: hunks with the numbers of their first lines, counted
    from 1 (0 on a side without lines), and their lines, each with the prefix " ", "-" or "+". Empty if the texts have
    the same lines or one is too long."""
    if max(len(old), len(new)) > _MOST_DIFFED:
        return []
    before, after = (lines_of(text.replace("\r\n", "\n")) for text in (old, new))
    hunks: list[dict[str, Any]] = []
    for row in unified(before, after, diff(before, after)):
        if row.kind == "header":
            hunks.append({"oldStart": 0, "oldLines": 0, "newStart": 0, "newLines": 0, "lines": []})
            continue
        hunk = hunks[-1]
        for side, line in (("old", row.old_line), ("new", row.new_line)):
            if line is not None:
                hunk[f"{side}Start"] = hunk[f"{side}Start"] or line + 1
                hunk[f"{side}Lines"] += 1
        hunk["lines"].append(_SIGNS[row.kind] + row.text)
    return hunks


_SIGNS: Final = {"context": " ", "removed": "-", "added": "+"}


def _line(message: Mapping[str, Any], session_id: str, *, durable: bool = True) -> AgentLine:
    return AgentLine(msgspec.json.encode({**message, "session_id": session_id}), session_id, durable)
