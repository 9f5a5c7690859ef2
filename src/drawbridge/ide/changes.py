"""Reviews in the editor: shows what runs changed in a directory, keeps the view up to date, and passes on
decisions and comments.

The server stores the review and carries out the decisions. The bridge converts the review for the editor. Where no
server has a review, the bridge shows the proposals that were accepted in its editor (``accepted_review``). Only one
request is pending at a time, so that an older answer never replaces a newer one.
"""

from __future__ import annotations

import asyncio
import logging
import os
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from drawbridge.core.errors import DrawbridgeError
from drawbridge.core.review_memory import ReviewMemory, review_key
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.core.terminal_text import harmless
from drawbridge.editors.port import (
    Editor,
    Review,
    ReviewCommented,
    ReviewCommentRemoved,
    ReviewCommentResolved,
    ReviewDecided,
    ReviewedComment,
    ReviewedFile,
    ReviewedHunk,
    ReviewEvent,
    ReviewOutdated,
    ReviewSeen,
    ReviewSubmitted,
    ReviewWanted,
)
from drawbridge.ide.accepted_files import AcceptedFiles
from drawbridge.ide.accepted_review import AcceptedReview
from drawbridge.ide.server_link import NoServer, ReviewRefused, ServerLink
from drawbridge.ide.visiting import Visiting
from drawbridge.protocols import local_ipc as wire
from drawbridge.text import review_words
from drawbridge.text.counts import counted
from drawbridge.text.review_words import File, Hunk

LONGEST_LINE: Final = 80
"""The maximum number of characters of a changed line in the list of changes."""

NOT_A_FILE: Final = ("120000", "160000")
"""git's modes of symbolic links and submodules. A buffer with such a path shows the link's target or a directory, not
the lines of the hunks."""

PRIVATE: Final = "Without git, reviews omit dependencies, caches and large files."
"""A notice about the review of a directory that is not in a git work tree. It fits on the last line of an editor."""

NO_SESSION: Final = "PROJECT_NOT_FOUND"
"""The server's error code for a directory in which it has no session."""

ACCEPTED: Final = "{numbers} to review, from proposals accepted here."
"""A notice about a review without a server. It fits on the last line of an editor."""

COPIED: Final = "The prompt was copied to {where}."
"""A notice about comments that could not be passed to the agent. It fits on the last line of an editor."""

VISITS_NEED_A_SERVER: Final = "To show only new changes, start the agent server: drawbridge serve"
VISITS_NEED_A_SESSION: Final = "Can't show only new changes: the server has no session here."
COMMENTS_NEED_A_SERVER: Final = "Can't comment: no server is running. Run: drawbridge serve"
COMMENTS_NEED_A_SESSION: Final = "Can't comment: the server has no session here."

CommentEvent: TypeAlias = ReviewCommented | ReviewCommentRemoved | ReviewCommentResolved

logger = logging.getLogger("drawbridge.changes")


