"""Creates the checkpoints before and after each run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct

from drawbridge.core.tasks import BackgroundTasks
from drawbridge.server.checkpoints.commits import Filtered, committed
from drawbridge.server.checkpoints.errors import GitFailed, NoCheckpoint, reason_of
from drawbridge.server.checkpoints.file_versions import Versions
from drawbridge.server.checkpoints.filters import filtered_entries, filtered_since
from drawbridge.server.checkpoints.git.git import Git
from drawbridge.server.checkpoints.git.settings import Settings
from drawbridge.server.checkpoints.index_cache import CachedIndex, IndexCache
from drawbridge.server.checkpoints.operations import Operations
from drawbridge.server.checkpoints.private import PrivateRepository
from drawbridge.server.checkpoints.refs import Refs, When
from drawbridge.server.checkpoints.staging import Staging
from drawbridge.server.checkpoints.untracked import NOTHING, Untracked, find_untracked, list_folders

logger = logging.getLogger("drawbridge.server")

Stored: TypeAlias = Callable[[Git, str, When, str], Awaitable[None]]
"""The type of a function that is called after each checkpoint is stored, with git, the run's id, whether the checkpoint
is from before or after the run, and the commit's id."""

Missed: TypeAlias = Callable[[str], Awaitable[None]]
"""The type of a function that is called if the checkpoint before a run was not taken, with the reason for the user."""


class _Begun(Struct, frozen=True):
    """The run that began last. ``settings``: git's settings at that time, None for no run. ``untracked``: what existed
    before the run in addition to its checkpoint."""

    run_id: str
    settings: Settings | None
    untracked: Untracked


class _Collected(Struct, frozen=True):
    """The files at one moment, in git's index. ``filtered``: the files with a filter; None if git has yet to list them,
    which is possible only if the index is based on ``cached``. ``digest`` and ``ignoring``: as in ``CachedIndex``, None
    if the index can't be kept for the next checkpoint. ``absent``: as in ``CachedIndex``."""

    filtered: Filtered | None
    digest: bytes | None
    ignoring: Versions | None
    cached: CachedIndex | None
    absent: frozenset[str]


