"""Users' comments on a review: drafts, which can be changed and are then sent together as one prompt."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final, Protocol

import msgspec

from drawbridge.server.checkpoints.checkpoints import Checkpoints
from drawbridge.server.checkpoints.git.git import Git
from drawbridge.server.events import Audited, CommentedOnReview, ReviewComment, ReviewCommented, Submission
from drawbridge.server.protocol import commands, messages
from drawbridge.server.protocol.answers import Answer
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.frames import Subscriber
from drawbridge.server.protocol.replies import Handover
from drawbridge.server.reviews.change_set import lines_of
from drawbridge.server.reviews.comments import prompt_of
from drawbridge.server.reviews.decisions import HunkGone, SameName
from drawbridge.server.reviews.located_comments import LocatedComments, Since
from drawbridge.server.reviews.open_review import OpenReview
from drawbridge.server.reviews.remembered import COMMENTS_BYTES, MOST_COMMENTS, RememberedComment, sized
from drawbridge.server.reviews.reviews import NoLines, Review
from drawbridge.server.updates import answered
from drawbridge.text.review_words import CHANGED

LONGEST_TEXT: Final = 10_000
"""The maximum length of a comment, of its suggestion, and of the lines that it is about, in characters."""


def submission_key(drafts: str, text: str) -> str:
    """A key that, together with the request's id, identifies a repeated request to submit the drafts."""
    return f"{drafts} {blake2b(text.encode(), digest_size=8).hexdigest()}"


class KeptComments(Protocol):
    """The store of the comments on a review."""

    @property
    def known(self) -> Mapping[str, RememberedComment]: ...

    @property
    def handover(self) -> Handover | None:
        """The comments that were last left with a terminal session. None before that, and once they were withdrawn or
        the agent has received them all."""
        ...

    def write(self, event: ReviewCommented, session: str, sender: Subscriber) -> int | None:
        """Stores and publishes a change that a client requested in ``session``. Returns the number of its record in
        the session's history; None if the record could not be written, or if ``sender`` is catching up and is sent the
        record in its turn. Raises ``ClientError`` or ``DrawbridgeError`` without changing anything."""
        ...


class Store(Protocol):
    """The part of a session's store that is used here."""

    def audit(self, event: Audited) -> None: ...


