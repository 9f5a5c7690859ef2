"""The index of a history's files: the records that each file contains, and their positions.

It is built by reading the files (torn ends are repaired if possible), and it is saved next to them, so that a history
can be opened without reading its files.

The files are named ``messages_<UTC time of the first record>.jsonl``, with ``_2`` and so on for further files that were
begun in the same second. The order of the files follows from the numbers of their records, not from the names.

The saved index only saves time. It has a checksum, is compared with the files, and is rebuilt if it does not match
them. Only the last number that was assigned can't be derived from the files if its record is lost.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import re
import zlib
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, TypeAlias

import msgspec
from msgspec import Raw, Struct

from drawbridge.core.errors import NotPrivate
from drawbridge.core.json_text import UNDECODABLE
from drawbridge.core.private_files import remove_quietly, write_private
from drawbridge.server.store.lines import LONGEST_LINE, SHORTEST_LINE, Head, Record, believed, microseconds, parse
from drawbridge.text.counts import counted

FILE: Final = "index.json"

SCANNED_AT_OPENING: Final = 256 * 1024
"""The maximum size of a file that is read as a whole when its history is opened, if it is not in the index, in bytes.
Reading it takes a few milliseconds. Only the ends of a larger file are read, unless they are damaged or its lines are
very long."""

_VERSION: Final = 1
_DAMAGE_KEPT: Final = 100

logger = logging.getLogger(__name__)


NAME: Final = re.compile(r"messages_(\d{4}-\d\d-\d\d)_\d\d-\d\d-\d\d(?:_\d+)?\.jsonl")
BLOCK_RECORDS: Final = 256
BLOCK_BYTES: Final = 256 * 1024

_SCANNED_AT_ONCE: Final = 1024 * 1024
_END_BYTES: Final = (16 * 1024, 1024 * 1024)
"""The numbers of bytes that are read at each end of a file: the second one only if the file's lines are long."""
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
APPEND: Final = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

Report: TypeAlias = Callable[[int, int], None]
"""The type of a function that is called with the offset and the length, in bytes, of a damaged stretch of a file."""


class Stale(Exception):
    """The file does not match its ``Segment``."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class Segment(Struct):
    """The known contents of a file. ``size``: the size of its whole lines, in bytes. Times are microseconds since 1970.

    The three lists have an entry for each block of neighboring records: at most ``BLOCK_RECORDS`` and ``BLOCK_BYTES``,
    or one larger record. They are empty, although there are records, as long as only the ends of the file are known
    (``sketch``). An entry of ``block_times`` is the latest time in its block, which is not always the time of the last
    record, since clocks can be set back.
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
        """A copy that does not change when this segment grows."""
        lists = [list(values) for values in (self.block_seqs, self.block_offsets, self.block_times)]
        ends = (self.first_seq, self.last_seq, self.first_time, self.last_time)
        return Segment(self.name, self.size, self.count, *ends, *lists)

    @property
    def scanned(self) -> bool:
        """Whether the positions of the blocks in the file are known; also true for a file without records."""
        return bool(self.block_seqs) or not self.count

    @property
    def day(self) -> str:
        """The day on which the file was begun, in UTC, as YYYY-MM-DD."""
        return self.name[9:19]


def open_to_read(path: str) -> int:
    return os.open(path, _READ)


def read_block(file: int, segment: Segment, block: int, report: Report) -> list[Record]:
    """The records of one block, in ascending order, without the damaged ones, which are reported. Raises ``Stale`` if
    no block begins or ends there."""
    start, seq = segment.block_offsets[block], segment.block_seqs[block]
    last = block + 1 == len(segment.block_seqs)
    end = segment.size if last else segment.block_offsets[block + 1]
    seq_end = segment.last_seq + 1 if last else segment.block_seqs[block + 1]
    before = min(start, 1)  # also reads the line break that ends the previous line
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
    for number, (line, record) in enumerate(zip(lines, records, strict=True)):
        if record is not None and record.seq in seqs:
            heads.append(Head(number, record.seq, 0, offset, len(line) + 1))
        offset += len(line) + 1
    at_end = bool(heads) and heads[-1].offset + heads[-1].length == offset
    good = believed(heads, seqs.start - 1, start, seqs[-1] if at_end else None)
    _report_between(good, start, offset, report)
    return [record for head in good if (record := records[head.line_number])]


def _report_between(good: list[Head], start: int, end: int, report: Report) -> None:
    for head in good:
        if head.offset > start:
            report(start, head.offset - start)
        start = head.offset + head.length
    if end > start:
        report(start, end - start)


