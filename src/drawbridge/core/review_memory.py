"""Remembers which changes of reviews this user has seen in terminals and editors on this machine.

::

    $XDG_STATE_HOME/drawbridge/reviews.json    0600 (or in ~/.local/state/…)

The programs share the file (for VS Code, the agent server writes it), so a change that was seen in one of them is not
new in the others. If the file can't be read or written, nothing else fails, but every change counts as unseen.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterable
from typing import Final

import msgspec

from drawbridge.core.errors import NotPrivate
from drawbridge.core.private_files import make_private_directory, state_directory, write_private

MOST_HUNKS: Final = 5_000
"""The maximum number of hunks that are remembered for a directory. The latest ones are kept."""

MOST_DIRECTORIES: Final = 200
"""The maximum number of directories that are remembered. The most recently used ones are kept."""

logger = logging.getLogger("drawbridge.review_memory")


class Remembered(msgspec.Struct, frozen=True, omit_defaults=True):
    """The changes that the user has seen in the reviews of one directory. ``seen``: the ids of hunks. ``notice``:
    whether the user has seen the notice about the private repository of the directory."""

    seen: tuple[str, ...] = ()
    notice: bool = False


class ReviewMemory:
    """Reads and writes the file. The methods block, and never raise an error about the file. ``path``: another file,
    for tests."""

    def __init__(self, path: str | None = None) -> None:
        self._path = path or os.path.join(state_directory(), "reviews.json")

    def of(self, directory: str) -> Remembered:
        return self._read().get(directory, Remembered())

    def saw(self, directory: str, seen: Iterable[str], review: Collection[str]) -> None:
        """Adds hunks that the user has seen. ``review``: the ids of all hunks that are in the review now. The others
        are forgotten."""
        now = set(review)
        known = self.of(directory)
        both = tuple(id for id in dict.fromkeys((*known.seen, *seen)) if id in now)[-MOST_HUNKS:]
        if both != known.seen:
            self._keep(directory, Remembered(both, known.notice))

    def saw_notice(self, directory: str) -> bool:
        """Records that the user is shown the notice about the private repository. Returns whether this is the first
        time.
        """
        known = self.of(directory)
        if not known.notice:
            self._keep(directory, Remembered(known.seen, notice=True))
        return not known.notice

    def _read(self) -> dict[str, Remembered]:
        try:
            with open(self._path, "rb") as file:
                return msgspec.json.decode(file.read(), type=dict[str, Remembered])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError) as error:
            logger.info("could not read what was seen in reviews: %s", error)
            return {}

    def _keep(self, directory: str, remembered: Remembered) -> None:
        others = [(name, one) for name, one in self._read().items() if name != directory]
        all = dict([*others, (directory, remembered)][-MOST_DIRECTORIES:])
        try:
            make_private_directory(os.path.dirname(self._path))
            write_private(self._path, msgspec.json.encode(all))
        except NotPrivate as error:
            logger.info("could not store what was seen in a review: %s", error)
