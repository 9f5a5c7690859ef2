"""Which directories there are, for choosing one: inside the allowed roots, directories only, nothing told of the rest."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.replies import Directories
from drawbridge.server.sessions import places

MOST: Final = 1_000
"""Names in one answer."""


def listed(path: str, roots: Sequence[Path]) -> Directories:
    """Raises ``ClientError``, the same one for what is missing, what is no directory and what is not allowed."""
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
        entry.name.encode()  # a name that is no UTF-8 can't be told, nor asked for
        real = Path(entry.path).resolve(strict=True) if entry.is_symlink() else Path(entry.path)
        return places.allowed(real, roots)
    except (OSError, RuntimeError, UnicodeEncodeError):
        return False