def sketch(path: str, name: str, size: int) -> Segment | None:
    """The segment of a file of ``size`` bytes, derived from its first and last lines. Damaged records in between are
    counted too. None if the ends are damaged or the lines are very long, in which case the file has to be scanned.
    Raises OSError."""
    file = open_to_read(path)
    try:
        for length in _END_BYTES:
            start = os.pread(file, length, 0).split(b"\n", 2)
            end = os.pread(file, length, max(0, size - length)).rsplit(b"\n", 3)
            if len(start) < 3 or len(end) < 4 or end[3]:
                continue
            # Two lines at each end must have consecutive numbers, so that a damaged number is noticed.
            first, second, last_but_one, last = map(parse, (*start[:2], *end[1:3]))
            if first is None or second is None or last_but_one is None or last is None:
                continue
            count = last.seq - first.seq + 1
            neighbors = first.seq + 1 == second.seq and last_but_one.seq + 1 == last.seq
            if neighbors and 2 <= count <= size // SHORTEST_LINE:
                ends = (first.seq, last.seq, microseconds(first.time), microseconds(last.time))
                return Segment(name, size, count, *ends)
    finally:
        os.close(file)
    return None


def scan(path: str, segment: Segment, report: Report) -> int:
    """Adds to ``segment`` what the file contains beyond ``segment.size``. A torn end of the file is repaired, if
    possible.

    Returns the number of damaged lines at the end, each of which counts as a record. Raises OSError, and ``Stale`` if
    no line begins at ``segment.size``.
    """
    heads: list[Head] = []
    start = offset = segment.size
    number = 0
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
                heads.append(Head(number, record.seq, microseconds(record.time), offset, len(line)))
            number += 1
            offset += len(line)
            if torn:
                break
    good = believed(heads, segment.last_seq if segment.count else None, start)
    _report_between(good, start, offset, report)
    for head in good:
        segment.add(head.seq, head.time, head.offset, head.length)
    segment.size = offset
    return number - 1 - good[-1].line_number if good else number


def _mend(path: str, offset: int, torn: bytes) -> bool:
    """Repairs a file with a torn last line. Adds the line break if only that is missing, and returns True. Otherwise
    cuts the line off and returns False. Also returns False, and leaves the file as it is, if another program is writing
    to it, if it has a second name, or if it can't be changed."""
    try:
        file = os.open(path, APPEND)
    except OSError:
        return False
    try:
        lock(file)
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


def lock(file: int) -> None:
    """Locks the file for this process until it is closed, if the file system supports locks. Raises
    ``BlockingIOError`` if another process has locked it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BlockingIOError(errno.EAGAIN, "Another program is writing to it") from None
    except OSError:
        pass


class Index(Struct):
    """The files of a history. ``last_seq``: the last number that was assigned, even if its record is damaged or missing
    now."""

    last_seq: int = 0
    segments: list[Segment] = []


class _File(Struct):
    version: int
    crc32: int
    content: Raw


_file: Final = msgspec.json.Decoder(_File)
_content: Final = msgspec.json.Decoder(Index)


def load(directory: str) -> Index:
    """The saved index; an empty index if it is missing or can't be trusted."""
    with contextlib.suppress(OSError, *UNDECODABLE):
        with open(open_to_read(os.path.join(directory, FILE)), "rb") as file:
            found = _file.decode(file.read())
        if found.version == _VERSION and zlib.crc32(found.content) == found.crc32:
            index = _content.decode(found.content)
            if all(map(_makes_sense, index.segments)):
                return index
    return Index()


def _makes_sense(segment: Segment) -> bool:
    lengths = {len(segment.block_seqs), len(segment.block_offsets), len(segment.block_times)}
    return len(lengths) == 1 and (lengths == {0}) == (segment.count == 0)


def save(directory: str, index: Index) -> None:
    """Saves the index. A failure is ignored, because the next save tries again."""
    content = msgspec.json.encode(index)
    data = msgspec.json.encode(_File(_VERSION, zlib.crc32(content), Raw(content)))
    with contextlib.suppress(NotPrivate):
        write_private(os.path.join(directory, FILE), data + b"\n")


class Damage(Struct, frozen=True):
    """A damaged part of a file, which is skipped and left as it is. ``offset`` and ``length`` are in bytes."""

    file: str
    offset: int
    length: int


