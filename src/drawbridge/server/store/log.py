"""The history of one session: every message once, numbered, and on disk before it is published; and reading it by pages.

A directory of files of one JSON line a record (``lines``), with an index beside them (``index``). A file ends at midnight UTC,
at 100 MB or at 10,000 messages; none is made before there is something to write. ``latest.jsonl`` is a link to the newest;
where links can't be made, ``latest.txt`` contains its name.

A record's number (``seq``) is one more than that of the record before, for as long as the directory exists, and
never used again. One process at a time writes: the server locks its data directory.

What is with the kernel survives any death of the server, ``kill -9`` included. The policies are about a power cut or a crash of
the kernel:

- ``always``: a record is on the disk before ``append`` returns. The event loop waits for the disk.
- ``second`` (default): at most a second later, from a thread; a power cut takes the last second at most.
- ``off``: when the kernel writes it, usually within half a minute.

docs/internals/benchmarks.md has the cost of each.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import logging
import os
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from drawbridge.core.errors import HistoryNotWritten, HistoryUnreadable, NotPrivate
from drawbridge.core.private_files import PRIVATE_FILE, make_private_directory, remove_quietly, write_private
from drawbridge.server.store.index import APPEND, Catalogue, Damage, Segment, Stale, lock, open_to_read, read_block
from drawbridge.server.store.lines import Direction, Record, compose, from_microseconds, microseconds
from drawbridge.text.counts import counted

logger = logging.getLogger(__name__)

__all__ = ["Damage", "Direction", "FsyncPolicy", "History", "Page", "Record"]

LARGEST_FILE: Final = 100 * 1024 * 1024
MOST_RECORDS: Final = 10_000
CHECKPOINT_RECORDS: Final = 1_000
CHECKPOINT_BYTES: Final = 8 * 1024 * 1024
"""After so many the index is saved: it is what a start after a crash has to read again."""

_READ_AT_ONCE: Final = 8 * 1024 * 1024
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_EARLIEST = datetime.min.replace(tzinfo=UTC)

sync: Final[Callable[[int], None]] = getattr(os, "fdatasync", os.fsync)
"""Returns when what was written to a file descriptor is on the disk itself."""

NEVER: Final = 2**63
"""A number that no record reaches."""


class Page(Struct, frozen=True):
    """``records`` ascend. ``has_more``: further ones match, after the last, or before the first where one reads back."""

    records: tuple[Record, ...]
    has_more: bool


class Wanted(Struct, frozen=True):
    """``after`` < seq < ``before``, and written after ``since`` (microseconds since 1970)."""

    after: int
    before: int
    since: int | None
    backward: bool

    def blocks(self, segment: Segment) -> Sequence[int]:
        """Those of a file that may have a match, in the order of reading."""
        if not self.touches(segment):
            return ()
        first = max(0, bisect_right(segment.block_seqs, self.after + 1) - 1)
        found: Sequence[int] = range(first, bisect_left(segment.block_seqs, self.before))
        if self.since is not None:
            found = [block for block in found if segment.block_times[block] > self.since]
        return found[::-1] if self.backward else found

    def touches(self, segment: Segment) -> bool:
        """Whether the file may have a match by its numbers."""
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
    """At most ``limit`` records and ``max_bytes`` of lines, but one record at least. Raises ``Stale`` or OSError.

    ``scanned``: a file that is only known by its ends, as far as one has to be read.
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
        """Opens it; ``BlockingIOError`` if another process has it open. What it has beyond ``segment.size`` was not written
        by this process."""
        self.segment = segment
        self.file = os.open(path, APPEND | flags, PRIVATE_FILE)
        try:
            lock(self.file)
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


