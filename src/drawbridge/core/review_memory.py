"""Remembers which changes of reviews this user has seen in terminals and editors on this machine.

::

    $XDG_STATE_HOME/drawbridge/
        reviews.json       0600 (or in ~/.local/state/…)
        reviews.json.lock  0600; locked while reviews.json is changed

The programs share the file (for VS Code, the agent server writes it), so a change that was seen in one of them is not
new in the others. If the file can't be read or written, nothing else fails, but every change counts as unseen.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final

import msgspec

from drawbridge.core.errors import NotPrivate
from drawbridge.core.json_text import UNDECODABLE
from drawbridge.core.private_files import PRIVATE_FILE, make_private_directory, state_directory, write_private

MOST_HUNKS: Final = 5_000
"""The maximum number of hunks that are remembered for a review. The latest ones are kept."""

MOST_REVIEWS: Final = 200
"""The maximum number of reviews that are remembered. The most recently used ones are kept."""

SHARING: Final = "desk_"
"""How the ids of terminal sessions begin. Those in one directory share a review."""

LOCK_SECONDS: Final = 1.0
"""Seconds to wait while another program or thread changes the file, which takes milliseconds."""

logger = logging.getLogger("drawbridge.review_memory")


class SeenReviews(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the user has seen in one review. ``seen``: the ids of hunks. ``notice``, only with a directory's key: whether
    the user has seen the notice about the private repository of the directory."""

    seen: tuple[str, ...] = ()
    notice: bool = False


def review_key(directory: str, session: str) -> str:
    """The key of the review of ``session``: the directory if the terminal sessions in it share the review, or if no
    server has the review (``session`` is empty then), otherwise the session's id."""
    return directory if not session or session.startswith(SHARING) else session


class ReviewMemory:
    """Reads and writes the file. The methods block, and never raise an error about the file. ``path``: another file,
    for tests. ``key``: what ``review_key`` returns."""

    def __init__(self, path: str | None = None) -> None:
        self._path = path or os.path.join(state_directory(), "reviews.json")

    def of(self, key: str) -> SeenReviews:
        return self._read().get(key, SeenReviews())

    def saw(self, key: str, seen: Iterable[str], review: Collection[str]) -> None:
        """Adds hunks that the user has seen. ``review``: the ids of all hunks that are in the review now. The others
        are forgotten."""
        now, new = set(review), tuple(seen)

        def with_new(known: SeenReviews) -> SeenReviews:
            both = tuple(id for id in dict.fromkeys((*known.seen, *new)) if id in now)[-MOST_HUNKS:]
            return msgspec.structs.replace(known, seen=both)

        self._change(key, with_new)

    def saw_notice(self, directory: str) -> bool:
        """Records that the user is shown the notice about the private repository. Returns whether this is the first
        time.
        """
        return not self._change(directory, lambda known: msgspec.structs.replace(known, notice=True)).notice

    def _change(self, key: str, change: Callable[[SeenReviews], SeenReviews]) -> SeenReviews:
        """Stores what ``change`` returns. Returns what was stored before."""
        known = self.of(key)
        if change(known) == known:
            return known
        try:
            make_private_directory(os.path.dirname(self._path))
            with self._locked():
                known = self.of(key)  # another program may have changed it in the meantime
                self._store(key, change(known))
        except (NotPrivate, OSError) as error:
            logger.info("could not store what was seen in a review: %s", error)
        return known

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Prevents others from changing the file. Continues without the lock if somebody else keeps it for
        ``LOCK_SECONDS``, or if the file system has no locks. Raises OSError."""
        lock = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, PRIVATE_FILE)
        try:
            end = time.monotonic() + LOCK_SECONDS
            while not _lock(lock) and time.monotonic() < end:
                time.sleep(0.01)
            yield
        finally:
            os.close(lock)

    def _read(self) -> dict[str, SeenReviews]:
        try:
            with open(self._path, "rb") as file:
                return msgspec.json.decode(file.read(), type=dict[str, SeenReviews])
        except FileNotFoundError:
            return {}
        except (OSError, *UNDECODABLE) as error:
            logger.info("could not read what was seen in reviews: %s", error)
            return {}

    def _store(self, key: str, remembered: SeenReviews) -> None:
        """Raises ``NotPrivate`` if the file can't be written."""
        others = [(name, one) for name, one in self._read().items() if name != key]
        all = dict([*others, (key, remembered)][-MOST_REVIEWS:])
        write_private(self._path, msgspec.json.encode(all))


def _lock(file: int) -> bool:
    """Returns False if another program or thread has locked the file."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        logger.info("could not lock the file that records what was seen in reviews: %s", error)
    return True