class Changes:
    def __init__(self, editor: Editor, link: ServerLink, memory: ReviewMemory, accepted: AcceptedFiles) -> None:
        self._editor = editor
        self._link = link
        self._memory = memory
        self._accepted = accepted
        self._accepted_review = AcceptedReview(editor, accepted)
        self._tasks = BackgroundTasks(logger)
        self._turn = asyncio.Lock()
        self._project = ""
        """The id of the project or terminal session that the shown review belongs to; empty if no review of a server is
        shown."""
        self._without_server: ReviewWanted | None = None
        """The user's request, while the review of accepted proposals is shown."""
        self._shown: Review | None = None
        """The review that is shown, without marks and including the changes that the editor hides."""
        self._visiting: Visiting | None = None
        self._is_stale = False
        self._deciders = set[str]()
        """The names of the users who have made decisions since the review was read; contains "" if the review has
        changed in another way."""
        link.watch(self._changed)
        accepted.watch(self._accepted_changed)

    async def close(self) -> None:
        await self._tasks.close()

    def on_event(self, event: ReviewEvent) -> None:
        match event:
            case ReviewWanted():
                self._start(lambda: self._wanted(event), "showing a review")
            case ReviewOutdated():
                self._reload()
            case ReviewSeen():
                self._start(lambda: self._saw(event), "storing what was seen")
            case ReviewDecided():
                self._start(lambda: self._decided(event), "deciding on a review")
            case ReviewCommented() | ReviewCommentRemoved() | ReviewCommentResolved():
                self._start(lambda: self._commented(event), "commenting on a review")
            case ReviewSubmitted():
                self._start(lambda: self._submitted(event), "sending comments")

    def _changed(self, change: wire.ReviewChanged | None) -> None:
        if change is not None and change.directory:  # by a decision, a revert or a run
            directory = change.directory
            self._start(lambda: self._editor.reload(directory), "reloading files of a review that has changed")
        if change is not None and change.project == self._project:
            self._deciders.add(change.by)
        if change is None or change.project == self._project:
            self._reload()

    def _accepted_changed(self) -> None:
        if self._without_server is not None:
            self._reload()

    def _reload(self) -> None:
        """Reads the review again. Several calls in a row cause only one request, after the one that is in progress."""
        if (self._project or self._without_server) and not self._is_stale:
            self._is_stale = True
            self._start(self._follow, "updating a review")

    def _start(self, work: Callable[[], Awaitable[None]], what: str) -> None:
        async def in_turn() -> None:
            async with self._turn:
                try:
                    await work()
                except ReviewRefused as error:
                    await self._editor.notify(harmless(str(error)), "warn")
                except DrawbridgeError as error:
                    logger.info("%s: %s", what, error)
                    await self._editor.notify(str(error), "warn")

        problem = f"{what.capitalize()} failed. The log of the bridge has the reason."
        self._tasks.start(in_turn(), what, lambda _: self._failed(problem))

    def _failed(self, problem: str) -> None:
        self._tasks.start(self._editor.notify(problem, "warn"), "notifying the user")

    async def _wanted(self, event: ReviewWanted) -> None:
        try:
            answer = await self._link.review(folder=event.folder, path=event.path)
        except DrawbridgeError as error:
            if not (_is_without_review(error) and await self._wanted_accepted(event)):
                await self._show(None)
                raise
        else:
            await self._show_served(answer, event, is_wanted=True)

    async def _wanted_accepted(self, event: ReviewWanted) -> bool:
        """Shows the review of accepted proposals. Returns False if nothing is left in it."""
        review, _ = read(await self._accepted_review.read(event.folder))
        if not review.files:
            return False
        self._project, self._visiting, self._without_server = "", None, event
        await self._show(review, is_wanted=True)
        needed = VISITS_NEED_A_SESSION if self._link.is_connected else VISITS_NEED_A_SERVER
        more = needed if event.only_new else ""
        await self._editor.notify(" ".join(filter(None, (ACCEPTED.format(numbers=review.title), more))))
        return True

    async def _show_served(self, answer: wire.ReviewAnswer, event: ReviewWanted, *, is_wanted: bool) -> None:
        review, more = read(answer)
        if self._visiting is not None and self._is_of_later_run(answer.project, review):
            await self._visiting.begin()  # before the event about the run has been handled
        await self._visit(answer.directory, answer.project, only_new=event.only_new)
        if answer.project != self._project:
            self._shown = None
        self._project, self._deciders, self._without_server = answer.project, set(), None
        await self._show(review, is_wanted=is_wanted)
        await self._show_notice(answer)
        await self._editor.notify(" ".join(filter(None, (self._summary(review, event), more))))
        if review.files and _is_private(answer) and await asyncio.to_thread(self._memory.saw_notice, answer.directory):
            await self._editor.notify(PRIVATE)

    async def _show_notice(self, answer: wire.ReviewAnswer) -> None:
        if answer.notice:
            await self._editor.notify(harmless(answer.notice), "warn")

    async def _visit(self, directory: str, session: str, *, only_new: bool) -> None:
        """Begins a visit to the review of the session in the directory, unless the user is only hiding the other
        changes or showing them again."""
        if self._visiting is None or self._visiting.key != review_key(directory, session):
            self._visiting = Visiting(self._memory, directory, session)
            await self._visiting.begin()
        elif not only_new and not self._hides_others:
            await self._visiting.begin()
        self._visiting.show_only_new(only_new)

    def _is_of_later_run(self, project: str, review: Review) -> bool:
        """Whether a run has probably ended since the review of this project was shown: it has more changes, and no user
        has decided on it."""
        if self._shown is None or project != self._project:
            return False
        return self._deciders <= {""} and not review.hunk_ids <= self._shown.hunk_ids

    @property
    def _hides_others(self) -> bool:
        """Whether only the changes since the last visit are shown."""
        return self._visiting is not None and self._shown is not None and self._visiting.hides_others(self._shown)

    async def _saw(self, event: ReviewSeen) -> None:
        if self._visiting is not None and self._shown is not None:
            await self._visiting.saw(event.hunks, self._shown)

    async def _follow(self) -> None:
        """Shows the current review if it has changed, and no review if the server refuses. If the server can't be
        reached, the shown review stays.
        """
        self._is_stale, deciders = False, self._deciders
        self._deciders = set()
        if self._without_server is not None:
            await self._follow_accepted(self._without_server)
            return
        if not self._project:
            return
        try:
            answer = await self._link.review(project=self._project)
        except ReviewRefused:
            await self._show(None)
            raise
        except DrawbridgeError as error:
            logger.info("the review could not be updated, so its previous state is still shown: %s", error)
            return
        await self._show_notice(answer)
        before = self._shown
        review, _ = read(answer)
        if review == before:
            return
        hunks = before.hunk_ids if before is not None else frozenset[str]()
        if self._visiting is not None and "" in deciders and not review.hunk_ids <= hunks:
            await self._visiting.begin()  # a run has probably ended, which the server does not report to bridges
        await self._show(review)
        if not hunks <= review.hunk_ids:
            await self._editor.notify(_who(deciders))

    async def _follow_accepted(self, event: ReviewWanted) -> None:
        """Shows a server's review instead of the one of accepted proposals once the server has one. Until then, shows
        the latter as it is now, if it has changed."""
        try:
            answer = await self._link.review(folder=event.folder, path=event.path)
        except DrawbridgeError as error:
            logger.info("the accepted proposals are still shown: %s", error)
            review, _ = read(await self._accepted_review.read(event.folder))
            if review != self._shown:
                await self._show(review)
        else:
            await self._show_served(answer, event, is_wanted=False)

    async def _decided(self, event: ReviewDecided) -> None:
        if (event.file is not None or event.all) and self._hides_others:
            await self._editor.notify(review_words.OTHERS_HIDDEN, "warn")
            return
        done = _done(event, self._shown)
        decision = wire.ReviewDecision(
            id=uuid.uuid4().hex,
            project=self._project,
            decision=event.decision,
            hunk=event.hunk,
            file=event.file,
            all=event.all,
            version=event.version,
        )
        await self._change(decision, done, lambda review: f"{done} {_left(review)}")

    @property
    def _why_no_comments(self) -> str:
        """The reason why the review of accepted proposals can't have comments."""
        return COMMENTS_NEED_A_SESSION if self._link.is_connected else COMMENTS_NEED_A_SERVER

    async def _commented(self, event: CommentEvent) -> None:
        is_added = False
        try:
            if self._without_server is not None:
                await self._editor.notify(self._why_no_comments, "warn")
                return
            line, done = _comment_line(event, self._project)
            is_resolving = isinstance(event, ReviewCommentResolved)
            is_added = await self._change(
                line, done, lambda review: done if is_resolving else f"{done} {_waiting(review)}"
            )
        finally:
            if isinstance(event, ReviewCommented) and event.window is not None:
                await self._editor.suggested(event.window, is_added=is_added)

    async def _submitted(self, event: ReviewSubmitted) -> None:
        if self._without_server is not None:
            await self._editor.notify(self._why_no_comments, "warn")
            return
        sent = sum(comment.is_draft for comment in self._shown.comments) if self._shown else 0
        line = wire.ReviewSubmission(id=uuid.uuid4().hex, project=self._project, drafts=event.drafts, text=event.text)
        await self._change(line, f"Sent: {counted(sent, 'comment')}.", lambda review: _sent(review, sent))

    async def _change(
        self,
        line: wire.ReviewDecision | wire.ReviewComment | wire.ReviewSubmission,
        done: str,
        after: Callable[[Review], str],
    ) -> bool:
        """Sends a change. ``after`` returns the notice for the user, from the review after the change; ``done`` is the
        notice if that review could not be read. Returns False if the server refused the change."""
        before = self._shown
        try:
            answer = await self._carry_out(line)
        except ReviewRefused as error:
            words = str(error)
            if isinstance(line, wire.ReviewDecision):
                by = harmless(str(error.details.get("by") or ""))
                words = review_words.refused_words(
                    error.reason, error.details, words, by, is_hunk=line.hunk is not None
                )
            await self._show_again()
            await self._editor.notify(harmless(words), "warn")
            await self._copy(error.details.get("prompt"))
            return False
        except DrawbridgeError:
            await self._show(before)
            raise
        else:
            if answer.done:
                await self._editor.notify(done)
                self._reload()  # reports the reason if the review still can't be read
                return True
            review, _ = read(answer)
            await self._show(review)
            await self._editor.notify(after(review))
            return True

    async def _copy(self, prompt: object) -> None:
        """Copies the prompt with the comments that could not be passed to the agent, if there is one."""
        where = await self._editor.copy(prompt) if isinstance(prompt, str) and prompt else ""
        if where:
            await self._editor.notify(COPIED.format(where=where))

    async def _carry_out(
        self, line: wire.ReviewDecision | wire.ReviewComment | wire.ReviewSubmission
    ) -> wire.ReviewAnswer:
        if self._without_server is not None and isinstance(line, wire.ReviewDecision):
            return await self._accepted_review.decide(line, self._without_server.folder)
        return await self._link.change_review(line)

    async def _read_again(self) -> wire.ReviewAnswer:
        if self._without_server is not None:
            return await self._accepted_review.read(self._without_server.folder)
        return await self._link.review(project=self._project)

    async def _show_again(self) -> None:
        """Reads and shows the review after a refusal, since what is shown may no longer exist. If it can't be read, no
        review is shown."""
        try:
            answer = await self._read_again()
            review, _ = read(answer)
        except DrawbridgeError as error:
            logger.info("the review is not shown: %s", error)
            await self._show(None)
        else:
            await self._show(review)
            await self._show_notice(answer)  # the server does not send it again

    async def _show(self, review: Review | None, *, is_wanted: bool = False) -> None:
        if self._shown is not None and self._project and review is not None:
            self._forget_decided(self._shown, review)
        self._shown = review
        if review is None:
            self._project, self._visiting, self._without_server = "", None, None
        elif self._visiting is not None:
            review = self._visiting.marked(review)
        await self._editor.show_review(review, is_wanted=is_wanted)

    def _forget_decided(self, before: Review, review: Review) -> None:
        """If some of a file's changes have left the server's review, forgets the accepted proposals of that file, so
        that decided changes are not shown again when no server is running."""
        for file in before.files:
            if not {hunk.id for hunk in file.hunks} <= review.hunk_ids:
                self._accepted.forget(file.path)

    def _summary(self, review: Review, event: ReviewWanted) -> str:
        assert self._visiting is not None
        if not review.files:
            return f"{review_words.NOTHING} in {harmless(self._visiting.directory)}."
        marked = self._visiting.marked(review)
        if marked != review:
            return f"{marked.title}."
        return self._visiting.all_words(review) if event.only_new else f"{review.title} to review."