class History:
    """Open one with ``History.open``. Its methods may be called from any thread: none waits for a page to be read.

    It holds one file open once something was appended, none before that.
    """

    def __init__(self, catalogue: Catalogue, fsync: FsyncPolicy, symlink: Callable[[str, str], None]) -> None:
        self._catalogue = catalogue
        self._fsync: FsyncPolicy = fsync
        self._symlink = symlink
        self._changing = threading.RLock()
        self._scanning = threading.Lock()
        self._tail: Tail | None = None
        self.closed = False
        """Closes it for writing; reading continues to work."""
        self._records_unsaved = self._bytes_unsaved = 0
        self._scans_unsaved = False

    @classmethod
    def open(
        cls,
        directory: str | os.PathLike[str],
        *,
        fsync: FsyncPolicy = DEFAULT_FSYNC,
        symlink: Callable[[str, str], None] = os.symlink,
    ) -> History:
        """The history in ``directory``, which is created if it is missing, and kept private.

        A torn last line, left by a crash, is cut. Raises ``NotPrivate`` or ``HistoryUnreadable``. ``fsync``: see
        the module. ``symlink`` raises OSError or NotImplementedError on a file system without links.
        """
        path = os.path.abspath(directory)
        if os.path.islink(path):
            raise NotPrivate(f"{path} is a symbolic link. A history needs a directory of its own. Nothing was written.")
        make_private_directory(path)
        try:
            return cls(Catalogue(path), fsync, symlink)
        except OSError as error:
            raise _unreadable(error) from None

    @property
    def last_seq(self) -> int:
        """The number of the last record; 0 before the first."""
        return self._catalogue.last_seq

    @property
    def count(self) -> int:
        """How many records there are."""
        return self._catalogue.count

    @property
    def first_seq(self) -> int:
        """The number of the first record that is left; 1 before there is any."""
        first = next((segment for segment in self._catalogue.segments if segment.count), None)
        return first.first_seq if first else self.last_seq + 1

    @property
    def size(self) -> int:
        """Bytes of all records."""
        return self._catalogue.size

    @property
    def first_time(self) -> datetime | None:
        """When the first record was written, by the clock of then (UTC)."""
        first = next((segment for segment in self._catalogue.segments if segment.count), None)
        return from_microseconds(first.first_time) if first else None

    @property
    def last_time(self) -> datetime | None:
        """When the last record was written."""
        last = next((segment for segment in reversed(self._catalogue.segments) if segment.count), None)
        return from_microseconds(last.last_time) if last else None

    @property
    def damage(self) -> tuple[Damage, ...]:
        """The damage that was found so far, at most 100 places."""
        return tuple(self._catalogue.damage.values())

    # Writing.

    def append(
        self, direction: Direction, message: bytes, now: datetime | None = None, *, is_json: bool = False
    ) -> Record:
        """Writes one record; it is in the file, and on the disk as the policy has it, when this returns.

        ``message`` is JSON, kept byte for byte; ``is_json``: the caller has parsed it, so it is not decoded here. Raises
        ``BadMessage`` where it is not JSON, ``HistoryNotWritten`` where it can't be written. Either way nothing of it is kept,
        and the next call tries again.
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
                    f"The message could not be written into the project's history: {_why(error)}. No part of it was "
                    "stored; the history is unchanged. Fix the cause; the next message is written again.",
                    disk_full=error.errno in _NO_ROOM,
                ) from None
        return record

    def close(self) -> None:
        """Closes it for writing, and returns once what was written is on the disk, unless the policy is ``off``. Waits for the
        disk without a lock, so that reading can continue. Blocking."""
        with self._changing:
            if self.closed:
                return
            self.closed = True
            if self._records_unsaved or self._scans_unsaved:
                self._save_index()
            written = (self._tail, self._catalogue.directory)
            self._let_go()
        for each in written:
            syncer.now(each)

    def _settle(self) -> None:
        """The newest file is open, and as it was left. Where that can't be had none is, and a new one will be made."""
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
            tail.write(record.line + b"\n", sync if self._fsync == "always" else None)
        except BaseException:
            if not segment.count:
                self._abandon(tail)
            raise
        self._catalogue.add(segment, record.seq, microseconds(record.time), length)
        if segment.count == 1:
            self._point_to_latest(segment.name)
        if self._fsync == "second":
            syncer.soon(tail, tail.file)
        self._records_unsaved += 1
        self._bytes_unsaved += length
        if self._records_unsaved >= CHECKPOINT_RECORDS or self._bytes_unsaved >= CHECKPOINT_BYTES:
            self._save_index()

    def _fits(self, segment: Segment, record: Record, length: int) -> bool:
        """A file has records of one day, and their numbers have no gap. One that is not scanned yet gets no more."""
        return (
            segment.scanned
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
        """A new file survives a power cut only once its directory is on the disk too."""
        if self._fsync == "off":
            return
        directory = self._catalogue.directory
        file = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if self._fsync == "always":
                sync(file)
            else:
                syncer.soon(directory, file)
        finally:
            os.close(file)

    def _abandon(self, tail: Tail) -> None:
        """No record has got into this file."""
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

    def drop(self, before: datetime | None, more_than: int | None) -> int:
        """Drops the oldest files: those with no record since ``before``, and while there are more bytes than ``more_than``.

        Never the newest. Numbers continue. Returns how many were dropped; raises ``HistoryNotWritten`` if one can't be dropped.
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
                    raise HistoryNotWritten(
                        f"An old file of the project's history can't be removed: {_why(error)}. It is unchanged."
                    ) from None
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
        """The first ``limit`` records that match all that is given; with ``before_seq`` and no ``after_seq`` the last ones.

        ``since``: written after that moment, by the clock of then. ``max_bytes``: of the lines in sum; one record is given
        all the same. Raises ``HistoryUnreadable``.
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
            raise HistoryUnreadable("The project's history changed while it was read. Try again.") from None
        except OSError as error:
            raise _unreadable(error) from None

    def after(self, seq: int) -> Iterator[Record]:
        """All records behind ``seq``, a page in memory at a time."""
        while True:
            page = self.read(after_seq=seq, max_bytes=_READ_AT_ONCE)
            yield from page.records
            if not page.has_more:
                return
            seq = page.records[-1].seq

    def _page(self, wanted: Wanted, limit: int, max_bytes: int | None) -> Page:
        catalogue = self._catalogue
        with self._changing:
            segments = [*catalogue.segments[:-1], *(newest.copy() for newest in catalogue.segments[-1:])]
        return read_page(catalogue.directory, segments, wanted, limit, max_bytes, catalogue.report, self._scanned)

    def _scanned(self, sketched: Segment) -> Segment:
        """A file with the places of its records. Raises OSError or ``Stale``."""
        with self._scanning:  # two that want the same file: the second one finds it scanned
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
                return found.copy()  # the newest file grows

    def scan_next(self) -> bool:
        """Reads the newest of the files that are only known by their ends; what is in them can be read before, too. False where
        there is none any more; the index is saved then. Blocking; raises ``HistoryUnreadable``."""
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
        """The index is wrong about a file."""
        with self._changing:
            self._let_go()
            self._catalogue.refresh(distrusted=name)


def _aware(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError("a time needs a time zone")
    return moment


def _unreadable(error: OSError) -> HistoryUnreadable:
    return HistoryUnreadable(
        f"The project's history can't be read: {_why(error)}. It was left as it is. Fix the cause and try again."
    )


def _why(error: OSError) -> str:
    return (error.strerror or "unknown reason").lower()


async def rebuild(histories: Iterable[History]) -> None:
    """Returns when all of them know where their records are. Requests for a page meanwhile do not wait for this."""
    files = 0
    for history in sorted(histories, key=lambda history: history.last_time or _EARLIEST, reverse=True):
        try:
            began = time.monotonic()
            while await asyncio.to_thread(history.scan_next):
                files += 1
                # Reading a file keeps the interpreter busy: the server's own work comes first.
                await asyncio.sleep(time.monotonic() - began)
                began = time.monotonic()
        except HistoryUnreadable as error:
            if not history.closed:  # else its project was deleted meanwhile
                logger.error("an index could not be built: %s", error)
    if files:
        logger.info("rebuilt the indexes of the histories from %s", counted(files, "file"))
