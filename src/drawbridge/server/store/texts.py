"""Reads the texts that users can search for from a record of a history, and determines how the record changes the
agent's conversation. Pure.

Agents' lines are read if they have the form of Claude Code's messages. The lines of other agents are converted to that
form before they are recorded (``agents.lines``). A line of another form has no texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Raw, Struct

from drawbridge.core.json_text import UNDECODABLE
from drawbridge.text.review_words import lines_of

Kind: TypeAlias = Literal["prompt", "answer", "tool", "result", "decision", "error"]

LONGEST: Final[Mapping[Kind, int]] = {
    "prompt": 20_000,
    "answer": 20_000,
    "tool": 2_000,
    "result": 4_000,
    "decision": 20_000,
    "error": 2_000,
}
"""The maximum number of characters of a text that are searched. For a result, half of them are from its beginning and
half from its end, where errors are."""

LONGEST_LINE: Final = 8 * 1024 * 1024
"""The maximum length of a record that is searched for texts, in bytes. A longer one usually contains an image."""

LONGEST_NAME: Final = 200
REMOVED: Final = "record_removed"
"""The subtype of the blank record that replaces a record when its session is deleted."""

_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_DEEPEST: Final = 4


class Text(Struct, frozen=True):
    """A text in a record. ``tool``: the name of the tool, for a tool call. ``main``: whether it is from the main agent,
    not a subagent. ``run``: for a prompt that begins a run, the run's id."""

    kind: Kind
    text: str
    tool: str = ""
    main: bool = True
    run: str = ""


class Marker(Struct, frozen=True):
    """The change that a record makes to the agent's conversation. ``session_id`` is empty if it is not known yet;
    ``begins``: another conversation begins here, even if its id is the same. ``fork_from``: the id of the conversation
    that it was forked from; empty if it is not a fork. ``title``: the conversation's title, if it is already known."""

    session_id: str
    begins: bool
    fork_from: str = ""
    title: str = ""


class _Line(Struct):
    direction: str
    message: Raw


_line: Final = msgspec.json.Decoder(_Line)


