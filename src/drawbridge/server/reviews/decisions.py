"""Decisions on a review: what a user requests, and the hunks and files that it is about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from hashlib import blake2b
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from drawbridge.server.checkpoints.commits import shown_path
from drawbridge.server.reviews.change_set import FileChange, decide, edit
from drawbridge.server.reviews.open_review import OpenReview

Decision: TypeAlias = Literal["keep", "undo", "edit"]


class RequestedDecision(Struct, frozen=True):
    """A user's decision. It applies to the hunks with the ids ``hunks``, to all hunks of ``files`` (paths as clients
    see them), or to ``all`` hunks.

    ``version``: the version of the review that the user has seen. Decisions on ``files`` and ``all`` are refused if it
    has changed. ``text``: for an edit, the lines that replace the new lines of one hunk. ``request_id``: the id of the
    request, so that a repeated request is recognized; empty if it has none.
    """

    by: str
    decision: Decision
    hunks: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    all: bool = False
    version: str | None = None
    text: str = ""
    request_id: str = ""

    @property
    def key(self) -> str:
        """The key by which a repeated request is recognized; empty if the request has no id."""
        if not self.request_id:
            return ""
        return blake2b(repr(msgspec.structs.astuple(self)).encode(errors="replace"), digest_size=12).hexdigest()


class HunkDecision(Struct, frozen=True):
    """Who decided on a hunk, and how."""

    by: str
    decision: Decision


class Place(Struct, frozen=True):
    """Where a hunk was when it was shown. ``path``: as git names it. ``line``: its first line in the new version, 1-based;
    None for a hunk without lines. ``new``: the file's mode and blob at that time; None if it did not exist."""

    path: str
    line: int | None
    new: tuple[str, str] | None


class HunkGone(Exception):
    """A hunk or a file no longer needs a decision. ``decided``: the decision, if a user has decided on the hunk.
    ``place``: where the hunk was, if its file has changed since."""

    def __init__(self, what: str, decided: HunkDecision | None = None, place: Place | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.decided = decided
        self.place = place


class SameName(Exception):
    """Clients see several files of the review with the same path, because their names are not valid UTF-8. Its text is
    that path."""


class ReviewMoved(Exception):
    """The review has changed since the user saw it. ``paths``: the files of the review that have changed, as clients see
    them; empty if that is not known."""

    def __init__(self, paths: Sequence[str] = ()) -> None:
        super().__init__(", ".join(paths))
        self.paths = paths


class DecisionResult(Struct, frozen=True):
    """The result of a decision: the review after it, and its ``plan``; None if nothing was left to do, for example
    because the same request was carried out before."""

    review: OpenReview
    plan: Plan | None = None


class Plan(Struct, frozen=True):
    """A decision before it is applied: the numbers of its ``files`` and ``hunks``, and the review's commits ``base``
    and ``head`` before and after it. The files that it writes are those that differ between both heads. ``paths``: the
    files of its hunks, at most ``LISTED_PATHS``, as clients see them."""

    files: int
    hunks: int
    bases: tuple[str, str]
    heads: tuple[str, str]
    paths: tuple[str, ...]


Begin: TypeAlias = Callable[[Plan], Awaitable[None]]
"""The type of a function that is called before a decision changes anything. If it raises, nothing is changed."""


async def unplanned(plan: Plan) -> None:
    """A ``Begin`` that does nothing."""


def chosen_hunks(
    review: OpenReview, wanted: RequestedDecision, decided: Mapping[str, HunkDecision]
) -> dict[str, set[str]]:
    """The ids of the hunks that the decision applies to, by path. Raises ``HunkGone`` or ``SameName``."""
    if wanted.hunks:
        path_of = {hunk.id: file.path for file in review.files for hunk in file.hunks}
        chosen: dict[str, set[str]] = {}
        for id in wanted.hunks:
            if id not in path_of:
                raise HunkGone(id, decided.get(id))
            chosen.setdefault(path_of[id], set()).add(id)
        return chosen
    paths = set(wanted.files)
    shown = Counter(shown_path(file.path) for file in review.files)
    for path in sorted(paths):
        if not shown[path]:
            raise HunkGone(path)
        if shown[path] > 1:
            raise SameName(path)
    files = [file for file in review.files if wanted.all or shown_path(file.path) in paths]
    return {file.path: {hunk.id for hunk in file.hunks} for file in files}


def file_after(file: FileChange, ids: Collection[str], wanted: RequestedDecision) -> FileChange:
    """The file after the decision on the hunks ``ids``. Raises ``NotEditable``."""
    match wanted.decision:
        case "keep":
            return decide(file, keep=ids)
        case "undo":
            return decide(file, undo=ids)
        case "edit":
            return edit(file, next(iter(ids)), wanted.text)
