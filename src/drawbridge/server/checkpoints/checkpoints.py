"""The files of a project before and after each run, kept by git: what a run changed can be seen and reverted.

A checkpoint is a commit that only a private ref points to (``refs/drawbridge/<project>/<run>/before`` and ``…/after``),
in the repository of the project's git work tree or, without one, in a private one (``private.py``). It is made with its
own index, so the user's index, branches and stash are never touched. git runs confined, and the repository's
configuration can't make it run a program (``git.py``). A checkpoint contains neither what git ignores nor nested
repositories (including submodules). If such a file existed before a run, reverting the run does not change it, even if
the run made git track it.

Filters (Git LFS, git-crypt) never run. A checkpoint contains the bytes that a file with a filter has in the work tree,
so that the file is shown and reverted exactly. Because that requires reading these files for every checkpoint, only the
smallest ones are read, up to ``FILTERED_BYTES`` in total. Any other such file that is unchanged according to the user's
index is in the checkpoint in the form that its filter produced. If a run changes one of these files, its content before
the run is not known, and reverting the run is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import re
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec

from drawbridge.agents.base import Confinement
from drawbridge.agents.memory import MB, MemoryWatch
from drawbridge.core.locks import UrgentLock
from drawbridge.core.private_files import PRIVATE_FILE
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.server.checkpoints import git_index
from drawbridge.server.checkpoints.commits import (
    PATCH,
    Filtered,
    committed,
    differences,
    filtered_of,
    listed_differences,
    message_of,
    shown_path,
    tree_of,
)
from drawbridge.server.checkpoints.git import (
    Git,
    GitFailed,
    NoCheckpoint,
    Settings,
    Versions,
    beginning_of,
    opened,
    program,
    versions,
)
from drawbridge.server.checkpoints.private import PrivateRepository
from drawbridge.server.checkpoints.repository import Repository, find
from drawbridge.server.checkpoints.unsaved import FindUnsaved, UnsavedChanges, no_editors
from drawbridge.server.protocol.messages import ChangedFile
from drawbridge.server.protocol.replies import RunChanges
from drawbridge.text import hunks, split

logger = logging.getLogger("drawbridge.server")

LARGEST_LIST: Final = 200_000
"""The maximum size of the list of files as JSON, in bytes, so that it fits into a frame together with the diff."""

NO_REPOSITORY: Final = "The project is not in a git work tree, so changes made by runs can't be determined."
NO_GIT: Final = (
    "git is not installed on the server's machine, so changes made by runs can't be determined. Install git."
)

NAMED: Final = 5
"""The maximum number of files that the text of an error names."""

INDEX: Final = "checkpoint.index"
"""The name of the file with the index of the last checkpoint."""

KEPT_RUNS: Final = 50
"""The number of runs of a project whose checkpoints are kept. Older checkpoints are dropped; git garbage-collects them
later (in a private repository, ``PrivateRepository.collect`` removes them)."""

FILTERED: Final = ("ls-files", "-s", "-z", "--", ".", ":(exclude,attr:!filter)", ":(exclude,attr:-filter)")
"""Lists the files of the index that have the ``filter`` attribute, with or without a value."""

FILTERED_BYTES: Final = 32 * MB
"""The maximum number of bytes of files with a filter that are read for a checkpoint, the smallest files first. It does
not apply to a checkpoint that is based on an earlier one: the same files are read for it, and new ones."""

REFUSED: Final = 1
"""The exit code of ``git apply`` if the patch does not match the files. Nothing was written then; with other codes, some
files may have been."""

MERGED: Final = ("there", "made", "was")
"""The names of the files for a merge, in the order in which ``git merge-file`` expects them."""

_NAMES: Final[dict[str, Literal["added", "changed", "deleted"]]] = {
    "A": "added",
    "M": "changed",
    "D": "deleted",
    "T": "changed",
}


When: TypeAlias = Literal["before", "after"]

Stored: TypeAlias = Callable[[Git, str, When, str], Awaitable[None]]
"""Called after each checkpoint is stored, with git, the run's id, whether the checkpoint is from before or after the
run, and the commit's id."""

REVIEW: Final = "review"
"""What the refs of a project's review contain in place of a run's id (``refs/drawbridge/<project>/review/…``). These
refs are not dropped when the checkpoints of older runs are."""


