"""The open review of a managed session, or of a directory with terminal sessions: the operations on its commits
(``review_commits``).

What changes during a run counts as the agent's work. What changes at any other time counts as somebody else's, and is
absorbed into base and start. A run that ended while no server was running counts as ended the next time that the review
is read.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from drawbridge.server.checkpoints.commits import (
    committed,
    differences,
    filtered_of,
    message_with,
    shown_path,
    tree_of,
)
from drawbridge.server.checkpoints.errors import NAMED, Changed, GitFailed, NoCheckpoint
from drawbridge.server.checkpoints.git.git import Git
from drawbridge.server.checkpoints.new_objects import NewObjects
from drawbridge.server.checkpoints.refs import When
from drawbridge.server.checkpoints.work_tree import WorkTree
from drawbridge.server.events import ReviewComment
from drawbridge.server.reviews import gaps
from drawbridge.server.reviews.change_set import (
    REGULAR,
    FileChange,
    Hunk,
    Version,
    absorbed,
    changed,
    renames,
    same,
)
from drawbridge.server.reviews.committing import (
    BeginCommit,
    Committed,
    NothingToCommit,
    commit,
    counted_lines,
    kept_changes,
)
from drawbridge.server.reviews.contents import (
    Entry,
    loaded_texts,
    tree_with,
    version_of,
    with_contents,
    with_new_contents,
)
from drawbridge.server.reviews.decisions import (
    Begin,
    DecisionResult,
    HunkDecision,
    HunkGone,
    Place,
    Plan,
    RequestedDecision,
    ReviewMoved,
    SameName,
    chosen_hunks,
    file_after,
    unplanned,
)
from drawbridge.server.reviews.gaps import Gaps
from drawbridge.server.reviews.intents import LISTED_PATHS, DecisionIntent, Verdict
from drawbridge.server.reviews.interrupted import recovered
from drawbridge.server.reviews.located_comments import LITERAL, Commits, LocatedComments, Side, Since, located
from drawbridge.server.reviews.open_review import OpenReview
from drawbridge.server.reviews.review_commits import Notes, ReviewCommits, Trees, notes_of

REMEMBERED_VERSIONS: Final = 20
"""The maximum number of versions of a review that are remembered, so that a user whose decision is about an earlier one
sees which files have changed since."""


class NoLines(Exception):
    """The file has no lines on that side: it does not exist there, or its lines are not compared."""


MOST_PLACES: Final = 20_000
"""The maximum number of hunks whose places are remembered, so that a user whose decision comes too late sees which file
has changed, and where."""


class _Compared(Struct, frozen=True):
    """The hunks between two versions that decisions have left. A new comparison could find different ones."""

    old: tuple[str, str] | None
    new: tuple[str, str] | None
    hunks: tuple[Hunk, ...]
    old_path: str


class Review:
    """The review of one managed session, or of one directory with terminal sessions. Each asynchronous method is part
    of one operation of its ``Checkpoints``."""

    def __init__(self, project_id: str, folder: Path) -> None:
        """``folder``: where the reasons for missing checkpoints are stored. It may not exist yet."""
        self._gaps = Gaps(folder / gaps.NAME)
        self._commits = ReviewCommits(project_id)
        self._run: str | None = ""
        """The latest run for which this server recorded the beginning; empty if it recorded none; None if any run that
        has not ended counts as active.
        """
        self._compared: dict[str, _Compared] = {}
        """The latest comparison of each file, by path."""
        self._states_in: dict[str, dict[str, int]] = {}
        """The ``states`` of the latest versions of the review, by version."""
        self._places: dict[str, Place] = {}
        """The places of the hunks that were shown last, by the ids of the hunks."""

    def continues(self) -> None:
        """Marks a run that began before the server was restarted as still active."""
        self._run = None

    def end(self) -> None:
        """Records that the latest run has ended, although no checkpoint was taken after it. The review contains what
        has changed until it is read next; what changes after that counts as work by somebody else."""
        self._run = ""

    @property
    def has_missed(self) -> bool:
        """Whether the checkpoint before the latest run was not taken or was late, and none was taken since."""
        return bool(self._gaps.missed)

    async def miss(self, reason: str) -> None:
        """Records that the checkpoint before a run was not taken, or is late. ``reason``: for the user."""
        await self._gaps.read()
        await self._gaps.set(missed=reason, lost=self._gaps.lost)

    async def set_elsewhere(self, elsewhere: str) -> None:
        """Stores where the latest run worked, if it was not in the review's directory (see ``Gaps.elsewhere``)."""
        await self._gaps.set_elsewhere(elsewhere)

    async def set_outlasted(self) -> None:
        """Stores that something in the background has outlasted the review of the latest run (``Gaps.outlasted``)."""
        await self._gaps.set_outlasted()

    async def extend(self, git: Git, run_id: str, when: When, commit: str, *, stays_open: bool = False) -> None:
        """Extends the review to a stored checkpoint of a run. ``stays_open``: whether what changes after the run still
        counts as the agent's work, until ``end`` is called or another run begins. Raises ``GitFailed``."""
        trees = await self._trees(git)
        missed = self._gaps.missed
        if trees is None:
            start = base = commit
        elif when == "after" or trees.is_running or missed:
            start, base = trees.start, trees.base
        elif await differences(git, trees.base, trees.head):
            base = await self._absorb(git, trees, commit)
            start = await self._absorb_kept(git, trees, base)
        else:
            notes = await notes_of(git, trees.base)
            # The notes stay, because a client may repeat a request, and an agent may make the same change again.
            base = commit if notes == Notes() else await self._new_base(git, commit, {}, notes)
            start = await self._absorb_kept(git, trees, base)
        if when == "before" or stays_open:
            self._run = run_id
        head = commit
        if stays_open:
            head = await committed(git, await tree_of(git, commit), f"{run_id} now", await filtered_of(git, commit))
        await self._commits.set(git, Trees(start, base, head, run_id, when != "after" or stays_open))
        known = self._gaps.lost if when == "after" else ""
        outlasted = when == "after" and self._gaps.outlasted
        await self._gaps.set(lost=missed if trees is None else known, outlasted=outlasted)

    async def current(self, git: Git, work_tree: WorkTree) -> OpenReview:
        """The review of the files as they are now. Raises ``NoCheckpoint`` or ``GitFailed``."""
        return (await self._refresh(git, work_tree))[1]

    async def stored(self, git: Git) -> OpenReview:
        """The review as it is stored, without reading the files. Raises ``GitFailed``."""
        trees = await self._trees(git)
        return (
            OpenReview(private=git.repository.private, elsewhere=self._gaps.elsewhere)
            if trees is None
            else await self._between(git, trees, await notes_of(git, trees.base))
        )

    async def decide(
        self,
        git: Git,
        work_tree: WorkTree,
        wanted: RequestedDecision,
        begin: Begin = unplanned,
        check_at_rest: Callable[[], None] = lambda: None,
    ) -> DecisionResult:
        """Applies a decision to hunks of the review as it is now. ``check_at_rest`` is called if files would be written,
        and ``begin`` before anything is changed. A request that was carried out before is not carried out again. Raises
        what these two raise, and ``HunkGone``, ``ReviewMoved``,
        ``NotEditable``, ``NoCheckpoint``, ``Changed`` or ``UnsavedChanges`` without changing anything. Raises
        ``GitFailed``, possibly after some or all files were written."""
        trees, review = await self._refresh(git, work_tree)
        if trees is None:
            raise HunkGone(next(iter(wanted.hunks), "")) if wanted.hunks else ReviewMoved
        notes = await notes_of(git, trees.base)
        if wanted.key and wanted.key in notes.requests:
            return DecisionResult(review)
        if wanted.decision != "keep":
            check_at_rest()
        if not wanted.hunks and wanted.version != review.version:
            raise ReviewMoved(self._changed_since(wanted.version, review))
        try:
            chosen = chosen_hunks(review, wanted, notes.decided)
        except HunkGone as error:
            place = await self._changed_place(git, trees.head, error)
            raise HunkGone(error.what, error.decided, place) from None
        files = {file.path: file for file in review.files}
        if wanted.decision != "keep":
            await self._check_known(git, trees, [files[path].path_before for path in chosen])
        after = {path: await asyncio.to_thread(file_after, files[path], ids, wanted) for path, ids in chosen.items()}
        olds, news = dict[str, Version | None](), dict[str, Version | None]()
        for path, file in after.items():
            before = files[path]
            olds |= _moved(before.path_before, before.old, file.path_before, file.old)
            news |= _moved(path, before.new, file.path, file.new)
        objects = NewObjects(git.settings.format)
        olds, news = with_new_contents(git, olds, objects), with_new_contents(git, news, objects)
        decided = notes.decided | {
            id: HunkDecision(wanted.by, wanted.decision) for ids in chosen.values() for id in ids
        }
        undone = {file.path: notes.named.get(path, path) for path, file in after.items() if file.path != path}
        requests = (*notes.requests, wanted.key) if wanted.key else notes.requests
        notes = Notes(decided, requests, notes.named | undone)
        sides = await differences(git, trees.base, trees.head)
        is_plain = all(_is_plain(path, one, sides) for path, one in (*olds.items(), *news.items()))
        head, tree = trees.head, ""
        if news:
            tree = await _tree_with(git, trees.head, news, objects, is_plain=is_plain)
            lost = () if is_plain else (await differences(git, trees.head, tree)).keys() - news
            if lost:  # a file would replace a directory, or vice versa
                raise Changed(sorted(map(shown_path, lost)))
            title = f"{trees.run} {'now' if trees.is_running else 'after'}"
            head = objects.commit(tree, message_with(title, await filtered_of(git, trees.head)))
        base = objects.commit(
            await _tree_with(git, trees.base, olds, objects, is_plain=is_plain),
            message_with("base", await filtered_of(git, trees.base), notes.newest),
        )
        await objects.store(git)
        counts = len(chosen), sum(map(len, chosen.values()))
        paths = tuple(map(shown_path, sorted(chosen)[:LISTED_PATHS]))
        if is_plain:
            await self._remember_decided(git, trees, trees._replace(base=base, head=head), olds, news)
        plan = Plan(*counts, (trees.base, base), (trees.head, head), paths)
        await begin(plan)
        if news:
            await work_tree.write(git, trees.head, tree, list(news))
        trees = trees._replace(base=base, head=head)
        await self._commits.set(git, trees)
        for path, file in after.items():
            old, new = olds.get(file.path_before, file.old), news.get(file.path, file.new)
            self._compared.pop(path, None)
            self._compared[file.path] = _Compared(_key(old), _key(new), file.hunks, file.old_path)
        return DecisionResult(await self._between(git, trees, notes), plan)

    async def _remember_decided(
        self,
        git: Git,
        before: Trees,
        after: Trees,
        olds: Mapping[str, Version | None],
        news: Mapping[str, Version | None],
    ) -> None:
        """Derives the differences that are needed after a decision from those before it, because a user waits. Only for
        changes that ``_is_plain``. ``olds``, ``news``: the files that the decision changes in base and in head."""
        sides = await differences(git, before.base, before.head)
        now = {
            path: (_entry_of(olds.get(path)) or old, _entry_of(news.get(path)) or new)
            for path, (old, new) in sides.items()
        }
        git.remembered.remember_differences(after.base, after.head, _different(now))
        made = {path: (sides[path][1], _entry_of(one)) for path, one in news.items()}
        git.remembered.remember_differences(before.head, after.head, _different(made))
        kept = await differences(git, before.start, before.base)
        kept |= {path: (kept.get(path, sides[path])[0], _entry_of(one)) for path, one in olds.items()}
        git.remembered.remember_differences(before.start, after.base, _different(kept))

    async def recover(
        self, git: Git, work_tree: WorkTree, intent: DecisionIntent, check_at_rest: Callable[[], None]
    ) -> Verdict:
        """Determines the state of an interrupted decision, and completes it or undoes the part that was done. Raises
        the same errors as ``recovered``.
        """
        trees = await self._trees(git)
        now = (trees.base, trees.head) if trees else None
        before, after = zip(intent.bases, intent.heads, strict=True)
        found = await recovered(git, work_tree, intent.heads, check_at_rest, is_in_review=now == after)
        if trees is not None and now == before and found.result == "done":
            await self._commits.set(git, trees._replace(base=intent.bases[1], head=intent.heads[1]))
        return found

    async def commit(
        self,
        git: Git,
        work_tree: WorkTree,
        message: str,
        branch: str | None,
        files: Collection[str],
        begin: BeginCommit,
    ) -> Committed:
        """Commits the changes to ``files`` that were kept; all that were kept if ``files`` is empty. ``begin`` is
        called before anything is changed. Raises ``NoCheckpoint`` or the errors of ``committing.commit``; in that case,
        nothing was changed except for what a hook itself has changed."""
        trees, _ = await self._refresh(git, work_tree)
        if trees is None:
            raise NothingToCommit
        done = await commit(git, trees.start, trees.base, trees.head, message, branch, files, begin)
        kept = await differences(git, trees.start, trees.base)
        await self._are_committed(git, trees, {path: kept[path] for path in done.kept})
        return done

    async def kept(self, git: Git, *, counted: bool) -> dict[str, tuple[int, int]]:
        """The files with changes that were kept and not committed. Maps each path to the numbers of added and removed
        lines, which are 0 for a binary file, and for every file unless ``counted``. After this call, what the last
        commit contains no longer counts as kept. Raises ``GitFailed``."""
        trees = await self._trees(git)
        kept = await differences(git, trees.start, trees.base) if trees else {}
        if trees is None or not kept:
            return {}
        left = await kept_changes(git, trees.start, trees.base)
        await self._are_committed(git, trees, {path: both for path, both in kept.items() if path not in left})
        return await counted_lines(git, trees.start, trees.base, left) if counted else dict.fromkeys(left, (0, 0))

    async def _are_committed(self, git: Git, trees: Trees, kept: Mapping[str, tuple[Entry, Entry]]) -> None:
        """Moves start to base for these files."""
        if kept:
            tree = await tree_with(git, trees.start, {path: version_of(made, {}) for path, (_, made) in kept.items()})
            start = await committed(git, tree, "start", await filtered_of(git, trees.start))
            await self._commits.set(git, trees._replace(start=start))

    async def text_of(self, git: Git, work_tree: WorkTree, path: str, side: Side) -> Version:
        """One side of a file of the review as it is now. ``path``: the file's path as clients see it. Raises
        ``HunkGone``, ``SameName``, ``NoLines``, ``NoCheckpoint`` or ``GitFailed``."""
        review = await self.current(git, work_tree)
        files = [file for file in review.files if shown_path(file.path) == path]
        if not files:
            raise HunkGone(path)
        if len(files) > 1:
            raise SameName(path)
        version = files[0].new if side == "new" else files[0].old
        if version is None or version.text is None:
            raise NoLines
        return version

    async def located(
        self, git: Git, review: OpenReview, comments: Sequence[ReviewComment], begun: Mapping[str, Since]
    ) -> LocatedComments:
        """The comments at their lines in the files of ``review``. ``begun``: the ids of the comments with a run that
        has begun, each with the moment from which on hunks count as answers to it. Raises ``GitFailed``."""
        trees = await self._trees(git) if comments else None
        if trees is None:
            return LocatedComments(tuple(comments))
        return await located(git, Commits(trees.base, trees.head, self._commits.runs), review.files, comments, begun)

    async def keep_texts(self, git: Git, blobs: Collection[str]) -> None:
        """Makes git keep these contents of files with comments until the next call or until the checkpoints are
        removed. Raises ``GitFailed``.
        """
        await self._commits.keep_texts(git, blobs)

    async def _refresh(self, git: Git, work_tree: WorkTree) -> tuple[Trees | None, OpenReview]:
        """Updates head to the files as they are now. Returns the review's commits (None if ``_trees`` finds none) and
        the review. Raises ``NoCheckpoint`` or ``GitFailed``."""
        trees = await self._trees(git)
        if trees is None:
            await work_tree.check_size(git)
            _check_recorded(self._gaps.missed)
            return None, OpenReview(private=git.repository.private, elsewhere=self._gaps.elsewhere)
        # What an agent has done is in the last checkpoint, so a directory that has become too large since then does not
        # prevent decisions on it.
        is_complete = not (trees.is_running or self._gaps.missed)
        tree, filtered = await work_tree.current(git, trees.head, only_known=is_complete)
        start, base = trees.start, trees.base
        is_running = trees.is_running and self._run in (None, trees.run)
        title = f"{trees.run} {'now' if is_running else 'after'}"
        is_new = tree != await tree_of(git, trees.head) and await differences(git, trees.head, tree)
        if is_new or is_running != trees.is_running:
            head = await committed(git, tree, title, filtered)
            if is_complete:
                base = await self._absorb(git, trees, head)
                start = await self._absorb_kept(git, trees, base)
            trees = Trees(start, base, head, trees.run, is_running)
            await self._commits.set(git, trees)
        notes = await notes_of(git, trees.base)
        review = await self._between(git, trees, notes)
        if not review.files and not notes.decided:
            _check_recorded(self._gaps.lost)
        return trees, review

    async def _trees(self, git: Git) -> Trees | None:
        """Like ``ReviewCommits.read``, and reads the reasons for missing checkpoints."""
        await self._gaps.read()
        return await self._commits.read(git)

    async def _absorb(self, git: Git, trees: Trees, now: str) -> str:
        """The base after it has absorbed what somebody else changed from head to ``now``, a commit or a tree. A new
        commit if that changes a file, otherwise the same base."""
        new = await self._absorbed(git, trees.base, trees.head, now)
        return await self._new_base(git, trees.base, new, await notes_of(git, trees.base)) if new else trees.base

    async def _absorb_kept(self, git: Git, trees: Trees, base: str) -> str:
        """The start after it has absorbed what somebody else changed from the previous base to ``base``. ``base``
        itself if nothing was kept."""
        if not await differences(git, trees.start, trees.base):
            return base
        new = await self._absorbed(git, trees.start, trees.base, base)
        if not new:
            return trees.start
        return await committed(git, await tree_with(git, trees.start, new), "start", await filtered_of(git, base))

    async def _absorbed(self, git: Git, base: str, head: str, now: str) -> dict[str, Version | None]:
        """The files of ``base`` that change when it absorbs the changes from ``head`` to ``now``. Maps each path to its
        new version."""
        theirs = await differences(git, head, now)
        ours = await differences(git, base, head) if theirs else {}
        new: dict[str, Version | None] = {}
        both = theirs.keys() & ours
        loaded = await loaded_texts(git, [entry for path in sorted(both) for entry in (*ours[path], *theirs[path])])
        renamed = {}
        if any(version_of(ours[path][0], {}) is None for path in both):
            loaded |= await loaded_texts(git, [entry for entries in ours.values() for entry in entries])
            renamed = await asyncio.to_thread(self._renames, _versions(ours, loaded))
        moved = await _renamed_since(git, base, theirs, both)
        moved = {path: old for path, old in moved.items() if path not in ours or path == renamed.get(old)}
        if moved:
            loaded |= await loaded_texts(git, [entry for entries in theirs.values() for entry in entries])
        for path, (_, there) in theirs.items():
            path_in_head = moved.get(path, path)
            if path_in_head not in ours:
                new[path] = version_of(there, loaded)
                continue
            path_before = renamed.get(path_in_head, path_in_head)
            is_gone = version_of(there, {}) is None
            if is_gone and (path in moved.values() or path != path_before):
                continue  # the file is handled under its new path, or is now shown as deleted under its previous one
            was, before = version_of(ours[path_before][0], loaded), version_of(theirs[path_in_head][0], loaded)
            found = await asyncio.to_thread(absorbed, was, before, version_of(there, loaded))
            if was is not None and path_before == path_in_head != path:
                new |= {path_before: None, path: found}
            elif not same(found, was):
                new[path_before] = found
        return await with_contents(git, new)

    async def _new_base(self, git: Git, base: str, new: Mapping[str, Version | None], notes: Notes) -> str:
        tree = await tree_with(git, base, new) if new else f"{base}^{{tree}}"
        return await committed(git, tree, "base", await filtered_of(git, base), notes.newest)

    async def _between(self, git: Git, trees: Trees, notes: Notes) -> OpenReview:
        """The hunks between base and head."""
        entries = await differences(git, trees.base, trees.head)
        loaded = await loaded_texts(git, [entry for both in entries.values() for entry in both])
        files = await asyncio.to_thread(self._compare, entries, loaded, notes)
        self._compared = {
            file.path: _Compared(_key(file.old), _key(file.new), file.hunks, file.old_path) for file in files
        }
        gaps = self._gaps
        review = OpenReview(tuple(files), git.repository.private, gaps.lost, gaps.elsewhere, gaps.outlasted)
        if review.version not in self._states_in:
            self._states_in[review.version] = review.states()
            if len(self._states_in) > REMEMBERED_VERSIONS:
                del self._states_in[next(iter(self._states_in))]
        self._remember_places(files)
        return review

    def _remember_places(self, files: Iterable[FileChange]) -> None:
        for file in files:
            new = _key(file.new)
            for hunk in file.hunks:
                line = hunk.span.new_start + 1 if hunk.kind == "lines" else None
                self._places.pop(hunk.id, None)
                self._places[hunk.id] = Place(file.path, line, new)
        for id in list(self._places)[: max(0, len(self._places) - MOST_PLACES)]:
            del self._places[id]

    async def _changed_place(self, git: Git, head: str, gone: HunkGone) -> Place | None:
        """The place of a hunk that no longer needs a decision, if its file differs from the one that was shown. Raises
        ``GitFailed``."""
        place = self._places.get(gone.what)
        if place is None or gone.decided is not None:
            return None
        listed = await git.read("ls-tree", "-z", head, "--", place.path, environment=LITERAL)
        mode, _, blob = listed.partition("\t")[0].partition("\0")[0].partition(" ")
        now = (mode, blob.rpartition(" ")[2]) if listed else None
        return place if now != place.new else None

    def _changed_since(self, version: str | None, review: OpenReview) -> list[str]:
        """The files whose part of the review has changed since a version; empty if that version is not remembered."""
        before = self._states_in.get(version or "")
        if before is None:
            return []
        now = review.states()
        return sorted(shown_path(path) for path in before.keys() | now.keys() if before.get(path) != now.get(path))

    def _compare(
        self, entries: Mapping[str, tuple[Entry, Entry]], loaded: Mapping[str, str], notes: Notes
    ) -> list[FileChange]:
        """The changed files, with their hunks. Blocking."""
        sides = _versions(entries, loaded)
        renamed = self._renames(sides)
        old_paths = set(renamed.values())
        files = []
        for path, (old, new) in sides.items():
            if path in old_paths:
                continue
            old_path = renamed.get(path, "")
            if old_path:
                old = sides[old_path][0]
            known = self._compared.get(path)
            same_sides = (_key(old), _key(new), old_path)
            if known is not None and known.hunks and (known.old, known.new, known.old_path) == same_sides:
                files.append(FileChange(path, old, new, known.hunks, old_path))
            else:
                files.append(changed(path, old, new, notes.decided, old_path, notes.named.get(path, "")))
        files = [file for file in files if file.hunks]
        # A file may since have been created at the path from which another one's ids were made.
        counts = Counter(hunk.id for file in files for hunk in file.hunks)
        for number, file in enumerate(files):
            if file.path in notes.named and any(counts[hunk.id] > 1 for hunk in file.hunks):
                files[number] = changed(file.path, file.old, file.new, notes.decided, file.old_path)
        return files

    def _renames(self, sides: Mapping[str, tuple[Version | None, Version | None]]) -> dict[str, str]:
        """Like ``renames``, with the renames that clients already know. Blocking."""
        return renames(sides, {path: known.old_path for path, known in self._compared.items() if known.old_path})

    async def _check_known(self, git: Git, trees: Trees, paths: Iterable[str]) -> None:
        """Raises ``NoCheckpoint`` if the content of a file before its change was not read."""
        unread = (await filtered_of(git, trees.base)).unread
        lost = sorted(map(shown_path, unread.intersection(paths)))
        if lost:
            names = ", ".join(lost[:NAMED]) + (" and others" if len(lost) > NAMED else "")
            raise NoCheckpoint(
                f"The change can't be undone: a git filter (such as Git LFS) applies to {names}, and the content before "
                "the change was not stored. Restore the committed content with git."
            )


