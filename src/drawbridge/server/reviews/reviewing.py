"""The open review of a directory as clients see it: read, decided on, commented on, and published to the sessions in
that directory."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from drawbridge.core.errors import DrawbridgeError
from drawbridge.server.checkpoints.checkpoints import Checkpoints
from drawbridge.server.checkpoints.errors import Changed, GitFailed, NoCheckpoint, reason_of
from drawbridge.server.checkpoints.git.git import Git
from drawbridge.server.checkpoints.refs import When
from drawbridge.server.checkpoints.unsaved import UnsavedChanges, not_written_over
from drawbridge.server.events import DecidedOnReview, ReviewDecided, ReviewNumbers
from drawbridge.server.protocol.answers import Answer
from drawbridge.server.protocol.client_errors import ClientError, no_project
from drawbridge.server.protocol.frames import Subscriber
from drawbridge.server.protocol.replies import Review as ReviewReply
from drawbridge.server.reviews import publishing, recovery
from drawbridge.server.reviews.change_set import NotEditable
from drawbridge.server.reviews.commenting import Commenting, KeptComments
from drawbridge.server.reviews.decisions import DecisionResult, HunkGone, Plan, RequestedDecision, ReviewMoved, SameName
from drawbridge.server.reviews.intents import DecisionIntent
from drawbridge.server.reviews.located_comments import LocatedComments
from drawbridge.server.reviews.messages import ShownFile, counted, images_of, numbers, record_of, refused, reply
from drawbridge.server.reviews.open_review import OpenReview
from drawbridge.server.reviews.publishing import Offers, Owner, Publishing
from drawbridge.server.reviews.recorded_diff import RecordedDiff, recorded_diff
from drawbridge.server.reviews.recovery import Completed, Recovery, origin
from drawbridge.server.reviews.reviews import Review

logger = logging.getLogger("drawbridge.server")

NOTHING_TO_REVIEW: Final = OpenReview().version

UNREAD: Final = (
    "The decision was applied, but the review can't be read at the moment. See the server's log for the reason."
)


class Store(recovery.Store, publishing.Store, Protocol):
    """The part of a session's store that a review uses. The store itself is in the layer above."""

    @property
    def review(self) -> ReviewNumbers | None:
        """The numbers of undecided changes, for lists of sessions; None if they are not known."""
        ...

    def review_is(self, numbers: ReviewNumbers) -> None: ...


