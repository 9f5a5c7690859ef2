"""Finds the current lines of the comments in a review, and the hunks that have changed the commented lines since the
agent received the comments.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Struct

from drawbridge.server.checkpoints.commits import shown_path
from drawbridge.server.checkpoints.git.git import Git
from drawbridge.server.events import ReviewComment
from drawbridge.server.reviews.change_set import FileChange, Hunk, lines_of
from drawbridge.server.reviews.comments import Range, followed, meet, touching
from drawbridge.server.reviews.contents import Entry, loaded_texts
from drawbridge.text import hunks as differences
from drawbridge.text.hunks import Hunk as Span

Side: TypeAlias = Literal["new", "old"]

Since: TypeAlias = Literal["run", "comment"]
"""The moment from which a hunk that changes the lines of a comment counts as an answer: the beginning of the run that the
comment was sent with. For a comment that was sent into an active run, it is the time when the comment was written.
"""

LITERAL: Final = {"GIT_LITERAL_PATHSPECS": "1"}
"""The environment in which git does not interpret a file's name as a pattern."""

REPLACED: Final = "\ufffd"
"""The character with which ``shown_path`` replaces bytes that are not UTF-8."""


class Commits(NamedTuple):
    """The commits of a review. ``runs``: the prefix of the refs with the checkpoints of its runs."""

    base: str
    head: str
    runs: str


class LocatedComments(Struct, frozen=True):
    """The comments at their current lines. ``answers`` maps the id of a hunk to the ids of the comments that the hunk
    answers."""

    comments: tuple[ReviewComment, ...] = ()
    answers: Mapping[str, tuple[str, ...]] = {}


async def located(
    git: Git,
    commits: Commits,
    files: Sequence[FileChange],
    comments: Sequence[ReviewComment],
    begun: Mapping[str, Since],
) -> LocatedComments:
    """Finds the comments in the files. ``begun``: the ids of the comments with a run that has begun, each with the
    moment from which on hunks count as answers to it. Raises ``GitFailed``.
    """
    paths = sorted({comment.path for comment in comments})
    names = {shown_path(file.path): file.path for file in files}
    old_names = {shown_path(file.path): file.path_before for file in files}
    old = await _entries(git, commits.base, paths, old_names)
    new = await _entries(git, commits.head, paths, names)
    runs = sorted({one.run_id for one in comments if one.run_id is not None and one.comment_id in begun})
    before = {run: await _entries(git, f"{commits.runs}/{run}/before", paths, names) for run in runs}
    entries = [entry for tree in (old, new, *before.values()) for entry in tree.values()]
    entries += [f"100644 {comment.blob}" for comment in comments]
    texts = await loaded_texts(git, entries)
    return await asyncio.to_thread(_Comparing(texts, old, new, before).located, files, comments, begun)


async def _entries(git: Git, commit: str, paths: Sequence[str], names: Mapping[str, str]) -> dict[str, Entry]:
    """Maps each of ``paths`` (as clients see them) that is a file in the commit to the file's entry there. Empty if the
    commit does not exist. ``names``: the paths in the commit of those files that are in the review."""
    searched = {_searched(shown_path(names.get(path, path))) for path in paths}
    code, listed, _ = await git.run("ls-tree", "-r", "-z", commit, "--", *sorted(searched), environment=LITERAL)
    if code:
        return {}
    found = {}
    for fact, _, name in (item.partition("\t") for item in listed.split("\0") if item):
        mode, kind, blob = fact.split(" ")
        if kind == "blob":
            found[name] = f"{mode} {blob}"
    names = {**{shown_path(name): name for name in found}, **names}
    return {path: found[names[path]] for path in paths if names.get(path) in found}


def _searched(path: str) -> str:
    """The file with this path as clients see it or, if git's name for it may be different, a directory that contains
    it."""
    certain, replaced, _ = path.partition(REPLACED)
    return (certain.rpartition("/")[0] or ".") if replaced else path


