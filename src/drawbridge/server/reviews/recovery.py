"""A decision survives even a sudden end of the server: it is applied completely or not at all, and recorded once. The
same applies to the revert of a run, and to a commit.

Before one of these operations changes anything, its ``Intent`` is in a file on the disk. The file is removed once the
result is in the history. If the server or git is killed in between, the file is still there at the next start, or when
the review is used next. Then the project's files are compared with the intent (``interrupted``), and the missing record
is added to the history.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final, Protocol, TypedDict

import msgspec

from drawbridge.core.json_text import UNDECODABLE
from drawbridge.core.private_files import remove_quietly, write_private
from drawbridge.server.checkpoints.checkpoints import Checkpoints
from drawbridge.server.checkpoints.errors import Changed, GitFailed
from drawbridge.server.checkpoints.git.git import Git
from drawbridge.server.checkpoints.unsaved import UnsavedChanges, not_written_over
from drawbridge.server.events import (
    Audited,
    Recorded,
    ReviewCommitted,
    ReviewDecided,
    ReviewInterrupted,
    RunReverted,
)
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.frames import Subscriber
from drawbridge.server.reviews.committing import finished
from drawbridge.server.reviews.intents import CommitIntent, DecisionIntent, Intent, RevertIntent, Verdict
from drawbridge.server.reviews.interrupted import recovered
from drawbridge.server.reviews.messages import Recovered, audited, recovered_record
from drawbridge.server.reviews.open_review import OpenReview
from drawbridge.server.reviews.recorded_diff import RecordedDiff, recorded_diff
from drawbridge.server.reviews.reviews import Review
from drawbridge.server.store.log import Page
from drawbridge.server.store.records import NOT_OURS, read

logger = logging.getLogger("drawbridge.server")

NAME: Final = "decision.json"

RESULTS: Final = {
    "done": "was completed",
    "not_done": "was not carried out",
    "unknown": "may have been carried out",
}
"""Maps the result of an interrupted decision to words for the log."""

RECORDS_AT_ONCE: Final = 1_000
"""The number of records of the history that are read at a time."""


class Store(Protocol):
    """The part of a session's store that is used here."""

    @property
    def closed(self) -> bool: ...

    @property
    def last_seq(self) -> int: ...

    def record(self, event: Recorded, sender: Subscriber | None = None) -> int | None: ...

    def audit(self, event: Audited, removed: str = "") -> None: ...

    async def read(self, *, after_seq: int, limit: int) -> Page: ...


class Origin(TypedDict):
    """The fields that every ``Intent`` has."""

    session: str
    seq: int
    by: str
    client_id: str
    surface: dict[str, Any]


def origin(session: str, seq: int, sender: Subscriber) -> Origin:
    """The fields of an intent of ``sender``. ``seq``: the number of the last record of the session."""
    return Origin(session=session, seq=seq, by=sender.name, client_id=sender.id, surface=dict(sender.audited))


class Completed(Exception):
    """git failed during a decision, but the recovery has completed the decision. ``record``: its record."""

    def __init__(self, record: Recovered) -> None:
        super().__init__()
        self.record = record


