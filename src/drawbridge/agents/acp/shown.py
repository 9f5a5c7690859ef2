"""Converts tool calls that an agent reports in the Agent Client Protocol into history lines. Pure.

Measured: Gemini CLI 0.61.0 reports a call that needs approval only after the call has ended. codex-acp 2.6.0 reports
each call before it asks about it. Fields may arrive later than the call: a title, an input, the diff.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

from drawbridge.agents import lines
from drawbridge.agents.acp.calls import MOST_CALLS, OVER
from drawbridge.agents.base import AgentLine
from drawbridge.agents.output import objects_in, text_in

LONGEST_TITLE: Final = 2_000
"""The maximum length of a call's title, in characters."""

NAMES: Final = {"execute": "Bash", "read": "Read", "edit": "Edit", "fetch": "WebFetch", "search": "Grep"}
"""Maps the protocol's kinds of calls to the names of Claude Code's equivalent tools, which clients show."""

SUBJECTS: Final = {"Bash": "command", "Read": "file_path", "Edit": "file_path", "WebFetch": "url", "Grep": "pattern"}
"""Maps a tool in ``NAMES`` to the field of its input that clients show next to its name."""


class Shown:
    """Tracks which calls in progress are in the history, and with which contents."""

    def __init__(self) -> None:
        self._calls: OrderedDict[tuple[str, str], int] = OrderedDict()
        """Maps a session and the id of a call to the hash of the call's latest line in the history."""

    def add(self, session_id: str, id: str, fields: Mapping[str, Any]) -> list[AgentLine]:
        """The new lines of the call ``id``; empty if nothing that clients show has changed. ``fields``: everything that
        the agent has reported about the call."""
        key = (session_id, id)
        called = lines.call(session_id, id, *name_and_input(fields))
        emitted = [called] if self._calls.get(key) != hash(called.raw) else []
        self._calls[key] = hash(called.raw)
        status = fields.get("status")
        if status in OVER:
            del self._calls[key]
            emitted.append(_result(session_id, id, fields, is_error=status == "failed"))
        while len(self._calls) > MOST_CALLS:
            self._calls.popitem(last=False)
        return emitted


def name_and_input(fields: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The tool's name and the input of a call, in the form of the equivalent tool of Claude Code. If no tool is
    equivalent, or its field in ``SUBJECTS`` is not known, the name is the call's title, its kind or "Tool"."""
    given, title, kind = fields.get("rawInput"), text_in(fields.get("title"))[:LONGEST_TITLE], fields.get("kind")
    own = lines.input_of(given, "input")
    name = NAMES.get(kind) if isinstance(kind, str) else None
    if name is not None:
        subject = _subject(name, fields, own, title)
        if subject:
            rest = {key: value for key, value in own.items() if key != SUBJECTS[name]}
            described = {} if not title or title == subject else {"title": title}
            return name, {SUBJECTS[name]: subject} | described | rest
    return title or text_in(kind) or "Tool", own


def _subject(name: str, fields: Mapping[str, Any], own: Mapping[str, Any], title: str) -> str:
    given = own.get(SUBJECTS[name])
    if name == "Bash" and isinstance(given, list):
        given = " ".join(map(str, given))
    if isinstance(given, str) and given:
        return given
    if SUBJECTS[name] != "file_path":
        return title
    places = [*objects_in(fields.get("locations")), *objects_in(fields.get("content"))]
    return next((path for place in places if (path := text_in(place.get("path")))), "")


def _result(session_id: str, id: str, fields: Mapping[str, Any], *, is_error: bool) -> AgentLine:
    parts = objects_in(fields.get("content"))
    blocks = [block for part in parts if (block := block_of(part.get("content"))) is not None]
    diffs = [part for part in parts if part.get("type") == "diff"]
    output = fields.get("rawOutput")
    if not blocks and not diffs and isinstance(output, str):
        blocks = [_words(output)]
    if is_error:
        diffs = []  # a failed call has changed nothing
    patches = [lines.patch_of(text_in(one.get("oldText")), text_in(one.get("newText"))) for one in diffs]
    if len(patches) > 1:  # a result contains the change to one file only
        for one, patch in zip(diffs, patches, strict=True):
            rows = [line for hunk in patch for line in hunk["lines"]]
            blocks.append(_words("\n".join([f"{text_in(one.get('path'))}:", *rows])))
        patches = []
    return lines.result(session_id, id, blocks, is_error=is_error, patch=patches[0] if patches else ())


def block_of(content: object) -> dict[str, Any] | None:
    """The content block for a history line; None if clients can't show ``content``."""
    match content:
        case {"type": "text", "text": str(words)}:
            return _words(words)
        case {"type": "image", "mimeType": str(media_type), "data": str(data)}:
            return lines.image_block(media_type, data)
        case {"type": "resource", "resource": {"text": str(words)}}:
            return _words(words)
        case {"type": "resource_link", "uri": str(uri)}:
            return _words(uri)
    return None


def _words(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}