def read(answer: wire.ReviewAnswer) -> tuple[Review, str]:
    """The review as an editor shows it, and sentences about what it lacks, if anything: the files that did not fit into
    the message, and changes that were not recorded."""
    data: dict[str, Any] = msgspec.json.decode(answer.review)
    by_id = {str(one["comment_id"]): one for one in data["comments"]}
    files = tuple(_file(answer.directory, file, by_id) for file in data["files"])
    comments = tuple(_comment(answer.directory, one) for one in data["comments"])
    more = data["more"]
    title = review_words.numbers(data).words
    review = Review(data["version"], title, files, comments, data["drafts"], more=more)
    words = f"{counted(more, 'more file')} will be shown after these." if more else ""
    return review, " ".join(filter(None, (words, harmless(data.get("missing", "")))))


def _is_without_review(error: DrawbridgeError) -> bool:
    """Whether the reason is that no server has a review of the directory, rather than that one failed."""
    return isinstance(error, NoServer) or (isinstance(error, ReviewRefused) and error.reason == NO_SESSION)


def _is_private(answer: wire.ReviewAnswer) -> bool:
    return msgspec.json.decode(answer.review, type=_Stored).repository == "private"


class _Stored(msgspec.Struct, frozen=True):
    """The field of a server's review that names the repository in which the versions of its files are stored."""

    repository: str = "project"