class Commenting:
    """The comments on one review."""

    def __init__(
        self, kept: KeptComments, review: Review, checkpoints: Checkpoints, stores: Mapping[str, Store]
    ) -> None:
        """``stores``: the stores of the sessions that share the review, by session id."""
        self._kept = kept
        self._stores = stores
        self._review = review
        self._operations = checkpoints.operations
        self._work_tree = checkpoints.work_tree

    @property
    def _comments(self) -> Mapping[str, RememberedComment]:
        return self._kept.known

    @property
    def handover(self) -> Handover | None:
        return self._kept.handover

    @property
    def drafts_version(self) -> str:
        """The version of the drafts. It changes whenever a draft does, even if a draft is removed and written again
        with the same id."""
        drafts = [(id, one.seq, one.changes) for id, one in self._comments.items() if one.comment.state == "draft"]
        return blake2b(repr(drafts).encode(), digest_size=12).hexdigest()

    async def located(self, git: Git, review: OpenReview) -> LocatedComments:
        """The comments at their current lines. Raises ``GitFailed``."""
        known = list(self._comments.values())
        begun: dict[str, Since] = {
            one.comment.comment_id: "comment" if one.steered else "run" for one in known if one.begun
        }
        return await self._review.located(git, review, [one.comment for one in known], begun)

    def check_seen(self, drafts: str) -> None:
        """Raises ``ClientError`` if there are no drafts, or if ``drafts`` is not their current version."""
        known = [one.comment for one in self._comments.values()]
        if drafts != self.drafts_version:
            if any(one.state == "draft" for one in known):
                raise ClientError("COMMENT_GONE", CHANGED, field="data.drafts")
            sent = next((one for one in reversed(known) if one.run_id is not None), None)
            happened = "were removed" if sent is None else "were already sent or removed"
            if any(one.state == "waiting" for one in known):
                sent, happened = None, "are already waiting for the agent, or were removed"
            text = f"No drafts are left to send: they {happened}."
            details = None if sent is None else {"run_id": sent.run_id}
            raise ClientError("COMMENT_GONE", text, field="data.drafts", details=details)
        if not any(one.state == "draft" for one in known):
            text = "There are no drafts to send. Write a comment first, or send a prompt."
            raise ClientError("VALIDATION_FAILED", text, field="data.drafts")

    def submission(self, located: LocatedComments, drafts: str, text: str) -> tuple[str, Submission]:
        """The prompt that sends the drafts of this version, and what is recorded with it. ``text``: the beginning of
        the prompt. Raises the same errors as ``check_seen``."""
        self.check_seen(drafts)
        submitted = [one for one in located.comments if one.state == "draft"]
        key = submission_key(drafts, text)
        return prompt_of(submitted, text), Submission(key, tuple(one.comment_id for one in submitted))

    async def comment(
        self, command: commands.ReviewComment, session: str, sender: Subscriber
    ) -> Answer[messages.ReviewCommented]:
        """Writes, changes, removes, resolves or reopens a comment. A repeated request changes nothing; one to write a
        comment returns the comment that the first one wrote, unless the comment has been removed. Raises ``ClientError``,
        ``DrawbridgeError``, ``NoCheckpoint``, ``GitFailed`` or OSError without changing a comment."""
        if command.comment_id is None:
            id = _new_id(command, sender)
            comment = None if id in self._comments else await self._new(command, id, sender)
            if comment is None or id in self._comments:  # the same request was received before, or in the meantime
                return _answer(id, self._comments[id].comment, session, sender, None)
        else:
            id, comment = command.comment_id, self._changed(command, command.comment_id, sender)
            known = self._comments[id].comment
            if comment == known:  # a repeated request
                return _answer(id, known, session, sender, None)
        if comment is not None:
            self._check_room(comment)
        seq = self._kept.write(_event(id, comment, sender), session, sender)
        path = None if comment is None else comment.path
        self._stores[session].audit(CommentedOnReview(sender.audited, id, path, comment is None, command.resolved))
        return _answer(id, comment, session, sender, seq)

    async def _new(self, command: commands.ReviewComment, id: str, sender: Subscriber) -> ReviewComment:
        if command.remove or command.resolved is not None:
            raise _invalid("comment_id", "this field is required")
        path, line, quote = command.path, command.line, command.quote
        if path is None or line is None or quote is None:
            name = "path" if path is None else "line" if line is None else "quote"
            raise _invalid(name, "this field is required")
        last = line if command.end_line is None else command.end_line
        if last < line:
            raise _invalid("end_line", "it is less than `line`")
        _check_length("quote", quote)
        text, suggestion = _words(command)
        try:
            async with self._operations.exclusive() as git:
                version = await self._review.text_of(git, self._work_tree, path, command.side)
                lines = lines_of(version.text or "")[line - 1 : last]
                if len(lines) != last - line + 1 or _ended("".join(lines)) != _ended(quote):
                    raise ClientError("HUNK_GONE", NOT_AS_SHOWN, field="data.quote", details={"gone": path})
                comment = ReviewComment(
                    comment_id=id,
                    by=sender.name,
                    path=path,
                    side=command.side,
                    line=line,
                    end_line=last,
                    quote="".join(lines),
                    blob=version.blob,
                    text=text,
                    suggestion=suggestion,
                )
                self._check_room(comment)  # checked before git stores the text, because the comment might be refused
                kept = [one.comment.blob for one in self._comments.values()]
                await self._review.keep_texts(git, [*kept, version.blob])
        except HunkGone:
            text = "The file is no longer in the review. Read the review again."
            raise ClientError("HUNK_GONE", text, details={"gone": path}) from None
        except SameName:
            problem = f"The comment can't be added: the review has several files that are shown as {path}."
            remedy = "Rename them, or write about them in a prompt."
            raise ClientError("VALIDATION_FAILED", f"{problem} {remedy}", field="data.path") from None
        except NoLines:
            text = "The file has no lines on this side that can be commented on."
            raise ClientError("VALIDATION_FAILED", text, field="data.side") from None
        return comment

    def _changed(self, command: commands.ReviewComment, id: str, sender: Subscriber) -> ReviewComment | None:
        """A comment as it is after this change; None if it is removed. Raises ``ClientError``."""
        known = self._comments.get(id)
        if known is None:
            text = "The comment does not exist. It may have been removed."
            raise ClientError("COMMENT_GONE", text, field="data.comment_id")
        comment = known.comment
        if any(one is not None for one in (command.path, command.line, command.end_line, command.quote)):
            raise _invalid("comment_id", "a comment can't be moved to other lines")
        if command.resolved is not None:
            if command.remove or command.text is not None or command.suggestion is not None:
                raise _invalid("resolved", "it can't be combined with another change")
            return _resolved(comment, sender, resolved=command.resolved)
        if comment.by != sender.name and not sender.owns:
            text = f"The comment is by {comment.by}. Only its author or a client with the admin scope can change it."
            raise ClientError("OUT_OF_SCOPE", text, field="data.comment_id", details={"needed": "admin"})
        if comment.state == "waiting":
            is_given = self.handover is not None and self.handover.state == "given"
            text = "The comment is waiting for the agent. To change it, withdraw the comments first."
            if is_given:
                text = "The comment is on its way to the agent. Write another one."
            raise ClientError("COMMENT_GONE", text, field="data.comment_id")
        if comment.state != "draft":
            text = "The comment was already sent. Write another one."
            details = {"run_id": comment.run_id}
            raise ClientError("COMMENT_GONE", text, field="data.comment_id", details=details)
        if command.remove:
            return None
        text, suggestion = _words(command)
        return msgspec.structs.replace(comment, text=text, suggestion=suggestion)

    def _check_room(self, comment: ReviewComment) -> None:
        """Raises ``ClientError`` if, with this comment, the comments that are not resolved would be too many or too
        large. A resolved comment is always accepted."""
        count, size = sized(self._comments, comment)
        if comment.state != "resolved" and (count > MOST_COMMENTS or size > COMMENTS_BYTES):
            many = f"{MOST_COMMENTS} comments" if count > MOST_COMMENTS else f"{COMMENTS_BYTES:,} bytes of comments"
            text = f"A review can have at most {many} that are not resolved. Resolve or remove some."
            raise ClientError("RESOURCE_LIMIT", text, retryable=False)