class Snapshotter:
    """Creates the checkpoints of one project. ``private``: its private repository; None if it can't have one.
    ``on_stored`` is called in the operation that stored the checkpoint, and may use its git, but not its index.
    ``on_missed`` is called if the checkpoint that ``begin`` started was not taken."""

    def __init__(
        self,
        directory: Path,
        operations: Operations,
        staging: Staging,
        cache: IndexCache,
        refs: Refs,
        private: PrivateRepository | None,
        on_stored: Stored | None,
        on_missed: Missed | None,
    ) -> None:
        self._directory = directory
        self._operations = operations
        self._staging = staging
        self._cache = cache
        self._refs = refs
        self._private = private
        self._on_stored = on_stored
        self._on_missed = on_missed
        self._begun = _Begun("", None, NOTHING)
        self._storing = BackgroundTasks(logger)
        """The task that completes what ``begin`` started."""

    async def create(self, run_id: str, when: When) -> bool:
        """Creates a checkpoint of a run. Returns False if the directory has no repository for it, or if git is not
        installed. Raises ``GitFailed``, ``NoCheckpoint`` or OSError."""
        return await self._create(run_id, when, asyncio.get_running_loop().create_future())

    async def begin(self, run_id: str) -> bool:
        """Like ``create(run_id, "before")``, but returns as soon as git has the state of the files. Later changes do
        not become part of the checkpoint. The checkpoint is stored in the background, before any other operation
        begins."""
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
            raise GitFailed("the session was closed")
        return collected.result()

    async def stored(self) -> None:
        """Returns once everything that ``begin`` started is completed."""
        await self._storing.wait()

    async def close(self) -> None:
        """Cancels what ``begin`` started."""
        await self._storing.close()

    async def _complete(self, run_id: str, collected: asyncio.Future[bool]) -> None:
        """Creates the checkpoint before a run. ``collected`` receives the result, or an error that occurs before git
        has the state of the files. A later error is logged."""
        try:
            created = await self._create(run_id, "before", collected)
        except Exception as error:
            is_expected = isinstance(error, GitFailed | NoCheckpoint | OSError)
            if is_expected and self._on_missed is not None:
                await self._on_missed(reason_of(error))
            if not collected.done():
                collected.set_exception(error)
            elif is_expected:
                logger.warning("the checkpoint before run %s was not taken: %s", run_id, error)
            else:
                raise
        else:
            if not collected.done():
                collected.set_result(created)

    async def _create(self, run_id: str, when: When, collected: asyncio.Future[bool]) -> bool:
        """Creates a checkpoint. ``collected`` is set to True as soon as git has the state of the files."""
        async with self._operations.held(urgent=True):
            if when == "before":
                await self._leave_private_repository()
            cached = self._cache.remove()
            # A run does not wait for the checkpoint after it, so the configuration is always read for that checkpoint.
            known = cached.settings if cached is not None and when == "before" else None
            async with self._operations.opened(known, awaited=True) as git:
                if git is None:
                    return False
                collect = self._collect_before if when == "before" else self._collect_after
                files = await collect(git, run_id, cached)
                collected.set_result(True)
                await self._store(git, run_id, when, files)
                return True

    async def _leave_private_repository(self) -> None:
        """Before a run, if the directory has become part of a git work tree, removes the private repository, so that
        the work tree's repository is used from now on. Does nothing if the review in the private repository has changes
        to decide on, or a run has not ended. Raises ``TooLarge`` if the directory was recently found to be too
        large."""
        if self._private is None:
            return
        if await asyncio.to_thread(self._private.successor) is None:
            self._private.check_again_later()
            return
        async with self._operations.opened(awaited=True) as git:
            if git is None or await self._refs.review_is_open(git):
                return
        await asyncio.to_thread(self._private.remove)
        self._cache.remove()

    async def _collect_before(self, git: Git, run_id: str, cached: CachedIndex | None) -> _Collected:
        """Makes git's index match the files before a run."""
        digest = await self._cache.users_digest(git)
        if cached is not None and cached.is_usable(git, digest):
            # Both are done at the same time, because a run waits for them.
            absent, listed = await asyncio.gather(
                self._resume(git, cached),
                asyncio.to_thread(list_folders, self._directory, self._begun.untracked.folders),
            )
            if absent is not None:
                untracked = await find_untracked(git, self._directory, listed)
                self._begun = _Begun(run_id, git.settings, untracked)
                if untracked.ignoring == cached.ignoring:
                    attributes = self._staging.attributes
                    may_filter = await asyncio.to_thread(attributes.may_filter, git, untracked.folders)
                    filtered = None if may_filter else Filtered(cached.read)
                    return _Collected(filtered, digest, cached.ignoring, cached, absent)
        staged = await self._staging.read_all(git, None)
        untracked = await find_untracked(git, self._directory)
        self._begun = _Begun(run_id, git.settings, untracked)
        return _Collected(staged.filtered, digest, untracked.ignoring, None, staged.absent)

    async def _collect_after(self, git: Git, run_id: str, cached: CachedIndex | None) -> _Collected:
        """Makes git's index match the files after a run."""
        digest = await self._cache.users_digest(git)
        before, begun = self._refs.name(run_id, "before"), self._begun
        filtered: Filtered | None = None
        absent: frozenset[str] | None = None
        if cached is not None and cached.is_usable(git, digest):
            absent = await self._resume(git, cached)
        if absent is None:
            cached = None
            filtered, absent = await self._staging.read_all(git, before)
        untracked = begun.untracked if begun.run_id == run_id else NOTHING
        has_ignored = await self._staging.keep_selection(git, before, untracked)
        is_known = begun.settings == git.settings and not has_ignored
        return _Collected(filtered, digest, untracked.ignoring if is_known else None, cached, absent)

    async def _resume(self, git: Git, cached: CachedIndex) -> frozenset[str] | None:
        """Loads the index of the last checkpoint and updates it to the current files. A run usually waits for no other
        git commands. Returns what ``Staging.compare_present`` returns; None if the index can't be loaded."""
        if not await self._cache.load(git):
            return None
        absent = await self._staging.compare_present(git, cached.absent)
        await self._staging.add_changes(git)
        return absent

    async def _store(self, git: Git, run_id: str, when: When, files: _Collected) -> None:
        """Stores git's index as a checkpoint."""
        filtered = files.filtered
        if filtered is None:
            assert files.cached is not None
            known, read = await filtered_entries(git), files.cached.read
            filtered = filtered_since(read, known, await self._cache.entries(git) if known.keys() - read else {})
        commit = await committed(git, (await git.read("write-tree")).strip(), f"{run_id} {when}", filtered)
        await git.read("update-ref", self._refs.name(run_id, when), commit)
        if when == "after":
            await self._refs.drop_old(git, run_id)
        if files.digest is not None and files.ignoring is not None and not filtered.unread:
            cached = CachedIndex(
                git.repository, git.settings, files.digest, files.ignoring, filtered.read, files.absent
            )
            await self._cache.store(git, cached)
        if self._on_stored is not None:
            await self._on_stored(git, run_id, when, commit)
        if when == "after" and git.repository.private:
            assert self._private is not None
            await self._private.collect(git)
