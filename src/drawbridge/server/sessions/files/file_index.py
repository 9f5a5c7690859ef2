"""Makes and searches the list of a project's files, without those that git ignores.

In a git work tree, git makes the list. It runs confined and without the repository's configuration, as for checkpoints
(``git``). Elsewhere the directories are walked, within limits. A list is kept for a short time, so that a user who
types a name waits for it only once.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import os
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from itertools import chain, islice
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from drawbridge.agents.base import Confinement
from drawbridge.agents.memory import MemoryWatch
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.server.checkpoints.errors import GitFailed, NoCheckpoint
from drawbridge.server.checkpoints.git.git import opened
from drawbridge.server.checkpoints.git.settings import Settings
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.replies import FileEntries, FileEntry
from drawbridge.server.sessions.files import files
from drawbridge.server.sessions.files.files import Project

logger = logging.getLogger("drawbridge.server")

FRESH_SECONDS: Final = 3.0
"""The age of a list, in seconds, above which a request replaces it in the background."""

KEPT_SECONDS: Final = 60.0
"""The age of a list, in seconds, above which a request waits for the new one."""

GIT_SECONDS: Final = 10.0
"""The time limit for git, in seconds. After that, the directories are walked."""

WALK_SECONDS: Final = 2.0

MOST_FILES: Final = 100_000
"""The maximum number of files in a list, and of changed files."""

MOST_WALKED: Final = 20_000
"""The maximum number of directory entries that are examined without git."""

LISTS_KEPT: Final = 4

AT_ONCE: Final = 2
"""The maximum number of lists that are made at the same time."""

NOT_WALKED: Final = frozenset({"node_modules", "__pycache__"})
"""Directories that are left out when files are listed without git, in addition to hidden ones."""

LIST: Final = ("ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", ".")
STATUS: Final = (
    "status", "--porcelain=v2", "-z", "--untracked-files=all", "--ignore-submodules=all", "--no-renames", "--", ".",
)  # fmt: skip

Status = Literal["M", "A", "D", "?"]


class FileIndex(Struct, frozen=True):
    """The list of a project's files. Paths are relative to the project. ``directories``: all directories that contain
    listed files, and nested repositories; in a list that was made without git, also empty directories. ``changed``:
    files with a state that differs from the last commit, and the directories that contain such files. ``git``: whether
    git made the list. ``complete``: whether no limit was reached.
    """

    files: frozenset[str]
    directories: frozenset[str]
    changed: Mapping[str, Status]
    git: bool
    complete: bool

    def matching(self, query: str, limit: int) -> list[str]:
        """The files and directories that match best, at most ``limit``; without a query, changed ones come first."""
        wanted = _Wanted(query)
        paths = chain(self.files, self.directories)
        ranked = ((wanted.rank(path, path in self.changed), len(path), path) for path in paths if wanted.matches(path))
        return [path for _, _, path in heapq.nsmallest(limit, ranked)]

    def directories_of_deleted(self) -> set[str]:
        """The directories that deleted files were in. They may still exist."""
        return {above for path, status in self.changed.items() if status == "D" for above in _above(path)}

    def ignores(self, path: str) -> bool:
        """Whether git ignores the path, or the path is a directory without listed files. False if the list is
        incomplete or was made without git."""
        return self.git and self.complete and path not in self.files and path not in self.directories


async def listed(project: Project, path: str, indexes: FileIndexes) -> FileEntries:
    """The entries of one directory, with their states in git. Raises ``ClientError``."""
    try:
        found, more = await asyncio.to_thread(files.entries, project, path)
    except ClientError as missing:
        index = await indexes.of(project)
        if missing.code != "FILE_NOT_FOUND" or not await asyncio.to_thread(_was_deleted, project, path, index):
            raise
        found, more = [], False
    index = await indexes.of(project)
    return await asyncio.to_thread(_with_statuses, project, path, found, more, index)


def _was_deleted(project: Project, path: str, index: FileIndex) -> bool:
    """Whether the path was a directory with files that were deleted. Raises ``ClientError``. Blocking."""
    return "/".join(project.parts(path)) in index.directories_of_deleted()


def _with_statuses(project: Project, path: str, found: list[FileEntry], more: bool, index: FileIndex) -> FileEntries:
    entries = [
        replace(
            entry,
            status=index.changed.get(entry.path),
            ignored=entry.kind != "other" and index.ignores(entry.path),
        )
        for entry in found
    ]
    inside = "/".join(project.parts(path))
    here = {entry.path for entry in found}
    gone = [one for one, status in index.changed.items() if status == "D" and one.rpartition("/")[0] == inside]
    entries += [FileEntry(path=one, kind="file", status="D") for one in gone if one not in here]
    above = [one for one in index.directories_of_deleted() if one.rpartition("/")[0] == inside]
    entries += [
        FileEntry(path=one, kind="directory", status="D")
        for one in above
        if not os.path.lexists(os.path.join(project.root, one))
    ]
    entries.sort(key=files.order)
    more = more or len(entries) > files.MOST_ENTRIES
    return FileEntries(path=path, entries=entries[: files.MOST_ENTRIES], more=more, git=index.git)


async def matching(project: Project, path: str, query: str, limit: int, indexes: FileIndexes) -> FileEntries:
    """The files and directories in the whole project that match best, as they are now. Raises ``ClientError``."""
    index = await indexes.of(project)
    return await asyncio.to_thread(_matching, project, path, query, limit, index)


def _matching(project: Project, path: str, query: str, limit: int, index: FileIndex) -> FileEntries:
    found = index.matching(query, limit + 1)
    now = (files.find_entry(project, one) for one in found[:limit])
    entries = [
        replace(entry, status=index.changed.get(entry.path))
        for entry in now
        if entry is not None and entry.kind != "other"
    ]
    more = len(found) > limit or not index.complete
    return FileEntries(path=path, entries=entries, more=more, git=index.git)


class _Wanted:
    """A query. Its characters, except spaces, have to occur in the path in this order, regardless of case."""

    def __init__(self, query: str) -> None:
        self._query = "".join(query.casefold().split())
        # Each part can match in only one way, so matching is fast for every path.
        self._pattern = re.compile("".join(f"[^{re.escape(one)}]*+{re.escape(one)}" for one in self._query))

    def matches(self, path: str) -> bool:
        return self._pattern.match(path.casefold()) is not None

    def rank(self, path: str, changed: bool) -> int:
        """The rank of a match. A lower one is better."""
        if not self._query:
            return path.count("/") + (0 if changed else 1_000)
        path = path.casefold()
        name = path.rpartition("/")[2]
        if name == self._query:
            return 0
        if name.startswith(self._query) or path.startswith(self._query):
            return 1
        if self._query in name:
            return 2
        if self._query in path:
            return 3
        return 4 if self._pattern.match(name) else 5


class _List:
    """The file list of one project. ``make`` makes a new list, and receives the git settings that the previous call
    returned.
    """

    def __init__(
        self, make: Callable[[Settings | None], Awaitable[tuple[FileIndex, Settings | None]]], tasks: BackgroundTasks
    ) -> None:
        self.making: asyncio.Task[None] | None = None
        self._make = make
        self._tasks = tasks
        self._index: FileIndex | None = None
        self._settings: Settings | None = None
        self._made_at = 0.0

    async def current(self) -> FileIndex:
        """The list. Waits for a new one if none was made yet, or if it is older than ``KEPT_SECONDS``. Raises
        ``ClientError`` if no list could be made."""
        age = time.monotonic() - self._made_at
        if (self._index is None or age > FRESH_SECONDS) and self.making is None:
            self.making = self._tasks.start(self._renew(), "listing the files of a project")
            self.making.add_done_callback(self._made)
        if self.making is not None and (self._index is None or age > KEPT_SECONDS):
            # Others may also be waiting for it, so it is not canceled with this request.
            await asyncio.wait([self.making])
        if self._index is None:
            raise ClientError(
                "FILE_OPERATION", "The files of the project can't be listed. The server's log has the reason."
            )
        return self._index

    async def _renew(self) -> None:
        self._index, self._settings = await self._make(self._settings)
        self._made_at = time.monotonic()

    def _made(self, _: asyncio.Task[None]) -> None:
        self.making = None


class FileIndexes:
    """The file lists of the most recently used projects."""

    def __init__(self, confinement: Confinement, memory: MemoryWatch) -> None:
        self._confinement = confinement
        self._memory = memory
        self._lists: dict[Project, _List] = {}
        self._free = asyncio.Semaphore(AT_ONCE)
        self._tasks = BackgroundTasks(logger)
        self._endings = BackgroundTasks(logger)
        """These tasks are not canceled. Each waits until git's processes have ended."""

    async def close(self) -> None:
        await self._tasks.close()
        await self._endings.wait()

    async def of(self, project: Project) -> FileIndex:
        """The list of the project. Raises ``ClientError`` if it can't be made."""
        found = self._lists.pop(project, None) or _List(partial(self._make, project), self._tasks)
        self._lists[project] = found
        while len(self._lists) > LISTS_KEPT:
            del self._lists[next(iter(self._lists))]
        return await found.current()

    async def _make(self, project: Project, known: Settings | None) -> tuple[FileIndex, Settings | None]:
        async with self._free:
            try:
                return await self._by_git(project, known) or (await asyncio.to_thread(_walked, project), None)
            except (GitFailed, NoCheckpoint, OSError, ValueError, TimeoutError) as error:
                reason = str(error) or f"git took more than {GIT_SECONDS:g} s"
                text = "%s: git can't list the files of this project, so they are listed without it: %s"
                logger.warning(text, project.root, reason)
                return await asyncio.to_thread(_walked, project), None

    async def _by_git(self, project: Project, known: Settings | None) -> tuple[FileIndex, Settings] | None:
        """The list from git, and git's settings; None if the project is not in a git work tree, or git is not
        installed."""
        async with (
            asyncio.timeout(GIT_SECONDS),
            opened(project.root, self._confinement, self._memory, self._endings, known) as git,
        ):
            if git is None:
                return None
            await git.see_head()
            # Git reads the user's own index, but does not refresh it.
            with_index = {"GIT_INDEX_FILE": str(git.repository.own / "index"), "GIT_OPTIONAL_LOCKS": "0"}
            listed = await git.read(*LIST, environment=with_index)
            changes = await git.read(*STATUS, environment=with_index)
            prefix = str(project.root.relative_to(git.repository.root))
            inside = "" if prefix == "." else f"{prefix}/"
            return await asyncio.to_thread(_index, project, listed, changes, inside), git.settings


