"""Decides which directories may be projects: allowed roots and directories inside them, identified by their canonical
paths. A project can't be inside another project."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from drawbridge.core.disk_threads import in_thread
from drawbridge.server.protocol.client_errors import ClientError

LONGEST = 4096

EXAMINING_SECONDS: Final = 2.0
SEARCH_SECONDS: Final = 1.0
MOST_SEARCHED: Final = 20_000
"""The maximum number of directory entries that the search for repositories examines."""

MOST_FOUND: Final = 200
MOST_RECENT: Final = 20

LONGEST_FILE_NAME: Final = 255
"""The maximum length of a file name, in bytes."""

MOST_REMEMBERED: Final = 10_000
"""The maximum number of directories for which the last examination is remembered: more than a server has
sessions."""

NOT_HERE = "The directory was not found, or this server does not allow it."


def resolve(given: str, roots: Iterable[Path], taken: Iterable[Path]) -> Path:
    """The canonical path of a directory. ``taken``: the directories of projects. Raises a ``ClientError`` that reveals
    nothing about directories that are not allowed."""

    def refusal(code: str, why: str) -> ClientError:
        return ClientError(code, why, field="data.path")

    if not given:
        raise refusal("INVALID_PATH", "The path is empty.")
    if len(given) > LONGEST:
        raise refusal("INVALID_PATH", f"The path is longer than {LONGEST:,} characters.")
    if _is_strange(given):
        raise refusal("INVALID_PATH", "The path contains control characters, or is not valid UTF-8.")
    path = Path(given)
    if not path.is_absolute():
        raise refusal("INVALID_PATH", "The path must be absolute.")
    if ".." in path.parts:
        raise refusal("INVALID_PATH", 'The path must not contain "..".')
    try:
        real = path.resolve(strict=True)
    except (OSError, ValueError, RuntimeError):
        real = None
    # The error is the same for a missing path and for one that is not allowed, so that a client learns nothing about
    # the rest of the disk.
    if real is None or not real.is_dir() or not allowed(real, roots):
        raise refusal("INVALID_PATH", NOT_HERE)
    if _is_strange(str(real)):  # a symbolic link in the path leads there
        raise refusal(
            "INVALID_PATH",
            "A symbolic link in the path leads to a path that contains control characters, or is not valid UTF-8.",
        )
    for other in taken:
        if _same(real, other):
            raise refusal("PROJECT_EXISTS", "This directory is already a project.")
        if _inside(real, other):
            raise refusal("PROJECT_NESTING", "This directory is inside another project.")
        if _inside(other, real):
            raise refusal("PROJECT_NESTING", "This directory contains another project.")
    return real


def expanded(path: str) -> str:
    """The path, with a "~" at its beginning replaced by the home directory of the server's user."""
    return f"{Path.home()}{path[1:]}" if path == "~" or path.startswith("~/") else path


def _is_strange(path: str) -> bool:
    """Whether the path contains control characters, or bytes that are not valid UTF-8."""
    return any(character < " " or "\ud800" <= character <= "\udfff" for character in path)


def allowed(real: Path, roots: Iterable[Path]) -> bool:
    """Whether a canonical directory is a root or inside one. If that root is the home directory, hidden directories and
    everything in them are not allowed."""
    home = Path.home()
    for root in roots:
        if real == root or root in real.parents:
            hidden = root == home and any(part.startswith(".") for part in real.relative_to(root).parts)
            if not hidden:
                return True
    return False


def usable(given: str, roots: Iterable[Path]) -> bool:
    """Whether ``given`` is the absolute path of a directory that agents may be given in addition to their project's.
    Blocking."""
    path = Path(given)
    try:
        return path.is_absolute() and path.is_dir() and allowed(path.resolve(), roots)
    except (OSError, ValueError, RuntimeError):
        return False


ADDITIONAL_NOT_HERE = "An additional directory was not found, or this server does not allow it."
OUTSIDE = "The session's directory is outside the directories that the owner allows (--allow)."
IN_DATA = "The session's directory is in the server's data directory, where agents are not allowed to run."
GONE = "The session's directory does not exist."
SILENT = "The disk that contains the session's directory does not respond."


class _Seen(NamedTuple):
    """The result of the last examination of a path. ``problem``: see ``AllowedDirectories.problem``."""

    leads_to: Path
    problem: str | None


