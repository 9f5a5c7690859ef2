"""Decides which files are hidden from agents and clients: those that match the patterns (by default, names that are
typical of secrets), or all files. Does no I/O.

For agents, this applies to what Drawbridge sends automatically (selection, open files, diagnostics), not to what an
agent reads from disk on its own, or what the user sends on purpose.
"""

from __future__ import annotations

import fnmatch
import functools
import posixpath
import re
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
    """Decides which files are hidden. ``patterns``: shell patterns, matched against a file's name, or its whole path if
    they contain a ``/``. ``context``: if False, every file is hidden."""

    def __init__(self, patterns: Sequence[str] = DEFAULT_PATTERNS, *, context: bool = True) -> None:
        self._patterns = tuple(patterns)
        self._context = context

    def hides(self, path: str) -> bool:
        if not self._context:
            return True
        names, paths = self._compiled
        return names.match(posixpath.basename(path)) is not None or paths.match(path) is not None

    def hides_in_any_case(self, path: str) -> bool:
        """Like ``hides``, but ignores case: on many file systems ``.ENV`` is the same file as ``.env``."""
        return self.hides(path) or self._folded.hides(path.casefold())

    @functools.cached_property
    def _folded(self) -> Privacy:
        return Privacy([pattern.casefold() for pattern in self._patterns], context=self._context)

    @functools.cached_property
    def _compiled(self) -> tuple[re.Pattern[str], re.Pattern[str]]:
        """One expression for names and one for paths, because the server may check a hundred thousand paths in one
        request."""
        names = [fnmatch.translate(pattern) for pattern in self._patterns if "/" not in pattern]
        paths = [fnmatch.translate(pattern) for pattern in self._patterns if "/" in pattern]
        return re.compile("|".join(names) or "(?!)"), re.compile("|".join(paths) or "(?!)")