async def _tree_with(
    git: Git, commit: str, new: Mapping[str, Version | None], objects: NewObjects, *, is_plain: bool
) -> str:
    """Like ``tree_with``. A tree that can be made without git is added to ``objects``; otherwise, all of ``objects`` are
    stored first. ``is_plain``: whether this is so for each file (``_is_plain``). Raises ``GitFailed``."""
    root = await tree_of(git, commit)
    if not root:
        raise GitFailed(f"the review's commit {commit} does not exist")
    if not new:
        return root
    if is_plain:
        prefix = await git.prefix()
        files = {f"{prefix}{path}": (one.mode, one.blob) for path, one in new.items() if one is not None}
        if (tree := await objects.tree(git, root, files)) is not None:
            return tree
    await objects.store(git)
    return await tree_with(git, commit, new)


async def _renamed_since(
    git: Git, base: str, theirs: Mapping[str, tuple[Entry, Entry]], open_paths: Collection[str]
) -> dict[str, str]:
    """The files with hunks that somebody else has renamed. Maps the new path to the path in head. ``theirs``: what
    somebody else has changed since head; ``open_paths``: the files of it that also differ between ``base`` and head. A
    file whose content in ``base`` was not read counts as deleted. Raises ``GitFailed``."""
    sides = _versions(theirs, {})
    gone = {path for path in open_paths if sides[path][1] is None}
    if not gone or all(before is not None for before, _ in sides.values()):
        return {}
    gone -= (await filtered_of(git, base)).unread
    loaded = await loaded_texts(git, [entry for entries in theirs.values() for entry in entries])
    found = await asyncio.to_thread(renames, _versions(theirs, loaded))
    return {path: old_path for path, old_path in found.items() if old_path in gone}