class Changed(Exception):
    """Files that were to be written have other changes in the same places. The text names up to ``NAMED`` of them.
    Nothing was written.

    ``paths`` are relative to the project. ``lines``: path → the line where the conflict begins, from 1; only
    for conflicts in lines.
    """

    def __init__(self, paths: Sequence[str], lines: Mapping[str, int] | None = None) -> None:
        self.paths = tuple(paths)
        self.lines = dict(lines or {})
        named = [f"{path} (line {self.lines[path]})" if path in self.lines else path for path in self.paths[:NAMED]]
        super().__init__(", ".join(named) + (" and others" if len(self.paths) > NAMED else ""))


class _Left(msgspec.Struct, frozen=True):
    """What the last checkpoint has stored so that the next one is faster. Its index is in the file ``INDEX``.

    ``theirs``: the digest of the user's index that the checkpoint was made from. ``ignoring``: the versions of the
    ``.gitignore`` files when the checkpoint was made: it contains nothing that they ignore, unless the user tracks it.
    ``read``: as in ``Filtered``; no other file had a filter.
    """

    repository: Repository
    settings: Settings
    theirs: bytes
    ignoring: Versions
    read: frozenset[str]


class _Before(msgspec.Struct, frozen=True):
    """What existed before a run in addition to its checkpoint. ``outside``: the paths that are not in the checkpoint.
    ``ignoring``: as in ``_Left``, None if it is not known. ``folders``: the directories with files of the checkpoint,
    relative to the project."""

    run_id: str
    settings: Settings | None
    outside: frozenset[str]
    ignoring: Versions | None
    folders: frozenset[str] = frozenset()


class _Collected(msgspec.Struct, frozen=True):
    """The files at one moment, in git's index. ``filtered``: the files with a filter; None if the index is based on
    the index of ``left``, in which case git has yet to list them. ``theirs`` and ``ignoring``: as in ``_Left``, None if
    the index can't be kept for the next checkpoint."""

    filtered: Filtered | None
    theirs: bytes | None
    ignoring: Versions | None
    left: _Left | None