class Content(Struct):
    """The contents of one record. ``named``: the id of the session that was renamed. ``continues``: the id of the
    conversation in which a run started, if it is known. ``edited``: the run, if the text in this record replaces its
    queued prompt; ``dropped``: the run, if its prompt was removed from the queue, so that it never began.
    ``removed_record``: the record was deleted with its session. ``added`` and ``removed``: the numbers of lines in
    files that the agent reports."""

    texts: list[Text] = []
    marker: Marker | None = None
    named: str = ""
    continues: str = ""
    edited: str = ""
    dropped: str = ""
    removed_record: bool = False
    added: int = 0
    removed: int = 0

    def read(self, direction: str, message: dict[str, Any]) -> None:
        readers = {"client": self._of_client, "server": self._of_server, "claude": self._of_agent}
        readers[direction](message)

    def _add(self, kind: Kind, text: object, tool: object = "", *, main: bool = True, run: str = "") -> None:
        if not isinstance(text, str) or not text.strip():
            return
        limit = LONGEST[kind]
        if len(text) > limit:
            half = limit // 2
            text = f"{text[:half]}\n…\n{text[-half:]}" if kind == "result" else text[:limit]
        name = tool[:LONGEST_NAME] if isinstance(tool, str) else ""
        self.texts.append(Text(kind, clean(text), name, main, run))

    def _of_client(self, message: dict[str, Any]) -> None:
        run = "" if message.get("steer") else _string(message, "run_id")
        self._add("prompt", _get(message, "message", "prompt"), run=run)

    def _of_server(self, message: dict[str, Any]) -> None:
        given = message.get("message")
        match message.get("subtype"):
            case "session_reset":
                self.marker = Marker("", True)
            case "session_changed":
                id, fork, title = (_string(given, name) for name in ("session_id", "fork_from", "title"))
                # A user chose the conversation, or the next run begins a new one. Otherwise, the agent reported the
                # conversation's id.
                self.marker = Marker(id, bool(_get(given, "agent")) or not id, fork, clean(title))
            case "session_renamed":
                self.named = _string(given, "session_id")
            case "run_started":
                self.continues = _string(given, "session_id")
            case "prompt_edited":
                self.edited = _string(given, "run_id")
                self._add("prompt", _get(given, "prompt"), run=self.edited)
            case "permission_resolved":
                self._add("decision", _get(given, "message"))
            case "review_decided":
                self._add("decision", "\n".join((*_files(given, "paths"), *_changed_lines(_string(given, "diff")))))
            case "review_committed":
                about = (_string(given, name) for name in ("branch", "commit", "output"))
                self._add("decision", "\n".join((*_files(given, "files"), *about)))
            case "run_reverted":
                self._add("decision", "\n".join(_files(given, "files")))
            case "run_finished":
                self._add("error", _get(given, "error"))
                self.dropped = _string(given, "run_id") if _get(given, "removed_by") else ""
            case subtype:
                self.removed_record = subtype == REMOVED

    def _of_agent(self, message: dict[str, Any]) -> None:
        if message.get("type") not in ("assistant", "user"):
            return
        main = not message.get("parent_tool_use_id")
        blocks = _get(message, "message", "content")
        is_agent = message["type"] == "assistant"
        if isinstance(blocks, str):
            blocks = [{"type": "text", "text": blocks}]
        for block in blocks if isinstance(blocks, list) else []:
            match _get(block, "type"):
                case "text" if is_agent:
                    self._add("answer", block.get("text"), main=main)
                case "tool_use":
                    self._add("tool", "\n".join(strings(block.get("input"))), block.get("name"), main=main)
                case "tool_result":
                    self._add("result", _result(block.get("content")), main=main)
        hunks = _get(message, "tool_use_result", "structuredPatch")
        for hunk in hunks if isinstance(hunks, list) else []:
            lines = _get(hunk, "lines")
            for line in lines if isinstance(lines, list) else []:
                if isinstance(line, str):
                    self.added += line.startswith("+")
                    self.removed += line.startswith("-")
        created = _get(message, "tool_use_result")
        if _get(created, "type") == "create" and not hunks and isinstance(text := _get(created, "content"), str):
            self.added += len(lines_of(text))


def content(line: bytes) -> Content:
    """The content of a record, given its line in the history; an empty ``Content`` if the line is too long or can't be
    read."""
    if len(line) > LONGEST_LINE:
        return Content()
    try:
        found = _line.decode(line)
        message = msgspec.json.decode(found.message)
    except UNDECODABLE:
        return Content()
    read = Content()
    if isinstance(message, dict):
        read.read(found.direction, message)
    return read


def clean(text: str) -> str:
    """The text with "\\n" instead of "\\r\\n", and a space instead of each control character except "\\n" and tabs."""
    return _CONTROLS.sub(" ", text.replace("\r\n", "\n"))


def _get(value: object, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _string(value: object, name: str) -> str:
    found = _get(value, name)
    return found if isinstance(found, str) else ""


def _files(given: object, name: str) -> Iterator[str]:
    """The paths in a list of a record, which contains either paths or the changed files with their paths."""
    listed = _get(given, name)
    for one in listed if isinstance(listed, list) else []:
        path = _get(one, "path") if isinstance(one, dict) else one
        if isinstance(path, str):
            yield path


def _changed_lines(diff: str) -> Iterator[str]:
    """The removed and the added lines of a diff in git's format, with their signs."""
    is_hunk = False
    for line in diff.split("\n"):
        if line.startswith(("diff ", "@@ ")):
            is_hunk = line[0] == "@"
        elif is_hunk and line[:1] in ("-", "+"):
            yield line


def _result(content: object) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "\n".join(text for block in blocks if isinstance(text := _get(block, "text"), str))


def strings(value: object, depth: int = 0) -> Iterator[str]:
    """The texts in the input of a tool, down to ``_DEEPEST`` levels."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list) and depth < _DEEPEST:
        for part in value.values() if isinstance(value, dict) else value:
            yield from strings(part, depth + 1)
