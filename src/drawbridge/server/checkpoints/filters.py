"""The files of a checkpoint that have a filter, such as Git LFS or git-crypt.

Filters never run. A checkpoint contains the bytes that a file with a filter has in the work tree, so that the file is
shown and reverted exactly. Because that requires reading these files for every checkpoint, only the smallest ones are
read, up to ``FILTERED_BYTES`` in total. Any other such file that is unchanged according to the user's index is in the
checkpoint in the form that its filter produced. If a run changes one of these files, its content before the run is not
known, and reverting the run is refused.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Final

from drawbridge.agents.memory import MB
from drawbridge.server.checkpoints.commits import Filtered, shown_path
from drawbridge.server.checkpoints.errors import NoCheckpoint, enumerated
from drawbridge.server.checkpoints.git import Git

LIST: Final = ("ls-files", "-s", "-z", "--", ".", ":(exclude,attr:!filter)", ":(exclude,attr:-filter)")
"""The git command that lists the files of the index that have the ``filter`` attribute, with or without a value."""

FILTERED_BYTES: Final = 32 * MB
"""The maximum number of bytes of files with a filter that are read for a checkpoint, the smallest files first. It does
not apply to a checkpoint that is based on an earlier one. The same files are read for it, and new ones."""


async def filtered_entries(git: Git) -> dict[str, str]:
    """The entries of the files with a filter in git's index. Maps each path to "mode blob stage". Raises ``GitFailed``
    or ``NoCheckpoint``."""
    return entries(await git.read(*LIST))


def entries(listed: str) -> dict[str, str]:
    """Parses the output of ``ls-files -s -z``. Maps each path to "mode blob stage"."""
    items = (item.partition("\t") for item in listed.split("\0") if item)
    return {path: entry for entry, _, path in items}


def smallest(directory: Path, paths: Iterable[str]) -> frozenset[str]:
    """The smallest of ``paths``, files of ``directory``: those that are read for one checkpoint. Blocking."""
    sizes = []
    for path in paths:
        with contextlib.suppress(OSError):  # the file may no longer exist
            sizes.append(((directory / path).lstat().st_size, path))
    sums = itertools.accumulate(size for size, _ in sorted(sizes))
    return frozenset(path for (_, path), sum in zip(sorted(sizes), sums, strict=True) if sum <= FILTERED_BYTES)


def filtered_since(
    read: Collection[str], known: Mapping[str, str], earlier: Mapping[str, tuple[int, bytes]]
) -> Filtered:
    """The files with a filter in a checkpoint that is based on the index of the last one. ``read``: the files that were
    read for the last one. No other file had a filter then. ``known``: the entries of the files that have a filter now.
    ``earlier``: the entries of the last index, as in ``git_index.Index``.

    If a file acquired its filter after the last checkpoint and its entry is unchanged, the entry may contain the
    filter's output, so the file counts as unread.
    """
    new = known.keys() - read
    unread = frozenset(path for path in new if path in earlier and known[path] == _entry(*earlier[path]))
    return Filtered((frozenset(read) | known.keys()) - unread, unread)


def _entry(mode: int, object_id: bytes) -> str:
    """An entry as ``entries`` returns it, for a file that is not in conflict."""
    return f"{mode:o} {object_id.hex()} 0"


def check_read(unread: frozenset[str], changed: Iterable[str]) -> None:
    """Raises ``NoCheckpoint`` if the previous content of a file that a run changed was not read."""
    lost = sorted(shown_path(path) for path in unread.intersection(changed))
    if lost:
        raise NoCheckpoint(
            f"The run can't be undone: a git filter (such as Git LFS) applies to {enumerated(lost)}, and the content "
            "before the run was not stored. Restore the committed content with git."
        )
