"""Offers to commit what was kept in a review and to push the current branch, carries out both, and records them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from msgspec import Struct

from drawbridge.server.checkpoints.checkpoints import Checkpoints
from drawbridge.server.checkpoints.git.git import Git
from drawbridge.server.events import Audited, CommittedFromReview, Event, Recorded, ReviewCommitted, ReviewPushed
from drawbridge.server.protocol import commands, messages
from drawbridge.server.protocol.answers import Answer
from drawbridge.server.protocol.client_errors import no_project
from drawbridge.server.protocol.frames import Subscriber
from drawbridge.server.protocol.replies import CommitOffer, PushOffer
from drawbridge.server.reviews.committing import (
    BadBranch,
    Blocked,
    NothingToCommit,
    Refused,
    author_of,
    unlock_unmoved,
)
from drawbridge.server.reviews.intents import Attempt, CommitIntent
from drawbridge.server.reviews.messages import (
    LISTED_FILES,
    commit_offer,
    not_committed,
    not_pushed,
    push_offer,
    shown_output,
)
from drawbridge.server.reviews.pushing import CannotPush, NotPushed, push, target_of
from drawbridge.server.reviews.recovery import Completed, Recovery, origin
from drawbridge.server.reviews.reviews import Review
from drawbridge.server.store.texts import clean
from drawbridge.server.updates import answered

REMEMBERED_PUSHES: Final = 20


class Owner(Protocol):
    """The permissions to commit and to push that the server's owner gives clients."""

    @property
    def commits(self) -> bool: ...

    @property
    def pushes(self) -> bool: ...


class Store(Protocol):
    """The part of a session's store that is used here."""

    @property
    def closed(self) -> bool: ...

    @property
    def subject(self) -> str:
        """Returns the subject to propose for a commit message."""
        ...

    @property
    def last_seq(self) -> int: ...

    def check_there(self) -> None: ...

    def record(self, event: Recorded, sender: Subscriber | None = None) -> int | None: ...

    def announce(self, event: Event, sender: Subscriber | None = None) -> None: ...

    def audit(self, event: Audited) -> None: ...


class Offers(Struct, frozen=True):
    """The kept changes, and the offers to commit and to push. ``kept``: the paths of files with kept changes that the
    last commit does not contain. ``commit``, ``push``: as in ``replies.Review``."""

    kept: tuple[str, ...] = ()
    commit: CommitOffer | None = None
    push: PushOffer | None = None


