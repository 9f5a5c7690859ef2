"""Compares the current files with those before and after a decision or a revert that was interrupted because the server
was killed or git failed. Completes it, or undoes the part that was done.
"""

from __future__ import annotations

from collections.abc import Callable

from drawbridge.server.checkpoints.commits import differences, tree_of
from drawbridge.server.checkpoints.git.git import Git
from drawbridge.server.checkpoints.git.program import LARGEST_OUTPUT
from drawbridge.server.checkpoints.work_tree import WorkTree
from drawbridge.server.reviews.change_set import REGULAR
from drawbridge.server.reviews.contents import tree_with, version_of
from drawbridge.server.reviews.intents import State, Verdict, exists, state_of, verdict


async def recovered(
    git: Git,
    work_tree: WorkTree,
    heads: tuple[str, str],
    check_at_rest: Callable[[], None],
    *,
    is_in_review: bool = False,
) -> Verdict:
    """Compares the files with those before and after a decision or a revert, which are in the commits ``heads``.
    Completes it, or undoes the part that was done, if only a part was; ``check_at_rest`` is called before files are
    written. ``is_in_review``: as in ``verdict``. Raises what ``check_at_rest`` raises, ``Changed``, ``UnsavedChanges`` or
    ``NoCheckpoint`` without changing anything, and ``GitFailed``; in each case, a later call can finish the work."""
    old, new = heads
    if not await tree_of(git, old) or not await tree_of(git, new):
        return Verdict("unknown")  # somebody removed the review's commits from the repository
    files = await differences(git, old, new)
    tree, _ = await work_tree.current(git, old)
    since = await differences(git, old, tree)
    states: dict[str, State] = {}
    for path, (before, after) in files.items():
        now = since[path][1] if path in since else before
        states[path] = state_of(before, after, now, is_part=await _is_part(git, now, after))
    found = verdict(states, is_in_review=is_in_review)
    if found.write:
        check_at_rest()
        side = 0 if found.to == "before" else 1
        wanted = await tree_with(git, tree, {path: version_of(files[path][side], {}) for path in found.write})
        await work_tree.write(git, tree, wanted, found.write)
    return found


async def _is_part(git: Git, now: str, after: str) -> bool:
    """Whether the content of a file is the beginning of the decided content, because git was killed while it was
    writing the file, or because only a part of it survived a power failure.
    """
    modes, blobs = zip(*(entry.split(" ") for entry in (now, after)), strict=True)
    if now == after or not exists(now) or not {*modes} <= REGULAR:
        return False
    sizes = [int(await git.read("cat-file", "-s", blob)) for blob in blobs]
    if not sizes[0] or sizes[0] >= sizes[1] or sizes[1] > LARGEST_OUTPUT:
        return not sizes[0]
    part, whole = [await git.read("cat-file", "blob", blob) for blob in blobs]
    return whole.startswith(part)
