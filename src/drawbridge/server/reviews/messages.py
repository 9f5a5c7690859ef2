"""The review in the messages of the client protocol: requests, replies and errors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from drawbridge.server.checkpoints.commits import shown_path
from drawbridge.server.checkpoints.errors import Changed
from drawbridge.server.checkpoints.private import NOTICE
from drawbridge.server.events import (
    Audited,
    CommittedFromReview,
    DecidedOnReview,
    RevertedRun,
    ReviewChanged,
    ReviewCommitted,
    ReviewDecided,
    ReviewInterrupted,
    ReviewNumbers,
    RunReverted,
)
from drawbridge.server.protocol import commands, messages, replies
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.frames import ROOM, Subscriber
from drawbridge.server.protocol.messages import FRAME_BYTES
from drawbridge.server.reviews.change_set import REGULAR, FileChange, NotEditable, Part, Version
from drawbridge.server.reviews.committing import BadBranch, Blocked, NothingToCommit, Refused
from drawbridge.server.reviews.decisions import (
    HunkDecision,
    HunkGone,
    Place,
    Plan,
    RequestedDecision,
    ReviewMoved,
    SameName,
)
from drawbridge.server.reviews.gaps import BACKGROUND_SECONDS
from drawbridge.server.reviews.intents import (
    LISTED_PATHS,
    CommitIntent,
    DecisionIntent,
    Intent,
    Operation,
    RevertIntent,
    Verdict,
)
from drawbridge.server.reviews.located_comments import LocatedComments
from drawbridge.server.reviews.open_review import OpenReview
from drawbridge.server.reviews.pushing import CannotPush, NotPushed, Target
from drawbridge.server.reviews.recorded_diff import RecordedDiff
from drawbridge.server.store.texts import clean
from drawbridge.server.updates import converted

MISSING: Final = (
    "Changes of the latest run may be missing here, because no checkpoint was taken in time before it: {reason}"
)

ELSEWHERE: Final = (
    "The agent worked in {directory}. Changes there are not in this review. Start the agent in that directory to review "
    "what it changes."
)

OUTLASTED: Final = (
    f"A background command of the latest run was still running {BACKGROUND_SECONDS / 60:g} minutes after the run. What it "
    "has changed since is not in this review."
)

LONGEST_OUTPUT: Final = 10_000
"""The maximum length of the output of git and its hooks that clients receive, in characters."""

TRY_AGAIN: Final = "Read git's output, fix the cause, and try again."

ESCAPES: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
"""Matches escape sequences for a terminal, such as colors."""

LARGEST_KEPT: Final = 50_000
"""The maximum size of the list of kept files as JSON, in bytes."""

LONGEST_TITLE: Final = 200
"""The maximum length of the title that is suggested for a pull request, in characters."""

LONGEST_BODY: Final = 10_000

LISTED_FILES: Final = 500
"""The maximum number of paths in the record of a commit."""

Recovered: TypeAlias = ReviewDecided | RunReverted | ReviewCommitted | ReviewInterrupted
"""The record of the result of a decision, a revert or a commit."""

LARGEST_FILE: Final = FRAME_BYTES // 4
"""The maximum size of one file with its hunks in a message, as JSON, in bytes."""

IMAGES: Final = {
    "avif": "image/avif",
    "bmp": "image/bmp",
    "gif": "image/gif",
    "ico": "image/x-icon",
    "jpeg": "image/jpeg",
    "jpg": "image/jpeg",
    "png": "image/png",
    "webp": "image/webp",
}
"""The extensions of files that browsers can show as images, and their media types."""

IMAGE: Final = "review_"
"""The part of the id of an image's blob between the session's id (with a colon) and git's id of the content."""


def requested_decision(command: commands.ReviewDecide, by: str) -> RequestedDecision:
    """The decision that a client requests. Raises ``ClientError`` if the request is not valid."""
    if sum(map(bool, (command.hunks, command.files, command.all))) != 1:
        text = "A decision needs exactly one of hunks, files and all."
        raise ClientError("VALIDATION_FAILED", text, field="data.hunks")
    if command.text is not None:
        if len(command.hunks) != 1 or command.decision is not None:
            text = "An edit applies to exactly one hunk and can't be combined with a decision."
            raise ClientError("VALIDATION_FAILED", text, field="data.text")
        return RequestedDecision(by, "edit", command.hunks, text=command.text, request_id=command.request_id or "")
    if command.decision is None:
        text = "The decision is missing. It must be keep or undo."
        raise ClientError("VALIDATION_FAILED", text, field="data.decision")
    if not command.hunks and command.version is None:
        text = "The version of the review that was shown is missing."
        raise ClientError("VALIDATION_FAILED", text, field="data.version")
    return RequestedDecision(
        by,
        command.decision,
        command.hunks,
        command.files,
        command.all,
        command.version,
        request_id=command.request_id or "",
    )