class Publishing:
    """The commits and pushes of one review."""

    def __init__(
        self,
        review: Review,
        checkpoints: Checkpoints,
        stores: Mapping[str, Store],
        owner: Callable[[], Owner],
        recovery: Recovery,
    ) -> None:
        """``stores``: the stores of the sessions that share the review, by session id. ``owner``: returns what the
        owner allows now."""
        self._review = review
        self._operations = checkpoints.operations
        self._work_tree = checkpoints.work_tree
        self._stores = stores
        self._owner = owner
        self._recovery = recovery
        self._pushing = asyncio.Lock()
        self._pushes: dict[tuple[str, str, str], Answer[messages.ReviewPushed]] = {}
        """The replies to the latest pushes, by request. They are not needed after a restart, because git and the
        program for pull requests then report that the push was already done."""

    async def offers(self, git: Git, session: str) -> Offers:
        """The offers for clients of this session. Raises ``GitFailed``."""
        owner, commit, offered = self._owner(), None, None
        store = self._stores.get(session)
        kept = await self._review.kept(git, counted=owner.commits)
        if owner.commits and kept:
            author: str | Blocked
            try:
                author = await author_of(git)
            except Blocked as error:
                author = error
            commit = commit_offer(store.subject if store else "", author, kept)
        if owner.pushes:
            try:
                offered = push_offer(await target_of(git))
            except CannotPush as error:
                offered = push_offer(error)
        return Offers(tuple(kept), commit, offered)

    async def commit(
        self, command: commands.ReviewCommit, session: str, sender: Subscriber, check_at_rest: Callable[[], None]
    ) -> Answer[messages.ReviewCommitted]:
        """Commits what was kept, on the current branch or a new one, and records the commit in ``session``.
        ``check_at_rest`` raises ``ClientError`` during a run. The caller must not run two decisions or commits at the
        same time. Raises ``ClientError``, ``NoCheckpoint``, ``GitFailed`` or OSError without changing anything, except
        for what a hook itself has changed."""
        store = self._store(session)
        attempts: list[Attempt] = []

        async def begin(attempt: Attempt) -> None:
            attempts.append(attempt)
            about = origin(session, store.last_seq, sender)
            await self._recovery.begin(CommitIntent(**about, attempt=attempt))

        try:
            async with self._recovery.applying():
                try:
                    async with self._operations.exclusive() as git:
                        check_at_rest()
                        wanted = command.message, command.branch, command.files
                        done = await self._review.commit(git, self._work_tree, *wanted, begin)
                except (NothingToCommit, Blocked, BadBranch, Refused) as error:
                    await self._recovery.end()  # nothing was changed
                    raise not_committed(error) from None
                except asyncio.CancelledError:  # the server is shutting down
                    for attempt in attempts:
                        await asyncio.to_thread(unlock_unmoved, git.repository, attempt)
                    raise
                committed = ReviewCommitted(
                    commit=done.commit,
                    branch=done.branch,
                    files=done.files[:LISTED_FILES],
                    output=shown_output(done.output),
                    by=sender.name,
                    client_id=sender.id,
                    created=command.branch is not None,
                )
                if self._recovery.is_recorded_later(session):
                    return answered(committed, messages.ReviewCommitted, session)
                seq = self._record(committed, session, store, sender)
                store.audit(CommittedFromReview(sender.audited, committed.commit, committed.branch))
                await self._recovery.end()
        except Completed as completed:
            return answered(completed.record, messages.ReviewCommitted, session)
        return answered(committed, messages.ReviewCommitted, session, seq)

    async def push(
        self, command: commands.ReviewPush, session: str, sender: Subscriber
    ) -> Answer[messages.ReviewPushed]:
        """Pushes the current branch, creates a pull request if the command contains one, and records this in
        ``session``. A repeated request with the ``request_id`` of a recent push does not push again. Raises
        ``ClientError``, ``NoCheckpoint``, ``GitFailed`` or OSError."""
        wanted = command.pull_request
        key = (command.request_id or "", command.version, repr(wanted))
        async with self._pushing:
            if command.request_id is not None and key in self._pushes:
                return self._pushes[key]
            store = self._store(session)
            try:
                async with self._operations.concurrent() as git:
                    done = await push(git, command.version, (wanted.title, wanted.body) if wanted else None)
            except (CannotPush, NotPushed) as error:
                raise not_pushed(error) from None
            pushed = ReviewPushed(
                commit=done.target.commit,
                remote=clean(done.target.remote),
                branch=clean(done.target.branch),
                output=shown_output(done.output),
                by=sender.name,
                client_id=sender.id,
                pull_request=done.pull_request,
                problem=done.problem,
            )
            seq = self._record(pushed, session, store, sender)
            self._pushes[key] = answered(pushed, messages.ReviewPushed, session)
            while len(self._pushes) > REMEMBERED_PUSHES:
                del self._pushes[next(iter(self._pushes))]
        return answered(pushed, messages.ReviewPushed, session, seq)

    def _store(self, session: str) -> Store:
        store = self._stores.get(session)
        if store is None:  # a terminal session that was removed from the list
            raise no_project()
        store.check_there()
        return store

    def _record(
        self, event: ReviewCommitted | ReviewPushed, session: str, own: Store, sender: Subscriber
    ) -> int | None:
        """Records the event in one session. Clients of the other sessions that share the review receive it, too.
        ``own``: the store of the session, which may have been removed in the meantime, with its history."""
        seq = own.record(event, sender) if self._stores.get(session) is own else None
        for store in self._stores.values():
            if store is not own and not store.closed:
                store.announce(event)
        return seq