def _file(directory: str, file: File, comments: Mapping[str, Mapping[str, Any]]) -> ReviewedFile:
    """``comments``: the comments of the review, by id."""
    name = str(file["path"])
    label = review_words.file_words(file)
    return ReviewedFile(
        path=os.path.join(directory, name),
        name=name,
        shown=harmless(name),
        hunks=tuple(_hunk(file, hunk, comments) for hunk in file["hunks"]),
        has_lines=not {file["old_mode"], file["new_mode"]}.intersection(NOT_A_FILE),
        was_deleted=file["change"] == "deleted",
        text="  ".join(filter(None, (label, review_words.words(file, None)))),
    )


def _hunk(file: File, hunk: Hunk, comments: Mapping[str, Mapping[str, Any]]) -> ReviewedHunk:
    removed, added = str(hunk["removed"]), str(hunk["added"])
    words = harmless(review_words.words(file, hunk))
    if hunk["kind"] == "lines":
        words = review_words.end_words(removed, added)
    sides = review_words.lines_of(added), review_words.lines_of(removed)
    numbers = f"+{len(sides[0])} −{len(sides[1])}" if removed or added else ""
    line = next((one for side in sides for one in (line.strip("\ufeff \t\r") for line in side) if one), "")
    text = harmless(line[:LONGEST_LINE]) if hunk["kind"] == "lines" else words
    answered = harmless(review_words.answered_words(comments[id] for id in hunk.get("answers", ()) if id in comments))
    return ReviewedHunk(
        id=str(hunk["id"]),
        row=int(hunk["new_start"]) - (1 if added else 0),
        removed=removed,
        added=added,
        words="  ".join(filter(None, (words, answered))),
        text="  ".join(filter(None, (numbers, text, answered))),
    )


