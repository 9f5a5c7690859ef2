"""git's index of one operation (``Git.index``, not the user's), made to match the files of a project."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
from pathlib import Path

from drawbridge.server.checkpoints import filters
from drawbridge.server.checkpoints.commits import Filtered, filtered_of, listed_statuses
from drawbridge.server.checkpoints.errors import GitFailed, damaged_index
from drawbridge.server.checkpoints.git import index as git_index
from drawbridge.server.checkpoints.git.git import Git
from drawbridge.server.checkpoints.index_cache import INDEX
from drawbridge.server.checkpoints.private import PrivateRepository, TooLarge
from drawbridge.server.checkpoints.untracked import NOTHING, Untracked

logger = logging.getLogger("drawbridge.server")


class Staging:
    """The files of ``directory``. ``private``: its private repository; None if it can't have one."""

    def __init__(self, directory: Path, private: PrivateRepository | None) -> None:
        self._directory = directory
        self._private = private
        self.attributes = filters.Attributes(directory)

    async def read_all(self, git: Git, since: str | None, *, only_known: bool = False) -> Filtered:
        """Makes git's index match the work tree, beginning with the user's index (in a private repository, with the
        index of the last checkpoint). ``since``: the checkpoint that the work tree will be compared with. Files with a
        filter are read unless they were not read for that checkpoint. If ``since`` is None, only the smallest files
        with a filter are read. ``only_known``: as in ``add_changes``. Returns the files with a filter. Raises
        ``GitFailed``, ``NoCheckpoint`` or OSError."""
        first = git.repository.own / (INDEX if git.repository.private else "index")
        if await asyncio.to_thread(git_index.is_damaged, first, git.settings.id_bytes):
            if not git.repository.private:
                raise damaged_index(first)
            # Only Drawbridge writes this index, and everything in it can be read again.
            logger.warning("%s is damaged, and is built again", first)
            await asyncio.to_thread(first.unlink, missing_ok=True)
        version = await asyncio.to_thread(self.attributes.version, git)
        try:
            # git recognizes unchanged files by their times, and does not read them again. It also compares these times
            # with the time of the index file, which therefore has to be copied, too.
            await asyncio.to_thread(shutil.copy2, first, git.index)
        except FileNotFoundError:
            await asyncio.to_thread(git.index.unlink, missing_ok=True)
            if git.repository.private and since is not None:
                # A file over the size limit is read only if it is already in the index.
                await git.run("read-tree", since)  # fails if the checkpoint does not exist; the index is then empty
        if git.repository.private:
            assert self._private is not None
            await self._private.forget_ignored(git)
        await self._forget_repositories(git)
        may_filter = await asyncio.to_thread(self.attributes.may_filter_known, git, version)
        known = await filters.filtered_entries(git) if may_filter else {}
        if since is None:
            read = await asyncio.to_thread(filters.smallest, self._directory, known)
        else:
            earlier = await filtered_of(git, since)
            read = (frozenset(known) | earlier.read) - earlier.unread
        await git.update("--force-remove", read)
        await self.add_changes(git, only_known=only_known)
        if known.keys() <= read:
            return Filtered(read)
        now = await filters.filtered_entries(git)
        unread = frozenset(path for path, entry in known.items() if path not in read and now.get(path) == entry)
        return Filtered(read, unread)

    async def _forget_repositories(self, git: Git) -> None:
        """Removes nested repositories from git's index. Otherwise, git would check whether they have changed, and read
        their configuration to do so. Raises ``GitFailed``, ``NoCheckpoint`` or OSError."""
        with contextlib.suppress(FileNotFoundError):  # git has not created an index yet
            if await asyncio.to_thread(git_index.may_have_repositories, git.index):
                staged = filters.entries(await git.read("ls-files", "-s", "-z"))
                repositories = [path for path, entry in staged.items() if entry.startswith("160000 ")]
                await git.update("--force-remove", repositories)

    async def add_changes(self, git: Git, *, only_known: bool = False) -> None:
        """Adds what has changed in the work tree to git's index. ``only_known``: if a directory without git is too large,
        adds only changes to files in the index. Raises ``GitFailed`` or ``NoCheckpoint``."""
        words, chosen = ["add", "--all", "--ignore-errors"], ""
        if git.repository.private:
            assert self._private is not None
            try:
                chosen = await self._private.selection(git)
                words += ["--pathspec-from-file=-", "--pathspec-file-nul"]
            except TooLarge:
                if not only_known:
                    raise
                await self._private.check_known(git)
                words = ["add", "--update", "--ignore-errors", "--", "."]
        else:
            words += ["--", "."]
        code, _, complaint = await git.run(*words, stdin=chosen)
        if code not in (0, 1):  # 1: some files could not be read, or are a repository without a commit
            raise GitFailed(f"git add exited with code {code}: {complaint.strip()[:500]}")

    async def keep_selection(self, git: Git, checkpoint: str, untracked: Untracked = NOTHING) -> bool:
        """Makes git's index contain the same selection of files as an earlier checkpoint, because what git ignores may
        have changed. Files in ``checkpoint`` stay in the index, and what was ``untracked`` at that time stays out of
        it. Returns whether a file that git now ignores was added to the index. Raises ``GitFailed`` or
        ``NoCheckpoint``.
        """
        options = ("--cached", "--name-status", "--no-renames", "--ignore-submodules=all", "--relative", "-z")
        code, output, complaint = await git.run("diff-index", *options, checkpoint, "--", ".")
        if code:
            if (await git.run("rev-parse", "--verify", "--quiet", checkpoint))[0]:
                return False
            raise GitFailed(f"git diff-index exited with code {code}: {complaint.strip()[:500]}")
        listed = listed_statuses(output)
        added = [path for status, path in listed if status == "A"]
        await git.update("--force-remove", [path for path in added if untracked.contains(path)])
        deleted = [path for status, path in listed if status == "D"]
        ignored = await asyncio.to_thread(lambda: [path for path in deleted if self._exists(path)])
        await git.update("--add", ignored)
        return bool(ignored)

    def _exists(self, path: str) -> bool:
        """Whether the path is still a file or a link, and no directory that contains it has become a link. Blocking."""
        found = self._directory / path
        is_file = os.path.lexists(found) and (found.is_symlink() or not found.is_dir())
        return is_file and found.parent.resolve() == self._directory.resolve() / Path(path).parent
