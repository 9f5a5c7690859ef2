"""Splits an agent's output into lines, and keeps the last part of its stderr to show. Pure."""

from __future__ import annotations

import re
from typing import Final

LINE_LIMIT: Final = 32 * 1024 * 1024
"""Bytes of one line. Lines of several MB are normal: files and pictures that the agent has read."""

STDERR_LIMIT: Final = 64 * 1024
JUNK_LIMIT: Final = 4 * 1024

# Escape sequences of terminals; then every other control character but tab and newline.
_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Lines:
    """Bytes in, complete lines out, without their newline."""

    def __init__(self, limit: int = LINE_LIMIT) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0
        self.too_long = False
        """Whether a line exceeded the limit. It is dropped, and everything after it."""

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that ``data`` completes."""
        if self.too_long:
            return []
        *whole, rest = data.split(b"\n")
        if whole:
            whole[0] = b"".join([*self._pieces, whole[0]])
            self._pieces, self._size = [], 0
        self._pieces.append(rest)
        self._size += len(rest)
        if self._size > self._limit or (whole and len(whole[0]) > self._limit):
            self.too_long = True
            self._pieces = []
            return [line for line in whole if len(line) <= self._limit]
        return whole

    def rest(self) -> bytes:
        """The text after the last newline, at the end of the output."""
        rest = b"".join(self._pieces)
        self._pieces, self._size = [], 0
        return rest


class Tail:
    """The last ``limit`` bytes of what was added."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()

    def add(self, data: bytes) -> None:
        self._kept += data[-self._limit :]
        if len(self._kept) > 2 * self._limit:
            del self._kept[: -self._limit]

    @property
    def text(self) -> str:
        """The text for people: valid Unicode without terminal control characters."""
        return readable(bytes(self._kept[-self._limit :]).decode("utf-8", "replace"))


def readable(text: str) -> str:
    return _CONTROLS.sub("", _ESCAPES.sub("", text)).strip()
