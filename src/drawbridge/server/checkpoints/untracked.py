"""Finds what a project's directory contains in addition to the files in git's index, such as ignored files and nested
repositories. Does not start git if possible."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from msgspec import Struct

from drawbridge.server.checkpoints.file_versions import Versions, versions
from drawbridge.server.checkpoints.git import index as git_index
from drawbridge.server.checkpoints.git.git import Git

LONGEST_FOLDERS: Final = git_index.LARGEST_INDEX
"""The maximum total length of the paths of the directories that contain tracked files, in characters."""

Listing: TypeAlias = list[tuple[str, bool]]
"""The names in a directory, each with whether it is a directory itself (a link to one is not)."""


class Untracked(Struct, frozen=True):
    """The untracked contents of a project's directory. ``paths``: the paths that are not in git's index, relative to
    the project. A directory without a tracked file is one path, with a slash at its end. ``ignoring``: the versions of
    the ``.gitignore`` files that apply; None if they are not known. ``folders``: the directories with tracked files,
    relative to the project."""

    paths: frozenset[str]
    ignoring: Versions | None
    folders: frozenset[str] = frozenset()

    def contains(self, path: str) -> bool:
        """Whether the path, or a directory that contains it, is untracked."""
        names = path.split("/")
        above = ("/".join(names[:depth]) + "/" for depth in range(1, len(names)))
        return path in self.paths or any(directory in self.paths for directory in above)


NOTHING: Final = Untracked(frozenset(), None)


async def find_untracked(git: Git, directory: Path, known: Mapping[str, Listing] = {}) -> Untracked:
    """Finds what ``directory`` contains in addition to the files in git's index. ``known``: the listings that already
    exist, by folder. Raises ``GitFailed`` or ``NoCheckpoint``."""
    found = await asyncio.to_thread(_by_index, git, directory, known)
    if found is not None:
        return found
    listed = await git.read("ls-files", "--others", "--directory", "-z", "--", ".")
    return Untracked(frozenset(listed.split("\0")), None)


def _by_index(git: Git, directory: Path, known: Mapping[str, Listing]) -> Untracked | None:
    """Like ``find_untracked``, without git; None if only git can read the index, or its paths are too long.
    Blocking."""
    directory, root = directory.resolve(), git.repository.root
    scanned = git_index.scan(git.index, git.settings.id_bytes)
    if scanned is None:
        return None
    tracked = scanned.paths
    if prefix := git.repository.prefix(directory):
        tracked = {path.removeprefix(prefix) for path in tracked if path.startswith(prefix)}
    try:
        folders = folders_of(tracked)
    except ValueError:
        return None
    listed = {folder: known[folder] for folder in folders & known.keys()}
    listed |= list_folders(directory, folders - known.keys())
    paths, ignore_files = without(listed, tracked)
    above = directory.parents[: len(directory.parts) - len(root.parts)]
    ignoring = [*(directory / file for file in ignore_files), *(parent / ".gitignore" for parent in above)]
    return Untracked(frozenset(paths), versions(map(str, ignoring)), frozenset(folders))


def folders_of(tracked: Iterable[str]) -> set[str]:
    """The directories that contain these files, at any depth, including "" for the top. Raises ``ValueError`` if their
    paths are longer than ``LONGEST_FOLDERS``, because an index can name directories that no file system has."""
    above: set[str] = {""}
    room = LONGEST_FOLDERS
    for path in tracked:
        parent = path.rpartition("/")[0]
        while parent not in above:
            above.add(parent)
            room -= len(parent)
            if room < 0:
                raise ValueError("directories are nested too deeply")
            parent = parent.rpartition("/")[0]
    return above


def list_folders(directory: Path, folders: Iterable[str]) -> dict[str, Listing]:
    """The contents of each of these folders of ``directory``, by folder. Blocking."""
    directory = directory.resolve()
    found: dict[str, Listing] = {}
    for folder in folders:
        try:
            with os.scandir(directory / folder) as entries:
                found[folder] = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        except OSError:  # the directory no longer exists, or can't be read
            found[folder] = []
    return found


def without(listed: Mapping[str, Listing], tracked: Collection[str]) -> tuple[set[str], set[str]]:
    """The listed paths that are not tracked, ignored or not, as ``git ls-files --others --directory`` lists them (a
    directory without a tracked file is one entry that ends with a slash), and each ``.gitignore``, tracked or not, that
    applies to a tracked file. ``listed``: the listing of each of the folders of ``tracked``."""
    untracked: set[str] = set()
    ignore_files: set[str] = set()
    for folder, entries in listed.items():
        prefix = f"{folder}/" if folder else ""
        for name, is_directory in entries:
            path = prefix + name
            if name == ".gitignore":
                ignore_files.add(path)
            if name == ".git" or path in tracked:
                continue
            if not is_directory:
                untracked.add(path)
            elif path not in listed:
                untracked.add(path + "/")
    return untracked, ignore_files
