"""Remembers what agents have written to files after the user accepted their proposals in this editor, until the user
keeps or undoes these changes. Does no I/O.

The changes are kept in the bridge's memory, within limits, and are lost when the bridge ends.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from drawbridge.text import hunks
from drawbridge.text.hunks import Hunk

MOST_FILES: Final = 100
"""The maximum number of files that are remembered. Those that were written longest ago are forgotten first."""

MOST_BYTES: Final = 32 * 1024 * 1024
"""The maximum amount of memory that the texts of these files may take, in bytes. Older files are forgotten first, but
one file is always remembered, whatever its size."""


class AcceptedHunk(NamedTuple):
    """A hunk of an accepted proposal. ``id`` does not depend on its place, but on its ``traits``."""

    id: str
    place: Hunk
    removed: str
    added: str


class AcceptedFile(Struct, frozen=True):
    """A file with accepted proposals. ``path``: with links resolved. ``base``: the file's text before the first
    accepted proposal, with the changes that others have made since, and the hunks that were kept; None if the file did
    not exist. ``written``: the text after the last proposal was written or the last hunk undone."""

    path: str
    base: str | None
    written: str

    @property
    def is_decided(self) -> bool:
        """Whether no undecided lines are left. An empty new file has none."""
        return (self.base or "") == self.written

    @property
    def size(self) -> int:
        """The memory that the texts take, in bytes."""
        return sys.getsizeof(self.base) + sys.getsizeof(self.written)

    def at(self, now: str) -> AcceptedFile:
        """The same changes in the current text ``now``. Changes that others have made elsewhere in the file become part
        of ``base``. Those that touch a hunk become part of the hunk, because it would be a guess who wrote which
        line."""
        if self.base is None or now == self.written:
            return replace(self, written=now)
        base, written, current = lines_of(self.base), lines_of(self.written), lines_of(now)
        ours = hunks.diff(written, base)
        ends = [hunk.old_end for hunk in ours]

        def is_elsewhere(other: Hunk) -> bool:
            at = bisect_left(ends, other.old_start)
            return at == len(ours) or ours[at].old_start > other.old_end

        others = filter(is_elsewhere, hunks.diff(written, current))
        merged = hunks.merge(written, base, hunks.apply(written, current, others))
        if isinstance(merged, hunks.Overlap):
            # Among equal lines, the merge has placed a change next to a hunk. It is shown as if it were the agent's.
            return replace(self, written=now)
        return replace(self, base="".join(merged), written=now)

    def hunks(self) -> list[AcceptedHunk]:
        old, new = lines_of(self.base or ""), lines_of(self.written)
        places = hunks.diff(old, new)
        return [
            AcceptedHunk(_id(self.path, *parts), place, removed=parts[0], added=parts[1])
            for place, parts in zip(places, hunks.traits(old, new, places), strict=True)
        ]

    def kept(self, chosen: Iterable[AcceptedHunk]) -> AcceptedFile:
        """The file after the user has kept the hunks ``chosen``, which stay in it."""
        places = [hunk.place for hunk in chosen]
        return replace(self, base="".join(hunks.apply(lines_of(self.base or ""), lines_of(self.written), places)))

    def undone(self, chosen: Iterable[AcceptedHunk]) -> AcceptedFile:
        """The file after the user has undone the hunks ``chosen``. ``written`` is its new text."""
        back = [Hunk(new, new_size, old, old_size) for old, old_size, new, new_size in (hunk.place for hunk in chosen)]
        return replace(self, written="".join(hunks.apply(lines_of(self.written), lines_of(self.base or ""), back)))


class AcceptedFiles:
    """The accepted files by their resolved paths, in the order in which they were written."""

    def __init__(self) -> None:
        self._files: dict[str, AcceptedFile] = {}
        self._watchers: list[Callable[[], None]] = []

    def __bool__(self) -> bool:
        return bool(self._files)

    def watch(self, changed: Callable[[], None]) -> None:
        """Calls ``changed`` whenever an agent has written an accepted proposal."""
        self._watchers.append(changed)

    def all(self) -> tuple[AcceptedFile, ...]:
        return tuple(self._files.values())

    def find(self, path: str) -> AcceptedFile | None:
        return self._files.get(path)

    def wrote(self, file: AcceptedFile) -> None:
        """Stores a file after an agent has written an accepted proposal (``after_write``)."""
        self.forget(file.path)  # so that it becomes the last one
        self.store(file)
        self._forget_oldest()
        for changed in self._watchers:
            changed()

    def store(self, file: AcceptedFile) -> None:
        """Replaces what is known about a file. Forgets the file if there are no undecided changes left."""
        if file.is_decided:
            self.forget(file.path)
        else:
            self._files[file.path] = file

    def forget(self, path: str) -> None:
        self._files.pop(path, None)

    def _forget_oldest(self) -> None:
        size = sum(file.size for file in self._files.values())
        while len(self._files) > MOST_FILES or (size > MOST_BYTES and len(self._files) > 1):
            size -= self._files.pop(next(iter(self._files))).size


def after_write(known: AcceptedFile | None, path: str, before: str | None, written: str) -> AcceptedFile:
    """The file after an agent has written an accepted proposal. ``known``: what was remembered of it. ``before``: the
    user's text that the proposal was made for; None if the file did not exist. Compares the texts, which may take a
    while."""
    if known is None or before is None:
        return AcceptedFile(path, before, written)
    return replace(known.at(before), written=written)


def lines_of(text: str) -> list[str]:
    """The lines of a text with their line endings, so that a change to these is a change to the line."""
    lines = text.split("\n")
    last = lines.pop()
    return [f"{line}\n" for line in lines] + ([last] if last else [])


def _id(*parts: str) -> str:
    return blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
