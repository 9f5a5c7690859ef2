"""What is known of a history's files; kept beside them too, so that opening a history need not read it.

The saved index saves time and nothing else: it has a checksum, it is compared with the files, and it is rebuilt from
them if it does not match. Only the last number given out is in it alone, should the record itself be gone.
"""

from __future__ import annotations

import contextlib
import logging
import os
import zlib
from functools import partial
from typing import Final

import msgspec
from msgspec import Raw, Struct

from drawbridge.core.errors import NotPrivate
from drawbridge.core.private_files import remove_quietly, write_private
from drawbridge.server.store.segments import NAME, Segment, Stale, open_to_read, scan, sketch
from drawbridge.text.counts import counted

FILE: Final = "index.json"

SCANNED_AT_OPENING: Final = 256 * 1024
"""Bytes up to which a file that is not in the index is read when its history is opened: a few milliseconds. Of a larger one
only the ends are read then."""

_VERSION: Final = 1
_DAMAGE_KEPT: Final = 100

logger = logging.getLogger(__name__)


class Index(Struct):
    """``last_seq``: the last number given out, also where its record is damaged or gone by now."""

    last_seq: int = 0
    segments: list[Segment] = []


class _File(Struct):
    version: int
    crc32: int
    content: Raw


_file: Final = msgspec.json.Decoder(_File)
_content: Final = msgspec.json.Decoder(Index)


def load(directory: str) -> Index:
    """An empty one where there is none, or none that can be trusted."""
    with contextlib.suppress(OSError, msgspec.DecodeError, RecursionError):
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
    """Where it can't be written the next one will do."""
    content = msgspec.json.encode(index)
    data = msgspec.json.encode(_File(_VERSION, zlib.crc32(content), Raw(content)))
    with contextlib.suppress(NotPrivate):
        write_private(os.path.join(directory, FILE), data + b"\n")


class Damage(Struct, frozen=True):
    """A stretch of a file that holds no record. It is left as it is and skipped."""

    file: str
    offset: int
    length: int


class Catalogue:
    """The files of one directory, in the order of their records' numbers."""

    def __init__(self, directory: str) -> None:
        """Raises OSError where the directory or a file that has to be read can't be."""
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
        """A record was written at the end of ``segment``: of the newest, or of a new one."""
        if not segment.count:
            self.segments.append(segment)
        segment.add(seq, time, segment.size, length)
        self.last_seq = seq
        self.count += 1
        self.size += length

    def drop_first(self) -> None:
        """The file with the lowest numbers. Raises OSError; nothing has changed then."""
        first = self.segments[0]
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path(first.name))
        self.segments = self.segments[1:]
        self.count -= first.count
        self.size -= first.size

    def save(self) -> None:
        save(self.directory, Index(self.last_seq, [segment for segment in self.segments if segment.scanned]))

    def scan(self, segment: Segment) -> Segment:
        """A file that was only known by its ends. Raises OSError, and ``Stale`` where it is not as it was."""
        found = Segment(segment.name)
        scan(self.path(segment.name), found, partial(self.report, segment.name))
        if found.size != segment.size:
            raise Stale(segment.name)
        return found

    def replace(self, sketched: Segment, scanned: Segment) -> None:
        """``scanned`` is known by now; the other threads' ``sketched`` is not changed."""
        self.segments = [scanned if segment is sketched else segment for segment in self.segments]
        self.count = sum(segment.count for segment in self.segments)

    def refresh(self, distrusted: str | None = None) -> None:
        """Looks again at what files there are; ``distrusted`` is read from its start. None of them may be written meanwhile.

        ``Segment`` objects that others hold are not changed.
        """
        kept = [segment for segment in self.segments if segment.name != distrusted]
        self._compare(Index(self.last_seq, kept))

    def _compare(self, index: Index, *, opening: bool = False) -> None:
        known = {segment.name: segment for segment in index.segments}
        sizes = self._files()
        ours = not sizes or not known or not known.keys().isdisjoint(sizes)  # else it is another directory's index
        last_seq = index.last_seq if ours else 0
        unplaced = 0  # damaged lines in files without any other: their numbers are not to be used again
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
        """A large file that is not in the index, by its ends."""
        if not opening or size <= SCANNED_AT_OPENING:
            return None
        return sketch(self.path(name), name, size)

    def _read(self, known: Segment, size: int) -> tuple[Segment, int]:
        """The file with what is new in it, or all of it where it is not only longer; and what ``scan`` returns."""
        path, report = self.path(known.name), partial(self.report, known.name)
        with contextlib.suppress(Stale):
            if known.scanned and known.size < size:
                segment = known.copy()
                return segment, scan(path, segment, report)
        segment = Segment(known.name)
        return segment, scan(path, segment, report)

    def _files(self) -> dict[str, int]:
        """Names and sizes of the files that hold records."""
        found = {}
        with os.scandir(self.directory) as entries:
            for entry in entries:
                if not NAME.fullmatch(entry.name):
                    if entry.name.endswith(".tmp"):
                        remove_quietly(entry.path)  # the server died while it wrote its index or link
                    continue
                if not entry.is_file(follow_symlinks=False):
                    logger.warning("%s: %s is not a file and was left alone", self.directory, entry.name)
                elif size := entry.stat(follow_symlinks=False).st_size:
                    found[entry.name] = size
                else:
                    remove_quietly(entry.path)  # the server died between making it and writing into it
        return found

    def _in_order(self, segments: list[Segment]) -> list[Segment]:
        """Without files that repeat what another has, a copy that a person made for example."""
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
                "%s: skipped %s at %d that are not a record of this history; nothing was removed",
                self.path(name), counted(length, "byte"), offset,
            )  # fmt: skip