def refused(error: HunkGone | SameName | ReviewMoved | NotEditable | Changed) -> ClientError:
    match error:
        case HunkGone(decided=HunkDecision() as decided):
            how = {"keep": "kept", "undo": "undone", "edit": "edited"}[decided.decision]
            text = f"The hunk was already {how} by {decided.by}. Read the review again."
            details = {"gone": error.what, "by": decided.by, "decision": decided.decision}
            return ClientError("HUNK_GONE", text, details=details)
        case HunkGone(place=Place() as place):
            path = shown_path(place.path)
            where = {"path": path} if place.line is None else {"path": path, "line": place.line}
            at = "" if place.line is None else f" at line {place.line}"
            text = f"{path} has changed{at} since the review was read. Read the review again."
            return ClientError("HUNK_GONE", text, details={"gone": error.what, **where})
        case HunkGone():
            text = "The hunk or file no longer needs a decision. Read the review again."
            return ClientError("HUNK_GONE", text, details={"gone": error.what})
        case SameName():
            text = f"The review has several files that are shown as {error}. Decide on each of their changes."
            return ClientError("VALIDATION_FAILED", text, field="data.files")
        case ReviewMoved():
            text = "The review has changed since it was shown. Read the review again."
            moved = {"paths": error.paths[:LISTED_PATHS], "files": len(error.paths)} if error.paths else None
            return ClientError("HUNK_GONE", text, field="data.version", details=moved)
        case NotEditable():
            text = "The hunk has no lines that can be edited. Keep or undo it."
            return ClientError("VALIDATION_FAILED", text, field="data.text")
        case Changed():
            text = (
                f"The decision conflicts with the current state of {error}. Nothing was changed. Read the review again."
            )
            return ClientError("REVIEW_CLASH", text, details={"paths": error.paths})


def not_committed(error: NothingToCommit | Blocked | BadBranch | Refused) -> ClientError:
    match error:
        case NothingToCommit():
            text = "There is nothing to commit: no changes were kept, or they are already in the last commit."
            return ClientError("NOTHING_TO_COMMIT", f"{text} Keep some changes first.")
        case Blocked():
            text = f"The changes can't be committed: {error}."
            details = {"reason": error.reason, **({"paths": error.paths} if error.paths else {})}
            return ClientError("COMMIT_BLOCKED", text, details=details)
        case BadBranch():
            code = "BRANCH_EXISTS" if error.exists else "VALIDATION_FAILED"
            return ClientError(code, str(error), field="data.branch")
        case Refused():
            text = f"The commit failed: git or one of its hooks refused it, or it took too long. {TRY_AGAIN}"
            return ClientError(
                "COMMIT_FAILED", text, details={"output": shown_output(error.output), "code": error.code}
            )


def shown_output(output: str) -> str:
    """The end of a program's output as clients show it: without escape sequences, and without control characters except
    tabs and line breaks."""
    return clean(ESCAPES.sub("", output)).strip()[-LONGEST_OUTPUT:]


def not_pushed(error: CannotPush | NotPushed) -> ClientError:
    match error:
        case CannotPush():
            text = f"The branch can't be pushed: {error}."
            if error.reason == "program":
                text = f"No pull request can be created: {error}. Nothing was pushed."
            if error.reason == "moved":
                text += " Read the review again."
            return ClientError("PUSH_BLOCKED", text, details={"reason": error.reason})
        case NotPushed():
            text = f"The push failed: git, one of its hooks or the remote refused it, or it took too long. {TRY_AGAIN}"
            return ClientError("PUSH_FAILED", text, details={"output": shown_output(error.output), "code": error.code})


def push_offer(found: Target | CannotPush) -> replies.PushOffer | None:
    """The offer to push, as clients see it; None without a git work tree, a remote, or a branch with commits."""
    match found:
        case CannotPush(reason="remote"):
            return replies.PushOffer(problem=f"The branch can't be pushed: {found}.")
        case CannotPush():
            return None
        case Target():
            return replies.PushOffer(
                version=found.version,
                remote=clean(found.remote),
                branch=clean(found.branch),
                ahead=found.ahead,
                pull_request=found.program,
                no_pull_request=found.why_not,
                title=clean(found.subject)[:LONGEST_TITLE],
                body=clean(found.body)[:LONGEST_BODY],
            )


def record_of(
    wanted: RequestedDecision, plan: Plan, review: OpenReview, diff: RecordedDiff, sender: Subscriber
) -> ReviewDecided:
    """The record of a decision that changed the review. ``review``: the review after it."""
    return ReviewDecided(
        by=sender.name,
        decision=wanted.decision,
        files=plan.files,
        hunks=plan.hunks,
        left=review.hunks,
        client_id=sender.id,
        paths=plan.paths,
        diff=diff.text,
        diff_truncated=diff.truncated,
    )


