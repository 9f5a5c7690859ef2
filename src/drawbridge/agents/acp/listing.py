"""Lists the conversations that an Agent Client Protocol agent stores (``session/list``), without beginning a turn.
Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from drawbridge.agents.acp import messages as wire
from drawbridge.agents.acp.messages import Incoming, read_as
from drawbridge.agents.acp.opening import Initialized, introduction
from drawbridge.agents.base import AgentRefused, Attachment, Broken, Decision, Exited, Output, StoredConversation
from drawbridge.protocols import jsonrpc

LONGEST_TITLE: Final = 120
LONGEST_ID: Final = 200
MOST_PAGES: Final = 20

DONE: Final = "listed"
"""The reason that is given for ending the process once it has listed the conversations, or has reported that it can't
list any."""


class Listing:
    """The ``Dialect`` of a process that only lists conversations. Once the process has ended, ``found`` contains the
    conversations of ``directory``, at most ``limit``, newest first."""

    turn_open = busy = asks = False

    def __init__(self, directory: str, limit: int, version: str) -> None:
        self.found: list[StoredConversation] = []
        self._directory = directory
        self._limit = limit
        self._pages = 0
        self._requests = 0
        self._out = b""
        self._request("initialize", introduction(version))

    def outgoing(self) -> bytes:
        data, self._out = self._out, b""
        return data

    def received(self, line: bytes) -> list[Output]:
        read = wire.parsed(line.strip(b" \t\r"))
        message = read[0] if read else Incoming()
        if isinstance(message.method, str):
            if message.request_id is not None:
                self._out += wire.error(message.request_id, jsonrpc.METHOD_NOT_FOUND, "Method not found")
            return []
        if message.id != self._requests or type(message.id) is not int:
            return []
        if self._requests == 1:
            initialized = read_as(Initialized, message.result)
            return self._next(None) if initialized is not None and initialized.abilities.lists else [Broken(DONE)]
        return self._page(read_as(dict[str, Any], message.result) or {})

    def _next(self, cursor: str | None) -> list[Output]:
        self._pages += 1
        self._request("session/list", {"cwd": self._directory} | ({"cursor": cursor} if cursor else {}))
        return []

    def _page(self, page: dict[str, Any]) -> list[Output]:
        listed = page.get("sessions")
        found = [_remembered(one) for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
        self.found = sorted([*self.found, *(one for one in found if one)], key=_age)[: self._limit]
        cursor = page.get("nextCursor")
        if isinstance(cursor, str) and cursor and self._pages < MOST_PAGES:
            return self._next(cursor)
        return [Broken(DONE)]

    def _request(self, method: str, params: dict[str, Any]) -> None:
        self._requests += 1
        self._out += wire.request(self._requests, method, params)

    def ended(self, code: int, stderr: str, fault: str | None) -> list[Output]:
        return [Exited(code, stderr)]

    def prompt(self, text: str, attachments: tuple[Attachment, ...] = ()) -> list[Output]:
        raise RuntimeError("this process does not accept prompts")

    def answer(self, question_id: str, decision: Decision) -> None:
        """Does nothing, because this process never asks."""

    def interrupt(self) -> None:
        """Does nothing, because this process has no turn."""

    def set_mode(self, mode: str) -> str:
        raise AgentRefused("this process has no session")

    def set_model(self, model: str) -> str:
        return self.set_mode(model)


def _age(one: StoredConversation) -> float:
    return -one.last_active


def _remembered(session: dict[str, Any]) -> StoredConversation | None:
    id, title, updated = (session.get(name) for name in ("sessionId", "title", "updatedAt"))
    if not isinstance(id, str) or not 0 < len(id) <= LONGEST_ID:
        return None
    words = " ".join(title.split())[:LONGEST_TITLE] if isinstance(title, str) else ""
    return StoredConversation(id, _seconds(updated), words or None)


def _seconds(moment: object) -> float:
    try:
        return max(0.0, datetime.fromisoformat(str(moment)).timestamp())
    except (ValueError, OverflowError, OSError):
        return 0.0
