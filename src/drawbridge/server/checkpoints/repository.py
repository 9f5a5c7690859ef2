"""Finds a directory's repository, and checks whether git would wait for one of its files, such as a pipe.

Nothing here starts git, because a project's files are under the control of agents and have to be checked first.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Final

from msgspec import Struct

from drawbridge.agents.memory import MB

SEARCH_SECONDS: Final = 5.0
"""Seconds to search git's directories and the work tree for the file that git waits for."""

LARGEST_FILE: Final = 1_000_000
"""The maximum size of each of git's own files that are read for every operation (its configuration and its lists of
patterns), in bytes."""

LARGEST_REFS: Final = 100 * MB
"""The maximum size of git's ``packed-refs``, in bytes."""

OF_OBJECTS: Final = ("objects/info", "objects/pack")
"""The directories in which git opens every file of certain kinds, such as pack indexes."""

PATTERNS: Final = (".gitignore", ".gitattributes")
"""The files that git reads in each directory of a work tree."""

LONGEST_POINTER: Final = 8192
"""The maximum number of bytes that are read from a file with one line: HEAD, or a file that names a git directory."""

ID: Final = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")
"""Matches the id of an object."""

_waited_for: dict[Path, Path] = {}
"""Maps the root of a work tree to a file that git waited for. As long as git would wait for it again, operations are
refused.
"""


class Repository(Struct, frozen=True):
    """The paths of a work tree and its git directories. ``own`` contains the index, ``common`` objects, refs and
    configuration. They differ in a linked work tree. ``private``: whether both are in the server's data
    (``private.py``)."""

    root: Path
    own: Path
    common: Path
    private: bool = False

    def prefix(self, directory: Path) -> str:
        """The path of a directory of the work tree, relative to the root, with a slash at its end; empty for the root.
        Blocking."""
        relative = os.path.relpath(directory.resolve(), self.root)
        return "" if relative == "." else relative + "/"


def find(directory: Path) -> Repository | None:
    """The repository with the work tree that contains ``directory`` and is on the same file system; None if none is
    found, or if ``directory`` is in a git directory. Starts no process. Blocking."""
    try:
        real = directory.resolve()
        device = real.stat().st_dev
        for root in (real, *real.parents):
            if root.name == ".git" or _is_git_directory(root) or root.stat().st_dev != device:
                return None
            own = _git_directory(root)
            if own is not None:
                common = line_of(own / "commondir")
                return Repository(root, own, (own / common).resolve() if common else own)
    except (OSError, ValueError, RuntimeError):  # the name is one that no file can have, or links form a loop
        return None
    return None


def in_git_directory(directory: Path) -> bool:
    """Whether ``directory`` belongs to git itself: to a ``.git`` directory or to a bare repository. Blocking."""
    real = directory.resolve()
    return any(above.name == ".git" or _is_git_directory(above) for above in (real, *real.parents))


def _git_directory(root: Path) -> Path | None:
    pointer = root / ".git"
    if pointer.is_dir():
        return pointer.resolve() if _is_git_directory(pointer) else None
    line = line_of(pointer)
    if line is None or not line.startswith("gitdir: "):
        return None
    return (root / line.removeprefix("gitdir: ")).resolve()


def odd_file(repository: Repository) -> str | None:
    """The problem with a file that git would read; None if no file has one. Blocking."""
    for directory, names in (
        (repository.common, ("config", "packed-refs", "info/exclude", "info/attributes", "objects/info/alternates")),
        (repository.own, ("HEAD", "commondir", "config.worktree")),
        (repository.root, PATTERNS),
    ):
        for name in names:
            if is_odd(directory / name, LARGEST_FILE if name != "packed-refs" else LARGEST_REFS):
                return f"git's file {name} is too large, or is not a regular file"
    of_objects = chain.from_iterable(_entries(repository.common / name) for name in OF_OBJECTS)
    split = (entry for entry in _entries(repository.own) if entry.name.startswith("sharedindex."))
    for entry in (*of_objects, *split):
        if _is_pipe(entry):
            return _named(Path(entry.path), repository)
    found = _waited_for.get(repository.root)
    if found is not None and is_odd(found):
        return _named(found, repository)
    _waited_for.pop(repository.root, None)
    return None