def _index(project: Project, listed: str, changes: str, inside: str) -> FileIndex:
    """Makes the list. ``listed`` and ``changes``: the output of ``LIST`` and ``STATUS``. ``inside``: the project's path
    in the work tree, with a slash at its end, or empty."""
    shown = _Shown(project)
    named = [path for path in listed.split("\0", MOST_FILES)[:MOST_FILES] if path]
    complete = listed.count("\0") <= MOST_FILES
    folders = {path.rstrip("/") for path in named if path.endswith("/") and shown.contains(path.rstrip("/"))}
    states = list(islice(parsed(changes), MOST_FILES + 1))
    complete = complete and len(states) <= MOST_FILES
    files = {path for path in named if not path.endswith("/") and shown.contains(path)}
    changed: dict[str, Status] = {}
    for path, status in states[:MOST_FILES]:
        if path.startswith(inside) and shown.contains(path[len(inside) :]):
            changed[path[len(inside) :].rstrip("/")] = status
    above: dict[str, Status] = {folder: "M" for path in changed for folder in _above(path)}
    directories = folders | {folder for path in files for folder in _above(path)}
    return FileIndex(frozenset(files), frozenset(directories), {**above, **changed}, git=True, complete=complete)


class _Shown:
    """Decides which paths clients may see. Each directory is checked only once."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._folders: dict[str, bool] = {"": True}

    def contains(self, path: str) -> bool:
        folder, _, name = path.rpartition("/")
        return self._is_shown(folder) and self._project.shows(folder, name)

    def _is_shown(self, folder: str) -> bool:
        known = self._folders.get(folder)
        if known is None:
            known = self._folders[folder] = self.contains(folder)
        return known


def _above(path: str) -> Iterator[str]:
    """The directories that contain the path, except for the project's directory."""
    while (slash := path.rfind("/")) > 0:
        path = path[:slash]
        yield path


