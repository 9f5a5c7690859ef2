"""What is hidden from agents: files with names of secrets, or everything. Pure.

This applies to what Drawbridge sends unasked (selection, open files, diagnostics), not to what an agent reads from disk by
itself, or what the person sends on purpose.
"""

from __future__ import annotations

import fnmatch
import posixpath
from collections.abc import Sequence
from typing import Final

DEFAULT_PATTERNS: Final = (
    ".env",
    ".env.*",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.kdbx",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    ".netrc",
    ".pgpass",
    "credentials",
    "secrets.*",
)


class Privacy:
    """``patterns``: shell patterns, matched against a file's name, or its whole path if they contain a ``/``."""

    def __init__(self, patterns: Sequence[str] = DEFAULT_PATTERNS, *, context: bool = True) -> None:
        self._patterns = tuple(patterns)
        self._context = context

    def hides(self, path: str) -> bool:
        if not self._context:
            return True
        name = posixpath.basename(path)
        return any(fnmatch.fnmatchcase(path if "/" in pattern else name, pattern) for pattern in self._patterns)
