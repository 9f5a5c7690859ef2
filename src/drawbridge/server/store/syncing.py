"""Decides when the records of histories reach the disk itself, not just the kernel. What the kernel has accepted
survives even if the server is killed with ``kill -9``. The policies matter for a power failure or a kernel crash:

- ``always``: a record is on the disk before ``append`` returns. The event loop waits for the disk.
- ``second`` (default): a record is on the disk at most about a second later, synced by a thread. A power failure loses
  little more than the last second.
- ``off``: the kernel decides when it writes a record, usually within half a minute.

docs/internals/benchmarks.md lists the cost of each.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

logger = logging.getLogger(__name__)

FsyncPolicy: TypeAlias = Literal["always", "second", "off"]
DEFAULT_FSYNC: Final[FsyncPolicy] = "second"

sync: Final[Callable[[int], None]] = getattr(os, "fdatasync", os.fsync)
"""Syncs a file descriptor, and returns when everything written to it is on the disk."""


class Syncer:
    """Syncs files to disk shortly after they were written, in one thread for all of them, which exists only while it is
    needed."""

    def __init__(self, delay: float = 1.0) -> None:
        """``delay``: the maximum number of seconds from a write until the file is synced."""
        self._delay = delay
        self._changing = threading.Lock()
        self._syncing = threading.Lock()
        self._waiting: dict[object, int] = {}
        self._timer: threading.Timer | None = None

    def soon(self, owner: object, file: int) -> None:
        """Syncs ``file`` within the delay, or immediately if the limit for open files is reached. ``owner`` identifies
        the open file. The caller may close ``file`` immediately, because a duplicate of it is synced."""
        if owner in self._waiting:
            return
        with self._changing:
            try:
                self._waiting[owner] = os.dup(file)
            except OSError:  # the limit for open files is reached
                _sync(file)
                return
            if self._timer is None:
                self._timer = threading.Timer(self._delay, self._sync_all)
                self._timer.name = "drawbridge-history-sync"
                self._timer.start()

    def now(self, owner: object) -> None:
        """Syncs the file of ``owner`` immediately, if it is waiting to be synced. Returns when it is on the disk, or
        when the failure was logged."""
        with self._syncing:
            with self._changing:
                file = self._waiting.pop(owner, None)
                if self._timer is not None and not self._waiting:
                    self._timer.cancel()
                    self._timer = None
            if file is not None:
                _sync(file)
                os.close(file)

    def _sync_all(self) -> None:
        with self._syncing:
            with self._changing:
                files, self._waiting = self._waiting, {}
                self._timer = None
            for file in files.values():
                _sync(file)
                os.close(file)


def _sync(file: int) -> None:
    try:
        sync(file)
    except OSError as error:
        logger.error(
            "the latest records of a history may not have reached the disk: %s. A power failure could lose them.",
            error.strerror,
        )


syncer: Final = Syncer()
"""The instance that all histories of the process share."""