class Recovery:
    """The recovery of one review. ``path``: the file for the intent. ``stores``: the stores of the sessions that share
    the review, by session id. ``recovered``: called with the review after a recovery. ``check_at_rest`` raises
    ``ClientError`` (PROCESS_ACTIVE) while an agent is at work, when no file may be written. ``writing``: a context in
    which nothing else writes into the directory. Below, *decision* includes reverts and commits."""

    def __init__(
        self,
        path: Path,
        review: Review,
        checkpoints: Checkpoints,
        stores: Mapping[str, Store],
        recovered: Callable[[OpenReview], None],
        check_at_rest: Callable[[], None],
        writing: Callable[[], AbstractAsyncContextManager[None]],
    ) -> None:
        self._path = path
        self._review = review
        self._checkpoints = checkpoints
        self._stores = stores
        self._recovered = recovered
        self._check_at_rest = check_at_rest
        self._writing = writing
        self._applying = asyncio.Lock()
        """Held while a decision is applied or recovered."""
        self._may_be_due = True
        """Whether the file may exist. Before the first recovery, that is not known."""
        self._news: Recovered | None = None
        """The record of a decision that was interrupted before the server was started; None once it was taken, or once
        another decision is about to be applied."""
        self._is_restarted = True
        """Whether the intent in the file, if it exists, is from before the server was started."""

    def take_news(self) -> Recovered | None:
        """The record of a decision that was interrupted before the server was started. Returned once, because the user
        is notified in one editor, and not again in each editor that is opened later."""
        news, self._news = self._news, None
        return news

    def is_due(self) -> bool:
        """Whether a decision was interrupted. Blocking."""
        return self._path.exists()

    @contextlib.asynccontextmanager
    async def applying(self) -> AsyncIterator[None]:
        """Recovers an interrupted decision first, if any. In the context, the next decision can be applied. If git fails
        there, this decision is recovered before anybody else reads the review. Raises the same errors as ``run``, and
        ``Completed``."""
        await self.run()
        async with self._applying, self._writing():
            try:
                yield
            except GitFailed as error:
                record = await self._run()
                if record is None or isinstance(record, ReviewInterrupted):
                    raise
                raise Completed(record) from error

    async def begin(self, intent: Intent) -> None:
        """Returns once the intent is on the disk. Raises ``NotPrivate``, for example if the disk is full."""
        self._may_be_due, self._news = True, None
        await asyncio.to_thread(write_private, str(self._path), msgspec.json.encode(intent), synced=True)

    async def end(self) -> None:
        """Removes the intent, because the decision is recorded, or was refused before it changed anything."""
        if self._may_be_due:
            await asyncio.to_thread(remove_quietly, str(self._path))
            self._may_be_due = False

    def is_recorded_later(self, session: str) -> bool:
        """Whether only the next server can record a decision in this session, because this one is shutting down. It does
        so like after an interruption, so the intent has to stay."""
        store = self._stores.get(session)
        return store is not None and store.closed

    async def run_at_rest(self) -> None:
        """Like ``run``, but leaves the recovery for later while an agent is at work."""
        try:
            await self.run()
        except ClientError as error:
            if error.code != "PROCESS_ACTIVE":
                raise

    async def run(self) -> None:
        """Determines the state of an interrupted decision, if any, completes the decision or undoes the part that was
        done, and records the result. Raises ``ClientError``, ``HistoryUnreadable``, ``NoCheckpoint``, ``GitFailed`` or
        OSError; the recovery is then tried again when the review is next read, decided on or submitted. ``ClientError``
        (PROCESS_ACTIVE): files would have to be written while an agent is at work.
        """
        if self._may_be_due:
            async with self._applying, self._writing():
                await self._run()

    async def _run(self) -> Recovered | None:
        """Like ``run``, but returns the record of the result; None if no decision was interrupted. ``_applying`` must
        be held."""
        intent = await asyncio.to_thread(self._read) if self._may_be_due else None
        record = None if intent is None else await self._recover(intent)
        await self.end()
        self._is_restarted = False
        return record

    async def _recover(self, intent: Intent) -> Recovered:
        try:
            async with self._checkpoints.operations.exclusive() as git:
                found = await self._verdict(git, intent)
        except Changed as error:
            text = f"An interrupted decision or revert can't be completed yet: there are other changes to {error}."
            details = {"paths": error.paths}
            raise ClientError("REVIEW_CLASH", f"{text} Read the review again.", details=details) from None
        except UnsavedChanges as error:
            raise not_written_over(error) from None
        async with self._checkpoints.operations.exclusive() as git:
            review = await self._review.current(git, self._checkpoints.work_tree)
            diff = RecordedDiff()
            if found.result == "done" and isinstance(intent, DecisionIntent):
                diff = await recorded_diff(git, intent.heads)
        store = self._stores.get(intent.session)  # None: a terminal session that was removed from the list
        # The client that requested a failed decision has received the error, unless the server was restarted.
        is_news = found.result == "done" or self._is_restarted
        event = recovered_record(intent, found, review, diff, interrupted=self._is_restarted)
        if store is not None and is_news and not await _is_recorded(store, intent):
            store.record(event)
            if found.result == "done":
                store.audit(audited(intent, found.commit))
        elif store is None and found.result == "done":
            # Its history was removed, too. One of the other sessions in the directory publishes the audit log's entry.
            for other in list(self._stores.values())[:1]:
                other.audit(audited(intent, found.commit), removed=intent.session)
        self._news = event if self._is_restarted else None
        text = "%s: an interrupted decision, revert or commit by %s %s"
        logger.warning(text, intent.session, intent.by, RESULTS[found.result])
        self._recovered(review)
        return event

    async def _verdict(self, git: Git, intent: Intent) -> Verdict:
        work_tree = self._checkpoints.work_tree
        match intent:
            case DecisionIntent():
                return await self._review.recover(git, work_tree, intent, self._check_at_rest)
            case RevertIntent():
                return await recovered(git, work_tree, intent.heads, self._check_at_rest)
            case CommitIntent():
                return await finished(git, intent.attempt, self._check_at_rest)

    def _read(self) -> Intent | None:
        """The intent of an interrupted decision; None if no decision was interrupted, or if the file is damaged.
        Nothing can be learned from a damaged file, so the review then shows the files as they are. Blocking. Raises
        OSError."""
        try:
            found: Intent = msgspec.json.decode(self._path.read_bytes(), type=Intent)
            return found
        except FileNotFoundError:
            return None
        except UNDECODABLE as error:
            text = "%s is damaged (%s): a decision, revert or commit was interrupted, and may be incomplete"
            logger.error(text, self._path, error)
            return None


async def _is_recorded(store: Store, intent: Intent) -> bool:
    """Whether the history already contains the result of the decision. Only one decision on a review is applied at
    a time, so its result is the first one that is recorded after the intent."""
    after, more = intent.seq, True
    while more:
        page = await store.read(after_seq=after, limit=RECORDS_AT_ONCE)
        if any(_is_result(record.line) for record in page.records):
            return True
        more, after = page.has_more, page.records[-1].seq if page.records else after
    return False


def _is_result(line: bytes) -> bool:
    with contextlib.suppress(*NOT_OURS):
        found = read(line).event
        if isinstance(found, ReviewDecided):
            return bool(found.by)
        return isinstance(found, RunReverted | ReviewCommitted | ReviewInterrupted)
    return False
