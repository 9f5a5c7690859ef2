"""Joins the pieces of an agent's text, so that the history contains each message once and complete. Pure.

The pieces are ``session/update`` lines of the Agent Client Protocol. A message of one piece is the agent's own line,
unchanged. A message of several pieces becomes one line of the same form, with the whole text, and the number of pieces
under ``_meta``, which the protocol reserves for extensions.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from drawbridge.agents.acp.messages import Update

PIECES: Final = ("agent_message_chunk", "agent_thought_chunk")

LONGEST: Final = 256 * 1024
"""The number of characters after which a joined message is split into several."""


class _Text(Struct):
    type: str
    text: str


class Pieces:
    """The pieces of the message in progress."""

    def __init__(self) -> None:
        self._first = b""
        self._of: tuple[str, str, object] | None = None
        self._texts: list[str] = []
        self._size = 0

    def add(self, session_id: str, update: Update, line: bytes) -> bool:
        """Adds ``line`` to the message in progress. Returns False if it does not continue that message; in that case,
        call ``take`` first. Never raises."""
        text = _text(update)
        if text is None or not self.fits(session_id, update):
            return False
        if not self._texts:
            self._first, self._of = line, (session_id, update.sessionUpdate, update.messageId)
        self._texts.append(text)
        self._size += len(text)
        return True

    def fits(self, session_id: str, update: Update) -> bool:
        return self._of in (None, (session_id, update.sessionUpdate, update.messageId)) and self._size < LONGEST

    @property
    def session_id(self) -> str:
        """The conversation of the message in progress; empty between two messages."""
        return self._of[0] if self._of is not None else ""

    def take(self) -> bytes | None:
        """Ends the message in progress and returns it as one line; None if there is none."""
        texts, of = self._texts, self._of
        self._texts, self._of, self._size = [], None, 0
        if of is None or not texts:
            return None
        if len(texts) == 1:
            return self._first
        session_id, kind, message_id = of
        update = {"sessionUpdate": kind, "content": {"type": "text", "text": "".join(texts)}}
        if message_id is not None:
            update["messageId"] = message_id  # type: ignore[assignment]
        params = {"sessionId": session_id, "update": update, "_meta": {"drawbridge": {"pieces": len(texts)}}}
        return msgspec.json.encode({"jsonrpc": "2.0", "method": "session/update", "params": params})


def is_piece(update: Update) -> bool:
    return update.sessionUpdate in PIECES and _text(update) is not None


def _text(update: Update) -> str | None:
    if update.sessionUpdate not in PIECES:
        return None
    try:
        content = msgspec.json.decode(bytes(update.content), type=_Text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return content.text if content.type == "text" else None
