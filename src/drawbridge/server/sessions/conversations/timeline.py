"""A session's conversation, read from its end to its beginning, regardless of where it took place.

What happened in Drawbridge is in the history of the project. What happened before, between and after those records,
such as work in a terminal, is only in the agent's own files. A fork begins with the conversation that it was forked
from.

Only clients that may run agents see what the agent itself stores.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from msgspec import Raw, Struct

from drawbridge.agents.base import Agent, AgentLine, EarlierMessage, EarlierMessages
from drawbridge.core.errors import BadMessage
from drawbridge.server.events import PromptAccepted
from drawbridge.server.protocol import frames
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.messages import FRAME_BYTES, TERMINAL_NAME
from drawbridge.server.protocol.replies import SessionMessagesPage
from drawbridge.server.sessions.session import Session
from drawbridge.server.store.lines import Record, compose, from_microseconds
from drawbridge.server.store.records import written
from drawbridge.server.store.search import Part

PAGE_BYTES: Final = FRAME_BYTES // 3
LARGEST: Final = FRAME_BYTES // 2
"""The maximum size of a record, in bytes; a larger one is shortened to a preview."""

MOST_FORKS: Final = 10
"""The maximum number of conversations in a chain of forks that are shown."""

_EARLIEST: Final = datetime.min.replace(tzinfo=UTC)
_LATEST: Final = datetime.max.replace(tzinfo=UTC)


class Stretch(Struct, frozen=True):
    """A stretch of a conversation: ``part`` of the history or, if that is None, what the agent itself has stored of
    ``session_id`` between the times ``after`` and ``before``."""

    session_id: str
    part: Part | None = None
    after: datetime = _EARLIEST
    before: datetime = _LATEST


class _Position(Struct, frozen=True):
    """A position in a conversation. ``stretch``: the number of the stretch, from 0; ``before``: the number of the
    record that follows the position or, in the agent's own transcript, an ``EarlierMessages.before``; None for the end
    of the stretch."""

    stretch: int
    before: int | None = None

    @classmethod
    def read(cls, text: str, stretches: int) -> _Position:
        stretch, _, before = text.partition(".")
        numbers = [one for one in (stretch, before or "0") if one.isascii() and one.isdigit() and len(one) < 18]
        if len(numbers) < 2 or int(stretch) >= stretches:
            raise ClientError(
                "VALIDATION_FAILED", "`before` is not valid. Use the `before` of the previous reply.", "data.before"
            )
        return cls(int(stretch), int(before) if before else None)

    @property
    def text(self) -> str:
        return f"{self.stretch}.{'' if self.before is None else self.before}"


def stretches(parts: Sequence[Part], key: str) -> list[Stretch]:
    """The stretches of the session ``key``, in chronological order. ``parts``: the parts of the whole history."""
    found: list[Stretch] = []
    before = _LATEST
    for _ in range(MOST_FORKS):
        own = [part for part in parts if part.key == key and from_microseconds(part.began) < before]
        fork = own[0].fork_from if own else ""
        found = [*_of_one(own, key, before, is_current=bool(own) and own[-1] is parts[-1], is_fork=bool(fork)), *found]
        if not fork or fork == key:
            break
        key, before = fork, from_microseconds(own[0].began)
    return found


def _of_one(own: Sequence[Part], key: str, before: datetime, *, is_current: bool, is_fork: bool) -> list[Stretch]:
    found: list[Stretch] = []
    after = _EARLIEST
    for part in own:
        if found or not is_fork:  # a fork's file begins with a copy of the original
            found.append(Stretch(key, None, after, from_microseconds(part.began)))
        found.append(Stretch(key, part))
        after = from_microseconds(part.ended)
    if not is_current:
        found.append(Stretch(key, None, after, before))
    return found


async def page(
    session: Session,
    parts: Sequence[Part],
    agent: Agent | None,
    key: str,
    position: str | None,
    limit: int,
) -> SessionMessagesPage:
    """A page of the conversation: the records before ``position``, or the last records if that is None. ``agent``: the
    agent whose own transcript is included; None to leave it out, for example because the client may not see it.

    Raises ``ClientError``, or ``HistoryUnreadable`` if the history can't be read.
    """
    ways = stretches(parts, key)
    at: _Position | None = _Position(len(ways) - 1) if position is None else _Position.read(position, len(ways))
    found: list[Raw] = []
    room = PAGE_BYTES
    while at is not None and len(found) < limit and room > 0:
        stretch, more = ways[at.stretch], limit - len(found)
        if stretch.part is not None:
            got, before = await _recorded(session, stretch.part, at.before, more, room)
        else:
            got, before = await _earlier(session, stretch, agent, at.before, more, room)
        found = [*got, *found]
        room -= sum(len(bytes(one)) for one in got)
        at = _next(at, before)
        if before is not None and not got:
            break  # enough has been searched for one reply
    return SessionMessagesPage(key, tuple(found), at.text if at is not None else None)


def _next(at: _Position, before: int | None) -> _Position | None:
    if before is not None:
        return _Position(at.stretch, before)
    return _Position(at.stretch - 1) if at.stretch > 0 else None


async def _recorded(
    session: Session, part: Part, before: int | None, limit: int, size: int
) -> tuple[list[Raw], int | None]:
    end = min(before if before is not None else part.last_seq + 1, part.last_seq + 1)
    read = await session.store.read(before_seq=end, limit=limit, max_bytes=size)
    own = [record for record in read.records if record.seq >= part.first_seq]
    shown = [frames.history_record(record.line, session.id, record.seq, LARGEST) for record in own]
    more = len(own) == len(read.records) and read.has_more and bool(own) and own[0].seq > part.first_seq
    return shown, own[0].seq if more else None


async def _earlier(
    session: Session, stretch: Stretch, agent: Agent | None, end: int | None, limit: int, size: int
) -> tuple[list[Raw], int | None]:
    sessions = agent.sessions if agent is not None else None
    if sessions is None:
        return [], None

    def read() -> EarlierMessages:
        return sessions.messages(
            session.path,
            stretch.session_id,
            after=stretch.after,
            before=stretch.before,
            end=end,
            limit=limit,
            size=size,
        )

    found = await asyncio.to_thread(read)
    records = [record for one in found.messages if (record := record_of(one))]
    return [Raw(frames.shortened(record.line, LARGEST)) for record in records], found.before


def record_of(message: EarlierMessage) -> Record | None:
    """The message as a record of a history, with the number 0; None if it can't be one."""
    if message.prompt is not None:
        event: PromptAccepted | AgentLine = PromptAccepted(
            message.turn, message.prompt, TERMINAL_NAME, uuid=message.uuid
        )
    else:
        event = AgentLine(message.line)
    direction, data = written(event)
    try:
        return compose(0, message.time, direction, data)
    except BadMessage:
        return None
