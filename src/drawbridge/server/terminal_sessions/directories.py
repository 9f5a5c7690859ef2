"""The directories in which agents run in terminals: checkpoints before and after runs, and one open review per
directory.

All sessions in a directory share its review. What changes while any of their runs is active is attributed to an agent.
As long as a session in the directory is listed, ``<data>/directories/<id>`` contains the directory's path, the comments
on its review, the index of its last checkpoint, and its private repository if it has one.

The hook of a prompt only triggers the checkpoint and does not wait for it. The hook of the first tool that may write
waits until git has the state of the files (``ready``), so that the checkpoint before the run does not contain edits by
the agent.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Final

from drawbridge.agents.memory import MemoryWatch
from drawbridge.core.errors import DrawbridgeError
from drawbridge.core.private_files import make_private_directory, write_private
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.server.checkpoints.checkpoints import Checkpoints
from drawbridge.server.checkpoints.errors import GitFailed, NoCheckpoint, reason_of
from drawbridge.server.checkpoints.git.git import Git
from drawbridge.server.checkpoints.refs import When
from drawbridge.server.checkpoints.unsaved import FindUnsaved
from drawbridge.server.events import Submission
from drawbridge.server.protocol import commands, messages
from drawbridge.server.protocol.answers import Answer
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.frames import Subscriber
from drawbridge.server.protocol.replies import Review as ReviewReply
from drawbridge.server.reviews.decisions import RequestedDecision
from drawbridge.server.reviews.located_comments import LocatedComments
from drawbridge.server.reviews.reviewing import Reviewing
from drawbridge.server.reviews.reviews import Review
from drawbridge.server.reviews.writing import Writing
from drawbridge.server.sessions.directories.allowed_directories import SILENT
from drawbridge.server.sessions.options.grants import Grants
from drawbridge.server.sessions.options.limits import Limits
from drawbridge.server.sessions.session import Sessions, SessionStore, working_here
from drawbridge.server.terminal_sessions.shared_comments import NAME as COMMENTS
from drawbridge.server.terminal_sessions.shared_comments import SharedComments

logger = logging.getLogger("drawbridge.server")

READY_SECONDS: Final = 5.0
"""The maximum number of seconds that a tool's hook waits for the checkpoint before the run. After that, or after a git
error, the agent continues without it."""

LATE: Final = f"git took longer than {READY_SECONDS:g} s."
"""The reason why the checkpoint before a run is missing, for the user."""

CLOSE_SECONDS: Final = 3.0
"""The maximum number of seconds that the shutdown waits for checkpoints in progress. The review of a run begins with
the checkpoint before the run, which can't be taken later because the agent continues in the meantime."""

PATH: Final = "path"
"""The name of the file that contains the directory's path."""


