"""The files of a project, read into a tree of git and written from one."""

from __future__ import annotations

import asyncio
import re
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
        filtered = await self._staging.read_all(git, since, only_known=only_known)
        code, tree, _ = await git.run("write-tree")
        if code or tree.strip() != await tree_of(git, since):  # otherwise, the selection of files is the same
            await self._staging.keep_selection(git, since)
            tree = await git.read("write-tree")
        return tree.strip(), filtered

    async def write(self, git: Git, now: str, wanted: str, paths: Sequence[str]) -> None:
        """Changes the files from the tree ``now``, their current state, to the tree ``wanted``.
        ``paths``: the paths of the files that differ. Raises ``UnsavedChanges`` if an editor has unsaved changes to one
        of them, ``Changed`` if the files no longer match ``now``, and ``GitFailed``, possibly after some files were
        written."""
        unsaved = await asyncio.to_thread(self._unsaved, paths)
        if unsaved:
            raise UnsavedChanges(unsaved)
        # The patch is made from the current files, so that each hunk applies at exactly one position, even if other
        # parts of the file look the same.
        patch = git.folder / "patch"
        await git.read(*PATCH, "-p", "--binary", "--full-index", f"--output={patch}", now, wanted, "--", ".")
        if (await asyncio.to_thread(patch.stat)).st_size:
            code, _, complaint = await git.run("apply", "--whitespace=nowarn", str(patch), writes=True)
            if code > REFUSED:
                raise GitFailed(f"git could not write all files: {complaint.strip()[:500]}")
            if code:
                raise Changed(named_files(complaint, await git.prefix(), paths))

    def _unsaved(self, paths: Iterable[str]) -> Mapping[str, str]:
        """The files that have unsaved changes in an editor. Maps each path, as ``shown_path`` returns it, to the
        editor's name. Blocking."""
        files = {str(self._directory / path): path for path in paths}
        found = self._find_unsaved(list(files))
        return {shown_path(path): found[file] for file, path in files.items() if file in found}


def named_files(complaint: str, prefix: str, known: Sequence[str]) -> list[str]:
    """The files of ``known`` that the error output of ``git apply`` names, or all of them if it names none; paths as
    ``shown_path`` returns them. ``prefix``: as ``Git.prefix`` returns it."""
    named = re.findall(r"error: (?:patch failed: )?(.+?)(?::\d+)?(?:: .*)?$", complaint, re.MULTILINE)
    shown = [shown_path(path) for path in known]
    return sorted({name.removeprefix(prefix) for name in named} & set(shown)) or sorted(shown)