def recovered_record(
    intent: Intent, found: Verdict, review: OpenReview, diff: RecordedDiff, *, interrupted: bool
) -> Recovered:
    """The record of the result of a decision, a revert or a commit. ``diff``: what a decision changed in the files.
    ``interrupted``: whether the server was restarted in the meantime."""
    if found.result == "done":
        return _done_record(intent, found.commit, review.hunks, diff, interrupted=interrupted)
    operation, files, hunks = _about(intent)
    return ReviewInterrupted(
        by=intent.by,
        decision=operation,
        files=files,
        hunks=hunks,
        result=found.result,
        changed=tuple(map(shown_path, found.changed[:LISTED_PATHS])),
        client_id=intent.client_id,
    )


def _done_record(intent: Intent, commit: str, left: int, diff: RecordedDiff, *, interrupted: bool) -> Recovered:
    match intent:
        case DecisionIntent():
            return ReviewDecided(
                by=intent.by,
                decision=intent.decision,
                files=intent.files,
                hunks=intent.hunks,
                left=left,
                client_id=intent.client_id,
                interrupted=interrupted,
                paths=intent.paths,
                diff=diff.text,
                diff_truncated=diff.truncated,
            )
        case RevertIntent():
            return RunReverted(intent.run_id, intent.by, intent.files, intent.client_id)
        case CommitIntent(attempt=attempt):
            return ReviewCommitted(
                commit=commit,
                branch=attempt.branch,
                files=attempt.files[:LISTED_FILES],
                output="",
                by=intent.by,
                client_id=intent.client_id,
                created=attempt.created,
            )


def audited(intent: Intent, commit: str) -> Audited:
    """The event for the audit log about what was done although it was interrupted. ``commit``: the id of the commit that
    was made, if any."""
    surface = intent.surface or {"by": intent.by}
    match intent:
        case DecisionIntent():
            return DecidedOnReview(surface, intent.decision, intent.hunks, intent.files)
        case RevertIntent():
            return RevertedRun(surface, intent.run_id)
        case CommitIntent(attempt=attempt):
            return CommittedFromReview(surface, commit, attempt.branch)


def _about(intent: Intent) -> tuple[Operation, int, int]:
    """What was to be done, and the numbers of its files and hunks, as in ``ReviewInterrupted``."""
    match intent:
        case DecisionIntent():
            return intent.decision, intent.files, intent.hunks
        case RevertIntent():
            return "revert", len(intent.files), 0
        case CommitIntent():
            return "commit", len(intent.attempt.files), 0


def counted(review: OpenReview) -> ReviewNumbers:
    added, removed = review.lines
    return ReviewNumbers(files=len(review.files), hunks=review.hunks, added=added, removed=removed)


def numbers(review: OpenReview, sender: Subscriber | None = None) -> ReviewChanged:
    """The event that publishes the review's numbers. ``sender``: the client whose decision changed them; None if they
    changed without a decision.
    """
    return ReviewChanged(
        state="open" if review.files else "decided",
        **msgspec.structs.asdict(counted(review)),
        by=sender.name if sender else None,
        client_id=sender.id if sender else None,
    )


def commit_offer(message: str, author: str | Blocked, kept: Mapping[str, tuple[int, int]]) -> replies.CommitOffer:
    """The offer to commit, as clients see it. ``author``: its author, or the reason why nothing can be committed.
    ``kept``: as ``Review.kept`` returns it."""
    lines = {shown_path(path): replies.Lines(*numbers) for path, numbers in kept.items()}
    fitting = {path: lines[path] for path in _fitting(sorted(lines))}
    if isinstance(author, Blocked):
        return replies.CommitOffer(message=message, problem=f"The changes can't be committed: {author}.", lines=fitting)
    return replies.CommitOffer(message=message, author=clean(author), lines=fitting)


class ShownFile(Struct, frozen=True):
    """A file with all of its hunks, as it was built for a reply (from which the hunks may have been left out).
    ``made_of``: what it was built from (the file is reused while this is unchanged); ``size``: its size as JSON, in
    bytes.
    """

    made_of: tuple[object, ...]
    file: replies.ReviewFile
    size: int


