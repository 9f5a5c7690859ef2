"""Reads the file in which Gemini CLI stores a conversation, and converts its messages for the history and clients.
Blocking.

The file is undocumented. This module reads the format of 0.61.0, which is known from Gemini CLI's source, and ignores
other lines. Each line is a message, or changes earlier ones: a message with the id of an earlier one replaces it,
``$rewindTo`` removes a message and all messages after it (all messages if it names an unknown one), and ``$set`` may
replace all messages. So the file is read as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from drawbridge.agents import lines
from drawbridge.agents.base import AgentLine, Earlier, EarlierMessage
from drawbridge.agents.output import objects_in, text_in
from drawbridge.agents.reported import moment_of

LARGEST: Final = 64 * 1024 * 1024
"""The maximum size of a file that is read, in bytes. A larger one is ignored."""

TOOLS: Final = {
    "run_shell_command": "Bash",
    "read_file": "Read",
    "replace": "Edit",
    "write_file": "Write",
    "search_file_content": "Grep",
    "grep_search": "Grep",
    "glob": "Glob",
    "list_directory": "LS",
    "google_web_search": "WebSearch",
}
"""The CLI's tools → the equivalent tools of Claude Code, whose names clients show."""

CONTEXT: Final = "<session_context>"
"""The beginning of the text that the CLI itself sends before the first prompt."""

PATHS: Final = ("file_path", "absolute_path", "path", "dir_path")


def page(found: list[EarlierMessage], *, end: int | None, limit: int, size: int) -> Earlier:
    """The last ``limit`` of the messages before the position ``end`` (None for the end), of at most ``size`` in total,
    or one larger message. The size is the bytes of the lines and the characters of the prompts. A position is an index
    into ``found``."""
    begin = stop = len(found) if end is None else min(end, len(found))
    used = 0
    while begin > 0 and stop - begin < limit:
        used += len(found[begin - 1].line) + len(found[begin - 1].prompt or "")
        if used > size and begin < stop:
            break
        begin -= 1
    return Earlier(tuple(found[begin:stop]), begin or None)


def messages(file: Path, session_id: str, after: datetime, before: datetime) -> list[EarlierMessage]:
    """The messages in the file that were written between ``after`` and ``before``, in order. Empty if the file can't be
    read or is larger than ``LARGEST``."""
    try:
        if file.stat().st_size > LARGEST:
            return []
        data = file.read_bytes()
    except OSError:
        return []
    found: list[EarlierMessage] = []
    for message in _last_versions(data):
        moment = moment_of(message.get("timestamp"))
        if moment is not None and after < moment < before:
            found += _read(message, session_id, moment)
    return found


def _last_versions(data: bytes) -> Iterator[dict[str, Any]]:
    """Yields the messages, each in its latest version, in the order in which they first appeared."""
    known: dict[str, dict[str, Any]] = {}
    for line in data.split(b"\n"):
        try:
            found = msgspec.json.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
        match found:
            case {"$rewindTo": str(id)}:
                ids = list(known)
                for one in ids[ids.index(id) if id in known else 0 :]:
                    del known[one]
            case {"$set": {"messages": list(replaced)}}:
                known = {one["id"]: one for one in replaced if isinstance(one, dict) and isinstance(one.get("id"), str)}
            case {"id": str(id), "type": str()}:
                known[id] = found
    yield from known.values()


def _read(message: dict[str, Any], session_id: str, moment: datetime) -> Iterator[EarlierMessage]:
    id, words = message["id"], _words(message.get("content"))
    if message["type"] == "user":
        if words and not words.startswith(CONTEXT):
            yield EarlierMessage(moment, id, prompt=words, turn=id)
        return
    if message["type"] != "gemini":
        return
    for line in _of_model(message, session_id, words):
        yield EarlierMessage(moment, id, line=line.raw)


def _of_model(message: dict[str, Any], session_id: str, words: str) -> Iterator[AgentLine]:
    for thought in objects_in(message.get("thoughts")):
        parts = [part for name in ("subject", "description") if (part := text_in(thought.get(name)))]
        if parts:
            yield lines.said(session_id, "thinking", "\n\n".join(parts))
    if words:
        yield lines.said(session_id, "text", words)
    for call in objects_in(message.get("toolCalls")):
        id, name = text_in(call.get("id")), text_in(call.get("name"))
        if not (id and name):
            continue
        args = call.get("args")
        yield lines.call(session_id, id, TOOLS.get(name, name), _given(name, args if isinstance(args, dict) else {}))
        yield _result(session_id, id, call)


def _given(name: str, args: dict[str, Any]) -> dict[str, Any]:
    """The input of a call of the tool ``name``. For the tools that read or write one file, the file's path is in
    ``file_path``, the field that clients read."""
    path = next((args[one] for one in PATHS if isinstance(args.get(one), str)), None)
    if path is None or name not in ("read_file", "replace", "write_file"):
        return args
    return {"file_path": path} | {key: value for key, value in args.items() if key not in PATHS}


def _result(session_id: str, id: str, call: dict[str, Any]) -> AgentLine:
    shown, is_error = call.get("resultDisplay"), call.get("status") in ("error", "cancelled")
    patch: list[dict[str, Any]] = []
    if isinstance(shown, dict) and not is_error:
        old, new = shown.get("originalContent"), shown.get("newContent")
        patch = lines.patch_of(text_in(old), text_in(new)) if isinstance(new, str) else []
    words = text_in(shown) or "\n".join(_answers(call.get("result")))
    return lines.result(session_id, id, words, is_error=is_error, patch=patch)


def _answers(result: object) -> Iterator[str]:
    """Yields the texts in a tool's response to the model."""
    for part in objects_in(result):
        match part.get("functionResponse"):
            case {"response": {"output": str(words)} | {"error": str(words)}}:
                yield words


def _words(content: object) -> str:
    parts = content if isinstance(content, list) else [content]
    texts = (one.get("text") if isinstance(one, dict) else one for one in parts)
    return "\n".join(text for text in texts if isinstance(text, str) and text)
