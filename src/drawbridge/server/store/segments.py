"""One file of a history: where in it which records are, reading and mending it, adding to it, and when what was added is on the
disk itself.

The names are ``messages_<UTC time of the first record>.jsonl``, with ``_2`` and so on where one second had several. They
are the time, not the order: that is in the records' numbers.

What is with the kernel survives any death of the server, ``kill -9`` included. The policies are about a power cut or a crash of
the kernel:

- ``always``: a record is on the disk before ``append`` returns. The event loop waits for the disk.
- ``second`` (default): at most a second later, from a thread; a power cut takes the last second at most.
- ``off``: when the kernel writes it, usually within half a minute.

docs/internals/benchmarks.md has the cost of each.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import re
import threading
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from drawbridge.core.private_files import PRIVATE_FILE
from drawbridge.server.store.lines import LONGEST_LINE, SHORTEST_LINE, Head, Record, believed, microseconds, parse

logger = logging.getLogger(__name__)

NAME: Final = re.compile(r"messages_(\d{4}-\d\d-\d\d)_\d\d-\d\d-\d\d(?:_\d+)?\.jsonl")
BLOCK_RECORDS: Final = 256
BLOCK_BYTES: Final = 256 * 1024

_SCANNED_AT_ONCE: Final = 1024 * 1024
_END_BYTES: Final = (16 * 1024, 1024 * 1024)
"""That are read at each end of a file: the larger number where lines are long."""
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_APPEND: Final = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

Report: TypeAlias = Callable[[int, int], None]
"""Called with a damaged stretch of a file: its offset and length in bytes."""

sync: Final[Callable[[int], None]] = getattr(os, "fdatasync", os.fsync)
"""Returns when what was written to a file descriptor is on the disk itself."""


class Stale(Exception):
    """The file is not what its ``Segment`` says."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class Segment(Struct):
    """What is known of a file. ``size``: the bytes of its whole lines; times are microseconds since 1970.

    The three lists have an entry for each block of neighbouring records: at most ``BLOCK_RECORDS`` and ``BLOCK_BYTES``, or
    one larger record. They are empty, although there are records, as long as only the ends of the file are known
    (``sketch``). ``block_times`` is the latest time in the block, which may not be its last record's: clocks are set back.
    """

    name: str
    size: int = 0
    count: int = 0
    first_seq: int = 0
    last_seq: int = 0
    first_time: int = 0
    last_time: int = 0
    block_seqs: list[int] = []
    block_offsets: list[int] = []
    block_times: list[int] = []

    def add(self, seq: int, time: int, offset: int, length: int) -> None:
        if not self.count:
            self.first_seq, self.first_time = seq, time
        if (
            not self.block_seqs
            or seq - self.block_seqs[-1] >= BLOCK_RECORDS
            or offset + length - self.block_offsets[-1] > BLOCK_BYTES
        ):
            self.block_seqs.append(seq)
            self.block_offsets.append(offset)
            self.block_times.append(time)
        elif time > self.block_times[-1]:
            self.block_times[-1] = time
        self.last_seq, self.last_time = seq, time
        self.count += 1
        self.size = offset + length

    def copy(self) -> Segment:
        """One that stays as it is while this one grows."""
        lists = [list(values) for values in (self.block_seqs, self.block_offsets, self.block_times)]
        ends = (self.first_seq, self.last_seq, self.first_time, self.last_time)
        return Segment(self.name, self.size, self.count, *ends, *lists)

    @property
    def scanned(self) -> bool:
        """Whether it is known where in the file each record is."""
        return bool(self.block_seqs) or not self.count

    @property
    def day(self) -> str:
        """YYYY-MM-DD by UTC, when the file was begun."""
        return self.name[9:19]


def open_to_read(path: str) -> int:
    return os.open(path, _READ)