def _comment(directory: str, comment: dict[str, Any]) -> ReviewedComment:
    name, state = str(comment["path"]), str(comment.get("state", "draft"))
    words = " ".join(str(comment["text"]).split())
    if comment.get("suggestion") is not None:
        words = f"{words} (with a suggestion)".lstrip()
    author = f"{_BEFORE_AUTHOR.get(state, '')}{comment['by']}"
    return ReviewedComment(
        id=str(comment["comment_id"]),
        path=os.path.join(directory, name),
        shown=harmless(name),
        first=int(comment["line"]) - 1,
        last=int(comment["end_line"]) - 1,
        has_place=comment["side"] == "new" and not comment.get("outdated", False),
        text=harmless(f"{author}: {words}"),
        is_draft=state == "draft",
        is_waiting=state == "waiting",
        is_resolved=state == "resolved",
    )


_BEFORE_AUTHOR: Final = {"draft": "Draft by ", "waiting": "Waiting, by ", "resolved": "Resolved · "}


def _comment_line(event: CommentEvent, project: str) -> tuple[wire.ReviewComment, str]:
    """The request for what the user did with a comment, and the notice when it is done."""
    line = wire.ReviewComment(id=uuid.uuid4().hex, project=project)
    match event:
        case ReviewCommented():
            line = msgspec.structs.replace(
                line,
                id=event.id or line.id,
                path=event.file,
                line=event.line,
                end_line=event.end_line,
                quote=event.quote,
                text=event.text,
                suggestion=event.suggestion,
            )
            return line, "Draft added."
        case ReviewCommentRemoved():
            return msgspec.structs.replace(line, comment=event.comment), "Draft removed."
        case ReviewCommentResolved():
            line = msgspec.structs.replace(line, comment=event.comment, resolved=event.resolved)
            return line, f"Comment {'resolved' if event.resolved else 'reopened'}."


def _sent(review: Review, count: int) -> str:
    waits = f"Waiting: {counted(count, 'comment')}. {review_words.WAITING}"
    is_waiting = any(comment.is_waiting for comment in review.comments)
    return waits if is_waiting else f"Sent to the agent: {counted(count, 'comment')}."


def _left(review: Review) -> str:
    return f"{review_words.changes(review.count)} left." if review.files else "Nothing is left to review."


def _waiting(review: Review) -> str:
    count = sum(comment.is_draft for comment in review.comments)
    return f"{counted(count, 'draft')} to send." if count else "No drafts are left."


def _done(event: ReviewDecided, before: Review | None) -> str:
    done = "Kept" if event.decision == "keep" else "Undone"
    if event.all and before:
        return f"{done}: {review_words.changes(before.count)} in {counted(len(before.files), 'file')}."
    for file in before.files if before else ():
        if event.file == file.name:
            return f"{done}: {review_words.changes(len(file.hunks) or 1)} in {file.shown}."
        if any(event.hunk == hunk.id for hunk in file.hunks):
            return f"{done}: 1 change in {file.shown}."
    return f"{done}."


def _who(deciders: set[str]) -> str:
    """A notice that the review has changed. If only one person has made decisions, it names that person."""
    [name] = deciders if len(deciders) == 1 else [""]
    return f"{harmless(name)} made decisions in this review." if name else "The review has changed."
