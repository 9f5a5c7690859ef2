"""The copies of text that a reload or ``drawbridge hook --restore`` replaced. That command can restore them. A hook
call loads this module only to remove old copies."""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MOST = 200
LARGEST_SUM = 50 * 1024 * 1024


class Copy:
    """A copy. ``file``: its path; ``path``: the path of the file that the text is from; ``seconds`` (since 1970): when
    a reload or a restore replaced that text; ``size`` in bytes.
    """

    __slots__ = ("file", "path", "seconds", "size")

    def __init__(self, file: str, path: str, seconds: float, size: int) -> None:
        self.file = file
        self.path = path
        self.seconds = seconds
        self.size = size

    @property
    def when(self) -> str:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.seconds))


def listed(directory: str) -> list[Copy]:
    """The copies in ``directory``, newest first. Files that are not copies are skipped. Raises ``OSError`` if
    ``directory`` can't be read."""
    return sorted(_found(directory), key=lambda copy: copy.seconds, reverse=True)


def _found(directory: str) -> Iterator[Copy]:
    for entry in os.scandir(directory):
        milliseconds, _, pid = entry.name.partition(".")
        if _is_number(milliseconds) and _is_number(pid) and entry.is_dir(follow_symlinks=False):
            seconds = int(milliseconds) / 1000
            for folder, _, names in os.walk(entry.path):
                for file in (os.path.join(folder, name) for name in names):
                    try:
                        size = os.stat(file).st_size
                    except OSError:
                        continue  # the file was removed in the meantime
                    yield Copy(file, file.removeprefix(entry.path), seconds, size)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 16


def prune(directory: str) -> None:
    """Removes the oldest copies until at most ``MOST`` are left, with at most ``LARGEST_SUM`` bytes in total. The
    newest is never removed. Raises ``OSError`` if ``directory`` can't be read."""
    total = 0
    for number, copy in enumerate(listed(directory)):
        total += copy.size
        if number >= MOST or (number and total > LARGEST_SUM):
            try:
                os.unlink(copy.file)
                os.removedirs(os.path.dirname(copy.file))
            except OSError:
                pass  # another hook has removed it, or its directory contains another copy
