"""Reads an agent's transcript of a conversation as it grows."""

from __future__ import annotations

import os
import stat
from typing import Final

from drawbridge.agents.terminal import TerminalAgent

BEGIN_BYTES: Final = 512 * 1024
"""The number of bytes at the end of a transcript that are read at first if the file is longer, and the line that was
read last is not known or not found."""

SEARCHED_BYTES: Final = 64 * 1024 * 1024
"""The number of bytes at the end of the file that are searched for the line that was read last, after a restart or
after the file has moved."""

PORTION: Final = 1024 * 1024

LONGEST_LINE: Final = 16 * 1024 * 1024
"""The maximum length of a line in bytes. Longer lines, most of which contain images, are skipped."""


class TranscriptFile:
    """Reads a transcript as it grows. The file may not exist yet."""

    def __init__(self, agent: TerminalAgent, path: str, after: str = "") -> None:
        """``after``: the uuid of the entry that was read last; empty if none was."""
        self.path = path
        self.agent = agent
        self._after = after
        self._offset: int | None = None
        self._rest = b""
        self._skipping = False

    def read(self) -> tuple[list[bytes], bool]:
        """Returns the next complete lines, and whether more can be read now. The list is empty if the file does not
        exist. Blocking. Raises OSError."""
        try:
            file = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return [], False
        try:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode):
                raise PermissionError(f"{self.path} is not a regular file")
            if found.st_uid != os.geteuid():
                raise PermissionError(f"{self.path} does not belong to this user")
            if self._offset is None:
                self._offset = self._start(file, found.st_size)
            if found.st_size < self._offset:  # another file has the name now
                self._offset, self._rest, self._skipping = 0, b"", False
            data = os.pread(file, PORTION, self._offset)
        finally:
            os.close(file)
        self._offset += len(data)
        return self._lines(data), self._offset < found.st_size

    def _lines(self, data: bytes) -> list[bytes]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        if self._skipping and lines:
            self._skipping = False
            del lines[0]
        if len(self._rest) > LONGEST_LINE:
            self._rest, self._skipping = b"", True
        return [line for line in lines if line]

    def _start(self, file: int, size: int) -> int:
        """The offset after the line that was read last. If that line is not known or not found, the offset of the first
        line that begins in the last ``BEGIN_BYTES``, or 0 if the file is not longer than that."""
        if self._after:
            begin = max(0, size - SEARCHED_BYTES)
            data = os.pread(file, size - begin, begin)
            end = self.agent.end_of(self._after, data)
            if end is not None:
                return begin + end
        if size <= BEGIN_BYTES:
            return 0
        begin = size - BEGIN_BYTES
        return begin + os.pread(file, BEGIN_BYTES, begin).find(b"\n") + 1
