"""What earlier operations have read from git's objects, so that later ones need not start git for it.

An object's id determines its content, so nothing here becomes outdated. Whatever can be changed, such as refs, is read
again in every operation.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

from drawbridge.server.checkpoints.repository import ID, Repository

K = TypeVar("K")
V = TypeVar("V")

LARGEST_TEXTS: Final = 4_000_000
"""The maximum size of all texts that are remembered for the next operation, in characters."""

LARGEST_LISTINGS: Final = 2_000_000
"""The maximum size of all trees that are remembered for the next operation, in bytes."""

MOST_SIZES: Final = 20_000
"""The maximum number of sizes, and of texts, that are remembered for the next operation."""

MOST_COMPARISONS: Final = 8
MOST_FILES: Final = 2_000
"""The maximum number of files in a comparison that is remembered."""

MOST_TREES: Final = 20

Differences: TypeAlias = Mapping[str, tuple[str, str]]
"""As ``commits.differences`` returns them."""


class Remembered:
    """What the operations of one project have read. They share it, so they must not overlap."""

    def __init__(self) -> None:
        self.texts: dict[str, str | None] = {}
        """The contents that were read or written, by object id; None for contents that are not text."""
        self.sizes: dict[str, int] = {}
        """The sizes of contents in bytes, by object id."""
        self.listings: dict[str, bytes] = {}
        """The contents of trees, by object id."""
        self._place: tuple[Repository, Path] | None = None
        self._differences: dict[tuple[str, str], Differences] = {}
        self._trees: dict[str, str] = {}

    def begin(self, repository: Repository, directory: Path) -> None:
        """Begins an operation in ``directory`` (without links): removes the oldest texts beyond the limits, and
        everything if the directory or its repository is another one, because paths are relative to the directory.
        During an operation, nothing is removed."""
        if (repository, directory) != self._place:
            self._place = repository, directory
            self.texts.clear()
            self.sizes.clear()
            self.listings.clear()
            self._differences.clear()
            self._trees.clear()
        size = sum(len(text) for text in self.texts.values() if text)
        while size > LARGEST_TEXTS or len(self.texts) > MOST_SIZES:
            size -= len(self.texts.pop(next(iter(self.texts))) or "")
        if sum(map(len, self.listings.values())) > LARGEST_LISTINGS:
            self.listings.clear()
        if len(self.sizes) > MOST_SIZES:
            self.sizes.clear()

    def differences(self, old: str, new: str) -> Differences | None:
        """The differences between two commits or trees; None if they are not known."""
        return self._differences.get((old, new))

    def remember_differences(self, old: str, new: str, found: Differences) -> None:
        if ID.fullmatch(old) and ID.fullmatch(new) and len(found) <= MOST_FILES:
            _remember(self._differences, (old, new), found, MOST_COMPARISONS)

    def tree(self, commit: str) -> str | None:
        """The tree of a commit; None if it is not known."""
        return self._trees.get(commit)

    def remember_tree(self, commit: str, tree: str) -> None:
        """``commit``: its id, not a ref."""
        _remember(self._trees, commit, tree, MOST_TREES)


def _remember(known: dict[K, V], key: K, value: V, most: int) -> None:
    """Adds the newest of at most ``most`` entries."""
    known.pop(key, None)
    known[key] = value
    while len(known) > most:
        del known[next(iter(known))]
