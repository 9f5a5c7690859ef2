"""The conversations that Gemini CLI stores: ``<home>/tmp/<project>/chats/session-<minute>-<start of the id>.jsonl``.

They are the CLI's own files (seen on 0.61.0; undocumented, so files in another format are ignored). The CLI or the user
can remove them at any time.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from drawbridge.agents.base import EarlierMessage, EarlierMessages, StoredConversation
from drawbridge.agents.gemini import earlier
from drawbridge.agents.gemini.transcript import of_user
from drawbridge.agents.terminal import Prompt
from drawbridge.core.json_text import UNDECODABLE

ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
HEAD_BYTES = 65_536
LONGEST_LIST = 1_000
LONGEST_TITLE = 120


def spare(home: Path, session_id: str) -> None:
    """Prevents the loss of a conversation that is resumed within the minute in which it began.

    ``session/load`` first creates a new file, named after the current minute, and so overwrites the file that it is
    about to read (0.61.0). To prevent that, this function renames an existing file of that name to the name for the
    previous minute. The CLI still finds it, by its content. Blocking.
    """
    if not ID.fullmatch(session_id):
        return
    now = datetime.now(UTC)
    name = "session-{:%Y-%m-%dT%H-%M}-" + session_id[:8] + ".jsonl"
    for path in home.glob(f"tmp/*/chats/{name.format(now)}"):
        spared = path.with_name(name.format(now - timedelta(minutes=1)))
        if not spared.exists():
            with contextlib.suppress(OSError):  # the CLI may have removed the file in the meantime
                path.rename(spared)


class GeminiSessionFiles(Struct, frozen=True):
    """The conversations in ``home``, the CLI's directory."""

    home: Path

    def directories(self, limit: int) -> list[tuple[Path, float]]:
        """The directories with the most recently active conversations, at most ``limit``, each with the time of its
        last activity (seconds since 1970). Blocking."""
        found = []
        for root in self.home.glob("tmp/*/.project_root"):
            with contextlib.suppress(OSError, UnicodeDecodeError):
                if times := [file.stat().st_mtime for file in root.parent.glob("chats/session-*.jsonl")]:
                    found.append((Path(root.read_text().strip()), max(times)))
        return sorted(found, key=lambda one: one[1], reverse=True)[:limit]

    def listed(self, path: Path, limit: int) -> list[StoredConversation]:
        """The conversations for this directory, at most ``limit``, most recently active first. Blocking."""
        found = []
        for file in _files(self.home, path):
            with contextlib.suppress(OSError):
                found.append((file.stat().st_mtime, file))
        sessions: dict[str, StoredConversation] = {}
        for time, file in sorted(found, reverse=True):
            session = _read(file, time)
            if session is not None:
                sessions.setdefault(session.session_id, session)
            if len(sessions) == limit:
                break
        return list(sessions.values())

    def used_by(self, session_id: str) -> list[int]:
        """Always empty, because the CLI does not list its processes (0.61.0)."""
        return []

    def title(self, path: Path, session_id: str) -> str | None:
        return next((one.title for one in self.listed(path, LONGEST_LIST) if one.session_id == session_id), None)

    def messages(
        self, path: Path, session_id: str, *, after: datetime, before: datetime, end: int | None, limit: int, size: int
    ) -> EarlierMessages:
        found = self._messages(path, session_id, after, before)
        return earlier.page(found, end=end, limit=limit, size=size)

    def messages_from(
        self, path: Path, session_id: str, *, after: datetime, before: datetime, start: int
    ) -> Iterator[tuple[int, EarlierMessage]]:
        yield from enumerate(self._messages(path, session_id, after, before)[start:], start + 1)

    def _messages(self, path: Path, session_id: str, after: datetime, before: datetime) -> list[EarlierMessage]:
        file = self._file_of(path, session_id)
        return [] if file is None else earlier.messages(file, session_id, after, before)

    def known(self, path: Path, session_id: str) -> bool:
        return self._file_of(path, session_id) is not None

    def _file_of(self, path: Path, session_id: str) -> Path | None:
        if not ID.fullmatch(session_id):
            return None
        files = sorted((file for file in _files(self.home, path) if file.stem.endswith(session_id[:8])), reverse=True)
        return next((file for file in files if (session := _read(file, 0)) and session.session_id == session_id), None)


def _files(home: Path, directory: Path) -> list[Path]:
    for root in home.glob("tmp/*/.project_root"):
        try:
            if os.path.realpath(root.read_text().strip()) == os.path.realpath(directory):
                return list(root.parent.glob("chats/session-*.jsonl"))
        except (OSError, UnicodeDecodeError):
            continue
    return []


class _Line(Struct):
    sessionId: Any = None  # noqa: N815 - the CLI's own name
    kind: Any = None
    type: Any = None
    content: Any = None


def _read(path: Path, time: float) -> StoredConversation | None:
    """The conversation in a file, with ``time`` as the time of its last activity. Its title is the first prompt that
    contains text. None if the beginning of the file contains no prompt (a conversation without one can't be resumed),
    if the conversation is not a main agent's, or if the file can't be read."""
    try:
        with path.open("rb") as opened:
            head = opened.read(HEAD_BYTES)
    except OSError:
        return None
    session_id, has_prompt = "", False
    for raw in head.split(b"\n"):
        try:
            line = msgspec.json.decode(raw, type=_Line)
        except UNDECODABLE:
            continue
        if isinstance(line.sessionId, str) and ID.fullmatch(line.sessionId) and line.kind == "main":
            session_id = line.sessionId
        elif session_id and line.type == "user":
            has_prompt = True
            if title := _title(line.content):
                return StoredConversation(session_id, time, title)
    return StoredConversation(session_id, time, None) if has_prompt else None


def _title(content: object) -> str:
    """The text of the user's prompt in a message with this ``content``, shortened; empty if it contains none."""
    words = next((entry.text for entry in of_user("", content) if isinstance(entry, Prompt)), "")
    return " ".join(words.split())[:LONGEST_TITLE]
