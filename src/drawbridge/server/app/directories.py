"""Lists directories, so that a person can choose one: only directories inside the allowed roots; nothing else is revealed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.replies import Directories
from drawbridge.server.sessions import places

MOST: Final = 1_000
"""Names in one reply."""


def listed(path: str, roots: Sequence[Path]) -> Directories:
    """Raises the same ``ClientError`` whether the path is missing, is not a directory or is not allowed."""
    if path == "":
        return Directories("", [str(root) for root in roots])
    real = places.resolve(path, roots, ())
    names: list[str] = []
    try:
        with os.scandir(real) as entries:
            for entry in entries:
                if _is_shown(entry, roots):
                    names.append(entry.name)
                    if len(names) > MOST:
                        break
    except OSError:
        raise ClientError(
            "INVALID_PATH", "The allowed directories do not contain this directory.", field="data.path"
        ) from None
    names.sort(key=str.casefold)
    return Directories(str(real), names[:MOST], len(names) > MOST)


def _is_shown(entry: os.DirEntry[str], roots: Sequence[Path]) -> bool:
    try:
        if not entry.is_dir():
            return False
        entry.name.encode()  # a name that is not valid UTF-8 can be neither sent nor requested
        real = Path(entry.path).resolve(strict=True) if entry.is_symlink() else Path(entry.path)
        return places.allowed(real, roots)
    except (OSError, RuntimeError, UnicodeEncodeError):
        return False
