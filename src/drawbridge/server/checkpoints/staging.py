"""git's index of one operation (``Git.index``, not the user's), made to match the files of a project."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import shutil
import time
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from drawbridge.server.checkpoints import filters
from drawbridge.server.checkpoints.commits import Filtered, filtered_of, listed_statuses
from drawbridge.server.checkpoints.errors import GitFailed, damaged_index
from drawbridge.server.checkpoints.file_versions import Versions, versions
from drawbridge.server.checkpoints.git import index as git_index
from drawbridge.server.checkpoints.git.git import Git
from drawbridge.server.checkpoints.index_cache import INDEX
from drawbridge.server.checkpoints.private import PrivateRepository, TooLarge
from drawbridge.server.checkpoints.repository import Repository
from drawbridge.server.checkpoints.untracked import NOTHING, Untracked

logger = logging.getLogger("drawbridge.server")

CLOCK_NANOSECONDS: Final = 20_000_000
"""The time of a changed file can be earlier than the clock by this much."""

_LISTED: Final = re.compile(r"(\S) (\d+ [0-9a-f]+ \d)\t([^\0]+)\0  ctime: (\d+):(\d+)\n")
"""A file in the output of ``ls-files -v -s -z --debug``: its mark, its entry, its path, and the time of its last change
in seconds and nanoseconds."""


class Staged(NamedTuple):
    """What git's index contains in another form than the work tree. ``filtered``: the files with a filter. ``absent``:
    the files that are marked skip-worktree and do not exist, as in a sparse checkout. The index contains them as the
    user's index does."""

    filtered: Filtered
    absent: frozenset[str]


class _UsersIndex(NamedTuple):
    """What operations need to know about the user's index. ``marked``: the marked files of the project; None if only
    git can read the index. ``folders``: the directories in it; None if only git can tell."""

    marked: git_index.Marked | None
    folders: filters.Folders | None