class AllowedDirectories:
    """The directories in which agents may run. ``roots``: the canonical directories that the owner allows; ``data``:
    the server's own data directory.

    A disk may be slow or not respond at all, so the event loop never examines a directory. Code that is about to use
    one calls ``examine``, and all other code uses the result of the last call. Only for a directory that was never
    examined does other code wait, for at most ``EXAMINING_SECONDS``.
    """

    def __init__(self, roots: Iterable[Path], data: Path) -> None:
        self.roots = tuple(roots)
        self.data = data
        self._seen: dict[str, _Seen] = {}
        """The results by path. As strings, because two ``Path`` of one directory take much longer to compare, and every
        list of sessions looks all of them up."""
        self._examining: dict[Path, asyncio.Future[str | None]] = {}
        self._examining_all: asyncio.Future[None] | None = None
        self._real_data: Path | None = None
        """The canonical path of ``data`` while many directories are examined; otherwise None. To determine it takes as
        long as to examine a directory."""

    def is_own(self, path: Path) -> bool:
        """Whether a path belongs to the server's data: tokens, histories and the audit log. No agent runs there."""
        return path.is_relative_to(self._real_data or self.data.resolve())

    def problem(self, path: Path) -> str | None:
        """Examines a session's directory. Returns the reason why agents may not run in it now, as a message for the
        user; None if they may. Blocking.

        A project may have been created when the owner allowed more directories, and its directory may have become a
        link since.
        """
        try:
            real = Path(os.path.realpath(path))
        except ValueError:  # a null character: an agent may report anything as its directory
            real = path
        if not os.path.isdir(real):
            problem: str | None = GONE
        elif self.is_own(real):
            problem = IN_DATA
        else:
            problem = None if allowed(real, self.roots) else OUTSIDE
        if len(self._seen) >= MOST_REMEMBERED:
            self._seen.clear()
        self._seen[str(path)] = _Seen(real, problem)
        return problem

    async def examine(self, path: Path) -> str | None:
        """Returns what ``problem`` returns. If the disk does not respond, returns ``SILENT`` after
        ``EXAMINING_SECONDS``. At most one thread waits for each directory."""
        examining = self._examining.get(path)
        if examining is None:
            examining = self._examining[path] = in_thread(partial(self.problem, path))
            examining.add_done_callback(lambda _: self._examining.pop(path))
        await asyncio.wait([examining], timeout=EXAMINING_SECONDS)
        return examining.result() if examining.done() else self._silent(path)

    async def examine_all(self, paths: Iterable[Path]) -> None:
        """Examines these directories, except those that are being examined already. Returns after
        ``EXAMINING_SECONDS`` at the latest; immediately if an earlier call is still waiting for a disk."""
        if self._examining_all is not None and not self._examining_all.done():
            return
        waiting = [path for path in paths if path not in self._examining]

        def examine() -> None:
            self._real_data = self.data.resolve()
            try:
                while waiting:
                    self.problem(waiting[-1])
                    waiting.pop()
            finally:
                self._real_data = None

        self._examining_all = in_thread(examine)
        await asyncio.wait([self._examining_all], timeout=EXAMINING_SECONDS)
        if not self._examining_all.done() and waiting:
            self._silent(waiting[-1])

    def _silent(self, path: Path) -> str:
        seen = self._seen.get(str(path))
        self._seen[str(path)] = _Seen(path if seen is None else seen.leads_to, SILENT)
        return SILENT

    def last_problem(self, path: Path) -> str | None:
        """The reason why agents could not run in a session's directory when it was last examined, as ``problem``
        returns it."""
        return self._last(path).problem

    def leads_to(self, path: Path) -> Path:
        """The canonical path of a session's directory when it was last examined."""
        return self._last(path).leads_to

    def _last(self, path: Path) -> _Seen:
        seen = self._seen.get(str(path))
        if seen is None:
            self.examine_new([path])
            seen = self._seen.get(str(path))
        return seen or _Seen(path, SILENT)

    def examine_new(self, paths: Iterable[Path]) -> None:
        """Examines those of these directories that were never examined, all at the same time. Blocking, for at most
        ``EXAMINING_SECONDS``."""
        new = {path for path in paths if str(path) not in self._seen}
        examining = [threading.Thread(target=self.problem, args=(path,), daemon=True) for path in new]
        for one in examining:
            one.start()
        until = time.monotonic() + EXAMINING_SECONDS
        for one in examining:
            one.join(max(0.0, until - time.monotonic()))
        for path in new:
            self._seen.setdefault(str(path), _Seen(path, SILENT))

    def usable(self, path: str) -> bool:
        """Whether ``path`` is a directory that agents may be given in addition to their project's. Blocking."""
        return usable(path, self.roots) and not self.is_own(Path(path).resolve())

    def resolve(self, given: str, taken: Iterable[Path]) -> Path:
        """The canonical directory of a new project. ``given`` may begin with "~". Raises ``ClientError``. Blocking."""
        real = resolve(expanded(given), self.roots, taken)
        if self.problem(real) is not None:
            raise ClientError("INVALID_PATH", NOT_HERE, field="data.path")
        return real

    def create(self, parent: str, name: str, taken: Iterable[Path], sees: Callable[[Path], bool]) -> Path:
        """Creates the directory ``name`` in ``parent``, which may begin with "~", for a new project. Returns its
        canonical path. ``taken``: the directories of projects; ``sees`` returns whether the client may know that a
        directory exists. Raises ``ClientError``. Blocking.
        """
        real = resolve(expanded(parent), self.roots, ())
        if not _is_file_name(name):
            text = (
                "The name must be 1 to 255 bytes long and contain only printable characters, without a slash. It must not "
                "begin with a dot, or begin or end with a space."
            )
            raise ClientError("INVALID_PATH", text, field="data.name")
        new = real / name
        if self.is_own(new) or not allowed(new, self.roots) or not sees(new):
            raise ClientError("INVALID_PATH", NOT_HERE, field="data.path")
        if any(_same(real, other) or _inside(real, other) for other in taken):
            text = "The directory would be inside another project."
            raise ClientError("PROJECT_NESTING", text, field="data.path")
        try:
            new.mkdir()
        except FileExistsError:
            text = "A file or directory with this name already exists."
            raise ClientError("INVALID_PATH", text, field="data.name") from None
        except OSError as error:
            text = f"The directory can't be created: {(error.strerror or 'unknown reason').lower()}. Choose another directory."
            raise ClientError("FILE_OPERATION", text, field="data.path") from None
        return new


