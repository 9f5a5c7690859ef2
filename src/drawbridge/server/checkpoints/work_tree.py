"""The files of a project, read into a tree of git and written from one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from drawbridge.server.checkpoints.commits import PATCH, Filtered, shown_path, tree_of
from drawbridge.server.checkpoints.errors import Changed, GitFailed
from drawbridge.server.checkpoints.git.git import Git
from drawbridge.server.checkpoints.private import PrivateRepository
from drawbridge.server.checkpoints.staging import Staging
from drawbridge.server.checkpoints.unsaved import FindUnsaved, UnsavedChanges

REFUSED: Final = 1
"""The exit code of ``git apply`` if the patch does not match the files. In that case, nothing was written. With other
codes, some files may have been written.
"""

EVERYONE: Final = 0o777
NOT_EXECUTABLE: Final = 0o666
READABLE: Final = 0o444
"""Permissions of a file."""


class WorkTree:
    """The files in ``directory``. ``private``: its private repository; None if it can't have one."""

    def __init__(
        self, directory: Path, staging: Staging, private: PrivateRepository | None, find_unsaved: FindUnsaved
    ) -> None:
        self._directory = directory
        self._staging = staging
        self._private = private
        self._find_unsaved = find_unsaved

    async def check_size(self, git: Git) -> None:
        """Raises ``NoCheckpoint`` if the directory is too large for checkpoints, and ``GitFailed``."""
        if self._private is not None:
            await self._private.check_size(git)

    async def current(self, git: Git, since: str, *, only_known: bool = False) -> tuple[str, Filtered]:
        """The current files as a tree, to be compared with the checkpoint ``since``, and the files with a filter.
        ``only_known``: as in ``Staging.add_changes``. Afterwards, git's index matches this tree. Raises ``GitFailed``,
        ``NoCheckpoint`` or OSError."""
        filtered, _ = await self._staging.read_all(git, since, only_known=only_known)
        code, tree, _ = await git.run("write-tree")
        if code or tree.strip() != await tree_of(git, since):  # otherwise, the selection of files is the same
            await self._staging.keep_selection(git, since)
            tree = await git.read("write-tree")
        return tree.strip(), filtered

    async def write(self, git: Git, now: str, wanted: str, paths: Sequence[str]) -> None:
        """Changes the files from the tree ``now``, their current state, to the tree ``wanted``. Existing files keep
        their permissions. ``paths``: the paths of the files that differ. Raises ``UnsavedChanges`` if an editor has
        unsaved changes to one of them, ``Changed`` if the files no longer match ``now``, and ``GitFailed``, possibly
        after some files were written."""
        unsaved = await asyncio.to_thread(self._unsaved, paths)
        if unsaved:
            raise UnsavedChanges(unsaved)
        # The patch is made from the current files, so that each hunk applies at exactly one position, even if other
        # parts of the file look the same.
        patch = git.folder / "patch"
        await git.read(*PATCH, "-p", "--binary", "--full-index", f"--output={patch}", now, wanted, "--", ".")
        if (await asyncio.to_thread(patch.stat)).st_size:
            modes = await asyncio.to_thread(self._modes, paths)
            mask = await asyncio.to_thread(_umask, git.folder)
            # git replaces each file by a new one, which other users must not be able to read even for a moment if they
            # could not read the file before.
            closed = any(_of_new_file(mode, mask) & ~mode for mode in modes.values())
            new = await asyncio.to_thread(self._missing, paths) if closed else ()
            code, _, complaint = await git.run("apply", "--whitespace=nowarn", str(patch), writes=True, closed=closed)
            await asyncio.to_thread(self._set_modes, modes, new, mask)
            if code > REFUSED:
                raise GitFailed(f"git could not write all files: {complaint.strip()[:500]}")
            if code:
                raise Changed(named_files(complaint, await git.prefix(), paths))

    def _modes(self, paths: Iterable[str]) -> dict[str, int]:
        """The permissions of the regular files among these paths. Blocking."""
        modes: dict[str, int] = {}
        for path in paths:
            with contextlib.suppress(OSError):
                found = (self._directory / path).lstat()
                if stat.S_ISREG(found.st_mode):
                    modes[path] = found.st_mode & EVERYONE
        return modes

    def _missing(self, paths: Iterable[str]) -> list[str]:
        """Those of the paths, and of the directories that contain them, that do not exist. Blocking."""
        above = {str(parent) for path in paths for parent in (Path(path), *Path(path).parents)}
        return [path for path in above if not os.path.lexists(self._directory / path)]

    def _set_modes(self, modes: Mapping[str, int], new: Iterable[str], mask: int) -> None:
        """Gives the files that git has written the permissions ``modes``, which they had before. Whether they are
        executable is up to git. ``new``: files and directories that did not exist, and get permissions according to
        the umask ``mask``. Blocking."""
        for path in (*modes, *new):
            with contextlib.suppress(OSError):  # the file was deleted, or is a link
                file = os.open(self._directory / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
                try:
                    found = os.fstat(file).st_mode
                    mode = found & EVERYONE
                    wanted = _with_x_of(mode, modes[path]) if path in modes else _of_new_file(mode, mask)
                    if mode != wanted and (stat.S_ISREG(found) or path not in modes):
                        os.fchmod(file, wanted)
                finally:
                    os.close(file)

    def _unsaved(self, paths: Iterable[str]) -> Mapping[str, str]:
        """The files that have unsaved changes in an editor. Maps each path, as ``shown_path`` returns it, to the
        editor's name. Blocking."""
        files = {str(self._directory / path): path for path in paths}
        found = self._find_unsaved(list(files))
        return {shown_path(path): found[file] for file, path in files.items() if file in found}


def _umask(folder: Path) -> int:
    """The umask of this process, which can't be read without setting it for all threads. ``folder``: for a new file.
    Blocking. Raises OSError."""
    file = os.open(folder / "umask", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, EVERYONE)
    try:
        return EVERYONE & ~os.fstat(file).st_mode
    finally:
        os.close(file)


def _of_new_file(mode: int, mask: int) -> int:
    """The permissions with which git creates a file that is executable if ``mode`` is. ``mask``: the umask."""
    return (EVERYONE if mode & stat.S_IXUSR else NOT_EXECUTABLE) & ~mask


def _with_x_of(new: int, old: int) -> int:
    """The permissions ``old``, but executable only if ``new`` is, for those who can read the file."""
    if new & stat.S_IXUSR:
        return old if old & stat.S_IXUSR else old | (old & READABLE) >> 2
    return old & NOT_EXECUTABLE


def named_files(complaint: str, prefix: str, known: Sequence[str]) -> list[str]:
    """The files of ``known`` that the error output of ``git apply`` names, or all of them if it names none; paths as
    ``shown_path`` returns them. ``prefix``: as ``Git.prefix`` returns it."""
    named = re.findall(r"error: (?:patch failed: )?(.+?)(?::\d+)?(?:: .*)?$", complaint, re.MULTILINE)
    shown = [shown_path(path) for path in known]
    return sorted({name.removeprefix(prefix) for name in named} & set(shown)) or sorted(shown)
