"""Joins the pieces of an agent's text, so that the history contains complete messages instead of pieces. Pure.

The pieces are updates (``session/update``) of the Agent Client Protocol.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Struct

from drawbridge.agents import lines
from drawbridge.agents.acp.messages import Update, read_as
from drawbridge.agents.acp.shown import block_of
from drawbridge.agents.base import AgentLine
from drawbridge.core.json_text import UNDECODABLE

PIECES: Final[dict[str, lines.Said]] = {"agent_message_chunk": "text", "agent_thought_chunk": "thinking"}

LONGEST: Final = 256 * 1024
"""The number of characters after which a message is split into several lines of the history."""


class Pieces:
    """The pieces of the message in progress."""

    def __init__(self) -> None:
        self._of: tuple[str, str, object] | None = None
        """The session, the kind of update and the id of the message in progress; None if no message is in progress."""
        self._texts: list[str] = []
        self._size = 0

    def add(self, session_id: str, update: Update, words: str) -> tuple[list[AgentLine], list[AgentLine]]:
        """Adds a piece (see ``piece_of``). Returns the line of the message in progress, if the piece does not continue
        that message or the message has reached ``LONGEST``, otherwise an empty list. Also returns the lines that show
        the piece until its message is complete."""
        of = (session_id, update.sessionUpdate, update.messageId)
        before = [] if self._of in (None, of) and self._size < LONGEST else self.flush()
        is_first, self._of = not self._texts, of
        self._texts.append(words)
        self._size += len(words)
        return before, lines.piece(session_id, PIECES[update.sessionUpdate], words, is_first=is_first)

    def flush(self) -> list[AgentLine]:
        """Ends the message in progress and returns its line; an empty list if no message is in progress or it has no
        text."""
        words, of = "".join(self._texts), self._of
        self._texts, self._of, self._size = [], None, 0
        return [lines.said(of[0], PIECES[of[1]], words)] if of is not None and words else []


def other_content(session_id: str, update: Update) -> AgentLine | None:
    """The line for content of the agent's answer that is not text, such as an image. None if clients can't show it, or
    for any other update."""
    if update.sessionUpdate != "agent_message_chunk":
        return None
    block = block_of(read_as(dict[str, Any], update.content))
    return None if block is None else lines.block(session_id, block)


class _Text(Struct):
    type: str
    text: str


def piece_of(update: Update) -> str | None:
    """The text of a piece; None if the update is not a piece of text."""
    if not isinstance(update.sessionUpdate, str) or update.sessionUpdate not in PIECES:
        return None
    try:
        content = msgspec.json.decode(bytes(update.content), type=_Text)
    except UNDECODABLE:
        return None
    return content.text if content.type == "text" else None
