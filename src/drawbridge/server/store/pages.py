"""Reading a history: a page of records, found by the index and read from where they are."""

from __future__ import annotations

import contextlib
import functools
import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Generator, Sequence
from typing import Final

from msgspec import Struct

from drawbridge.server.store.lines import Record, microseconds
from drawbridge.server.store.segments import Segment, Stale, open_to_read, read_block

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