def read_block(file: int, segment: Segment, block: int, report: Report) -> list[Record]:
    """The records of one block, ascending. Raises ``Stale`` where no block begins or ends there."""
    start, seq = segment.block_offsets[block], segment.block_seqs[block]
    last = block + 1 == len(segment.block_seqs)
    end = segment.size if last else segment.block_offsets[block + 1]
    seq_end = segment.last_seq + 1 if last else segment.block_seqs[block + 1]
    before = min(start, 1)  # the line break that ends the line before
    data = os.pread(file, end - start + before, start - before)
    if len(data) != end - start + before or data[-1:] != b"\n" or (before and data[:1] != b"\n"):
        raise Stale(segment.name)
    lines = data.split(b"\n")[before:-1]
    records = [parse(line) for line in lines]
    if [record and record.seq for record in records] == list(range(seq, seq_end)):
        return [record for record in records if record]
    return _what_is_left(lines, records, start, range(seq, seq_end), report)


def _what_is_left(
    lines: list[bytes], records: list[Record | None], start: int, seqs: range, report: Report
) -> list[Record]:
    heads = []
    offset = start
    for place, (line, record) in enumerate(zip(lines, records, strict=True)):
        if record is not None and record.seq in seqs:
            heads.append(Head(place, record.seq, 0, offset, len(line) + 1))
        offset += len(line) + 1
    at_end = bool(heads) and heads[-1].offset + heads[-1].length == offset
    good = believed(heads, seqs.start - 1, start, seqs[-1] if at_end else None)
    _report_between(good, start, offset, report)
    return [record for head in good if (record := records[head.place])]


def _report_between(good: list[Head], start: int, end: int, report: Report) -> None:
    for head in good:
        if head.offset > start:
            report(start, head.offset - start)
        start = head.offset + head.length
    if end > start:
        report(start, end - start)


def sketch(path: str, name: str, size: int) -> Segment | None:
    """What the first and last lines of a file of ``size`` bytes show. What is damaged in between is counted as whole. None
    where its ends are damaged or its lines very long: then it has to be scanned. Raises OSError."""
    file = open_to_read(path)
    try:
        for length in _END_BYTES:
            start = os.pread(file, length, 0).split(b"\n", 2)
            end = os.pread(file, length, max(0, size - length)).rsplit(b"\n", 3)
            if len(start) < 3 or len(end) < 4 or end[3]:
                continue
            # Neighbours whose numbers follow each other: a damaged number does not go unseen.
            first, second, last_but_one, last = map(parse, (*start[:2], *end[1:3]))
            if first is None or second is None or last_but_one is None or last is None:
                continue
            count = last.seq - first.seq + 1
            neighbours = first.seq + 1 == second.seq and last_but_one.seq + 1 == last.seq
            if neighbours and 2 <= count <= size // SHORTEST_LINE:
                ends = (first.seq, last.seq, microseconds(first.time), microseconds(last.time))
                return Segment(name, size, count, *ends)
    finally:
        os.close(file)
    return None


def scan(path: str, segment: Segment, report: Report) -> int:
    """Takes in what the file has beyond ``segment.size``. Mends its end first where it is torn and that is possible.

    Returns how many lines at the end are damaged: each stood for a record. Raises ``Stale`` where no line begins there.
    """
    heads: list[Head] = []
    start = offset = segment.size
    place = 0
    with open(open_to_read(path), "rb", buffering=_SCANNED_AT_ONCE) as file:
        file.seek(max(0, start - 1))
        if start and file.read(1) != b"\n":
            raise Stale(segment.name)
        for line in iter(partial(file.readline, LONGEST_LINE), b""):
            torn = line[-1:] != b"\n" and len(line) < LONGEST_LINE
            if torn:
                if not _mend(path, offset, line):
                    break
                line += b"\n"
            record = parse(line[:-1])
            if record is not None:
                heads.append(Head(place, record.seq, microseconds(record.time), offset, len(line)))
            place += 1
            offset += len(line)
            if torn:
                break
    good = believed(heads, segment.last_seq if segment.count else None, start)
    _report_between(good, start, offset, report)
    for head in good:
        segment.add(head.seq, head.time, head.offset, head.length)
    segment.size = offset
    return place - 1 - good[-1].place if good else place