def odd_below(repository: Repository) -> str | None:
    """The problem with a file that git may have waited for, which is in git's directories or is a list of patterns in
    the work tree; None if no such file is found in ``SEARCH_SECONDS``. Blocking."""
    until = time.monotonic() + SEARCH_SECONDS
    found = next(chain(_pipes_of_git(repository, until), _odd_patterns(repository, until)), None)
    if found is None:
        return None
    _waited_for[repository.root] = found
    return _named(found, repository)


def _pipes_of_git(repository: Repository, until: float) -> Iterator[Path]:
    """Yields the pipes in git's directories, until the time ``until``. git itself creates no pipes there."""
    left = list(dict.fromkeys((repository.common, repository.own)))
    while left and time.monotonic() < until:
        for entry in _entries(left.pop()):
            if entry.is_dir(follow_symlinks=False):
                left.append(Path(entry.path))
            elif _is_pipe(entry):
                yield Path(entry.path)


def _odd_patterns(repository: Repository, until: float) -> Iterator[Path]:
    """Yields the lists of patterns in the work tree that git would wait for, until the time ``until``."""
    for folder, folders, files in os.walk(repository.root):
        if time.monotonic() > until:
            break
        if ".git" in (*folders, *files) and Path(folder) != repository.root:  # git reads nothing in a nested repository
            folders.clear()
            continue
        if ".git" in folders:
            folders.remove(".git")
        yield from (Path(folder, name) for name in PATTERNS if name in files and is_odd(Path(folder, name)))


def _entries(directory: Path) -> list[os.DirEntry[str]]:
    """The entries of a directory; none if it can't be read. Blocking."""
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except OSError:
        return []


def _is_pipe(entry: os.DirEntry[str]) -> bool:
    """Whether git would wait for the entry or read it without end. This is the case if it is, or leads to, a pipe or a
    character device other than ``/dev/null``. Blocking."""
    if entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False):
        return False
    try:
        mode = entry.stat().st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or (stat.S_ISCHR(mode) and os.path.realpath(entry.path) != os.devnull)


def _named(odd: Path, repository: Repository) -> str:
    above = next(one for one in (repository.common, repository.own, repository.root) if odd.is_relative_to(one))
    path = os.fsencode(odd.relative_to(above)).decode(errors="replace")
    return f"git's file {path} is too large, or is not a regular file"


def is_odd(file: Path, largest: int = LARGEST_FILE) -> bool:
    """Whether git would wait for a file, such as a pipe, or read it for a long time. Blocking."""
    try:
        found = file.stat()
    except (OSError, ValueError):
        return False
    if stat.S_ISREG(found.st_mode):
        return found.st_size > largest
    return not stat.S_ISDIR(found.st_mode) and str(file) != os.devnull


def _is_git_directory(directory: Path) -> bool:
    return os.path.lexists(directory / "HEAD") and (directory / "objects").is_dir() and (directory / "refs").is_dir()


def line_of(file: Path) -> str | None:
    """The first ``LONGEST_POINTER`` bytes of a file, without the line breaks at the end; None if ``beginning_of``
    returns None."""
    found = beginning_of(file, LONGEST_POINTER)
    return None if found is None else os.fsdecode(found).rstrip("\r\n")


def head_commit(repository: Repository) -> str | None:
    """The id of the commit that HEAD names itself or through a branch with its own file; None if only git can tell,
    for example because the branch is in ``packed-refs``. Blocking."""
    line = line_of(repository.own / "HEAD") or ""
    if (ref := line.removeprefix("ref: ")) != line:
        if not ref.startswith("refs/heads/") or ".." in ref:
            return None
        line = line_of(repository.common / ref) or ""
    return line if ID.fullmatch(line) else None


def beginning_of(file: Path, most: int) -> bytes | None:
    """The first ``most`` bytes of a regular file; None if the file does not exist, is not a regular file, or can't be
    opened. Does not block if a pipe has that name."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(descriptor, most) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    finally:
        os.close(descriptor)