class Staging:
    """The files of ``directory``. ``private``: its private repository; None if it can't have one."""

    def __init__(self, directory: Path, private: PrivateRepository | None) -> None:
        self._directory = directory
        self._private = private
        self.attributes = filters.Attributes(directory)
        self._since = time.time_ns() - CLOCK_NANOSECONDS
        """The user's index is not trusted for files that were changed after this time, because an agent may have made
        it: for example, git stores any content for a file with a filter, and with the file's times."""
        self._settled: Mapping[str, git_index.Recent] = {}
        """The entries of the user's index for files changed after this time that need not be read again."""
        self._users: tuple[tuple[Repository, Versions], _UsersIndex] | None = None
        """What was last read of the user's index, and the version of that index."""

    async def read_all(self, git: Git, since: str | None, *, only_known: bool = False) -> Staged:
        """Makes git's index match the work tree, beginning with the user's index (in a private repository, with the
        index of the last checkpoint). ``since``: the checkpoint that the work tree will be compared with. Files with a
        filter are read unless they were not read for that checkpoint. If ``since`` is None, only the smallest files
        with a filter are read. ``only_known``: as in ``add_changes``. Raises ``GitFailed``, ``NoCheckpoint`` or
        OSError."""
        first = git.repository.own / (INDEX if git.repository.private else "index")
        if await asyncio.to_thread(git_index.is_damaged, first, git.settings.id_bytes):
            if not git.repository.private:
                raise damaged_index(first)
            # Only Drawbridge writes this index, and everything in it can be read again.
            logger.warning("%s is damaged, and is built again", first)
            await asyncio.to_thread(first.unlink, missing_ok=True)
        version = await asyncio.to_thread(versions, [str(first)])
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
        users = await self._users_index(git, version)
        marked = await self._listed_marked(git) if users.marked is None else users.marked
        await git.update("--no-assume-unchanged", marked.assumed)
        absent = await self.compare_present(git, marked.skipped)
        await self._forget_repositories(git)
        named = await asyncio.to_thread(self.attributes.named_in_lists, git, users.folders)
        known = await filters.filtered_entries(git) if filters.FILTER in named else {}
        recent = {path: found for path, found in marked.recent.items() if self._settled.get(path) != found}
        again = {path: found.entry for path, found in recent.items()}
        if filters.IDENT in named and not git.repository.private:
            again |= await self._with_ident(git)
        trusted = known.keys() | absent
        await self._read_again(git, {path: again[path] for path in again.keys() - trusted})
        if since is None:
            read = await asyncio.to_thread(filters.smallest, self._directory, known)
        else:
            earlier = await filtered_of(git, since)
            read = (frozenset(known) | earlier.read) - earlier.unread
        await git.update("--force-remove", read)
        await self.add_changes(git, only_known=only_known)
        if recent:
            await asyncio.to_thread(self._settle, git, marked.recent, trusted)
        if known.keys() <= read:
            return Staged(Filtered(read), absent)
        now = await filters.filtered_entries(git)
        unread = frozenset(path for path, entry in known.items() if path not in read and now.get(path) == entry)
        return Staged(Filtered(read, unread), absent)

    async def _users_index(self, git: Git, version: Versions) -> _UsersIndex:
        """What git's index, a copy of the user's, contains. A private repository has no index of the user.
        ``version``: that of the user's index before it was copied."""
        if git.repository.private:
            return _UsersIndex(git_index.Marked(), None)
        if self._users is None or self._users[0] != (git.repository, version):
            self._users = (git.repository, version), await asyncio.to_thread(self._read_users_index, git)
        return self._users[1]

    def _read_users_index(self, git: Git) -> _UsersIndex:
        """Like ``_users_index``. One pass for both, because it takes most of the time in a large project. Blocking."""
        found = self._scan(git)
        if found is None:
            return _UsersIndex(None, None)
        return _UsersIndex(self._in_project(git, found.marked), filters.folders_in(found.paths))

    def _scan(self, git: Git) -> git_index.Scanned | None:
        """The paths and the marked files in git's index; None if only git can read the index. Blocking."""
        return git_index.scan(git.index, git.settings.id_bytes, self._since)

    def _in_project(self, git: Git, marked: git_index.Marked) -> git_index.Marked:
        """The marked files of the project."""
        return marked.below(git.repository.prefix(self._directory))

    async def _listed_marked(self, git: Git) -> git_index.Marked:
        """The marked files of the project in git's index, as git lists them. Raises ``GitFailed`` or ``NoCheckpoint``."""
        listed = _LISTED.findall(await git.read("ls-files", "-v", "-s", "-z", "--debug"))
        return git_index.Marked(
            frozenset(path for mark, _, path, _, _ in listed if mark.islower()),
            frozenset(path for mark, _, path, _, _ in listed if mark in "Ss"),
            {
                path: git_index.Recent(entry, changed)
                for _, entry, path, seconds, rest in listed
                if entry.endswith(" 0") and (changed := int(seconds) * git_index.SECOND + int(rest)) >= self._since
            },
        )

    async def compare_present(self, git: Git, skipped: Collection[str]) -> frozenset[str]:
        """Makes git compare those of the files ``skipped`` that exist with its index, in which they are marked
        skip-worktree. Returns the others, which a sparse checkout has left out of the work tree. Raises ``GitFailed``
        or ``NoCheckpoint``."""
        present = await asyncio.to_thread(self._present, skipped) if skipped else frozenset[str]()
        await git.update("--no-skip-worktree", present)
        return frozenset(skipped) - present

    def _present(self, paths: Iterable[str]) -> frozenset[str]:
        """Those of the paths that exist. Blocking."""
        folders: dict[str, bool] = {}
        """Whether each directory exists. A sparse checkout may leave out many files of the same directory."""
        found = set[str]()
        for path in paths:
            folder = path.rpartition("/")[0]
            if folder not in folders:
                folders[folder] = (self._directory / folder).is_dir()
            if folders[folder] and os.path.lexists(self._directory / path):
                found.add(path)
        return frozenset(found)

    async def _with_ident(self, git: Git) -> dict[str, str]:
        """The entries of the files with the ``ident`` attribute, as in ``filters.entries``. The user's index does not
        contain the text that git has written into them. Raises ``GitFailed``, ``NoCheckpoint`` or OSError."""
        async with git.with_ident():
            return filters.entries(await git.read("ls-files", "-s", "-z", "--", ":(attr:ident)."))

    async def _read_again(self, git: Git, found: Mapping[str, str]) -> None:
        """Makes git read these files even if its index contains their times. ``found``: their entries, as in
        ``filters.entries``. Raises ``GitFailed`` or ``NoCheckpoint``."""
        files = {
            path: entry
            for path, entry in found.items()
            if entry.endswith(" 0") and not entry.startswith(f"{git_index.GITLINK:o} ")
        }
        if files:
            prefix = await git.prefix()
            # An entry that is set in this way has no times, so git can't recognize the file as unchanged.
            lines = (f"{entry}\t{prefix}{path}\0" for path, entry in files.items())
            await git.read("update-index", "-z", "--index-info", stdin="".join(lines))

    def _settle(self, git: Git, recent: Mapping[str, git_index.Recent], trusted: Collection[str]) -> None:
        """Remembers which of the entries ``recent`` of the user's index are correct, so that the files are not read again
        for each operation. git's index now contains what git has read. ``trusted``: the files that were not read.
        Blocking."""
        found = self._scan(git)
        if found is not None:
            now = self._in_project(git, found.marked)
            self._settled = {
                path: found
                for path, found in recent.items()
                # With another time, git would read the file anyway, and no file will have this time again.
                if path not in trusted
                and ((new := now.recent.get(path)) in (None, found) or new.changed != found.changed)
            }

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
