"""Searches the sessions and the texts in the histories: keeps their indexes up to date, and answers clients' requests.

Records are indexed in a thread after they have been written and sent, so that neither agents nor clients wait for that.
A client's request first indexes the latest records, if time permits. The reply states whether an index is
behind.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import sqlite3
import time
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from drawbridge.core.errors import HistoryUnreadable
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.commands import Search
from drawbridge.server.protocol.frames import ROOM
from drawbridge.server.protocol.messages import FRAME_BYTES
from drawbridge.server.protocol.replies import (
    SearchResult,
    SearchResults,
    SessionEntry,
    SessionsFound,
    SessionState,
)
from drawbridge.server.sessions.conversations.timeline import stretches
from drawbridge.server.sessions.metadata import TERMINAL_PREFIX
from drawbridge.server.sessions.session import Session, Sessions
from drawbridge.server.store.search import Deadline, Hit, Index, NoFullText, Part, TooSlow, Waited, Wanted, moment

logger = logging.getLogger("drawbridge.server")

INDEXING_SECONDS: Final = 1.0
"""Seconds between two checks for histories with new records."""


class Searching:
    """The indexes of all ``sessions``."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._failed: set[str] = set()
        """The ids of sessions with an index that could not be updated the last time, so that the failure is logged only
        once."""

    async def round(self) -> None:
        """Indexes all records that are not indexed yet. Called every ``INDEXING_SECONDS``. The histories take turns, so
        that none waits until the index of another is built."""
        behind = [session for session in self._sessions if session.index.behind]
        while behind:
            more = []
            for session in behind:
                began = time.monotonic()
                if await self._update(session):
                    more.append(session)
                # Decoding keeps the interpreter busy, and the server's own work comes first.
                await asyncio.sleep(time.monotonic() - began)
            behind = more

    async def _update(self, session: Session) -> bool:
        """Indexes the next records of one session. Returns whether there are more that can be indexed now."""
        try:
            more = await asyncio.to_thread(session.index.update)
            if not more and not session.recorded.title:
                session.learn_title(await asyncio.to_thread(_title, session.index, session.recorded.session_id))
        except (OSError, sqlite3.Error, HistoryUnreadable) as error:
            if session.id not in self._failed and not session.history.closed:
                self._failed.add(session.id)
                logger.error("%s: its history can't be indexed for search: %s", session.id, error)
            return False
        self._failed.discard(session.id)
        return more

    async def _update_all(self, sessions: Iterable[Session]) -> None:
        """Indexes the next records of each session while there is time. An index that is still being built remains
        behind."""
        end = Deadline()
        for session in sessions:
            if session.index.behind and not end.is_over:
                await self._update(session)

    async def complete(self, session: Session) -> None:
        """Returns when all records of the session that can be indexed have been indexed."""
        while session.index.behind and await self._update(session):
            pass

    async def parts(self, session: Session, key: str) -> list[Part]:
        """The parts of one conversation. Raises ``ClientError`` if the history contains none, or the index can't be
        read."""
        await self.complete(session)
        found = [part for part in await self._read(session) if part.key == key]
        if not found:
            raise no_session()
        return found

    async def all_parts(self, session: Session) -> list[Part]:
        await self.complete(session)
        return await self._read(session)

    async def _read(self, session: Session) -> list[Part]:
        """The parts of a session's history; empty if its index is being rebuilt. If older records were dropped, the
        history may not contain the id of the current conversation. In that case, it is taken from the session's
        ``RecordedState``. Raises ``ClientError`` if the index can't be read."""
        try:
            parts = await asyncio.to_thread(session.index.parts)
            if parts and not parts[-1].session_id and session.recorded.begun <= parts[-1].first_seq:
                current = msgspec.structs.replace(parts[-1], session_id=session.recorded.session_id)
                return [*parts[:-1], current]
            return parts
        except (OSError, sqlite3.Error) as error:
            if session.index.behind:  # the index was damaged and is being rebuilt
                return []
            raise _unusable(session, error) from None

    async def waited(self, session: Session) -> dict[str, Waited]:
        """The changes to each prompt that was edited in the queue or removed from it, by run id; empty if the index
        can't be read."""
        await self.complete(session)
        try:
            return await asyncio.to_thread(session.index.waited)
        except (OSError, sqlite3.Error) as error:
            logger.error("%s: its search index can't be read: %s", session.id, error)
            return {}

    async def entries(self, sessions: Sequence[Session], limit: int) -> SessionsFound:
        """The sessions in these histories, most recently active first: at most ``limit``, and only as many as fit into
        a message. Current sessions are left out last. Raises ``ClientError`` if an index can't be read."""
        await self._update_all(sessions)
        found: list[SessionEntry] = []
        for session in sessions:
            found += entries(session, await self._read(session))
        found.sort(key=lambda entry: (entry.current, entry.last_active), reverse=True)
        shown, room = [], FRAME_BYTES - ROOM
        for entry in found[:limit]:
            room -= len(msgspec.json.encode(entry)) + 1
            if room < 0:
                break
            shown.append(entry)
        shown.sort(key=lambda entry: entry.last_active, reverse=True)
        return SessionsFound(shown, len(found) > len(shown), _are_behind(sessions))

    async def search(self, sessions: Sequence[Session], command: Search) -> SearchResults:
        """A page of the texts that match, newest first. Raises ``ClientError``."""
        cursor = _Cursor.read(command.before)
        await self._update_all(sessions)
        found: list[tuple[Hit, Session]] = []
        deadline = Deadline()
        try:
            for session in sessions:
                found += [(hit, session) for hit in await self._hits(session, command, cursor, deadline)]
        finally:
            deadline.end()  # stops a thread that is still searching for a request that was canceled
        best = heapq.nsmallest(command.limit + 1, found, key=_order)
        page = best[: command.limit]
        keys = {id(session): {part.first_seq: part.key for part in await self._read(session)} for _, session in page}
        results = [
            SearchResult(
                project_id=session.id,
                seq=hit.seq,
                created_at=moment(hit.created),
                kind=hit.kind,
                snippet=hit.snippet,
                session_id=keys[id(session)].get(hit.part, ""),
                tool=hit.tool,
            )
            for hit, session in page
        ]
        last = _Cursor(page[-1][0].at, page[-1][0].id, page[-1][1].id).text if len(best) > len(page) else None
        return SearchResults(results, last, _are_behind(sessions))

    async def _hits(self, session: Session, command: Search, cursor: _Cursor | None, deadline: Deadline) -> list[Hit]:
        parts = None
        if command.session_id is not None:
            known = await self._read(session)
            ways = stretches(known, command.session_id)
            parts = tuple(stretch.part.first_seq for stretch in ways if stretch.part is not None)
            if not parts:
                return []
        until, below = cursor.limits(session.id) if cursor is not None else (None, None)
        wanted = Wanted(command.query, command.kinds, parts, below, until, command.limit + 1)
        try:
            return await asyncio.to_thread(session.index.search, wanted, deadline)
        except NoFullText:
            text = "This server can't search for words: its SQLite has no full-text index (FTS5)."
            raise ClientError("NOT_SUPPORTED", text, "data.query") from None
        except TooSlow:
            advice = "Use longer words." if command.project_id else "Use longer words, or search one project."
            text = f"The search took too long and was stopped. {advice}"
            raise ClientError("RESOURCE_LIMIT", text, "data.query") from None
        except (OSError, sqlite3.Error) as error:
            if session.index.behind:
                return []
            raise _unusable(session, error) from None