def _mend(path: str, offset: int, torn: bytes) -> bool:
    """The last line has no end. Where only the line break is missing it is put there (then True), else the line is cut."""
    try:
        file = os.open(path, _APPEND)
    except OSError:
        return False
    try:
        _lock(file)
        found = os.fstat(file)
        if found.st_size != offset + len(torn) or found.st_nlink != 1:
            return False
        if parse(torn) is not None:
            return os.write(file, b"\n") == 1
        os.ftruncate(file, offset)
    except OSError:
        pass
    finally:
        os.close(file)
    return False


def _lock(file: int) -> None:
    """Locks the file for this process until it is closed. Raises ``BlockingIOError``; file systems without locks give none."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BlockingIOError(errno.EAGAIN, "Another program is writing it") from None
    except OSError:
        pass


class Tail:
    """The file that records are added to. Its methods raise ``OSError``."""

    def __init__(self, path: str, segment: Segment, flags: int = 0) -> None:
        """Opens it; ``BlockingIOError`` where another process has. What it has beyond ``segment.size`` was not written
        by this process."""
        self.segment = segment
        self.file = os.open(path, _APPEND | flags, PRIVATE_FILE)
        try:
            _lock(self.file)
        except BaseException:
            os.close(self.file)
            raise

    @classmethod
    def create(cls, directory: str, moment: datetime) -> Tail:
        """A new, empty file with a name of its own. ``moment`` is in UTC."""
        stem = "messages_" + moment.isoformat()[:19].replace("T", "_").replace(":", "-")
        number = 1
        while True:
            name = f"{stem}.jsonl" if number == 1 else f"{stem}_{number}.jsonl"
            try:
                return cls(os.path.join(directory, name), Segment(name), os.O_CREAT | os.O_EXCL)
            except FileExistsError:
                number += 1

    def undisturbed(self) -> bool:
        """Whether the file is as long as it was left, by others and by a failed write, and has its one name still.

        With two (``cp -l``, a backup made of links) what is added would change the other one's content too.
        """
        found = os.fstat(self.file)
        return found.st_size == self.segment.size and found.st_nlink == 1

    def write(self, line: bytes, then: Callable[[int], None] | None) -> None:
        """All of it, and ``then`` with the file descriptor, or nothing: what was written of it is cut off again."""
        try:
            view = memoryview(line)
            while view:
                view = view[os.write(self.file, view) :]
            if then is not None:
                then(self.file)
        except BaseException:
            with contextlib.suppress(OSError):
                os.ftruncate(self.file, self.segment.size)
            raise

    def close(self) -> None:
        os.close(self.file)


FsyncPolicy: TypeAlias = Literal["always", "second", "off"]
DEFAULT_FSYNC: Final[FsyncPolicy] = "second"


class Syncer:
    """Syncs files to disk shortly after they were written, in one thread for all of them that only exists while it is
    needed."""

    def __init__(self, delay: float = 1.0) -> None:
        """``delay``: seconds."""
        self._delay = delay
        self._changing = threading.Lock()
        self._syncing = threading.Lock()
        self._waiting: dict[object, int] = {}
        self._timer: threading.Timer | None = None

    def soon(self, owner: object, file: int) -> None:
        """``owner`` represents the open file ``file``, which may be closed before it is synced."""
        if owner in self._waiting:
            return
        with self._changing:
            try:
                self._waiting[owner] = os.dup(file)
            except OSError:  # no file descriptor is left
                _sync(file)
                return
            if self._timer is None:
                self._timer = threading.Timer(self._delay, self._sync_all)
                self._timer.name = "drawbridge-history-sync"
                self._timer.start()

    def now(self, owner: object) -> None:
        """What waits for ``owner`` is on the disk when this returns."""
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
            "a history may not have reached the disk: %s. It can be read, but a power failure could lose it.",
            error.strerror,
        )


syncer: Final = Syncer()
"""The only instance of the process."""
