"""Detects whether files have changed, without reading them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TypeAlias

Versions: TypeAlias = Mapping[str, tuple[int, ...] | None]
"""Maps the path of a file to a value that changes when the file does, or to None if the file does not exist."""


def versions(files: Iterable[str]) -> Versions:
    """Returns the versions of these files as they are now. Blocking."""
    found: dict[str, tuple[int, ...] | None] = {}
    for file in files:
        try:
            status = os.stat(file)
        except OSError:
            found[file] = None
        else:
            found[file] = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    return found