class ReviewedDirectory:
    """One directory, ``path``. ``folder`` contains the server's files for it.

    A session has at most one run at a time. The active runs are set immediately, and a task takes the checkpoints that
    are due. A run that has ended before the task gets to it, such as one that is read from an old transcript, gets no
    checkpoint.
    """

    def __init__(
        self,
        path: Path,
        folder: Path,
        grants: Grants,
        limits: Limits,
        memory: MemoryWatch,
        find_unsaved: FindUnsaved,
        works_here: Callable[[], bool],
        writing: Writing,
        removing: asyncio.Task[None] | None = None,
    ) -> None:
        """``works_here`` returns whether any agent is working in the directory or inside it. ``writing``: that of all
        sessions. ``removing``: the task that
        removes what was in ``folder`` before, if any."""
        self.path = path
        self._removing = removing
        self.folder = folder
        self._grants = grants
        self._limits = limits
        self._works_here = works_here
        self._writing = writing
        self._review = Review(folder.name, folder)
        kept = folder if limits.checkpoints else None
        self.checkpoints = Checkpoints(
            path,
            folder.name,
            limits.confinement,
            memory,
            kept,
            self._extend_review,
            self._review.miss,
            self._active,
            find_unsaved=find_unsaved,
            largest=limits.largest,
        )
        self._stores: dict[str, SessionStore] = {}
        """The stores of the sessions in the directory, by session id."""
        self._runs: dict[str, str] = {}
        """The active run of each session that has one, by session id."""
        self._expected: dict[str, str] = {}
        """The runs, by session id, that a hook reported and the session has not processed yet."""
        self._begun: dict[str, bool] = {}
        """The runs for which a checkpoint was begun. The value is False if it was not taken. The run then gets a
        checkpoint at its end if the reason is an error, or if the review contains the beginning of another run."""
        self._is_extended = False
        """Whether the review contains the beginning of a run, and no end of a run after it."""
        self._elsewhere: str | None = None
        """Where the latest run works, as in ``Gaps.elsewhere``, until that is stored; otherwise None."""
        self._ready = asyncio.Event()
        """Set while each active run has its checkpoint, or while hooks don't have to wait for it."""
        self._ready.set()
        self._is_working = False
        self._deciding = asyncio.Lock()
        """Held while a decision is applied, or kept changes are committed."""
        self.comments = SharedComments(folder / COMMENTS, self._stores)
        self._reviewing = Reviewing(
            str(path),
            self._review,
            self.checkpoints,
            self.comments,
            self._stores,
            lambda: grants.ceilings,
            folder,
            self._check_at_rest,
            lambda: writing.at(path),
        )
        self.recovery = self._reviewing.recovery
        self._sending: asyncio.Future[str] | None = None
        """The last submission of comments. It is done once the agent has started on it, or the submission has
        failed."""
        self._unusable: str | None = None
        """The reason why the directory can't be used, when it was last examined; None if it can."""
        self._problem = ""
        """The reason why the last checkpoint could not be taken; empty if it was taken. The same reason is logged only
        once in succession."""
        self._tasks = BackgroundTasks(logger)

    # The sessions in the directory.

    @property
    def is_used(self) -> bool:
        return bool(self._stores)

    def needs(self, session: str) -> bool:
        """Whether changes that nobody has decided on, or comments that no agent has received, would be deleted with this
        session."""
        if self._stores.keys() != {session}:
            return False
        review = self._stores[session].review
        try:
            is_unsent = any(one.comment.state in ("draft", "waiting") for one in self.comments.known.values())
        except (DrawbridgeError, OSError):  # it is not known whether anything would be deleted
            is_unsent = True
        return is_unsent or (review is not None and review.files > 0)

    def join(self, session: str, store: SessionStore) -> None:
        for other in self._stores.values():
            store.shares_review(other)
        self._stores[session] = store

    def leave(self, session: str) -> None:
        """Removes a session from the directory, because it is removed from the list. Comments that its agent may still
        receive become drafts again."""
        left = self.comments.left
        self._stores.pop(session, None)
        if left is not None and left.session == session and left.is_open:
            with contextlib.suppress(DrawbridgeError, OSError):
                self.comments.withdraw("")
        self._expected.pop(session, None)
        self.set_run(session, None)

    # Their runs.

    @property
    def busy(self) -> bool:
        """Whether a run is active, or a hook has reported the beginning of one."""
        return bool(self._runs or self._expected)

    def has_run(self, session: str) -> bool:
        return session in self._runs

    def expect(self, session: str, run: str) -> None:
        """Starts the checkpoint before ``run``, because a hook reported its beginning."""
        self._expected[session] = run
        self._update()

    def expect_nothing(self, session: str) -> None:
        """Forgets the expected run, because the hook's report has been processed."""
        if self._expected.pop(session, None):
            self._update()

    def set_run(self, session: str, run: str | None) -> None:
        """Sets the active run of a session; ``run`` is None if the session has none."""
        if run is None:
            self._runs.pop(session, None)
        else:
            self._runs[session] = run
        self._update()

    def set_elsewhere(self, elsewhere: str) -> None:
        """Sets where the latest run works, as in ``Gaps.elsewhere``."""
        self._elsewhere = elsewhere
        self._update()

    def continue_run(self, session: str, run: str) -> None:
        """Restores a run that began before the server was restarted, and is still active."""
        self._runs[session] = run
        self._begun[run] = self._is_extended = True
        self._review.continues()

    @property
    def is_ready(self) -> bool:
        """Whether a tool that may write does not need to wait for a checkpoint."""
        return self._ready.is_set()

    async def ready(self) -> None:
        """Returns when each active run has its checkpoint, or can't get one, or after ``READY_SECONDS``. After such a
        timeout, calls do not wait again until another run begins."""
        try:
            async with asyncio.timeout(READY_SECONDS):
                await self._ready.wait()
        except TimeoutError:
            text = "%s: the checkpoint before the run was late, so it may contain the agent's first edit"
            logger.warning(text, self.path)
            self._ready.set()
            await self._review.miss(LATE)

    def _active(self) -> list[str]:
        return list(dict.fromkeys([*self._runs.values(), *self._expected.values()]))

    def _update(self) -> None:
        if not self._limits.checkpoints:
            return
        active = self._active()
        if not all(run in self._begun for run in active):
            self._ready.clear()
        elif all(run in active for run in self._begun) and self._elsewhere is None:
            return
        if not self._is_working:
            self._is_working = True
            self._tasks.start(self._follow(), f"{self.path}: taking checkpoints", lambda _: self._stopped())

    def _stopped(self) -> None:
        """Releases everything that waits for a checkpoint, even after an unexpected error."""
        self._is_working = False
        self._ready.set()

    async def _follow(self) -> None:
        """Takes the checkpoints that are due."""
        while True:
            active = self._active()
            ended = next((run for run in self._begun if run not in active), None)
            new = next((run for run in active if run not in self._begun), None)
            if self._elsewhere is not None and (ended is not None or new is None):
                await self._store_elsewhere()
            elif ended is not None:
                if self._begun.pop(ended) or self._is_extended or self._review.has_missed:
                    is_taken = await self._checkpoint(ended, "after")
                    if not (is_taken or self.busy):
                        self._review.end()
            elif new is not None:
                self._begun[new] = True
                self._begun[new] = await self._checkpoint(new, "before")
            else:
                return self._stopped()

    async def _store_elsewhere(self) -> None:
        """Stores where the latest run works, before the checkpoint after it is taken and the review is published."""
        elsewhere, self._elsewhere = self._elsewhere, None
        if elsewhere is None or await self._grants.directories.examine(self.path) is not None:
            return
        try:
            await self._prepare()
            await self._review.set_elsewhere(elsewhere)
        except (DrawbridgeError, OSError) as error:
            logger.warning("%s: it was not stored where the agent works: %s", self.path, error)

    async def _checkpoint(self, run: str, when: When) -> bool:
        """Takes a checkpoint. Returns whether it was taken. A failure is logged."""
        reason = problem = await self._grants.directories.examine(self.path)
        try:
            if problem is None:
                await self._prepare()
                if when == "before":
                    await self._writing.settled(self.path)
                snapshotter = self.checkpoints.snapshotter
                if when == "after":
                    return await snapshotter.create(run, when)
                created = await snapshotter.begin(run)
                self._problem = ""
                return created
        except (GitFailed, NoCheckpoint, DrawbridgeError, OSError) as error:
            problem, reason = str(error), reason_of(error)
        if reason is not None and when == "before":
            await self._review.miss(reason)
        if problem != self._problem:
            self._problem = problem
            logger.warning("%s: the checkpoint %s run %s was not taken: %s", self.path, when, run, problem)
        return False

    async def _prepare(self) -> None:
        """Creates the folder and loads the comments. Raises ``NotPrivate`` or OSError."""
        if self._removing is not None:
            await asyncio.wait([self._removing])
        await asyncio.to_thread(self._make_folder)
        await asyncio.to_thread(self.comments.load)

    def _make_folder(self) -> None:
        """Creates the folder, with the path of the directory in it. Blocking. Raises ``NotPrivate`` or OSError."""
        if not (self.folder / PATH).exists():
            make_private_directory(str(self.folder))
            write_private(str(self.folder / PATH), str(self.path).encode(errors="surrogateescape"))

    # The review.

    async def _extend_review(self, git: Git, run_id: str, when: When, commit: str) -> None:
        """Extends the review to a stored checkpoint, unless the checkpoint was taken after a run while another run is
        active, because changes after that point are still an agent's work."""
        if when == "after" and self.busy:
            return
        if await self._reviewing.extend(git, run_id, when, commit):
            self._is_extended = when == "before"

    async def review(self, session: str) -> Answer[ReviewReply]:
        """The open review of the files as they are now. Raises ``NotPrivate``, ``NoCheckpoint``, ``GitFailed`` or
        OSError."""
        await self._prepare()
        return await self._reviewing.get(session)

    def review_is_gone(self) -> None:
        """Like ``Session.review_is_gone``, for all sessions in the directory."""
        self._reviewing.publish_gone()

    def directory_examined(self, problem: str | None) -> None:
        """Like ``Session.directory_examined``, for all sessions in the directory. ``problem``: the reason why it can't be
        used; None if it can."""
        before, self._unusable = self._unusable, problem
        if problem is None and before is not None:
            self._tasks.start(self.refresh(), f"{self.path}: updating the review of a usable directory")
        elif problem not in (None, SILENT, before):
            self.review_is_gone()

    async def refresh(self) -> None:
        """See ``Session.refresh_review``."""
        await self._reviewing.refresh()

    async def image(self, blob: str, largest: int) -> bytes:
        """A version of an image that the review shows. Raises the same errors as ``Reviewing.image``."""
        return await self._reviewing.image(blob, largest)

    async def decide(self, wanted: RequestedDecision, sender: Subscriber, session: str) -> Answer[ReviewReply]:
        """Applies a decision to the review or a part of it, and records it in ``session``. During a run, changes can
        only be kept. Raises ``ClientError``, ``NotPrivate``, ``NoCheckpoint``, ``GitFailed`` or OSError."""
        async with self._deciding:
            await self._prepare()
            return await self._reviewing.decide(wanted, session, sender)

    async def commit(
        self, command: commands.ReviewCommit, sender: Subscriber, session: str
    ) -> Answer[messages.ReviewCommitted]:
        """See ``Session.commit_review``. The commit is recorded in ``session``."""
        self._check_at_rest()
        async with self._deciding:
            await self._prepare()
            return await self._reviewing.publishing.commit(command, session, sender, self._check_at_rest)

    async def push(
        self, command: commands.ReviewPush, sender: Subscriber, session: str
    ) -> Answer[messages.ReviewPushed]:
        """See ``Session.push_review``. The push is recorded in ``session``."""
        return await self._reviewing.publishing.push(command, session, sender)

    def _check_at_rest(self) -> None:
        if self.busy or self._works_here():
            raise working_here()

    # The comments on the review.

    async def comment(
        self, command: commands.ReviewComment, sender: Subscriber, session: str
    ) -> Answer[messages.ReviewCommented]:
        """See ``Session.comment``. Waits while comments are on their way to an agent, because they can't be changed
        then."""
        await self._prepare()
        await self.sent()
        return await self._reviewing.commenting.comment(command, session, sender)

    async def sent(self) -> None:
        """Returns when no comments are on their way to an agent."""
        while self._sending is not None and not self._sending.done():
            await asyncio.wait([self._sending])

    async def located(self, drafts: str) -> LocatedComments:
        """See ``Reviewing.located``."""
        await self._prepare()
        return await self._reviewing.located(drafts)

    def submission(self, located: LocatedComments, drafts: str, text: str) -> tuple[str, Submission]:
        """See ``Commenting.submission``."""
        return self._reviewing.commenting.submission(located, drafts, text)

    def sends(self, sending: asyncio.Future[str]) -> None:
        """Sets the submission of the comments that is in progress. ``sending`` is done once the agent has started on
        it, or sending it has failed."""
        self._sending = sending

    async def withdraw_comments(self, sender: Subscriber, session: str) -> Answer[ReviewReply]:
        """Turns the comments that wait for an agent back into drafts. Raises ``ClientError``, ``NotPrivate``,
        ``NoCheckpoint``, ``GitFailed`` or OSError."""
        await self._prepare()
        left = self.comments.left
        if left is None or not left.is_open:
            raise ClientError("COMMENT_GONE", "No comments are waiting for the agent.")
        if left.state == "given":
            raise ClientError("COMMENT_GONE", "The comments are already on their way to the agent.")
        self.comments.withdraw(sender.name)
        return await self._reviewing.get(session)

    def submitted(self, review: Submission, run: str, by: str) -> None:
        """Marks these comments as sent, because an agent started on a prompt with them."""
        self.comments.send(review, run, by)

    # Closing and removing.

    async def close(self) -> None:
        """Waits up to ``CLOSE_SECONDS`` for checkpoints in progress, then stops the work, except for a decision or a
        commit in progress, which is completed."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._tasks.wait()
                await self.checkpoints.snapshotter.stored()
        await self._tasks.close()
        await self.checkpoints.close()
        async with self._deciding:
            pass

    async def remove(self) -> None:
        """Closes the directory, and removes its checkpoints and its review. A failure is logged, because the repository
        may be gone.
        """
        await self.close()
        if self._removing is not None:
            await asyncio.wait([self._removing])
        if not await asyncio.to_thread(self.folder.exists):
            return
        try:
            if await self._grants.directories.examine(self.path) is None:
                await self.checkpoints.remove()
        except (GitFailed, NoCheckpoint, OSError) as error:
            logger.warning("could not remove the checkpoints in %s: %s", self.path, error)
        await asyncio.to_thread(shutil.rmtree, self.folder, ignore_errors=True)


class Directories:
    """The directories of all terminal sessions."""

    def __init__(
        self,
        data: Path,
        grants: Grants,
        limits: Limits,
        memory: MemoryWatch,
        find_unsaved: FindUnsaved,
        sessions: Sessions,
    ) -> None:
        """``sessions``: all sessions of the server."""
        self._folder = data / "directories"
        self._grants = grants
        self._limits = limits
        self._memory = memory
        self._find_unsaved = find_unsaved
        self._sessions = sessions
        self._directories: dict[Path, ReviewedDirectory] = {}
        self._removals = BackgroundTasks(logger)
        self._removing: dict[str, asyncio.Task[None]] = {}
        """The latest removal of a folder's contents, by the folder's name."""

    def of(self, path: Path) -> ReviewedDirectory:
        """The directory that ``path`` resolves to. A session has to join the directory before anything else is done
        with it."""
        path = self._grants.directories.leads_to(path)
        found = self._directories.get(path)
        if found is None:
            folder = self._folder / _id(path)
            removing = self._removing.get(folder.name)
            found = self._directories[path] = self._reviewed(path, folder, removing)
        return found

    def _reviewed(self, path: Path, folder: Path, removing: asyncio.Task[None] | None = None) -> ReviewedDirectory:
        return ReviewedDirectory(
            path,
            folder,
            self._grants,
            self._limits,
            self._memory,
            self._find_unsaved,
            lambda: self._sessions.are_working(path, self._grants.directories.leads_to),
            self._sessions.writing,
            removing,
        )

    def leave(self, directory: ReviewedDirectory, session: str) -> None:
        """Removes a session from its directory. With its last session, the directory's checkpoints and review are
        removed, too."""
        directory.leave(session)
        if not directory.is_used and self._directories.get(directory.path) is directory:
            del self._directories[directory.path]
            self._remove(directory)

    def _remove(self, directory: ReviewedDirectory) -> None:
        what = f"{directory.path}: removing its checkpoints"
        self._removing[directory.folder.name] = self._removals.start(directory.remove(), what)

    def remove_unused(self) -> None:
        """Removes the checkpoints and reviews of directories without a session. Blocks while it lists them, and removes
        the checkpoints in the background."""
        make_private_directory(str(self._folder))
        used = {directory.folder.name for directory in self._directories.values()}
        for folder in sorted(self._folder.iterdir()):
            if folder.name in used:
                continue
            try:
                path = Path((folder / PATH).read_bytes().decode(errors="surrogateescape"))
            except OSError:
                shutil.rmtree(folder, ignore_errors=True)
            else:
                self._remove(self._reviewed(path, folder))

    async def close(self) -> None:
        """Closes all directories, because the server is shutting down."""
        await self._removals.wait()
        await asyncio.gather(*(directory.close() for directory in self._directories.values()))


def _id(path: Path) -> str:
    return f"dir_{blake2b(str(path).encode(errors='surrogateescape'), digest_size=8).hexdigest()}"
