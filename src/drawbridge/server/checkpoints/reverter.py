"""Reverts what one run changed, and nothing else. Later changes are kept, and merged line by line."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeAlias

from drawbridge.server.checkpoints.changes import RunChanges, changes_between, statuses
from drawbridge.server.checkpoints.commits import committed, differences, filtered_of, listed_differences, shown_path
from drawbridge.server.checkpoints.errors import Changed
from drawbridge.server.checkpoints.filters import check_read
from drawbridge.server.checkpoints.git.git import Git
from drawbridge.server.checkpoints.operations import Operations
from drawbridge.server.checkpoints.refs import Refs
from drawbridge.server.checkpoints.work_tree import WorkTree
from drawbridge.text import hunks, split

MERGED: Final = ("current", "after", "before")
"""The names of the files for a merge, in the order in which ``git merge-file`` expects them."""


Begin: TypeAlias = Callable[[RunChanges, tuple[str, str]], Awaitable[None]]
"""Called with the run's changes, and with commits of the files before and after the revert, before anything is changed.
If it raises, nothing is changed."""


async def _unplanned(changes: RunChanges, heads: tuple[str, str]) -> None:
    """A ``Begin`` that does nothing."""


class Reverter:
    """Reverts the runs of one project."""

    def __init__(self, operations: Operations, refs: Refs, work_tree: WorkTree) -> None:
        self._operations = operations
        self._refs = refs
        self._work_tree = work_tree

    async def revert(self, run_id: str, begin: Begin = _unplanned) -> RunChanges:
        """Reverts exactly what the run changed, and returns these changes. ``begin`` is called before that. Raises
        ``Changed``, ``UnsavedChanges``, ``NoCheckpoint``, ``GitFailed`` or OSError without changing anything, unless
        git itself was killed while it was writing the files."""
        async with self._operations.exclusive() as git:
            before, after = await self._refs.commits(git, run_id)
            listed = await statuses(git, before, after)
            paths = [path for _, path in listed]
            check_read((await filtered_of(git, before)).unread, paths)
            changes = await changes_between(git, run_id, before, after, listed)
            now, filtered = await self._work_tree.current(git, after)
            await undo_in_index(git, before, after)
            wanted = (await git.read("write-tree")).strip()
            trees = {"before the revert": now, "after the revert": wanted}
            old, new = [await committed(git, tree, title, filtered) for title, tree in trees.items()]
            await begin(changes, (old, new))
            await self._work_tree.write(git, now, wanted, paths)
            return changes


async def undo_in_index(git: Git, before: str, after: str) -> None:
    """Undoes what changed between two checkpoints in git's index, which contains the current files. Raises ``Changed``,
    ``GitFailed``, ``NoCheckpoint`` or OSError."""
    options = ("--no-renames", "--ignore-submodules=all", "--relative", "-z")
    changed = await differences(git, before, after)
    since = listed_differences(await git.read("diff-index", "--cached", *options, after, "--", "."))
    prefix = await git.prefix()
    lines: list[str] = []
    refused: dict[str, int | None] = {}
    for path, (old, new) in changed.items():
        current = since[path][1] if path in since else new
        wanted = old if current == new else current if current == old else await _merged(git, current, new, old)
        if isinstance(wanted, str):
            lines.append(f"{wanted}\t{prefix}{path}\0")
        else:
            refused[shown_path(path)] = wanted
    if refused:
        raise Changed(sorted(refused), {path: line for path, line in refused.items() if line is not None})
    if lines:
        await git.read("update-index", "--replace", "-z", "--index-info", stdin="".join(lines))


async def _merged(git: Git, current: str, after: str, before: str) -> str | int | None:
    """The entry of a file that was changed after the run, with the run's changes (from ``before`` to ``after``) undone.
    If the later changes conflict with that, the line where the conflict begins, from 1; None if the conflict is not in
    lines."""
    (mode, mode_after, mode_before), blobs = zip(*(entry.split(" ") for entry in (current, after, before)), strict=True)
    if not {mode, mode_after, mode_before} <= {"100644", "100755"}:
        return None
    texts = [await git.read("cat-file", "blob", blob) for blob in blobs]
    files = [str(git.folder / name) for name in MERGED]
    for name, text in zip(files, texts, strict=True):
        await asyncio.to_thread(Path(name).write_bytes, text.encode(errors="surrogateescape"))
    if (await git.run("merge-file", "--quiet", *files))[0]:
        return None if any("\0" in text for text in texts) else await asyncio.to_thread(first_conflict, *texts)
    blob = (await git.read("hash-object", "-w", "--no-filters", files[0])).strip()
    return f"{mode_before if mode == mode_after else mode} {blob}"


def first_conflict(current: str, after: str, before: str) -> int | None:
    """The first line of ``current``, from 1, that was changed in a place where undoing the run (from ``after`` to
    ``before``) changes something. None if no such line was changed."""
    lines = split(after)[0]
    undone = hunks.diff(lines, split(before)[0])
    for hunk in hunks.diff(lines, split(current)[0]):
        if any(hunk.old_start <= other.old_end and other.old_start <= hunk.old_end for other in undone):
            return hunk.new_start + 1
    return None
