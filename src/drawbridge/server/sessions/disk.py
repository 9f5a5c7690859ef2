"""The disk use of each history and of all the server's data, and the limits for both.

A warning is sent at 80% of a limit, and another one at the limit. At the limit, no run begins, and active runs are
stopped. Each warning is sent once, and again only after the use has been well below its threshold. The sizes of
histories are known without reading the disk. All other files are measured from time to time.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from drawbridge.agents.memory import MB
from drawbridge.server.events import Announced, DiskWarning
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.sessions.metadata import TERMINAL_PREFIX

WARN_AT: Final = 0.8
AGAIN_BELOW: Final = 0.9
"""The share of a threshold below which the use has to fall before the warning about that threshold is sent again."""

LOW_FREE: Final = 500 * MB
"""If fewer bytes than this are free on the disk that contains the data, a warning is sent, and health is "degraded"."""

LEAST_FREE: Final = 32 * MB
"""If fewer bytes than this are free, no run begins, because the run's end has to be written, too."""

WHOLE: Final = "The server's data"

DISK: Final = "/"
"""The key of the disk itself among the ``Disk``'s crossed thresholds. It can't be a project's id."""

logger = logging.getLogger("drawbridge.server")


class Sizes(Struct, frozen=True):
    """The limits in bytes for the history of a project or a terminal session, and for all the server's data."""

    project: int = 2_000 * MB
    data: int = 20_000 * MB


class Disk:
    """Measures disk use, and sends a ``DiskWarning`` to ``publish`` when a threshold is crossed. A warning about one
    history is published with the id and the directory of its project or terminal session; any other warning without an
    id, and with the directory ``data``."""

    def __init__(self, data: Path, sizes: Sizes, publish: Callable[[Announced], None]) -> None:
        self._publish = publish
        self._data = data
        self._sizes = sizes
        self._histories: dict[str, tuple[str, int]] = {}
        """Maps the id of a project or a terminal session to its directory and the size of its history."""
        self._total = self._rest = 0
        self._crossed: set[tuple[str, float]] = set()
        """The thresholds that were crossed: the id of a project or terminal session, "" for all data, or ``DISK``; and
        the share of the limit."""
        self._changing = threading.RLock()

    def set_size(self, id: str, directory: str, size: int) -> None:
        """Sets the size of a project's or a terminal session's history, in bytes. May be called from any thread.
        Outside the main thread, warnings are only sent at the next ``publish_warnings``."""
        with self._changing:
            self._total += size - self._size(id)
            self._histories[id] = (directory, size)
        if threading.current_thread() is threading.main_thread():
            self._compare(id, directory, size, self._sizes.project)
            self._compare("", str(self._data), self._total + self._rest, self._sizes.data)

    def remove(self, id: str) -> None:
        """Forgets a project or a terminal session that was removed."""
        with self._changing:
            self._total -= self._histories.pop(id, ("", 0))[1]
            self._crossed = {key for key in self._crossed if key[0] != id}

    def forget_others(self, ids: Collection[str]) -> None:
        """Forgets all but these projects and terminal sessions."""
        for id in [id for id in self._histories if id not in ids]:
            self.remove(id)

    def _size(self, id: str) -> int:
        return self._histories.get(id, ("", 0))[1]

    @property
    def too_much(self) -> bool:
        """Whether the server's data has reached its limit."""
        return self._total + self._rest >= self._sizes.data

    def measure(self) -> None:
        """Measures what the server stores in addition to histories. Blocking."""
        self._rest = sum(map(_size, _files(self._data)))

    def publish_warnings(self) -> None:
        """Sends the warnings that are due."""
        for id, (directory, size) in list(self._histories.items()):
            self._compare(id, directory, size, self._sizes.project)
        self._compare("", str(self._data), self._total + self._rest, self._sizes.data)
        with contextlib.suppress(OSError):
            self._free()

    def refusal(self, id: str, more: int = 0) -> ClientError | None:
        """The error if ``more`` bytes from an agent would exceed the owner's limits, or a limit is already reached;
        otherwise None. Does not read the disk."""
        for what, used, limit, flag, remedy in (
            (
                "The history",
                self._size(id),
                self._sizes.project,
                "--max-history",
                "raises the limit or deletes old history (--keep-mb)",
            ),
            (
                "The server's data",
                self._total + self._rest,
                self._sizes.data,
                "--max-data",
                "raises the limit, deletes old history (--keep-mb), or deletes projects",
            ),
        ):
            if used + more > limit or used >= limit:
                refused = "New comments" if id.startswith(TERMINAL_PREFIX) else "New runs and comments"
                text = (
                    f"{what} uses {used // MB:,} MB of the {limit // MB:,} MB allowed ({flag}). Existing data is kept. "
                    f"{refused} are refused until the owner {remedy}."
                )
                return ClientError("DISK_LIMIT", text)
        return None

    def check(self, id: str) -> None:
        """Raises ``ClientError`` if a limit is reached, so that no run may begin and no prompt or comment may be
        recorded."""
        refusal = self.refusal(id)
        if refusal is not None:
            raise refusal
        with contextlib.suppress(OSError):  # if the free space can't be measured, a failing write reports the problem
            free = self._free()
            if free < LEAST_FREE:
                text = f"Only {free // MB} MB of the server's disk is free. Free some space there, then try again."
                raise ClientError("DISK_SPACE_LOW", text)

    def problems(self) -> list[str]:
        """The limits that were reached, as human-readable sentences without paths."""
        full = sorted(id for id, at in self._crossed if at == 1)
        return [f"{f'The history of {id}' if id else WHOLE} has reached its limit: {_refused(id)}." for id in full]

    def _free(self) -> int:
        found = os.statvfs(self._data)
        free, whole = found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
        key = (DISK, WARN_AT)
        if free < LOW_FREE and key not in self._crossed:
            text = f"The server's disk is nearly full: {free // MB:,} MB is free."
            self._warn(key, DiskWarning("disk", (whole - free) // MB, whole // MB, text), str(self._data))
        elif free > LOW_FREE / AGAIN_BELOW:
            self._crossed.discard(key)
        return free

    def _compare(self, id: str, directory: str, used: int, limit: int) -> None:
        for at in (WARN_AT, 1.0):
            key = (id, at)
            if used < at * limit * AGAIN_BELOW:
                self._crossed.discard(key)
            elif used >= at * limit and key not in self._crossed:
                then = f"{_refused(id)}." if at == 1 else f"{_refused(id)} at the limit."
                what = f"The history of {id}" if id else WHOLE
                text = f"{what} uses {used // MB:,} MB of {limit // MB:,} MB: {then}"
                self._warn(key, DiskWarning("project" if id else "data", used // MB, limit // MB, text), directory)

    def _warn(self, key: tuple[str, float], warning: DiskWarning, directory: str) -> None:
        self._crossed.add(key)
        logger.warning("%s", warning.message)
        project_id = key[0] if warning.scope == "project" else None
        self._publish(Announced(project_id, Path(directory), warning))


def _refused(id: str) -> str:
    """What happens at a limit. ``id``: of the project or terminal session whose history it is for; empty for the limit
    for all data."""
    return "its conversation is no longer recorded" if id.startswith(TERMINAL_PREFIX) else "new runs are refused"


def _files(data: Path) -> Iterator[Path]:
    """All files except the histories of projects and of terminal sessions, because the sizes of histories are known."""
    for directory, folders, files in os.walk(data):
        if Path(directory).parent in (data / "projects", data / "desk"):
            folders[:] = [name for name in folders if name != "logs"]
        yield from (Path(directory, name) for name in files)


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0