class Checkpoints:
    """The checkpoints of one project.

    ``folder``: where the index of the last checkpoint is kept. With it, a run usually waits for only one git command
    if the user's index and git's configuration are unchanged. Without a folder, each checkpoint begins with
    the user's index. The private repository of a directory that is not in a git work tree is also in ``folder``;
    without a folder, such a directory has no checkpoints. ``stored`` is called in the operation
    that has stored the checkpoint, and may use its git, but not its index. ``active``: returns the runs that may be
    active in addition to the one that a checkpoint is about.
    """

    def __init__(
        self,
        directory: Path,
        project_id: str,
        confinement: Confinement = Confinement(),  # noqa: B008 - frozen
        memory: MemoryWatch | None = None,
        folder: Path | None = None,
        stored: Stored | None = None,
        active: Callable[[], Iterable[str]] = tuple,
        find_unsaved: FindUnsaved = no_editors,
    ) -> None:
        self._directory = directory
        self._refs = f"refs/drawbridge/{project_id}"
        self._confinement = confinement
        self._memory = memory or MemoryWatch(None)
        self._folder = folder
        self._private = PrivateRepository(folder, directory) if folder is not None else None
        self._when_stored = stored
        self._active = active
        self._find_unsaved = find_unsaved
        self._left: _Left | None = None
        self._settings: Settings | None = None
        """git's settings in the last operation that did not take a checkpoint; None if there was no such operation, or
        it had no repository or no git."""
        self._busy = UrgentLock()
        """Held during an operation: a client may request the changes of a run whose last checkpoint is still being
        taken. A run does not wait for what clients have requested, except for the operation that is under way."""
        self._asked: dict[str, asyncio.Future[RunChanges]] = {}
        """Run id → the run's changes that are being read, so that identical requests share an answer."""
        self._before = _Before("", None, frozenset(), None)
        self._theirs: tuple[Versions, bytes | None] = {}, None
        """The version of the user's index file when it was last read, and its digest."""
        self._storing = BackgroundTasks(logger)
        """The task that completes what ``begin`` has started."""
        self._endings = BackgroundTasks(logger)
        """These tasks are not canceled: each waits until the processes of one operation have ended."""

    def _opened(self, known: Settings | None = None) -> contextlib.AbstractAsyncContextManager[Git | None]:
        return opened(self._directory, self._confinement, self._memory, self._endings, known, self._find)

    def _find(self, directory: Path) -> Repository | None:
        """The repository for the checkpoints; None if the directory can't have any. Blocking. Raises ``NoCheckpoint``,
        ``GitFailed`` or OSError."""
        return find(directory) if self._private is None else self._private.repository()

    async def stored(self) -> None:
        """Returns once everything that ``begin`` has started is completed."""
        await self._storing.wait()

    @contextlib.asynccontextmanager
    async def _working(self) -> AsyncIterator[Git | None]:
        """git for one operation that does not take a checkpoint; None if there is no repository, or git is not
        installed. Raises ``NoCheckpoint``, ``GitFailed`` or OSError."""
        async with self._busy.held():
            try:
                async with self._opened(self._settings) as git:
                    self._settings = git.settings if git is not None else None
                    yield git
            except (GitFailed, OSError):
                if self._folder is not None and not await asyncio.to_thread(self._folder.exists):
                    raise NoCheckpoint("The project was removed in the meantime.") from None
                raise

    async def close(self) -> None:
        """Cancels what ``begin`` has started and returns when the processes of all operations have ended."""
        await self._storing.close()
        await self._endings.wait()

    async def take(self, run_id: str, when: When) -> bool:
        """Takes a checkpoint of a run. Returns False if there is no repository for it, or git is not installed. Raises
        ``GitFailed``, ``NoCheckpoint`` or OSError."""
        return await self._take(run_id, when, asyncio.get_running_loop().create_future())

    async def begin(self, run_id: str) -> bool:
        """Like ``take(run_id, "before")``, but returns as soon as git has the state of the files: later changes do not
        become part of the checkpoint. The checkpoint is stored in the background, before any other operation begins."""
        await self._storing.wait()
        collected: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        storing = self._storing.start(self._complete(run_id, collected), f"the checkpoint before {run_id}")
        try:
            waited: list[asyncio.Future[Any]] = [collected, storing]
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            storing.cancel()
            await asyncio.wait([storing])
            raise
        if not collected.done():
            raise GitFailed("the checkpoint was canceled because the project was closed")
        return collected.result()

    async def _complete(self, run_id: str, collected: asyncio.Future[bool]) -> None:
        """Takes the checkpoint before a run. ``collected`` receives the result, or an error that occurs before git has
        the state of the files; a later error is logged."""
        try:
            taken = await self._take(run_id, "before", collected)
        except Exception as error:
            if not collected.done():
                collected.set_exception(error)
            elif isinstance(error, GitFailed | NoCheckpoint | OSError):
                logger.warning("the checkpoint before %s failed: %s", run_id, error)
            else:
                raise
        else:
            if not collected.done():
                collected.set_result(taken)

    async def _take(self, run_id: str, when: When, collected: asyncio.Future[bool]) -> bool:
        """Takes a checkpoint. ``collected`` is set to True as soon as git has the state of the files."""
        async with self._busy.held(urgent=True):
            if when == "before":
                await self._begin_with_repository()
            left, self._left = self._left, None
            # A run does not wait for the checkpoint after it, so the configuration is always read for that checkpoint.
            known = left.settings if left is not None and when == "before" else None
            async with self._opened(known) as git:
                if git is None:
                    return False
                state = await self._collect(git, run_id, when, left)
                collected.set_result(True)
                await self._store(git, run_id, when, state)
                return True

    async def _begin_with_repository(self) -> None:
        """Before a run, if the directory has become part of a git work tree, removes the private repository, so that
        the work tree's repository is used from now on. Does nothing if the review in the private repository has changes
        to decide on, or a run has not ended. Raises ``TooLarge`` if the directory was recently found to be too
        large."""
        if self._private is None:
            return
        self._private.check_again_later()
        if await asyncio.to_thread(self._private.successor) is None:
            return
        async with self._opened() as git:
            if git is None or await self._has_review(git):
                return
        await asyncio.to_thread(self._private.remove)
        self._left = None

    async def _has_review(self, git: Git) -> bool:
        """Whether the review has changes to decide on, or a run has not ended."""
        review = f"{self._refs}/{REVIEW}"
        sides = [
            await git.run("rev-parse", "--verify", "--quiet", f"{review}/{name}^{{tree}}") for name in ("base", "head")
        ]
        if any(code for code, _, _ in sides):
            return False
        title = (await message_of(git, f"{review}/head")).partition("\n")[0]
        return sides[0][1] != sides[1][1] or not title.endswith(" after")

    async def _collect(self, git: Git, run_id: str, when: When, left: _Left | None) -> _Collected:
        """Updates the index of this operation (``Git.index``, not the user's) to the current state of the files."""
        digest = await asyncio.to_thread(self._digest, git)
        same = left is not None and (left.repository, left.settings, left.theirs) == (
            git.repository,
            git.settings,
            digest,
        )
        listed: dict[str, git_index.Listing] = {}
        if not same:
            left = None
        elif when == "after":
            left = left if await self._resume(git) else None
        else:
            # Both at the same time, because a run waits for them.
            resumed, listed = await asyncio.gather(
                self._resume(git), asyncio.to_thread(self._listings, self._before.folders)
            )
            left = left if resumed else None
        if when == "after":
            before = f"{self._refs}/{run_id}/before"
            filtered = await self._look(git, before) if left is None else None
            added = await self._even_out(git, run_id, before)
            same = (self._before.run_id, self._before.settings) == (run_id, git.settings)
            return _Collected(filtered, digest, self._before.ignoring if same and not added else None, left)
        if left is not None:
            self._before = await self._beside(git, run_id, listed)
            if self._before.ignoring != left.ignoring:
                left = None
        if left is not None:
            return _Collected(None, digest, left.ignoring, left)
        filtered = await self._look(git, None)
        self._before = await self._beside(git, run_id, {})
        return _Collected(filtered, digest, self._before.ignoring, None)

    def _digest(self, git: Git) -> bytes | None:
        """The digest of the user's index; None if only git can read the index. Blocking."""
        file = git.repository.own / "index"
        version = versions([str(file)])
        if self._theirs[0] != version:
            index = git_index.read(file, git.settings.id_bytes)
            self._theirs = version, index.digest if index is not None else None
        return self._theirs[1]

    async def _resume(self, git: Git) -> bool:
        """Copies the index of the last checkpoint to git's index and updates it to the current files. A run usually
        waits for no other git commands. Returns False if the index can't be copied."""
        try:
            # git recognizes unchanged files by their times, and does not read them again. It also compares these times
            # with the time of the index file, which therefore has to be copied, too.
            await asyncio.to_thread(shutil.copy2, self._last_index(git), git.index)
        except OSError:
            return False
        await self._add(git)
        return True

    def _last_index(self, git: Git) -> Path:
        """The file with the index of the last checkpoint. It is in the repository if that is private, so that it is
        removed together with the objects; otherwise in ``folder``."""
        assert self._folder is not None
        return (git.repository.own if git.repository.private else self._folder) / INDEX

    def _listings(self, folders: Iterable[str]) -> dict[str, git_index.Listing]:
        """What is in each of these folders of the project. Blocking."""
        return git_index.listings(self._directory.resolve(), folders)

    async def _beside(self, git: Git, run_id: str, known: Mapping[str, git_index.Listing]) -> _Before:
        """The paths in the project that are not in git's index. ``known``: the listings that were already made, by
        folder."""
        found = await asyncio.to_thread(self._look_beside, git, run_id, known)
        if found is not None:
            return found
        listed = await git.read("ls-files", "--others", "--directory", "-z", "--", ".")
        return _Before(run_id, git.settings, frozenset(listed.split("\0")), None)

    def _look_beside(self, git: Git, run_id: str, known: Mapping[str, git_index.Listing]) -> _Before | None:
        """Like ``_beside``, without git; None if only git can read the index, or its paths are too long. Blocking."""
        directory, root = self._directory.resolve(), git.repository.root
        index = git_index.read(git.index, git.settings.id_bytes)
        if index is None:
            return None
        tracked = self._inside(git, index)
        try:
            folders = git_index.folders(tracked)
        except ValueError:
            return None
        listed = {folder: known[folder] for folder in folders & known.keys()}
        listed |= git_index.listings(directory, folders - known.keys())
        found = git_index.beside(listed, tracked)
        above = directory.parents[: len(directory.parts) - len(root.parts)]
        ignoring = [*(directory / file for file in found.ignore_files), *(place / ".gitignore" for place in above)]
        ignored_by = versions(map(str, ignoring))
        return _Before(run_id, git.settings, found.untracked, ignored_by, frozenset(folders))

    def _inside(self, git: Git, index: git_index.Index) -> dict[str, tuple[int, bytes]]:
        """The entries of the project's directory, by paths relative to it. Blocking."""
        place = os.path.relpath(self._directory.resolve(), git.repository.root)
        prefix = "" if place == "." else place + "/"
        if not prefix:
            return index.entries
        return {path.removeprefix(prefix): entry for path, entry in index.entries.items() if path.startswith(prefix)}

    async def _store(self, git: Git, run_id: str, when: When, collected: _Collected) -> None:
        """Stores git's index as a checkpoint."""
        filtered = collected.filtered
        if filtered is None:
            assert collected.left is not None
            filtered = await self._filters(git, collected.left, _staged(await git.read(*FILTERED)))
        commit = await committed(git, (await git.read("write-tree")).strip(), f"{run_id} {when}", filtered)
        await git.read("update-ref", f"{self._refs}/{run_id}/{when}", commit)
        if when == "after":
            await self._drop_old(git, run_id)
        if collected.theirs is not None and collected.ignoring is not None and not filtered.unread:
            await self._leave(
                git, _Left(git.repository, git.settings, collected.theirs, collected.ignoring, filtered.read)
            )
        if self._when_stored is not None:
            await self._when_stored(git, run_id, when, commit)

    async def _leave(self, git: Git, left: _Left) -> None:
        """Keeps git's index for the next checkpoint."""
        if self._folder is None:
            return
        if await asyncio.to_thread(git_index.may_have_repositories, git.index):
            index = await asyncio.to_thread(git_index.read, git.index, git.settings.id_bytes)
            if index is None:
                return
            inside = await asyncio.to_thread(self._inside, git, index)
            # Otherwise, git would check whether nested repositories have changed, and read their configuration for
            # that.
            await git.update(
                "--force-remove", [path for path, (mode, _) in inside.items() if mode == git_index.GITLINK]
            )
        with contextlib.suppress(OSError):  # without it the next checkpoint begins with the user's index
            await asyncio.to_thread(_keep, git.index, self._last_index(git))
            self._left = left

    async def _filters(self, git: Git, left: _Left, known: Mapping[str, str]) -> Filtered:
        """The files with a filter, for a checkpoint that is based on the index of the last one. ``known``: the entries
        of these files in the new index. If a file got its filter after the last checkpoint and its entry is unchanged,
        the entry may contain the filter's output, so the file counts as unread."""
        new = known.keys() - left.read
        earlier: dict[str, tuple[int, bytes]] = {}
        if new:
            index = await asyncio.to_thread(git_index.read, self._last_index(git), git.settings.id_bytes)
            earlier = await asyncio.to_thread(self._inside, git, index or git_index.NO_INDEX)
        unread = frozenset(path for path in new if path in earlier and known[path] == _entry(*earlier[path]))
        return Filtered((left.read | known.keys()) - unread, unread)

    async def _look(self, git: Git, since: str | None) -> Filtered:
        """Updates git's index to match the work tree. ``since``: the checkpoint that the work tree will be compared
        with; files with a filter are read unless they were not read for that checkpoint. If ``since`` is None, only the
        smallest files with a filter are read. Returns the files with a filter."""
        known_files = git.repository.own / (INDEX if git.repository.private else "index")
        try:
            # Copied with its modification time, for the same reason as in ``_resume``.
            await asyncio.to_thread(shutil.copy2, known_files, git.index)
        except FileNotFoundError:
            await asyncio.to_thread(git.index.unlink, missing_ok=True)
        if git.repository.private:
            assert self._private is not None
            await self._private.forget_ignored(git)
        with contextlib.suppress(FileNotFoundError):  # there is no index yet
            if await asyncio.to_thread(git_index.may_have_repositories, git.index):
                staged = _staged(await git.read("ls-files", "-s", "-z"))
                # Otherwise, git would check whether nested repositories have changed, and read their configuration to
                # do so.
                repositories = [path for path, entry in staged.items() if entry.startswith("160000 ")]
                await git.update("--force-remove", repositories)
        known = _staged(await git.read(*FILTERED))
        if since is None:
            read = await asyncio.to_thread(self._smallest, known)
        else:
            earlier = await filtered_of(git, since)
            read = (frozenset(known) | earlier.read) - earlier.unread
        await git.update("--force-remove", read)
        await self._add(git)
        if known.keys() <= read:
            return Filtered(read)
        now = _staged(await git.read(*FILTERED))
        unread = frozenset(path for path, entry in known.items() if path not in read and now.get(path) == entry)
        return Filtered(read, unread)

    async def _add(self, git: Git) -> None:
        words, chosen = ["add", "--all", "--ignore-errors"], ""
        if git.repository.private:
            assert self._private is not None
            words += ["--pathspec-from-file=-", "--pathspec-file-nul"]
            chosen = await self._private.selection(git)
        else:
            words += ["--", "."]
        code, _, complaint = await git.run(*words, stdin=chosen)
        if code not in (0, 1):  # 1: some files could not be read, or are a repository without a commit
            raise GitFailed(f"git add exited with code {code}: {complaint.strip()[:500]}")

    def _smallest(self, paths: Iterable[str]) -> frozenset[str]:
        """The smallest of these files, as many as are read for one checkpoint. Blocking."""
        sizes = []
        for path in paths:
            with contextlib.suppress(OSError):  # a file that no longer exists
                sizes.append(((self._directory / path).lstat().st_size, path))
        sums = itertools.accumulate(size for size, _ in sorted(sizes))
        return frozenset(path for (_, path), sum in zip(sorted(sizes), sums, strict=True) if sum <= FILTERED_BYTES)

    async def _even_out(self, git: Git, run_id: str, before: str) -> bool:
        """Corrects git's index, since what git ignores may have changed: files in ``before`` stay in the index, and
        files that existed then but are not in ``before`` stay out of it. Returns whether a file that git now ignores
        was added to the index."""
        options = ("--cached", "--name-status", "--no-renames", "--ignore-submodules=all", "--relative", "-z")
        code, output, complaint = await git.run("diff-index", *options, before, "--", ".")
        if code:
            if (await git.run("rev-parse", "--verify", "--quiet", before))[0]:
                return False
            raise GitFailed(f"git diff-index exited with code {code}: {complaint.strip()[:500]}")
        listed = _marked(output)
        known = self._before.run_id == run_id
        await git.update(
            "--force-remove", [path for mark, path in listed if known and mark == "A" and self._was_outside(path)]
        )
        deleted = [path for mark, path in listed if mark == "D"]
        ignored = await asyncio.to_thread(lambda: [path for path in deleted if self._is_there(path)])
        await git.update("--add", ignored)
        return bool(ignored)

    def _was_outside(self, path: str) -> bool:
        names = path.split("/")
        above = ("/".join(names[:depth]) + "/" for depth in range(1, len(names)))
        return path in self._before.outside or any(directory in self._before.outside for directory in above)

    def _is_there(self, path: str) -> bool:
        """Whether the path is still a file or a link, and no directory that contains it has become a link. Blocking."""
        found = self._directory / path
        is_file = os.path.lexists(found) and (found.is_symlink() or not found.is_dir())
        return is_file and found.parent.resolve() == self._directory.resolve() / Path(path).parent

    async def changes(self, run_id: str) -> RunChanges:
        """What the run changed, as far as it fits into one message. Raises ``NoCheckpoint``, ``GitFailed`` or
        OSError."""
        while (shared := self._asked.get(run_id)) is not None:
            await asyncio.wait([shared])
            if not shared.cancelled():
                return shared.result()
        shared = self._asked[run_id] = asyncio.get_running_loop().create_future()
        try:
            shared.set_result(await self._changes(run_id))
        except (GitFailed, NoCheckpoint, OSError) as error:
            shared.set_exception(error)
        except BaseException:
            shared.cancel()
            raise
        finally:
            del self._asked[run_id]
        return shared.result()

    async def _changes(self, run_id: str) -> RunChanges:
        async with self._working() as git:
            git, before, after = await self._both(git, run_id)
            return await self._shown(git, run_id, await self._changed(git, before, after), before, after)

    async def _changed(self, git: Git, before: str, after: str) -> list[tuple[str, str]]:
        """The files that differ: pairs of git's mark and the path, which is relative to the project."""
        return _marked(await git.read(*PATCH, "--name-status", "--relative", "-z", before, after, "--", "."))

    async def _shown(self, git: Git, run_id: str, listed: list[tuple[str, str]], before: str, after: str) -> RunChanges:
        patch = git.folder / "patch"
        await git.read(*PATCH, "-p", "--relative", f"--output={patch}", before, after, "--", ".")
        diff, more = await asyncio.to_thread(beginning_of, patch)
        files = tuple(_fitting(ChangedFile(shown_path(path), _NAMES[mark]) for mark, path in listed))
        return RunChanges(run_id, files, diff, more or len(files) < len(listed))

    async def revert(self, run_id: str) -> RunChanges:
        """Reverts exactly what the run changed, and returns these changes. Raises ``Changed``, ``UnsavedChanges``,
        ``NoCheckpoint``, ``GitFailed`` or OSError without changing anything, unless git itself was killed while it was
        writing the files."""
        async with self._working() as git:
            git, before, after = await self._both(git, run_id)
            return await self._revert(git, run_id, before, after)

    async def _revert(self, git: Git, run_id: str, before: str, after: str) -> RunChanges:
        listed = await self._changed(git, before, after)
        _check_known((await filtered_of(git, before)).unread, [path for _, path in listed])
        shown = await self._shown(git, run_id, listed, before, after)
        now, _ = await self.current(git, after)
        await self._take_out(git, before, after)
        await self.write(git, now, (await git.read("write-tree")).strip(), [path for _, path in listed])
        return shown

    @contextlib.asynccontextmanager
    async def operation(self) -> AsyncIterator[Git]:
        """git for one operation; no checkpoint is taken meanwhile. Raises ``NoCheckpoint``, ``GitFailed`` or
        OSError."""
        async with self._working() as git:
            if git is None:
                raise await self._nothing()
            yield git

    @contextlib.asynccontextmanager
    async def beside(self) -> AsyncIterator[Git]:
        """git for an operation that may take minutes and neither reads nor writes files or checkpoints: other
        operations continue meanwhile. Raises ``NoCheckpoint``, ``GitFailed`` or OSError."""
        async with self._opened() as git:
            if git is None:
                raise await self._nothing()
            yield git

    async def current(self, git: Git, since: str) -> tuple[str, Filtered]:
        """The current files as a tree, to be compared with the checkpoint ``since``, and the files with a filter.
        Afterwards, git's index matches this tree."""
        filtered = await self._look(git, since)
        code, tree, _ = await git.run("write-tree")
        if code or tree.strip() != await tree_of(git, since):  # otherwise, there is nothing to even out
            await self._even_out(git, "", since)
            tree = await git.read("write-tree")
        return tree.strip(), filtered

    async def check_size(self, git: Git) -> None:
        """Raises ``NoCheckpoint`` if the directory was found to be too large for checkpoints and still is, and
        ``GitFailed``."""
        if self._private is not None and git.repository.private:
            await self._private.check_size(git)

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
                raise Changed(await self._named(git, complaint, paths))

    def _unsaved(self, paths: Iterable[str]) -> Mapping[str, str]:
        """The files that have unsaved changes in an editor: path, as ``shown_path`` returns it → the editor's name.
        Blocking."""
        files = {str(self._directory / path): path for path in paths}
        found = self._find_unsaved(list(files))
        return {shown_path(path): found[file] for file, path in files.items() if file in found}

    async def _take_out(self, git: Git, before: str, after: str) -> None:
        """Undoes the run's changes in the index, which contains the current files. Raises ``Changed``."""
        options = ("--no-renames", "--ignore-submodules=all", "--relative", "-z")
        changed = await differences(git, before, after)
        since = listed_differences(await git.read("diff-index", "--cached", *options, after, "--", "."))
        prefix = await git.prefix()
        lines: list[str] = []
        refused: dict[str, int | None] = {}
        for path, (was, made) in changed.items():
            there = since[path][1] if path in since else made
            wanted = was if there == made else there if there == was else await self._merged(git, there, made, was)
            if isinstance(wanted, str):
                lines.append(f"{wanted}\t{prefix}{path}\0")
            else:
                refused[shown_path(path)] = wanted
        if refused:
            raise Changed(sorted(refused), {path: line for path, line in refused.items() if line is not None})
        if lines:
            await git.read("update-index", "--replace", "-z", "--index-info", stdin="".join(lines))

    async def _merged(self, git: Git, there: str, made: str, was: str) -> str | int | None:
        """The entry of a file that was changed after the run, with the run's changes undone. If the later changes
        conflict with that, the line where the conflict begins, from 1; None if the conflict is not in lines."""
        modes, blobs = zip(*(entry.split(" ") for entry in (there, made, was)), strict=True)
        if not {*modes} <= {"100644", "100755"}:
            return None
        texts = [await git.read("cat-file", "blob", blob) for blob in blobs]
        files = [str(git.folder / name) for name in MERGED]
        for name, text in zip(files, texts, strict=True):
            await asyncio.to_thread(Path(name).write_bytes, text.encode(errors="surrogateescape"))
        if (await git.run("merge-file", "--quiet", *files))[0]:
            return None if any("\0" in text for text in texts) else await asyncio.to_thread(_clash, *texts)
        blob = (await git.read("hash-object", "-w", "--no-filters", files[0])).strip()
        return f"{modes[2] if modes[0] == modes[1] else modes[0]} {blob}"

    async def _named(self, git: Git, complaint: str, known: Sequence[str]) -> list[str]:
        """The files of ``known`` that git's error names, or all of them if it names none; paths as ``shown_path``
        returns them."""
        named = re.findall(r"error: (?:patch failed: )?(.+?)(?::\d+)?(?:: .*)?$", complaint, re.MULTILINE)
        prefix = await git.prefix()
        words = [shown_path(path) for path in known]
        return sorted({name.removeprefix(prefix) for name in named} & set(words)) or sorted(words)

    async def _both(self, git: Git | None, run_id: str) -> tuple[Git, str, str]:
        if git is None:
            raise await self._nothing()
        names = [f"{self._refs}/{run_id}/{when}" for when in ("before", "after")]
        found = [await git.run("rev-parse", "--verify", "--quiet", name) for name in names]
        if any(code for code, _, _ in found):
            await self.check_size(git)
            raise NoCheckpoint("The run no longer has a checkpoint, or it has not ended yet.")
        return git, found[0][1].strip(), found[1][1].strip()

    async def _nothing(self) -> NoCheckpoint:
        return NoCheckpoint(NO_REPOSITORY if await asyncio.to_thread(program) else NO_GIT)

    async def remove(self) -> None:
        """Removes all checkpoints of the project from the repository of its git work tree, if it is in one. A private
        repository is left unchanged, because the caller removes its folder. Raises ``GitFailed``, ``NoCheckpoint`` or
        OSError."""
        real = opened(self._directory, self._confinement, self._memory, self._endings)
        async with self._busy.held(), real as git:
            if git is not None:
                await self._remove(git, await self._names(git))

    async def _drop_old(self, git: Git, active: str) -> None:
        """Drops the checkpoints of older runs (of all earlier runs if the private repository is full), and of runs that
        ended without a second checkpoint. ``active``: the latest run. Its checkpoints and the checkpoints of other
        active runs are kept."""
        private = self._private if git.repository.private else None
        is_full = private is not None and await asyncio.to_thread(private.is_full)
        names = await self._names(git)
        ended = [name.removesuffix("/after") for name in names if name.endswith("/after")]
        kept = {*(f"{self._refs}/{run}" for run in (active, *self._active())), *ended[: 0 if is_full else KEPT_RUNS]}
        kept.add(f"{self._refs}/{REVIEW}")
        await self._remove(git, [name for name in names if name.rpartition("/")[0] not in kept])
        if private is not None:
            await private.collect(git, now=is_full)

    async def _names(self, git: Git) -> list[str]:
        """The refs of all checkpoints, newest first."""
        order = ("for-each-ref", "--sort=-committerdate", "--format=%(refname)", f"{self._refs}/")
        return (await git.read(*order)).split()

    async def _remove(self, git: Git, names: Iterable[str]) -> None:
        for name in names:
            await git.run("update-ref", "-d", name)


