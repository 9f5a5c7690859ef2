"""The index of the last checkpoint, kept so that the next one is faster.

git recognizes unchanged files by their times in the index. With the last index, a run usually waits for only one git
command if the user's index and git's configuration are unchanged. Without it, a checkpoint begins with the user's
index.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from pathlib import Path
from typing import Final

from msgspec import Struct

from drawbridge.core.private_files import PRIVATE_FILE
from drawbridge.server.checkpoints.file_versions import Versions, versions
from drawbridge.server.checkpoints.git import index as git_index
from drawbridge.server.checkpoints.git.git import Git
from drawbridge.server.checkpoints.git.settings import Settings
from drawbridge.server.checkpoints.repository import Repository

INDEX: Final = "checkpoint.index"
"""The name of the file with the index of the last checkpoint."""


class CachedIndex(Struct, frozen=True):
    """The state from which the index in the cache was made. ``digest``: the digest of the user's index. ``ignoring``:
    the versions of the ``.gitignore`` files when the checkpoint was created. The index contains nothing that they
    ignore, unless the user tracks it. ``read``: as in ``Filtered``. No other file had a filter. ``absent``: the files
    that are marked skip-worktree in the index and did not exist."""

    repository: Repository
    settings: Settings
    digest: bytes
    ignoring: Versions
    read: frozenset[str]
    absent: frozenset[str]

    def is_usable(self, git: Git, digest: bytes | None) -> bool:
        """Whether the index is a correct starting point for an operation of ``git``, if the user's index has ``digest``
        and the ``.gitignore`` files are unchanged."""
        return (self.repository, self.settings, self.digest) == (git.repository, git.settings, digest)


class IndexCache:
    """The cache of one project. ``folder``: where the index is kept, unless the repository is private; None to keep no
    index.
    """

    def __init__(self, folder: Path | None, directory: Path) -> None:
        self._folder = folder
        self._directory = directory
        self._cached: CachedIndex | None = None
        self._digest: tuple[Versions, bytes | None] = {}, None
        """The version of the user's index file when it was last read, and its digest."""

    def remove(self) -> CachedIndex | None:
        """Removes the entry, and returns it. The file remains until the next ``store``."""
        cached, self._cached = self._cached, None
        return cached

    async def users_digest(self, git: Git) -> bytes | None:
        """The digest of the user's index; None if only git can read the index."""
        return await asyncio.to_thread(self._users_digest, git)

    def _users_digest(self, git: Git) -> bytes | None:
        """Like ``users_digest``. Blocking."""
        file = git.repository.own / "index"
        version = versions([str(file)])
        if self._digest[0] != version:
            index = git_index.read(file, git.settings.id_bytes)
            self._digest = version, index.digest if index is not None else None
        return self._digest[1]

    async def load(self, git: Git) -> bool:
        """Copies the index to git's index. Returns False if it can't be copied."""
        try:
            # The modification time is kept, because git compares the times of the files with it.
            await asyncio.to_thread(shutil.copy2, self._file(git), git.index)
        except OSError:
            return False
        return True

    async def entries(self, git: Git) -> dict[str, tuple[int, bytes]]:
        """The entries of the project's directory in the index, by paths relative to it: mode and object id. Empty if
        the index can't be read."""
        return await asyncio.to_thread(lambda: self._below(git, self._file(git)) or {})

    async def store(self, git: Git, cached: CachedIndex) -> None:
        """Keeps git's index for the next checkpoint. Raises ``GitFailed``, ``NoCheckpoint`` or OSError."""
        if self._folder is None:
            return
        if await asyncio.to_thread(git_index.may_have_repositories, git.index):
            inside = await asyncio.to_thread(self._below, git, git.index)
            if inside is None:
                return
            # Otherwise, git would check whether nested repositories have changed, and read their configuration to do
            # so.
            await git.update(
                "--force-remove", [path for path, (mode, _) in inside.items() if mode == git_index.GITLINK]
            )
        with contextlib.suppress(OSError):  # without the copy, the next checkpoint begins with the user's index
            await asyncio.to_thread(_replace, self._file(git), git.index)
            self._cached = cached

    def _file(self, git: Git) -> Path:
        """The file with the index of the last checkpoint. It is in the repository if that is private, so that it is
        removed together with the objects; otherwise in ``folder``."""
        assert self._folder is not None
        return (git.repository.own if git.repository.private else self._folder) / INDEX

    def _below(self, git: Git, file: Path) -> dict[str, tuple[int, bytes]] | None:
        """The entries of the project's directory in an index; None if the index can't be read here. Blocking."""
        index = git_index.read(file, git.settings.id_bytes)
        return index.below(git.repository.prefix(self._directory)) if index is not None else None


def _replace(kept: Path, index: Path) -> None:
    """Copies the index to the file ``kept`` atomically. Blocking. Raises OSError."""
    new = kept.with_name(kept.name + ".new")
    shutil.copy2(index, new)
    new.chmod(PRIVATE_FILE)
    os.replace(new, kept)