def _check_recorded(missing: str) -> None:
    """Raises ``NoCheckpoint`` if what the latest run changed is not in the review. ``missing``: the reason, or ""."""
    if missing:
        text = "The changes of the latest run can't be reviewed, because no checkpoint was taken before it"
        raise NoCheckpoint(f"{text}: {missing}")


def _versions(
    entries: Mapping[str, tuple[Entry, Entry]], texts: Mapping[str, str]
) -> dict[str, tuple[Version | None, Version | None]]:
    return {path: (version_of(old, texts), version_of(new, texts)) for path, (old, new) in entries.items()}


def _moved(path: str, was: Version | None, path_now: str, now: Version | None) -> dict[str, Version | None]:
    """The changes that a decision makes to one of the trees. Maps each path to its new version. A renamed file is
    removed from ``path``."""
    if path != path_now:
        return {path: None, path_now: now}
    return {} if same(was, now) else {path: now}


def _is_plain(path: str, version: Version | None, sides: Mapping[str, tuple[Entry, Entry]]) -> bool:
    """Whether a file was and stays a regular file on both sides, so that no other file changes with it."""
    return (
        version is not None
        and version.mode in REGULAR
        and all(entry.partition(" ")[0] in REGULAR for entry in sides.get(path, ("",)))
    )


def _entry_of(version: Version | None) -> Entry:
    """The entry of a file; empty for None."""
    return f"{version.mode} {version.blob}" if version else ""


def _different(sides: Mapping[str, tuple[Entry, Entry]]) -> dict[str, tuple[Entry, Entry]]:
    """The files that differ, in git's order."""
    paths = sorted((path for path, (old, new) in sides.items() if old != new), key=os.fsencode)
    return {path: sides[path] for path in paths}


def _key(version: Version | None) -> tuple[str, str] | None:
    return (version.mode, version.blob) if version else None