def _check_known(unread: frozenset[str], changed: Iterable[str]) -> None:
    """Raises ``NoCheckpoint`` if the run changed a file whose previous content was not read."""
    lost = sorted(shown_path(path) for path in unread.intersection(changed))
    if lost:
        names = ", ".join(lost[:NAMED]) + (" and others" if len(lost) > NAMED else "")
        raise NoCheckpoint(
            f"The run can't be undone: a git filter (such as LFS) stores {names}, and checkpoints contain only the "
            f"smallest {FILTERED_BYTES // MB} MB of such files. Restore the files with git."
        )


def _staged(listed: str) -> dict[str, str]:
    """Parses the output of ``ls-files -s -z``: path → "mode blob stage"."""
    entries = (item.partition("\t") for item in listed.split("\0") if item)
    return {path: entry for entry, _, path in entries}


def _entry(mode: int, object_id: bytes) -> str:
    """An entry as in the result of ``_staged``, for a file that is not in conflict."""
    return f"{mode:o} {object_id.hex()} 0"


def _keep(index: Path, kept: Path) -> None:
    """Copies the index to the file ``kept`` atomically. Blocking. Raises OSError."""
    new = kept.with_name(kept.name + ".new")
    shutil.copy2(index, new)
    new.chmod(PRIVATE_FILE)
    os.replace(new, kept)


def _clash(there: str, made: str, was: str) -> int | None:
    """The first line of ``there``, from 1, that was changed in a place where undoing the run (from ``made`` to ``was``)
    changes something. None if there is no such line."""
    lines = split(made)[0]
    undone = hunks.diff(lines, split(was)[0])
    for hunk in hunks.diff(lines, split(there)[0]):
        if any(hunk.old_start <= other.old_end and other.old_start <= hunk.old_end for other in undone):
            return hunk.new_start + 1
    return None


def _marked(listed: str) -> list[tuple[str, str]]:
    """Parses the output of ``--name-status -z``: pairs of status and path."""
    words = listed.split("\0")
    return list(zip(words[::2], words[1::2], strict=False))


def _fitting(files: Iterable[ChangedFile]) -> Iterable[ChangedFile]:
    room = LARGEST_LIST
    for file in files:
        room -= len(msgspec.json.encode(file)) + 1
        if room < 0:
            return
        yield file