def _resolved(comment: ReviewComment, sender: Subscriber, *, resolved: bool) -> ReviewComment:
    """The comment after it was resolved or reopened; the same comment if it already was. Raises ``ClientError``."""
    if comment.state in ("draft", "waiting"):
        remedy = (
            "Send or remove the draft."
            if comment.state == "draft"
            else "Wait until it has, or withdraw the comments and remove this one."
        )
        text = f"The comment can't be resolved or reopened: the agent has not received it. {remedy}"
        raise ClientError("VALIDATION_FAILED", text, field="data.resolved")
    if resolved == (comment.state == "resolved"):
        return comment
    changed: dict[str, Any] = {"state": "sent", "resolved_by": None}
    if resolved:
        changed = {"state": "resolved", "resolved_by": sender.name}
    return msgspec.structs.replace(comment, **changed)


def _event(id: str, comment: ReviewComment | None, sender: Subscriber) -> ReviewCommented:
    return ReviewCommented(comment_id=id, by=sender.name, comment=comment, client_id=sender.id)


def _answer(
    id: str, comment: ReviewComment | None, session: str, sender: Subscriber, seq: int | None
) -> Answer[messages.ReviewCommented]:
    return answered(_event(id, comment, sender), messages.ReviewCommented, session, seq)


NOT_AS_SHOWN: Final = "The lines have changed since they were shown. Read the review again."


def _new_id(command: commands.ReviewComment, sender: Subscriber) -> str:
    """The id of a new comment. A repeated request gets the same id, unless it has no ``request_id``. A client that
    numbers its requests reuses numbers after it reconnects, so a request counts as repeated only if the comment and its
    author are the same, too."""
    if command.request_id is None:
        return f"comment_{uuid.uuid4().hex[:16]}"
    digest = blake2b(msgspec.json.encode((sender.name, command)), digest_size=8)
    return f"comment_{digest.hexdigest()}"


def _words(command: commands.ReviewComment) -> tuple[str, str | None]:
    """The text and the suggestion of a comment. A suggestion consists of whole lines."""
    text = (command.text or "").strip()
    suggestion = command.suggestion
    if not text and suggestion is None:
        raise _invalid("text", "this field is required without a suggestion")
    _check_length("text", text)
    _check_length("suggestion", suggestion or "")
    return text, _ended(suggestion) if suggestion else suggestion


def _check_length(name: str, text: str) -> None:
    if len(text) > LONGEST_TEXT:
        raise _invalid(name, f"at most {LONGEST_TEXT:,} characters are allowed, and it has {len(text):,}")


def _ended(text: str) -> str:
    return text if text.endswith("\n") or not text else text + "\n"


def _invalid(name: str, problem: str) -> ClientError:
    return ClientError("VALIDATION_FAILED", f"data.{name}: {problem}.", field=f"data.{name}")