def parsed(changes: str) -> Iterator[tuple[str, Status]]:
    """The paths in the output of ``git status --porcelain=v2 -z``, and the change to each."""
    fields = iter(changes.split("\0"))
    for field in fields:
        kind, _, rest = field.partition(" ")
        match kind:
            case "?":
                yield rest, "?"
            case "1" | "2" | "u":
                state, *_, path = rest.split(" ", {"1": 7, "2": 8, "u": 9}[kind])
                if kind == "2":
                    next(fields, None)  # the previous name
                yield path, "D" if "D" in state else "A" if "A" in state else "M"


def _walked(project: Project) -> FileIndex:
    """Makes the list without git. Hidden directories and ``NOT_WALKED`` are left out. Blocking."""
    shown, until = _Shown(project), time.monotonic() + WALK_SECONDS
    files: set[str] = set()
    directories: set[str] = set()
    ahead, count = deque([""]), 0
    while ahead:
        inside = ahead.popleft()
        for entry in _entries(os.path.join(project.root, inside)):
            count += 1
            if count > MOST_WALKED or time.monotonic() > until:
                return FileIndex(frozenset(files), frozenset(directories), {}, git=False, complete=False)
            path = f"{inside}/{entry.name}" if inside else entry.name
            if not shown.contains(path):
                continue
            if not _is_directory(entry):
                files.add(path)
            elif not entry.name.startswith(".") and entry.name not in NOT_WALKED:
                directories.add(path)
                ahead.append(path)
    return FileIndex(frozenset(files), frozenset(directories), {}, git=False, complete=True)


def _entries(directory: str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            yield from entries
    except OSError:
        return


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False
