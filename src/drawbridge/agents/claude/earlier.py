"""Reads the messages and the remaining jobs of an earlier conversation from Claude Code's own file. Messages are read
backwards from the end, or forwards.

The lines are interpreted by ``transcript``.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct

from drawbridge.agents.base import EarlierMessage, EarlierMessages
from drawbridge.agents.claude import schedule, transcript
from drawbridge.agents.claude.sessions import file_of, known
from drawbridge.agents.reported import decoded, moment_of
from drawbridge.agents.terminal import Message, Prompt

CHUNK: Final = 256 * 1024
SEARCHED_BYTES: Final = 16 * 1024 * 1024
"""The approximate number of bytes after which a page ends even if it is not full. Such a page may contain no messages,
but it has the position before which the search continues."""

REMEMBERED_BYTES: Final = 64 * 1024 * 1024
"""The number of bytes at the end of the file that are searched for jobs."""

LONGEST_LINE: Final = 8 * 1024 * 1024
"""The maximum size of a line, in bytes. Longer lines, which mostly contain images, are skipped."""


class _Time(Struct):
    timestamp: str = ""


def messages(
    path: Path, session_id: str, *, after: datetime, before: datetime, end: int | None, limit: int, size: int
) -> EarlierMessages:
    """The last ``limit`` messages, of at most ``size`` bytes in total (or one larger message), that were written
    between ``after`` and ``before`` and are stored before the offset ``end`` (None for the end of the file). The size
    of a message is that of its line in the file. Blocking. Empty if the directory does not have the conversation or its
    file can't be read.
    """
    with _opened(path, session_id) as file:
        if file is None:
            return EarlierMessages((), None)
        length = os.fstat(file).st_size
        return _page(file, session_id, after, before, length if end is None else min(end, length), limit, size)


def messages_from(
    path: Path, session_id: str, *, after: datetime, before: datetime, start: int
) -> Iterator[tuple[int, EarlierMessage]]:
    """Yields the messages that were written between ``after`` and ``before`` and are stored at or after the offset
    ``start``, in order, each with the offset of the line that follows it. Blocking. Yields nothing if the directory
    does not have the conversation or its file can't be read.
    """
    with _opened(path, session_id) as descriptor:
        if descriptor is None:
            return
        with open(descriptor, "rb", closefd=False) as file:
            file.seek(start)
            end = start
            for line in iter(partial(file.readline, LONGEST_LINE), b""):
                end += len(line)
                moment = _moment(line)
                if moment is None or not after < moment < before:
                    continue
                message = _message(line, session_id, moment)
                if message is not None:
                    yield end, message


def jobs(path: Path, session_id: str) -> dict[str, float]:
    """The jobs that a process has when it resumes the conversation, as in ``schedule.jobs_in``. Only the last
    ``REMEMBERED_BYTES`` of the conversation are searched. Blocking."""
    with _opened(path, session_id) as descriptor:
        if descriptor is None:
            return {}
        with open(descriptor, "rb", closefd=False) as file:
            file.seek(max(0, os.fstat(descriptor).st_size - REMEMBERED_BYTES))
            return schedule.jobs_in(iter(partial(file.readline, LONGEST_LINE), b""), time.time())


@contextlib.contextmanager
def _opened(path: Path, session_id: str) -> Iterator[int | None]:
    """The descriptor of a conversation's file, open during the context. None if the directory does not have the
    conversation, or if its file can't be opened, is not a regular file, or belongs to another user."""
    if not known(path, session_id):
        yield None
        return
    try:
        file = os.open(file_of(path, session_id), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        yield None
        return
    try:
        found = os.fstat(file)
        yield file if found.st_uid == os.geteuid() and stat.S_ISREG(found.st_mode) else None
    finally:
        os.close(file)


def _page(
    file: int, session_id: str, after: datetime, before: datetime, end: int, limit: int, size: int
) -> EarlierMessages:
    found: list[EarlierMessage] = []
    used, at = 0, end
    for offset, line in _backwards(file, end):
        moment = _moment(line)
        if moment is not None and moment <= after:
            return EarlierMessages(tuple(reversed(found)), None)
        message = None if moment is None or moment >= before else _message(line, session_id, moment)
        if message is not None:
            used += len(line)
            if len(found) == limit or (found and used > size):
                return EarlierMessages(tuple(reversed(found)), at)
            found.append(message)
        at = offset
        if end - at > SEARCHED_BYTES:
            return EarlierMessages(tuple(reversed(found)), at)
    return EarlierMessages(tuple(reversed(found)), None)


def _backwards(file: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yields the lines that begin before ``end``, the last one first, each with its offset. A line longer than
    ``LONGEST_LINE`` is replaced with an empty one."""
    rest: list[bytes] = []
    length = 0
    while end > 0:
        start = max(0, end - CHUNK)
        data = os.pread(file, end - start, start)
        if len(data) != end - start:
            return  # the file was truncated in the meantime
        *lines, last = data.split(b"\n")
        if lines:
            first, *others = [*lines, last]
            offset = end - len(last)
            yield offset, _line(last, rest, length)
            for line in reversed(others[:-1]):
                offset -= len(line) + 1
                yield offset, line
            rest, length = [first], len(first)
        else:
            rest = [last, *rest] if length <= LONGEST_LINE else rest
            length += len(last)
        end = start
    yield 0, _line(b"", rest, length)


def _line(begin: bytes, rest: list[bytes], length: int) -> bytes:
    return b"" if len(begin) + length > LONGEST_LINE else b"".join([begin, *rest])


def _moment(line: bytes) -> datetime | None:
    found = decoded(line, _Time)
    return None if found is None else moment_of(found.timestamp)


def _message(line: bytes, session_id: str, moment: datetime) -> EarlierMessage | None:
    match transcript.entry(line, session_id):
        case Prompt(uuid, turn, text):
            return EarlierMessage(moment, uuid, prompt=text, turn=turn or uuid)
        case Message(uuid, data):
            return EarlierMessage(moment, uuid, line=data)
        case _:
            return None