class _Comparing:
    """Finds the lines of comments in the files of a review. ``texts``: the texts by the ids of their contents; ``old``,
    ``new``: the entries of the files in base and in head; ``before``: their entries before each run. Blocking."""

    def __init__(
        self,
        texts: Mapping[str, str],
        old: Mapping[str, Entry],
        new: Mapping[str, Entry],
        before: Mapping[str, Mapping[str, Entry]],
    ) -> None:
        self._lines = {blob: lines_of(text) for blob, text in texts.items()}
        self._old, self._new, self._before = old, new, before
        self._changes: dict[tuple[str, str], Sequence[Span]] = {}

    def located(
        self, files: Sequence[FileChange], comments: Sequence[ReviewComment], begun: Mapping[str, Since]
    ) -> LocatedComments:
        hunks = {shown_path(file.path): file.hunks for file in files}
        found: list[ReviewComment] = []
        answers: dict[str, tuple[str, ...]] = {}
        for comment in comments:
            tree = self._new if comment.side == "new" else self._old
            lines = self._lines_in(comment, _blob(tree.get(comment.path)))
            if lines is None:
                found.append(msgspec.structs.replace(comment, outdated=True))
            else:
                found.append(msgspec.structs.replace(comment, line=lines.first, end_line=lines.last))
            if (since := begun.get(comment.comment_id)) is not None:
                for hunk in self._answering(comment, lines, hunks.get(comment.path, ()), since):
                    answers[hunk.id] = (*answers.get(hunk.id, ()), comment.comment_id)
        return LocatedComments(tuple(found), answers)

    def _lines_in(self, comment: ReviewComment, blob: str | None) -> Range | None:
        """The lines of a comment in the text ``blob`` (None if the file does not exist); None if they are not found."""
        lines = Range(comment.line, comment.end_line)
        if blob == comment.blob:
            return lines
        changes = self._between(comment.blob, blob)
        return None if changes is None else followed(self._lines[comment.blob], changes, lines)

    def _answering(
        self, comment: ReviewComment, lines: Range | None, hunks: Iterable[Hunk], since: Since
    ) -> list[Hunk]:
        """The hunks that have changed the lines of a comment since the moment ``since``. ``lines``: the current place
        of those lines."""
        hunks = [hunk for hunk in hunks if hunk.kind in ("lines", "file")]
        before = _blob(self._before.get(comment.run_id or "", {}).get(comment.path))
        if since == "comment":
            # Only the text of the removed lines before the runs is known, not the text around them at that time.
            before = comment.blob if comment.side == "new" else None
        after = _blob(self._new.get(comment.path))
        if before is None or before == after:
            return []
        if after is None:  # the file was deleted
            return hunks
        changes = self._between(before, after)
        if changes is None:
            return []
        if comment.side == "new":
            was = self._lines_in(comment, before)
            changes = [] if was is None else touching(changes, was)
            return [hunk for hunk in hunks if any(_meet(hunk.span, change) for change in changes)]
        if lines is None:
            return []
        # The removed lines may have been added back next to the lines of the hunk.
        hunks = [hunk for hunk in hunks if meet(hunk.span.old_start, hunk.span.old_end, lines.start, lines.last)]
        return [hunk for hunk in hunks if any(_meet(hunk.span, change, around=1) for change in changes)]

    def _between(self, old: str, new: str | None) -> Sequence[Span] | None:
        """The changes from one content to another; None if one of them is not text, or does not exist."""
        if new is None or old not in self._lines or new not in self._lines:
            return None
        if (old, new) not in self._changes:
            self._changes[old, new] = differences.diff(self._lines[old], self._lines[new])
        return self._changes[old, new]


def _blob(entry: Entry | None) -> str | None:
    return None if entry is None else entry.partition(" ")[2]


def _meet(hunk: Span, change: Span, around: int = 0) -> bool:
    """Whether a hunk contains some of the new lines of a change, or the place from which lines were removed.
    ``around``: the number of lines before and after the change that count as well."""
    return meet(hunk.new_start, hunk.new_end, change.new_start - around, change.new_end + around)
