"""Reads lines from any input (a terminal, a pipe, a file, or none) without blocking the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import termios
from typing import Final, TextIO

LINE_LIMIT: Final = 4096
"""The maximum size of an answer, in bytes. A longer line is read as several answers."""


class Lines:
    def __init__(self, stream: TextIO | None) -> None:
        """``stream``: may be None or closed, as ``sys.stdin`` may be, in which case it has no lines."""
        self._stream = stream
        self._unread = b""

    @property
    def descriptor(self) -> int | None:
        try:
            return self._stream.fileno() if self._stream is not None else None
        except (OSError, ValueError):  # the stream is not a real file, or it is closed
            return None

    @property
    def echoes(self) -> bool:
        """Whether the terminal itself shows what is typed."""
        descriptor = self.descriptor
        return descriptor is not None and os.isatty(descriptor)

    def discard(self) -> None:
        """Drops keys that were typed before a question was visible. Input from a program is not dropped."""
        descriptor = self.descriptor
        if descriptor is not None and self.echoes:
            self._unread = b""
            with contextlib.suppress(termios.error):
                termios.tcflush(descriptor, termios.TCIFLUSH)

    async def read(self) -> str | None:
        """The next line without its end; None at the end of the input. A canceled call loses nothing.

        At a terminal, the end (Ctrl-D) is not final. The next call continues to read.
        """
        while b"\n" not in self._unread and len(self._unread) < LINE_LIMIT:
            if not await self._read_more():
                break
        if not self._unread:
            return None
        line = self._unread[:LINE_LIMIT].partition(b"\n")[0]
        self._unread = self._unread[len(line) :].removeprefix(b"\n")
        return line.decode("utf-8", "replace").rstrip("\r")

    async def _read_more(self) -> bool:
        descriptor = self.descriptor
        if descriptor is None:
            return False
        try:
            await _readable(descriptor)
            chunk = os.read(descriptor, LINE_LIMIT)
        except BlockingIOError:  # another program has read it from the same terminal
            return True
        except OSError:
            return False
        self._unread += chunk
        return bool(chunk)


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(descriptor, ready.set)
    except PermissionError:  # a regular file or /dev/null, which never waits
        return
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
