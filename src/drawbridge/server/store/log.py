"""The history of a project or of a terminal session. Each record is stored once, has a number, and is in a file before
it is published. The history is read in pages.

A history is a directory of files with one JSON line for each record (``lines``), and an index of the files (``index``).
A record begins a new file if it is the first one of a day (UTC), if the newest file would exceed 100 MiB or already
contains 10,000 records, if records were removed, or if the newest file can't be continued. A file can't be continued if
only its ends have been read so far, or if another program has damaged its end or given it a second name.
``latest.jsonl`` is a symbolic link to the newest file. On file systems without links, ``latest.txt`` contains its name.

A record's number (``seq``) is one more than the last number that was assigned, and is never reused while the directory
exists. Only one process writes, because the server locks its data directory.

``syncing`` decides when records reach the disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import itertools
import logging
import os
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

from drawbridge.core.errors import HistoryNotWritten, HistoryUnreadable, NotPrivate
from drawbridge.core.private_files import PRIVATE_FILE, make_private_directory, remove_quietly, write_private
from drawbridge.server.store import syncing
from drawbridge.server.store.index import (
    APPEND,
    Catalogue,
    Damage,
    Segment,
    Stale,
    lock,
    open_to_read,
    read_block,
    scan,
)
from drawbridge.server.store.lines import Direction, Record, compose, from_microseconds, microseconds, parse
from drawbridge.server.store.syncing import FsyncPolicy
from drawbridge.text.counts import counted

logger = logging.getLogger(__name__)

__all__ = ["Damage", "Direction", "History", "Page", "Record"]

LARGEST_FILE: Final = 100 * 1024 * 1024
MOST_RECORDS: Final = 10_000
CHECKPOINT_RECORDS: Final = 1_000
CHECKPOINT_BYTES: Final = 8 * 1024 * 1024
"""The numbers of records, and of bytes of records, after which the index is saved. After a crash, at most that many
have to be read again."""

_READ_AT_ONCE: Final = 8 * 1024 * 1024
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_EARLIEST = datetime.min.replace(tzinfo=UTC)

BLANK: Final = b'{"type":"system","subtype":"record_removed","message":{}}'
"""The message of the record that replaces a removed one, because numbers are not reused."""

NEVER: Final = 2**63
"""A number that is greater than that of any record."""


class Page(Struct, frozen=True):
    """Records of a history, in ascending order of their numbers. ``has_more``: whether more records match beyond this
    page, in the direction of reading."""

    records: tuple[Record, ...]
    has_more: bool


class Wanted(Struct, frozen=True):
    """The records to read: ``after`` < seq < ``before``, and written after ``since`` (microseconds since 1970) unless
    that is None."""

    after: int
    before: int
    since: int | None
    backward: bool

    def blocks(self, segment: Segment) -> Sequence[int]:
        """The blocks of a file that may contain a match, in the order in which they are read."""
        if not self.touches(segment):
            return ()
        first = max(0, bisect_right(segment.block_seqs, self.after + 1) - 1)
        found: Sequence[int] = range(first, bisect_left(segment.block_seqs, self.before))
        if self.since is not None:
            found = [block for block in found if segment.block_times[block] > self.since]
        return found[::-1] if self.backward else found

    def touches(self, segment: Segment) -> bool:
        """Whether the file may contain a match, according to its numbers."""
        return bool(segment.count) and segment.last_seq > self.after and segment.first_seq < self.before

    def match(self, record: Record) -> bool:
        return self.after < record.seq < self.before and (self.since is None or microseconds(record.time) > self.since)


def read_page(
    directory: str,
    segments: Sequence[Segment],
    wanted: Wanted,
    limit: int,
    max_bytes: int | None,
    report: Callable[[str, int, int], None],
    scanned: Callable[[Segment], Segment],
) -> Page:
    """Reads at most ``limit`` matching records, and at most ``max_bytes`` of lines (None: no limit), but at least one
    record, if any matches. Raises ``Stale`` or OSError.

    ``report``: called for each damaged stretch, with the name of its file, and its offset and length in bytes.
    ``scanned``: scans a file of which only the ends have been read so far; called if the file has to be read.
    """
    records: list[Record] = []
    size = 0
    has_more = False
    with contextlib.closing(_matching(directory, segments, wanted, report, scanned)) as matching:
        for record in matching:
            size += len(record.line)
            if len(records) == limit or (records and max_bytes is not None and size > max_bytes):
                has_more = True
                break
            records.append(record)
    return Page(tuple(records[::-1] if wanted.backward else records), has_more)


def _matching(
    directory: str,
    segments: Sequence[Segment],
    wanted: Wanted,
    report: Callable[[str, int, int], None],
    scanned: Callable[[Segment], Segment],
) -> Generator[Record, None, None]:
    for segment in reversed(segments) if wanted.backward else segments:
        if not segment.scanned and wanted.touches(segment):
            segment = scanned(segment)
        blocks = wanted.blocks(segment)
        if not blocks:
            continue
        name = segment.name
        try:
            file = open_to_read(f"{directory}/{name}")
        except FileNotFoundError:
            raise Stale(name) from None
        try:
            for block in blocks:
                records = read_block(file, segment, block, functools.partial(report, name))
                yield from filter(wanted.match, reversed(records) if wanted.backward else records)
        finally:
            os.close(file)


class Tail:
    """The file that records are added to. Its methods raise ``OSError``."""

    def __init__(self, path: str, segment: Segment, flags: int = 0) -> None:
        """Opens the file. Raises ``BlockingIOError`` if another process has it locked. What the file contains beyond
        ``segment.size`` was not written by this process."""
        self.segment = segment
        self.file = os.open(path, APPEND | flags, PRIVATE_FILE)
        try:
            lock(self.file)
        except BaseException:
            os.close(self.file)
            raise

    @classmethod
    def create(cls, directory: str, moment: datetime) -> Tail:
        """Begins a new, empty file. ``moment``: in UTC, for its name."""
        stem = "messages_" + moment.isoformat()[:19].replace("T", "_").replace(":", "-")
        number = 1
        while True:
            name = f"{stem}.jsonl" if number == 1 else f"{stem}_{number}.jsonl"
            try:
                return cls(os.path.join(directory, name), Segment(name), os.O_CREAT | os.O_EXCL)
            except FileExistsError:
                number += 1

    def undisturbed(self) -> bool:
        """Whether the file has the length that the last write left, and only one name.

        If it has two names (``cp -l``, a backup made with hard links), adding records would change the copy, too.
        """
        found = os.fstat(self.file)
        return found.st_size == self.segment.size and found.st_nlink == 1

    def write(self, line: bytes, then: Callable[[int], None] | None) -> None:
        """Writes the whole line and calls ``then`` with the file descriptor. If either fails, removes what it wrote."""
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


class History:
    """The history of a project or of a terminal session, opened with ``History.open``. Its methods may be called from
    any thread. Writing a record does not wait while another thread reads a page.

    Between calls, it keeps at most one file open: the one that records are added to.
    """

    def __init__(self, catalogue: Catalogue, fsync: FsyncPolicy, symlink: Callable[[str, str], None]) -> None:
        self._catalogue = catalogue
        self._fsync: FsyncPolicy = fsync
        self._symlink = symlink
        self._changing = threading.RLock()
        self._scanning = threading.Lock()
        self._tail: Tail | None = None
        self.closed = False
        """Whether the history is closed for writing. It can still be read."""
        self._is_let_go = False
        """Whether ``close`` was called."""
        self._records_unsaved = self._bytes_unsaved = 0
        self._scans_unsaved = False
        self._complete = ""
        """The name of a file to which no more records are added, although it may be the newest; otherwise empty."""
        self._rewritten = 0
        """The number of times that a file was replaced. Pages that were being read in the meantime have to be read
        again."""

    @classmethod
    def open(
        cls,
        directory: str | os.PathLike[str],
        *,
        fsync: FsyncPolicy = syncing.DEFAULT_FSYNC,
        symlink: Callable[[str, str], None] = os.symlink,
    ) -> History:
        """The history in ``directory``, which is created if it is missing, and kept private.

        A torn last line, left by a crash, is cut off, or completed if only its line break is missing. Raises
        ``NotPrivate`` or ``HistoryUnreadable``. ``fsync``: see ``syncing``. ``symlink`` raises OSError or
        NotImplementedError on a file system without links.
        """
        path = os.path.abspath(directory)
        if os.path.islink(path):
            raise NotPrivate(f"{path} is a symbolic link. A history needs its own directory.")
        make_private_directory(path)
        try:
            return cls(Catalogue(path), fsync, symlink)
        except OSError as error:
            raise _unreadable(error) from None

    @property
    def directory(self) -> str:
        """The path of the history's directory."""
        return self._catalogue.directory

    @property
    def last_seq(self) -> int:
        """The last number that was assigned to a record; 0 before the first."""
        return self._catalogue.last_seq

    @property
    def count(self) -> int:
        """The number of records, including damaged ones in files of which only the ends have been read so
        far."""
        return self._catalogue.count

    @property
    def first_seq(self) -> int:
        """The number of the first record that is left; if no record is left, the number that the next one will
        have."""
        first = next((segment for segment in self._catalogue.segments if segment.count), None)
        return first.first_seq if first else self.last_seq + 1

    @property
    def size(self) -> int:
        """The size of all files, in bytes."""
        return self._catalogue.size

    @property
    def first_time(self) -> datetime | None:
        """The time at which the first record that is left was written (UTC); None for an empty history."""
        first = next((segment for segment in self._catalogue.segments if segment.count), None)
        return from_microseconds(first.first_time) if first else None

    @property
    def last_time(self) -> datetime | None:
        """The time at which the last record was written (UTC); None for an empty history."""
        last = next((segment for segment in reversed(self._catalogue.segments) if segment.count), None)
        return from_microseconds(last.last_time) if last else None

    @property
    def damage(self) -> tuple[Damage, ...]:
        """The damage that has been found so far, in at most 100 places."""
        return tuple(self._catalogue.damage.values())

    # Writing.

    def append(
        self, direction: Direction, message: bytes, now: datetime | None = None, *, is_json: bool = False
    ) -> Record:
        """Writes one record. When this returns, the record is in the file, and on the disk if the policy requires that.

        ``message`` is JSON, kept as ``compose`` describes; ``is_json``: as there. ``now``: the time of the record, with
        a time zone; None: the current time. Raises ``BadMessage`` as ``compose`` does, ``HistoryNotWritten`` if the
        record can't be written, and ValueError if the history is closed or ``now`` has no time zone. In each case, no
        part of the record is kept.
        """
        moment = datetime.now(UTC) if now is None else _aware(now).astimezone(UTC)
        with self._changing:
            if self.closed:
                raise ValueError("the history is closed")
            try:
                self._settle()
                record = compose(self.last_seq + 1, moment, direction, message, is_json=is_json)
                self._write(record)
            except OSError as error:
                raise HistoryNotWritten(
                    f"The history can't be written: {_why(error)}. It is unchanged. Fix the cause, then try again.",
                    disk_full=error.errno in _NO_ROOM,
                ) from None
        return record

    def end(self) -> None:
        """Closes the history for writing without waiting for the disk. ``close`` has to follow."""
        self.closed = True

    def close(self) -> None:
        """Closes the history for writing, and returns once everything that was written is on the disk, unless the
        policy is ``off``. Waits for the disk without a lock, so that reading can continue. Blocking."""
        with self._changing:
            if self._is_let_go:
                return
            self.closed = self._is_let_go = True
            if self._records_unsaved or self._scans_unsaved:
                self._save_index()
            written = (self._tail, self._catalogue.directory)
            self._let_go()
        for each in written:
            syncing.syncer.now(each)

    def _settle(self) -> None:
        """Opens the newest file for writing. If another program has changed it, it is read again first. If it still
        does not match the index, or has a second name, no file is open, and the next record begins a new one."""
        if self._tail is not None:
            if self._tail.undisturbed():
                return
            self._let_go()
            self._catalogue.refresh()
        for again in (True, False):
            newest = self._catalogue.segments[-1] if self._catalogue.segments else None
            if newest is None or not newest.count:
                return
            tail = Tail(self._catalogue.path(newest.name), newest)
            if tail.undisturbed():
                self._tail = tail
                self._point_to_latest(newest.name)
                return
            tail.close()
            if again:
                self._catalogue.refresh()

    def _write(self, record: Record) -> None:
        length = len(record.line) + 1
        tail = self._tail
        if tail is None or not self._fits(tail.segment, record, length):
            tail = self._begin_file(record.time)
        segment = tail.segment
        try:
            tail.write(record.line + b"\n", syncing.sync if self._fsync == "always" else None)
        except BaseException:
            if not segment.count:
                self._abandon(tail)
            raise
        self._catalogue.add(segment, record.seq, microseconds(record.time), length)
        if segment.count == 1:
            self._point_to_latest(segment.name)
        if self._fsync == "second":
            syncing.syncer.soon(tail, tail.file)
        self._records_unsaved += 1
        self._bytes_unsaved += length
        if self._records_unsaved >= CHECKPOINT_RECORDS or self._bytes_unsaved >= CHECKPOINT_BYTES:
            self._save_index()

    def _fits(self, segment: Segment, record: Record, length: int) -> bool:
        """Whether the record belongs in this file: a file contains the records of one day, without a gap in their
        numbers. A file that was not scanned yet gets no more records."""
        return (
            segment.scanned
            and segment.name != self._complete
            and segment.count < MOST_RECORDS
            and segment.size + length <= LARGEST_FILE
            and segment.day == record.time.date().isoformat()
            and segment.last_seq == self.last_seq
        )

    def _begin_file(self, moment: datetime) -> Tail:
        self._let_go()
        tail = self._tail = Tail.create(self._catalogue.directory, moment)
        try:
            self._sync_directory()
        except BaseException:
            self._abandon(tail)
            raise
        return tail

    def _sync_directory(self) -> None:
        """Syncs the directory as the policy requires, because a new file survives a power failure only once its
        directory is on the disk too."""
        if self._fsync == "off":
            return
        directory = self._catalogue.directory
        file = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if self._fsync == "always":
                syncing.sync(file)
            else:
                syncing.syncer.soon(directory, file)
        finally:
            os.close(file)

    def _abandon(self, tail: Tail) -> None:
        """Removes a new file to which no record was written."""
        self._let_go()
        remove_quietly(self._catalogue.path(tail.segment.name))

    def _let_go(self) -> None:
        if self._tail is not None:
            self._tail.close()
            self._tail = None

    def _save_index(self) -> None:
        self._catalogue.save()
        self._records_unsaved = self._bytes_unsaved = 0
        self._scans_unsaved = False

    def _point_to_latest(self, name: str) -> None:
        link = self._catalogue.path("latest.jsonl")
        temporary = f"{link}.{os.getpid()}.tmp"
        try:
            remove_quietly(temporary)
            self._symlink(name, temporary)
            os.replace(temporary, link)
        except (OSError, NotImplementedError):
            remove_quietly(temporary)
            with contextlib.suppress(NotPrivate):
                write_private(self._catalogue.path("latest.txt"), name.encode() + b"\n")

    def remove(self, ranges: Sequence[range], copy: str) -> int:
        """Replaces the records in these ranges with blank ones that keep their numbers and times. The originals are
        kept in the new file ``copy``.

        Returns the number of records in these ranges. The copy is on the disk before anything changes. Files are
        replaced one after another, so after a crash, some may not have been replaced. The next call with the same
        ranges replaces those. Blocks for as long as it takes to write the files. New records go into another file, and
        do not wait. Raises ``HistoryNotWritten`` or ``HistoryUnreadable``.
        """
        with self._changing:
            self._let_go()
            segments = list(self._catalogue.segments)
            self._complete = segments[-1].name if segments else ""
        try:
            count = self._copy(ranges, copy)
            for segment in segments:
                if any(segment.first_seq < one.stop and one.start <= segment.last_seq for one in ranges):
                    self._blank(segment.name, ranges)
        except OSError as error:
            raise HistoryNotWritten(
                f"Records can't be removed from the history: {_why(error)}. The remaining records are unchanged. "
                "Fix the cause, then try again.",
                disk_full=error.errno in _NO_ROOM,
            ) from None
        finally:
            with self._changing:
                self._save_index()
        return count

    def _copy(self, ranges: Sequence[range], copy: str) -> int:
        count = 0
        with open(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE), "wb") as file:
            for one in ranges:
                for record in itertools.takewhile(lambda record: record.seq < one.stop, self.after(one.start - 1)):  # noqa: B023 - used immediately
                    file.write(record.line + b"\n")
                    count += 1
            file.flush()
            os.fsync(file.fileno())
        return count

    def _blank(self, name: str, ranges: Sequence[range]) -> None:
        """Blanks the records in these ranges in a file to which no more records are added, by replacing the file."""
        path = self._catalogue.path(name)
        temporary = f"{path}.{os.getpid()}.tmp"
        damage: list[tuple[int, int]] = []
        try:
            new = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, PRIVATE_FILE)
            with open(open_to_read(path), "rb") as old, open(new, "wb") as file:
                for line in old:
                    record = parse(line.rstrip(b"\n"))
                    if record is not None and any(record.seq in one for one in ranges):
                        moment = record.time.astimezone(UTC)
                        line = compose(record.seq, moment, "server", BLANK, is_json=True).line + b"\n"
                    file.write(line)
                file.flush()
                os.fsync(file.fileno())
            segment = Segment(name)
            scan(temporary, segment, lambda offset, length: damage.append((offset, length)))
            with self._changing:
                if any(
                    known.name == name for known in self._catalogue.segments
                ):  # otherwise, the segment was dropped in the meantime
                    os.replace(temporary, path)
                    self._catalogue.rewritten(segment, damage)
                    self._rewritten += 1
        finally:
            remove_quietly(temporary)
        self._sync_directory()

    def drop(self, before: datetime | None, more_than: int | None) -> int:
        """Deletes the oldest files: all without a record since ``before``, and further files as long as the history is
        larger than ``more_than`` bytes. None for no limit.

        The newest file is never deleted, and numbers continue. Returns the number of deleted files. Raises
        ``HistoryNotWritten`` if one can't be deleted.
        """
        catalogue, dropped = self._catalogue, 0
        latest = None if before is None else microseconds(_aware(before))
        with self._changing:
            while len(catalogue.segments) > 1:
                old = latest is not None and catalogue.segments[0].last_time < latest
                if not old and (more_than is None or catalogue.size <= more_than):
                    break
                try:
                    catalogue.drop_first()
                except OSError as error:
                    raise HistoryNotWritten(f"An old file of the history can't be deleted: {_why(error)}.") from None
                dropped += 1
            if dropped:
                self._save_index()
        return dropped

    # Reading.

    def read(
        self,
        *,
        after_seq: int | None = None,
        before_seq: int | None = None,
        since: datetime | None = None,
        limit: int = 1_000,
        max_bytes: int | None = None,
    ) -> Page:
        """The first ``limit`` records that match all conditions; with ``before_seq`` and without ``after_seq``, the
        last ``limit`` records that match.

        ``since``: only records with a later timestamp. ``max_bytes``: the maximum size of all lines together (None: no
        limit); at least one match is returned, however large it is. Raises ``HistoryUnreadable``, and ValueError if
        ``limit`` is less than 1 or ``since`` has no time zone.
        """
        if limit < 1:
            raise ValueError("limit must be 1 or more")
        wanted = Wanted(
            after=after_seq or 0,
            before=NEVER if before_seq is None else before_seq,
            since=None if since is None else microseconds(_aware(since)),
            backward=before_seq is not None and after_seq is None,
        )
        try:
            try:
                return self._page(wanted, limit, max_bytes)
            except Stale as stale:
                self._rescan(stale.name)
                return self._page(wanted, limit, max_bytes)
        except Stale:
            raise HistoryUnreadable("The history changed while it was being read. Try again.") from None
        except OSError as error:
            raise _unreadable(error) from None

    def after(self, seq: int) -> Iterator[Record]:
        """All records after ``seq``. Only one page is in memory at a time. Raises ``HistoryUnreadable``."""
        while True:
            page = self.read(after_seq=seq, max_bytes=_READ_AT_ONCE)
            yield from page.records
            if not page.has_more:
                return
            seq = page.records[-1].seq

    def _page(self, wanted: Wanted, limit: int, max_bytes: int | None) -> Page:
        catalogue = self._catalogue
        while True:
            with self._changing:
                rewritten = self._rewritten
                segments = [*catalogue.segments[:-1], *(newest.copy() for newest in catalogue.segments[-1:])]
            try:
                page = read_page(
                    catalogue.directory, segments, wanted, limit, max_bytes, catalogue.report, self._scanned
                )
            except Stale:
                if rewritten == self._rewritten:
                    raise
            else:
                if rewritten == self._rewritten:
                    return page

    def _scanned(self, sketched: Segment) -> Segment:
        """The segment of a file with the positions of its blocks. Scans the file unless that has been done. Raises
        OSError or ``Stale``."""
        with self._scanning:  # if two threads need the same file, the second one finds that it has been scanned
            with self._changing:
                known = {segment.name: segment for segment in self._catalogue.segments}.get(sketched.name)
                if known is not None and known.scanned:
                    return known.copy()
            if known is None:
                raise Stale(sketched.name)
            found = self._catalogue.scan(known)
            with self._changing:
                self._catalogue.replace(known, found)
                self._scans_unsaved = True
                return found.copy()  # records are still added to the newest file

    def scan_next(self) -> bool:
        """Scans the newest file of which only the ends have been read so far. Its records can be read before that, too.
        Returns False if no such file is left, after saving the index if necessary, or if the history is closed.
        Blocking. Raises ``HistoryUnreadable``."""
        with self._changing:
            missing = [segment for segment in self._catalogue.segments if not segment.scanned]
            if not missing and self._scans_unsaved and not self.closed:
                self._save_index()
            if not missing or self.closed:
                return False
        try:
            try:
                self._scanned(missing[-1])
            except Stale as stale:
                self._rescan(stale.name)
        except OSError as error:
            raise _unreadable(error) from None
        return True

    def _rescan(self, name: str) -> None:
        """Reads a file again because the index does not match it."""
        with self._changing:
            self._let_go()
            self._catalogue.refresh(distrusted=name)


def _aware(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError("a time needs a time zone")
    return moment


def _unreadable(error: OSError) -> HistoryUnreadable:
    return HistoryUnreadable(
        f"The history can't be read: {_why(error)}. The files were not changed. Fix the cause, then try again."
    )


def _why(error: OSError) -> str:
    return (error.strerror or "unknown reason").lower()


async def rebuild(histories: Iterable[History]) -> None:
    """Completes the indexes of these histories. Requests for pages wait for at most one file. If a history can't be
    read, the error is logged."""
    files = 0
    for history in sorted(histories, key=lambda history: history.last_time or _EARLIEST, reverse=True):
        try:
            began = time.monotonic()
            while await asyncio.to_thread(history.scan_next):
                files += 1
                # Reading a file keeps the interpreter busy, and the server's own work comes first.
                await asyncio.sleep(time.monotonic() - began)
                began = time.monotonic()
        except HistoryUnreadable as error:
            if not history.closed:  # otherwise, the history's project was deleted in the meantime
                logger.error("%s: the index could not be built: %s", history.directory, error)
    if files:
        logger.info("rebuilt the indexes of the histories from %s", counted(files, "file"))
