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
from typing import Final, NamedTuple

from drawbridge.agents.memory import MB
from drawbridge.server.checkpoints.commits import Filtered, shown_path
from drawbridge.server.checkpoints.errors import NoCheckpoint, enumerated
from drawbridge.server.checkpoints.git.git import Git
from drawbridge.server.checkpoints.repository import LARGEST_FILE, beginning_of, is_odd
from drawbridge.server.checkpoints.untracked import folders_of

LIST: Final = ("ls-files", "-s", "-z", "--", ".", ":(exclude,attr:!filter)", ":(exclude,attr:-filter)")
"""The git command that lists the files of the index that have the ``filter`` attribute, with or without a value."""

ATTRIBUTES: Final = ".gitattributes"

FILTER: Final = b"filter"
"""Every list of attributes that gives a filter to a file contains this word, even if it does so with a macro."""

IDENT: Final = b"ident"
"""As ``FILTER``, for the attribute with which git writes the id of a file's content into the file."""

EITHER: Final = frozenset({FILTER, IDENT})

MOST_FOLDERS: Final = 2_000
"""If files are in more directories than this, git is faster."""

FILTERED_BYTES: Final = 32 * MB
"""The maximum number of bytes of files with a filter that are read for a checkpoint, the smallest files first. It does
not apply to a checkpoint that is based on an earlier one. The same files are read for it, and new ones."""


class Folders(NamedTuple):
    """The directories of the files in an index, and those of its lists of attributes."""

    tracked: frozenset[str]
    listing: frozenset[str]


def folders_in(tracked: Collection[str]) -> Folders | None:
    """The directories of an index with these paths; None if the paths are too long."""
    with contextlib.suppress(ValueError):
        parts = (path.rpartition("/") for path in tracked)
        listing = frozenset(folder for folder, _, name in parts if name == ATTRIBUTES)
        return Folders(frozenset(folders_of(tracked)), listing)
    return None


class Attributes:
    """Tells without git that no file in ``directory`` has a filter or the ``ident`` attribute. Most projects have no
    such file, and git would look for the attributes of each file."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def named_in_lists(self, git: Git, folders: Folders | None) -> frozenset[bytes]:
        """Those of ``FILTER`` and ``IDENT`` that the lists of attributes may name for a file in these directories of
        git's index. None if only git can tell the directories. Blocking."""
        if folders is None:
            return EITHER
        # Without the file, git reads the list in the index.
        is_only_in_index = any(not (self._directory / folder / ATTRIBUTES).is_file() for folder in folders.listing)
        return EITHER if is_only_in_index else self._named(git, folders.tracked)

    def may_filter(self, git: Git, folders: Collection[str]) -> bool:
        """Whether a file in these directories may have a filter. A ``.gitattributes`` that is in git's index must also
        be in the work tree. Blocking."""
        return FILTER in self._named(git, folders)

    def _named(self, git: Git, folders: Collection[str]) -> frozenset[bytes]:
        """Those of ``FILTER`` and ``IDENT`` that may be named for a file in these directories, as in ``may_filter``.
        Blocking."""
        root = git.repository.root
        if git.repository.private or len(folders) > MOST_FOLDERS or self._directory.resolve() != root:
            return EITHER
        files = [root / folder / ATTRIBUTES for folder in folders]
        files += [git.repository.common / "info/attributes", Path(git.settings.attributes_file)]
        found = set[bytes]()
        for file in files:
            if is_odd(file):
                return EITHER
            content = beginning_of(file, LARGEST_FILE + 1) or b""
            found |= {word for word in EITHER if word in content}
        return frozenset(found)


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