def reply(
    session: str,
    review: OpenReview,
    located: LocatedComments = LocatedComments(),  # noqa: B008 - frozen
    drafts: str = "",
    kept: Iterable[str] = (),
    commit: replies.CommitOffer | None = None,
    push: replies.PushOffer | None = None,
    handover: replies.Handover | None = None,
    before: Mapping[str, ShownFile] = MappingProxyType({}),
) -> tuple[replies.Review, dict[str, ShownFile]]:
    """A reply with as much of the review as fits into one message. ``session``: its id. ``drafts``: the version of the
    drafts; ``kept``: the paths of files with kept changes. ``before``: the files of an earlier reply by their paths,
    most of which are unchanged after a decision. Also returns the files of this reply."""
    shown_kept = tuple(_fitting(sorted(map(shown_path, kept))))
    comments = tuple(converted(comment, messages.ReviewComment) for comment in located.comments)
    room = FRAME_BYTES - ROOM - len(msgspec.json.encode((shown_kept, comments, commit, push, handover)))
    files: list[replies.ReviewFile] = []
    shown: dict[str, ShownFile] = {}
    for change in review.files:
        known = shown[change.path] = _shown(session, change, located, before.get(change.path))
        file, size = known.file, known.size
        if size > min(LARGEST_FILE, room):
            file = msgspec.structs.replace(file, hunks=(), too_large=True)
            size = len(msgspec.json.encode(file))
        if size > room:
            break
        room -= size + 1
        files.append(file)
    data = replies.Review(
        state="open" if review.files else "none",
        version=review.version,
        files=tuple(files),
        more=len(review.files) - len(files),
        repository="private" if review.private else "project",
        notice=NOTICE if review.private else "",
        missing=_missing(review),
        comments=comments,
        drafts=drafts,
        kept=shown_kept,
        commit=commit,
        push=push,
        handover=handover,
    )
    return data, shown


def _missing(review: OpenReview) -> str:
    """Sentences about changes of the latest run that are not in the review, or may not be."""
    lost = MISSING.format(reason=review.lost) if review.lost else ""
    elsewhere = ELSEWHERE.format(directory=clean(review.elsewhere)) if review.elsewhere else ""
    return " ".join(filter(None, (lost, elsewhere, OUTLASTED if review.outlasted else "")))


def _shown(session: str, change: FileChange, located: LocatedComments, before: ShownFile | None) -> ShownFile:
    sides = [(side.mode, side.blob, side.text is None) if side else None for side in (change.old, change.new)]
    answers = [located.answers.get(hunk.id, ()) for hunk in change.hunks]
    made_of = (session, change.old_path, *sides, change.hunks, *answers)
    if before is not None and before.made_of == made_of:
        return before
    file = _file(session, change, located)
    return ShownFile(made_of, file, len(msgspec.json.encode(file)))


def _fitting(paths: Iterable[str]) -> Iterator[str]:
    room = LARGEST_KEPT
    for path in paths:
        room -= len(msgspec.json.encode(path)) + 1
        if room < 0:
            return
        yield path


def _file(session: str, change: FileChange, located: LocatedComments) -> replies.ReviewFile:
    old, new = change.old, change.new
    spans = [hunk.span for hunk in change.hunks]
    return replies.ReviewFile(
        path=shown_path(change.path),
        old_path=shown_path(change.old_path) if change.old_path else None,
        change="added" if old is None else "deleted" if new is None else "changed",
        old_mode=old.mode if old else None,
        new_mode=new.mode if new else None,
        added=sum(span.new_count for span in spans),
        removed=sum(span.old_count for span in spans),
        hunks=tuple(_hunk(part, located.answers.get(part.hunk.id, ())) for part in change.parts()),
        binary=any(side is not None and side.text is None for side in (old, new)),
        old_image=_image(session, change.path_before, old),
        new_image=_image(session, change.path, new),
    )


def _image(session: str, path: str, version: Version | None) -> replies.ReviewImage | None:
    """The image in a version of a file. None if the file's extension does not name an image format, if the version is
    text, which is shown as lines, or if it is not a regular file or does not exist."""
    media_type = IMAGES.get(path.rpartition(".")[2].lower())
    if media_type is None or version is None or version.text is not None or version.mode not in REGULAR:
        return None
    return replies.ReviewImage(f"{session}:{IMAGE}{version.blob}", media_type)


def images_of(data: replies.Review) -> frozenset[str]:
    """git's ids of the images that a reply names."""
    images = (image for file in data.files for image in (file.old_image, file.new_image) if image is not None)
    return frozenset(image.blob_id.partition(IMAGE)[2] for image in images)


def _hunk(part: Part, answers: tuple[str, ...]) -> replies.ReviewHunk:
    span = part.hunk.span
    return replies.ReviewHunk(
        id=part.hunk.id,
        kind=part.hunk.kind,
        old_start=span.old_start + bool(span.old_count),
        new_start=span.new_start + bool(span.new_count),
        removed="".join(part.removed),
        added="".join(part.added),
        answers=answers,
    )
