"""Which directories may be projects: absolute, real, inside an allowed root, neither inside nor around another project."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from drawbridge.server.protocol.client_errors import ClientError

LONGEST = 4096

NOT_HERE = "The allowed directories do not contain this directory."


def resolve(given: str, roots: Iterable[Path], taken: Iterable[Path]) -> Path:
    """The canonical directory. Raises ``ClientError`` that names only what the client itself has sent."""
    if not given or len(given) > LONGEST or _is_strange(given):
        raise refusal("INVALID_PATH", "The path is empty, too long, or contains control characters.")
    path = Path(given)
    if not path.is_absolute():
        raise refusal("INVALID_PATH", "The path must be absolute.")
    if ".." in path.parts:
        raise refusal("INVALID_PATH", 'The path must not contain "..".')
    try:
        real = path.resolve(strict=True)
    except (OSError, ValueError, RuntimeError):
        real = None
    # The same error for a missing path and one that is not allowed: a client learns nothing about the rest of the disk.
    if real is None or not real.is_dir() or not allowed(real, roots):
        raise refusal("INVALID_PATH", NOT_HERE)
    if _is_strange(str(real)):  # a link has led there
        raise refusal("INVALID_PATH", "The name of the directory contains characters that are not UTF-8.")
    for other in taken:
        if _same(real, other):
            raise refusal("PROJECT_EXISTS", "This directory is already a project.")
        if _inside(real, other) or _inside(other, real):
            raise refusal("PROJECT_NESTING", "This directory is inside another project, or contains one.")
    return real


def _is_strange(path: str) -> bool:
    """Whether it contains control characters, or bytes that are not valid characters."""
    return any(character < " " or "\ud800" <= character <= "\udfff" for character in path)


def refusal(code: str, why: str) -> ClientError:
    return ClientError(code, f"{why} No project was created.", field="data.path")


def allowed(real: Path, roots: Iterable[Path]) -> bool:
    """Whether a canonical directory is a root or inside one, and (within the home directory) not hidden."""
    home = Path.home()
    for root in roots:
        if real == root or root in real.parents:
            hidden = root == home and any(part.startswith(".") for part in real.relative_to(root).parts)
            if not hidden:
                return True
    return False


def usable(given: str, roots: Iterable[Path]) -> bool:
    """Whether it is, by its absolute path, a directory that agents may be given beside their project's."""
    path = Path(given)
    try:
        return path.is_absolute() and path.is_dir() and allowed(path.resolve(), roots)
    except (OSError, ValueError, RuntimeError):
        return False


OUTSIDE = "This project is outside of the directories that the owner allows (--allow)."
GONE = "The directory of this project does not exist."


def problem(path: Path, roots: Iterable[Path], is_own: Callable[[Path], bool]) -> str | None:
    """Why no agent may run in a project's directory now, for people; None if it may.

    A project may have been made while the owner allowed more, and its directory may have become a link since. ``is_own``:
    whether a directory belongs to the server's own data.
    """
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError):
        return GONE
    if not real.is_dir():
        return GONE
    return None if allowed(real, roots) and not is_own(real) else OUTSIDE


class Places:
    """The directories in which agents may run. ``roots``: canonical ones that the owner allows; ``data``: the server's own."""

    def __init__(self, roots: Iterable[Path], data: Path) -> None:
        self.roots = tuple(roots)
        self._data = data

    def is_own(self, path: Path) -> bool:
        """Whether it belongs to the server's data: its tokens, its histories, its audit. No agent runs there."""
        return self._data.resolve() in (path, *path.parents)

    def problem(self, path: Path) -> str | None:
        """Why no agent may run in a project's directory now, for people; None if it may."""
        return problem(path, self.roots, self.is_own)

    def usable(self, path: str) -> bool:
        """Whether it is a directory that agents may be given beside their project's."""
        return usable(path, self.roots) and not self.is_own(Path(path).resolve())

    def resolve(self, given: str, taken: Iterable[Path]) -> Path:
        """The canonical directory of a new project. Raises ``ClientError``."""
        real = resolve(given, self.roots, taken)
        if self.is_own(real):
            raise refusal("INVALID_PATH", NOT_HERE)
        return real


def identity(path: str) -> tuple[int, int] | None:
    """The identity of the directory at ``path``; None if there is none. Another directory may get the same name later."""
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
