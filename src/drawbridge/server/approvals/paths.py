"""The canonical paths of files that approval requests and editors name."""

from __future__ import annotations

import os


def real(path: str) -> str:
    """The path with all links followed. A path that can't exist is only normalized. Blocking."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):  # a NUL byte, or a name that can't be encoded
        return os.path.normpath(path)


def normal(path: str) -> str:
    """The path without ``.`` and ``..``. ``normpath`` keeps two slashes at the start, which ``realpath`` turns into
    one."""
    return "/" + os.path.normpath(path).lstrip("/")


def escaped(path: str) -> str:
    """The path as valid Unicode. Bytes that are not UTF-8 are escaped."""
    return path.encode("utf-8", "backslashreplace").decode()