class _Cursor:
    """The position of a result among all results."""

    def __init__(self, at: int, id: int, project_id: str) -> None:
        self._at, self._id, self._project_id = at, id, project_id

    @classmethod
    def read(cls, text: str | None) -> _Cursor | None:
        if text is None:
            return None
        at, _, rest = text.partition(".")
        id, _, project_id = rest.partition(".")
        if not all(one.isascii() and one.isdigit() and len(one) < 18 for one in (at, id)):
            raise ClientError(
                "VALIDATION_FAILED", "`before` is not valid. Use the `next` of the previous reply.", "data.before"
            )
        return cls(int(at), int(id), project_id)

    @property
    def text(self) -> str:
        return f"{self._at}.{self._id}.{self._project_id}"

    def limits(self, project_id: str) -> tuple[int, int | None]:
        """The ``until`` and ``below`` that ``Wanted`` needs to find the results after this position in the history of
        the project ``project_id``."""
        if project_id == self._project_id:
            return self._at, self._id
        return (self._at if project_id > self._project_id else self._at - 1), None


def _are_behind(sessions: Iterable[Session]) -> bool:
    return any(session.index.behind for session in sessions)


def _order(found: tuple[Hit, Session]) -> tuple[int, str, int]:
    hit, session = found
    return -hit.at, session.id, -hit.id


def _title(index: Index, session_id: str) -> str:
    parts = index.parts()
    return parts[-1].title if parts and parts[-1].session_id == session_id else ""


def entries(session: Session, parts: Sequence[Part]) -> list[SessionEntry]:
    """The sessions of one history. Sessions that have neither a title nor an answer from the agent are left out."""
    grouped: dict[str, list[Part]] = {}
    for part in parts:
        grouped.setdefault(part.key, []).append(part)
    found = []
    for key, some in grouped.items():
        name = session.recorded.names.get(key, "")
        current = some[-1] is parts[-1]
        known = session.recorded.title if current else ""
        title = name or known or next((part.title for part in some if part.title), "")
        last_line = next((part.last_line for part in reversed(some) if part.last_line), "")
        if not title and not last_line:
            continue
        found.append(
            SessionEntry(
                project_id=session.id,
                path=session.data.path,
                agent=session.data.agent,
                session_id=key,
                title=title,
                state=_state(session) if current else "finished",
                created_at=moment(some[0].began),
                last_active=moment(some[-1].ended),
                prompts=sum(part.prompts for part in some),
                first_seq=some[0].first_seq,
                last_seq=some[-1].last_seq,
                current=current,
                named=bool(name),
                terminal=session.id.startswith(TERMINAL_PREFIX),
                fork_from=some[0].fork_from or None,
                last_line=last_line,
                added=sum(part.added for part in some),
                removed=sum(part.removed for part in some),
                approvals=len(session.approvals.waiting()) if current else 0,
            )
        )
    return found


def _state(session: Session) -> SessionState:
    if session.approvals:
        return "waiting"
    terminal = session.summary().terminal
    if terminal is not None:
        return terminal.state
    states: dict[str, SessionState] = {"EXECUTING": "working", "ERROR": "failed"}
    return states.get(session.state, "finished")


def no_session() -> ClientError:
    return ClientError("SESSION_NOT_FOUND", "The history does not contain this session.", field="data.session_id")


def _unusable(session: Session, error: Exception) -> ClientError:
    logger.error("%s: its search index can't be read: %s", session.id, error)
    text = "The search index of a session can't be read. The server's log has the reason."
    return ClientError("FILE_OPERATION", text, retryable=True)