class Reviewing:
    """The review of one directory, for clients. ``stores``: the stores of the sessions that share the review, by
    session id. A managed session does not share its review."""

    def __init__(
        self,
        name: str,
        review: Review,
        checkpoints: Checkpoints,
        comments: KeptComments,
        stores: Mapping[str, Store],
        owner: Callable[[], Owner],
        folder: Path,
        check_at_rest: Callable[[], None],
        writing: Callable[[], AbstractAsyncContextManager[None]],
    ) -> None:
        """``name``: for the log. ``owner``: returns what the owner allows now. ``folder``: where the intent of a
        decision is stored. It exists before a decision is made. ``check_at_rest`` raises ``ClientError`` during a run,
        when changes can only be kept. ``writing``: as in ``Recovery``."""
        self._name = name
        self._review = review
        self._operations = checkpoints.operations
        self._work_tree = checkpoints.work_tree
        self._stores = stores
        self.commenting = Commenting(comments, review, checkpoints, stores)
        self.recovery = Recovery(
            folder / recovery.NAME, review, checkpoints, stores, self._publish_recovered, check_at_rest, writing
        )
        self.publishing = Publishing(review, checkpoints, stores, owner, self.recovery)
        self._check_at_rest = check_at_rest
        self._known_version = NOTHING_TO_REVIEW
        """The version of the review that was last published to clients."""
        self._shown: Mapping[str, ShownFile] = {}
        """The files of the latest reply, by path."""
        self._images: frozenset[str] = frozenset()
        """git's ids of the images that the latest reply names."""

    async def extend(self, git: Git, run_id: str, when: When, commit: str, *, stays_open: bool = False) -> bool:
        """Extends the review to a stored checkpoint of a run. ``stays_open``: as in ``Review.extend``. Returns whether
        that succeeded. A failure is only logged, because the checkpoint exists."""
        try:
            await self._review.extend(git, run_id, when, commit, stays_open=stays_open)
            if when == "after":
                self._publish(await self._review.stored(git))
        except (GitFailed, NoCheckpoint, OSError) as error:
            if when == "before":
                await self._review.miss(reason_of(error))
            else:
                self._review.end()
            logger.warning("%s: the review was not extended with run %s: %s", self._name, run_id, error)
            return False
        return True

    async def end(self, *, outlasted: bool = False) -> None:
        """Ends the latest run in the review, if the review has stayed open, after the files were read for the last
        time. ``outlasted``: whether something in the background is still running."""
        self._review.end()
        if outlasted:
            await self._review.set_outlasted()
        await self.refresh()

    async def refresh(self) -> None:
        """Updates the review after files were changed by something other than a run. A failure is logged."""
        try:
            await self.recovery.run_at_rest()
            # No client waits for this, but the next run may have to wait until it is done.
            async with self._operations.exclusive(awaited=True) as git:
                review = await self._review.current(git, self._work_tree)
        except NoCheckpoint as error:  # for example because no checkpoints are taken on this server
            logger.info("%s: the review was not updated: %s", self._name, error)
        except (ClientError, DrawbridgeError, GitFailed, OSError) as error:
            logger.warning("%s: the review was not updated: %s", self._name, error)
        else:
            self._publish(review)

    def publish_gone(self) -> None:
        """Publishes that there are no undecided changes left, because the directory no longer exists or is no longer
        allowed. Once the directory is available again, so is the review."""
        self._publish(OpenReview(), is_gone=True)

    def _publish(self, review: OpenReview, *, is_gone: bool = False) -> None:
        """Publishes the numbers of undecided changes, or what may be missing, if that has changed without a decision. If
        nothing is left, that is recorded, unless the directory no longer exists.
        """
        known = (None, counted(review))
        if review.version == self._known_version and all(store.review in known for store in self._stores.values()):
            return
        self._known_version = review.version
        for store in self._stores.values():
            if store.closed:  # the session was deleted, or the server is shutting down
                continue
            is_over = not review.files and store.review not in known
            store.review_is(counted(review))
            if is_over and not is_gone:
                store.record(ReviewDecided(files=0, hunks=0, left=0))
            store.announce(numbers(review))

    async def get(self, session: str) -> Answer[ReviewReply]:
        """The open review of the files as they are now. Raises the same errors as ``Recovery.run``."""
        await self.recovery.run_at_rest()
        async with self._operations.exclusive() as git:
            review = await self._review.current(git, self._work_tree)
            located = await self.commenting.located(git, review)
            offers = await self.publishing.offers(git, session)
        self._publish(review)
        return await self._reply(session, review, located, offers)

    async def _reply(
        self, session: str, review: OpenReview, located: LocatedComments, offers: Offers
    ) -> Answer[ReviewReply]:
        drafts, handover = self.commenting.drafts_version, self.commenting.handover
        found = (offers.kept, offers.commit, offers.push)
        data, self._shown = await asyncio.to_thread(
            reply, session, review, located, drafts, *found, handover, self._shown
        )
        self._images = images_of(data)
        return Answer(type="review", project_id=session, data=data)

    async def image(self, blob: str, largest: int) -> bytes:
        """The content of an image that the review shows. ``blob``: git's id of the content; ``largest``: the maximum
        size, in bytes. Raises ``ClientError``, ``NoCheckpoint``, ``GitFailed`` or OSError."""
        # git can return any file of the repository, but clients may only get what is in the review.
        if blob not in self._images:
            text = "The image is not part of the review that was last read. Read the review again."
            raise ClientError("BLOB_NOT_FOUND", text, field="data.blob_id")
        async with self._operations.exclusive() as git:
            size = int(await git.read("cat-file", "-s", blob))
            if size > largest:
                text = f"The image can't be shown: it is {size:,} bytes; the limit is {largest:,}."
                details = {"size": size, "limit": largest}
                raise ClientError("FILE_TOO_LARGE", text, field="data.blob_id", details=details)
            return (await git.read("cat-file", "blob", blob)).encode(errors="surrogateescape")

    async def decide(self, wanted: RequestedDecision, session: str, sender: Subscriber) -> Answer[ReviewReply]:
        """Applies a decision to a part of the review. The decision is recorded in ``session``, and published like every
        event. The caller must not run two decisions or commits at the same time. Raises ``ClientError``,
        ``NoCheckpoint``, ``GitFailed`` or OSError."""
        own = self._stores.get(session)
        if own is None:  # a terminal session that was removed from the list
            raise no_project()
        own.check_there()
        try:
            async with self.recovery.applying():
                return await self._apply(wanted, session, own, sender)
        except (HunkGone, SameName, ReviewMoved, NotEditable, Changed) as error:
            raise refused(error) from None
        except UnsavedChanges as error:
            raise not_written_over(error) from None
        except Completed:
            with self._decided():
                return await self.get(session)

    async def _apply(
        self, wanted: RequestedDecision, session: str, own: Store, sender: Subscriber
    ) -> Answer[ReviewReply]:
        try:
            async with self._operations.exclusive() as git:
                begin = partial(self._begin, wanted, session, own, sender)
                outcome = await self._review.decide(git, self._work_tree, wanted, begin, self._check_at_rest)
                diff = await recorded_diff(git, outcome.plan.heads) if outcome.plan else RecordedDiff()
                if not self.recovery.is_recorded_later(session):
                    self._publish_decision(wanted, outcome, diff, session, own, sender)  # even if the reply fails
                    await self.recovery.end()
                with self._decided():
                    located = await self.commenting.located(git, outcome.review)
                    offers = await self.publishing.offers(git, session)
        except (Changed, UnsavedChanges):
            await self.recovery.end()  # nothing was changed
            raise
        return await self._reply(session, outcome.review, located, offers)

    @contextlib.contextmanager
    def _decided(self) -> Iterator[None]:
        """Raises ``ClientError`` in place of an error in the context, because a decision was already applied."""
        try:
            yield
        except (NoCheckpoint, GitFailed, OSError) as error:
            logger.error("%s: the review was not read after a decision: %s", self._name, error)
            raise ClientError("CHECKPOINT_NOT_FOUND", UNREAD) from None

    async def _begin(self, wanted: RequestedDecision, session: str, own: Store, sender: Subscriber, plan: Plan) -> None:
        """Stores the intent of a decision."""
        if plan.hunks:
            intent = DecisionIntent(
                **origin(session, own.last_seq, sender),
                decision=wanted.decision,
                files=plan.files,
                hunks=plan.hunks,
                bases=plan.bases,
                heads=plan.heads,
                paths=plan.paths,
            )
            await self.recovery.begin(intent)

    def _publish_decision(
        self,
        wanted: RequestedDecision,
        outcome: DecisionResult,
        diff: RecordedDiff,
        session: str,
        own: Store,
        sender: Subscriber,
    ) -> None:
        """Records a decision in the session in which it was made, and publishes the numbers of undecided changes.
        ``own``: the store of this session, which may have been removed in the meantime."""
        review = outcome.review
        if outcome.plan is None or not outcome.plan.hunks:  # the request was repeated
            self._publish(review)
            return
        self._known_version = review.version
        for store in self._stores.values():
            store.review_is(counted(review))
        if self._stores.get(session) is own:  # otherwise, its history has been removed, too
            # The sender gets it, too, because the reply is not the record.
            own.record(record_of(wanted, outcome.plan, review, diff, sender))
        own.audit(DecidedOnReview(sender.audited, wanted.decision, outcome.plan.hunks, outcome.plan.files))
        for store in self._stores.values():
            store.announce(numbers(review, sender), sender if store is own else None)

    def _publish_recovered(self, review: OpenReview) -> None:
        """Publishes the numbers of undecided changes after an interrupted decision was recovered."""
        self._known_version = review.version
        for store in self._stores.values():
            if not store.closed:
                store.review_is(counted(review))
                store.announce(numbers(review))

    async def located(self, drafts: str) -> LocatedComments:
        """The comments at their current lines. ``drafts``: the version of the drafts that will be sent. Raises
        ``ClientError``, ``NoCheckpoint``, ``GitFailed`` or OSError."""
        self.commenting.check_seen(drafts)
        await self.recovery.run_at_rest()
        async with self._operations.exclusive() as git:
            review = await self._review.current(git, self._work_tree)
            return await self.commenting.located(git, review)
