"""What is in a project's directory in addition to the files in git's index, such as ignored files and nested
repositories. It is found without git where possible."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from drawbridge.server.checkpoints import git_index
from drawbridge.server.checkpoints.file_versions import Versions, versions
from drawbridge.server.checkpoints.git import Git


class Untracked(Struct, frozen=True):
    """``paths``: the paths that are not in git's index, relative to the project; a directory without a tracked file is
    one path, with a slash at its end. ``ignoring``: the versions of the ``.gitignore`` files that apply; None if they
    are not known. ``folders``: the directories with tracked files, relative to the project."""

    paths: frozenset[str]
    ignoring: Versions | None
    folders: frozenset[str] = frozenset()

    def contains(self, path: str) -> bool:
        """Whether the path, or a directory that contains it, is untracked."""
        names = path.split("/")
        above = ("/".join(names[:depth]) + "/" for depth in range(1, len(names)))
        return path in self.paths or any(directory in self.paths for directory in above)


NOTHING: Final = Untracked(frozenset(), None)


async def find_untracked(git: Git, directory: Path, known: Mapping[str, git_index.Listing] = {}) -> Untracked:
    """What is in ``directory`` in addition to the files in git's index. ``known``: the listings of its folders that
    were already made, by folder. Raises ``GitFailed`` or ``NoCheckpoint``."""
    found = await asyncio.to_thread(_by_index, git, directory, known)
    if found is not None:
        return found
    listed = await git.read("ls-files", "--others", "--directory", "-z", "--", ".")
    return Untracked(frozenset(listed.split("\0")), None)


def _by_index(git: Git, directory: Path, known: Mapping[str, git_index.Listing]) -> Untracked | None:
    """Like ``find_untracked``, without git; None if only git can read the index, or its paths are too long.
    Blocking."""
    directory, root = directory.resolve(), git.repository.root
    index = git_index.read(git.index, git.settings.id_bytes)
    if index is None:
        return None
    tracked = index.below(git.repository.prefix(directory))
    try:
        folders = git_index.folders(tracked)
    except ValueError:
        return None
    listed = {folder: known[folder] for folder in folders & known.keys()}
    listed |= git_index.listings(directory, folders - known.keys())
    found = git_index.beside(listed, tracked)
    above = directory.parents[: len(directory.parts) - len(root.parts)]
    ignoring = [*(directory / file for file in found.ignore_files), *(place / ".gitignore" for place in above)]
    return Untracked(found.untracked, versions(map(str, ignoring)), frozenset(folders))


def list_folders(directory: Path, folders: Iterable[str]) -> dict[str, git_index.Listing]:
    """What is in each of these folders of ``directory``. Blocking."""
    return git_index.listings(directory.resolve(), folders)