class Catalogue:
    """The files of one directory, in the order of their records' numbers."""

    def __init__(self, directory: str) -> None:
        """Raises OSError if the directory, or a file that has to be read, can't be read."""
        self.directory = directory
        self.segments: list[Segment] = []
        self.last_seq = 0
        self.count = 0
        self.size = 0
        self.damage: dict[tuple[str, int], Damage] = {}
        self._compare(load(directory), opening=True)

    def path(self, name: str) -> str:
        return f"{self.directory}/{name}"

    def add(self, segment: Segment, seq: int, time: int, length: int) -> None:
        """Adds a record that was written at the end of ``segment``, which is the newest one or a new one."""
        if not segment.count:
            self.segments.append(segment)
        segment.add(seq, time, segment.size, length)
        self.last_seq = seq
        self.count += 1
        self.size += length

    def drop_first(self) -> None:
        """Deletes the file with the lowest numbers. Raises OSError without changing anything."""
        first = self.segments[0]
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path(first.name))
        self.segments = self.segments[1:]
        self.count -= first.count
        self.size -= first.size

    def save(self) -> None:
        save(self.directory, Index(self.last_seq, [segment for segment in self.segments if segment.scanned]))

    def scan(self, segment: Segment) -> Segment:
        """Scans a file of which only the ends have been read so far. Raises OSError, and ``Stale`` if the size of the
        file has changed."""
        found = Segment(segment.name)
        scan(self.path(segment.name), found, partial(self.report, segment.name))
        if found.size != segment.size:
            raise Stale(segment.name)
        return found

    def replace(self, sketched: Segment, scanned: Segment) -> None:
        """Replaces a segment with one that was scanned. The old object, which other threads may use, is not changed."""
        self.segments = [scanned if segment is sketched else segment for segment in self.segments]
        self.count = sum(segment.count for segment in self.segments)

    def rewritten(self, segment: Segment, damage: Iterable[tuple[int, int]]) -> None:
        """Updates the segment of a file that was replaced by one with the same records' numbers. ``damage``: the
        offsets and lengths of damaged stretches in the new file."""
        self.damage = {key: one for key, one in self.damage.items() if one.file != segment.name}
        for offset, length in damage:
            self.report(segment.name, offset, length)
        self.segments = [segment if known.name == segment.name else known for known in self.segments]
        self.count = sum(known.count for known in self.segments)
        self.size = sum(known.size for known in self.segments)

    def refresh(self, distrusted: str | None = None) -> None:
        """Compares the index with the files again. ``distrusted``: the name of a file to read from its start in any
        case; None to read only what has changed in the files. No file may be written in the meantime.

        ``Segment`` objects that are in use elsewhere are not changed.
        """
        kept = [segment for segment in self.segments if segment.name != distrusted]
        self._compare(Index(self.last_seq, kept))

    def _compare(self, index: Index, *, opening: bool = False) -> None:
        known = {segment.name: segment for segment in index.segments}
        sizes = self._files()
        ours = not sizes or not known or not known.keys().isdisjoint(sizes)  # otherwise, another history's index
        last_seq = index.last_seq if ours else 0
        unplaced = 0  # damaged lines in files without good ones, because their numbers must not be used again
        segments = []
        for name, size in sizes.items():
            segment = known.get(name) or self._at_opening(name, size, opening) or Segment(name)
            if segment.size != size:
                segment, damaged = self._read(segment, size)
                if segment.count:
                    last_seq = max(last_seq, segment.last_seq + damaged)
                else:
                    unplaced += damaged
            segments.append(segment)
        changed = any(known.get(segment.name) is not segment for segment in segments)
        self.segments = self._in_order(segments)
        self.last_seq = max([last_seq, *(segment.last_seq for segment in self.segments)]) + unplaced
        self.count = sum(segment.count for segment in self.segments)
        self.size = sum(segment.size for segment in self.segments)
        if changed and all(segment.scanned for segment in self.segments):
            self.save()

    def _at_opening(self, name: str, size: int, opening: bool) -> Segment | None:
        """The segment of a large file that is not in the index, derived from the ends of the file. None if the whole
        file has to be read."""
        if not opening or size <= SCANNED_AT_OPENING:
            return None
        return sketch(self.path(name), name, size)

    def _read(self, known: Segment, size: int) -> tuple[Segment, int]:
        """The segment of a file that is new or has changed. The file is read from its old end if it has only grown,
        otherwise from its start. Also returns the number of damaged lines at the end, as ``scan`` does."""
        path, report = self.path(known.name), partial(self.report, known.name)
        with contextlib.suppress(Stale):
            if known.scanned and known.size < size:
                segment = known.copy()
                return segment, scan(path, segment, report)
        segment = Segment(known.name)
        return segment, scan(path, segment, report)

    def _files(self) -> dict[str, int]:
        """The names of the files that contain records, and their sizes in bytes. Removes the empty and temporary files
        that a crash of the server left behind.
        """
        found = {}
        with os.scandir(self.directory) as entries:
            for entry in entries:
                if not NAME.fullmatch(entry.name):
                    if entry.name.endswith(".tmp"):
                        remove_quietly(entry.path)  # the server died while it wrote its index or link
                    continue
                if not entry.is_file(follow_symlinks=False):
                    logger.warning("%s: %s is not a regular file and was ignored", self.directory, entry.name)
                elif size := entry.stat(follow_symlinks=False).st_size:
                    found[entry.name] = size
                else:
                    remove_quietly(entry.path)  # the server died between creating it and writing to it
        return found

    def _in_order(self, segments: list[Segment]) -> list[Segment]:
        """The segments, sorted by the number of their first record. A file that repeats the records of another one,
        such as a copy that a user made, is left out and reported as damage."""
        ordered: list[Segment] = []
        last_seq = 0
        for segment in sorted(segments, key=lambda segment: (segment.first_seq, segment.name)):
            if segment.count and segment.first_seq <= last_seq:
                self.report(segment.name, 0, segment.size)
            else:
                ordered.append(segment)
                last_seq = max(last_seq, segment.last_seq)
        return ordered

    def report(self, name: str, offset: int, length: int) -> None:
        if (name, offset) not in self.damage and len(self.damage) < _DAMAGE_KEPT:
            self.damage[name, offset] = Damage(name, offset, length)
            logger.warning(
                "%s: skipped %s at offset %d (damaged, or not part of this history); the file was not changed",
                self.path(name), counted(length, "byte"), offset,
            )  # fmt: skip
