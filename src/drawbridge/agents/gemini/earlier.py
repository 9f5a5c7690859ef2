"""Reads the file in which Gemini CLI stores a conversation as a whole, for the history and clients. Blocking.

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

from drawbridge.agents.base import EarlierMessage, EarlierMessages
from drawbridge.agents.gemini.messages import calls, said
from drawbridge.agents.gemini.transcript import of_user
from drawbridge.agents.reported import moment_of
from drawbridge.agents.terminal import Context, Prompt
from drawbridge.core.json_text import UNDECODABLE

LARGEST: Final = 64 * 1024 * 1024
"""The maximum size of a file that is read, in bytes. A larger one is ignored."""


def page(found: list[EarlierMessage], *, end: int | None, limit: int, size: int) -> EarlierMessages:
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
    return EarlierMessages(tuple(found[begin:stop]), begin or None)


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
        except UNDECODABLE:
            continue
        match found:
            case {"$rewindTo": str(id)}:
                ids = list(known)
                for one in ids[ids.index(id) if id in known else 0 :]:
                    del known[one]
            case {"$set": {"messages": list(replaced)}}:
                known = {one["id"]: one for one in replaced if _is_message(one)}
            case {"id": str(id)} if _is_message(found):
                known[id] = found
    yield from known.values()


def _is_message(value: object) -> bool:
    match value:
        case {"id": str(), "type": str()}:
            return True
    return False


def _read(message: dict[str, Any], session_id: str, moment: datetime) -> Iterator[EarlierMessage]:
    id = message["id"]
    if message["type"] == "user":
        for entry in of_user(id, message.get("content")):
            match entry:
                case Prompt(text=words) | Context(event="Stop", texts=(words,)):  # a prompt, or comments on a review
                    yield EarlierMessage(moment, id, prompt=words, turn=id)
        return
    if message["type"] != "gemini":
        return
    called = (line for call in calls(message) for line in call.as_lines(session_id))
    for line in (*said(message, session_id), *called):
        yield EarlierMessage(moment, id, line=line.raw)