def _is_file_name(name: str) -> bool:
    return (
        name.isprintable()
        and name.strip() == name
        and not name.startswith(".")
        and "/" not in name
        and 0 < len(name.encode(errors="replace")) <= LONGEST_FILE_NAME
    )


def repositories(starts: Iterable[Path], depth: int = 2) -> tuple[list[Path], bool]:
    """The git work trees at most ``depth`` levels below ``starts``, sorted, and whether the search ended early. It does
    not follow links, enter work trees, or look into hidden directories. Blocking, for at most ``SEARCH_SECONDS``.
    """
    until, count = time.monotonic() + SEARCH_SECONDS, 0
    found: set[Path] = set()
    ahead = deque((start, 0) for start in starts)
    while ahead:
        directory, level = ahead.popleft()
        if level and os.path.lexists(directory / ".git"):
            found.add(directory)
            continue
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    count += 1
                    if count > MOST_SEARCHED or len(found) >= MOST_FOUND or time.monotonic() > until:
                        return sorted(found), True
                    if level < depth and not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
                        ahead.append((directory / entry.name, level + 1))
        except OSError:
            continue
    return sorted(found), False


class Suggested(NamedTuple):
    """Directories that can become projects: ``recent``, in which an agent has worked, latest first, and other
    ``repositories``. ``home``: the user's home directory; None if it may not be shown. ``more``: whether there may be
    more repositories."""

    recent: list[Path]
    repositories: list[Path]
    home: Path | None
    more: bool


def suggested(
    directories: AllowedDirectories,
    projects: Sequence[Path],
    used: Iterable[tuple[Path, str]],
    sees: Callable[[Path], bool],
) -> Suggested:
    """Directories that can become projects: first the directories ``used`` before (each with the time of its last use),
    latest first, then repositories. ``sees`` returns whether the client may know that a directory exists. Blocking.
    """
    home = Path.home()

    def is_free(path: Path) -> bool:
        try:
            return directories.resolve(str(path), projects) == path and sees(path)
        except ClientError:
            return False

    latest = sorted(used, key=lambda one: one[1], reverse=True)
    recent = list(dict.fromkeys(path for path, _ in latest if is_free(path)))[:MOST_RECENT]
    starts = dict.fromkeys([*directories.roots, *([home] if allowed(home, directories.roots) else [])])
    found, more = repositories(starts)
    others = [path for path in found if path not in recent and is_free(path)]
    return Suggested(recent, others, home if home in starts and sees(home) else None, more)


def identity(path: str) -> tuple[int, int] | None:
    """The device and inode of the directory at ``path``; None if it does not exist. The result changes if another
    directory gets the same path."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _same(left: Path, right: Path) -> bool:
    try:
        return left == right or os.path.samefile(left, right)
    except OSError:
        return False


def _inside(inner: Path, outer: Path) -> bool:
    return outer in inner.parents or any(_same(parent, outer) for parent in inner.parents)
