"""git's index file, read without starting git.

The format is described in gitformat-index(5). Versions 2 to 4 are supported. An agent can write any index, so no length
in it is trusted.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import struct
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct

LARGEST_INDEX: Final = 64 * 1024 * 1024
"""The maximum size of an index, in bytes. It is enough for about 600,000 files. The same limit applies to the total
length of the files' paths."""

GITLINK: Final = 0o160000

SECOND: Final = 1_000_000_000
"""In nanoseconds."""

_ELSEWHERE: Final = re.compile(rb"(?:link|sdir)[\0-\x1f]")
"""The beginning of an extension that moves entries to another file, or replaces them with their directory: the
extension's name, and the first byte of its length."""

_DAMAGED: Final = (ValueError, IndexError, struct.error)
"""What ``_parsed`` raises for a damaged index."""

_SHA1_BYTES: Final = 20
_ASSUMED: Final = 0x8000
_EXTENDED: Final = 0x4000
_STAGE: Final = 0x3000
"""Bits of the flags of an entry. An entry with a stage belongs to a conflict."""

_SKIPPED: Final = 0x4000
"""A bit of the two more bytes of flags that an entry with ``_EXTENDED`` has."""

_STAT_BYTES: Final = 40
"""Bytes of an entry before the object's id: times, device, inode, mode (bytes 24 to 27), owner and size."""

_TIME_BYTES: Final = 8
"""Bytes at the beginning of an entry with the time of ``Recent.changed``: seconds and nanoseconds."""

_NEVER: Final = b"\xff" * _TIME_BYTES
"""A time after all others."""

_Flagged: TypeAlias = tuple[bytes, int, int, bytes]
"""An entry that may be marked: its path, its flags, its additional flags and, if it is recent, the bytes before the
flags."""


class Recent(NamedTuple):
    """An entry: "mode blob stage", and the time of the last change to the file or its properties when git looked at it,
    in nanoseconds. Programs can't set this time for a file, but can write any time into an index."""

    entry: str
    changed: int


class Marked(Struct, frozen=True):
    """The paths of the entries that git does not compare with the work tree: those marked assume-unchanged, and those
    marked skip-worktree. ``recent``: the entries for files as they were after a given time."""

    assumed: frozenset[str] = frozenset()
    skipped: frozenset[str] = frozenset()
    recent: Mapping[str, Recent] = {}

    def below(self, prefix: str) -> Marked:
        """The files of one directory, as in ``Index.below``."""
        if not prefix:
            return self
        return Marked(
            frozenset(path.removeprefix(prefix) for path in self.assumed if path.startswith(prefix)),
            frozenset(path.removeprefix(prefix) for path in self.skipped if path.startswith(prefix)),
            {path.removeprefix(prefix): found for path, found in self.recent.items() if path.startswith(prefix)},
        )


class Scanned(NamedTuple):
    """What one pass over an index finds: the paths of its entries, and the marked files."""

    paths: Collection[str]
    marked: Marked


class Index(Struct, frozen=True):
    """A parsed index. ``entries`` maps each path to its mode and object id. ``digest`` does not depend on the file
    times in the index, so it does not change when ``git status`` refreshes the index."""

    entries: dict[str, tuple[int, bytes]]
    digest: bytes
    marked: Marked = Marked()

    def below(self, prefix: str) -> dict[str, tuple[int, bytes]]:
        """The entries of one directory, by paths relative to it. ``prefix``: the directory's path, with a slash at its
        end; empty for the root of the work tree."""
        if not prefix:
            return self.entries
        return {path.removeprefix(prefix): entry for path, entry in self.entries.items() if path.startswith(prefix)}


NO_INDEX: Final = Index({}, b"")


def read(file: Path, id_bytes: int) -> Index | None:
    """The index in ``file``; ``NO_INDEX`` if the file does not exist. None if the index can't be read here because it
    is damaged, too large, split or sparse, or can't be opened. ``id_bytes``: the size of an object id, 20 or 32.
    Blocking."""
    try:
        data = _content(file)
        return None if data is None else _parsed(data, id_bytes)
    except FileNotFoundError:
        return NO_INDEX
    except _DAMAGED:
        return None


def is_damaged(file: Path, id_bytes: int) -> bool:
    """Whether the index in ``file`` is damaged. git itself does not compare the checksum, and may read a damaged index
    without an error. False if the file does not exist, can't be opened or is too large. ``id_bytes``: as in ``read``.
    Blocking."""
    try:
        data = _content(file)
    except FileNotFoundError:
        return False
    if data is None:
        return False
    checksum = data[-id_bytes:]
    if any(checksum):
        made = hashlib.sha1 if id_bytes == _SHA1_BYTES else hashlib.sha256
        return made(memoryview(data)[:-id_bytes], usedforsecurity=False).digest() != checksum
    try:  # git's setting index.skipHash leaves out the checksum
        _parsed(data, id_bytes)
    except _DAMAGED:
        return True
    return False


def scan(file: Path, id_bytes: int, since: int | None = None) -> Scanned | None:
    """The paths of the entries and the marked files, as in ``read``, several times as fast. ``since``: the time for
    ``Marked.recent``, in nanoseconds; None for no such entries. None if ``read`` returns None. Blocking."""
    time = _NEVER if since is None else struct.pack(">II", *divmod(since, SECOND))
    try:
        data = _content(file)
        if data is None:
            return None
        if data[:4] != b"DIRC" or int.from_bytes(data[4:8], "big") not in (2, 3):
            index = _parsed(data, id_bytes, time)
            return None if index is None else Scanned(index.entries.keys(), index.marked)
        return _scanned(data, id_bytes, time)
    except FileNotFoundError:
        return Scanned((), Marked())
    except _DAMAGED:
        return None


def _scanned(data: bytes, id_bytes: int, since: bytes) -> Scanned | None:
    """What ``scan`` returns for an index of version 2 or 3. ``since``: as in ``_parsed``. Raises one of ``_DAMAGED`` if
    the index is damaged."""
    found: list[bytes] = []
    flagged: list[_Flagged] = []
    at, flags = 12, _STAT_BYTES + id_bytes
    for _ in range(int.from_bytes(data[8:12], "big")):
        first = data[at + flags]
        start = at + flags + (4 if first & _EXTENDED >> 8 else 2)
        end = data.index(b"\0", start)
        found.append(data[start:end])
        is_recent = data[at : at + _TIME_BYTES] >= since
        if is_recent or first & (_ASSUMED | _EXTENDED) >> 8:
            more = int.from_bytes(data[at + flags + 2 : start], "big")
            flagged.append((data[start:end], first << 8, more, data[at : at + flags] if is_recent else b""))
        at += (end - at + 8) // 8 * 8
    if not _has_known_extensions(data, at, id_bytes):
        return None
    every = set(b"\0".join(found).decode("utf-8", "surrogateescape").split("\0")) if found else ()
    return Scanned(every, _marked(flagged))


def _marked(flagged: Iterable[_Flagged]) -> Marked:
    """The marked files."""
    alone = [
        (path.decode("utf-8", "surrogateescape"), flags, more, fixed)
        for path, flags, more, fixed in flagged
        if not flags & _STAGE
    ]
    return Marked(
        frozenset(path for path, flags, _, _ in alone if flags & _ASSUMED),
        frozenset(path for path, _, more, _ in alone if more & _SKIPPED),
        {path: _recent(fixed) for path, _, _, fixed in alone if fixed},
    )


def _recent(fixed: bytes) -> Recent:
    """An entry. ``fixed``: its bytes before the flags."""
    seconds, nanoseconds, mode = struct.unpack_from(">II16xI", fixed)
    return Recent(f"{mode:o} {fixed[_STAT_BYTES:].hex()} 0", seconds * SECOND + nanoseconds)


def _content(file: Path) -> bytes | None:
    """The bytes of an index; None if the file can't be opened, is not a regular file or is too large. Raises
    ``FileNotFoundError``."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as opened:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST_INDEX:
            return None
        return opened.read(LARGEST_INDEX)


def may_have_repositories(file: Path) -> bool:
    """Whether the index could have an entry with the mode ``GITLINK``, in this file or, if the index is split or
    sparse, elsewhere. Much faster than ``read``. Blocking. Raises OSError."""
    data = file.read_bytes()
    return GITLINK.to_bytes(4, "big") in data or _ELSEWHERE.search(data) is not None


def _parsed(data: bytes, id_bytes: int, since: bytes = _NEVER) -> Index | None:
    """Parses an index; None if it is of a kind that only git can read. ``since``: the time for ``Marked.recent``, in the
    form that it has in an entry. Raises one of ``_DAMAGED`` unless the index is complete."""
    version = int.from_bytes(data[4:8], "big")
    if data[:4] != b"DIRC" or len(data) < 12 + id_bytes:
        raise ValueError("not an index")
    if version not in (2, 3, 4):
        return None
    entries: dict[str, tuple[int, bytes]] = {}
    digest = hashlib.blake2b()
    # One call for the fixed part of an entry, because this loop takes most of the Python time of a checkpoint of a
    # large repository.
    fixed = struct.Struct(f">24xI12x{id_bytes}sH").unpack_from
    flagged: list[_Flagged] = []
    at, name, room = 12, b"", LARGEST_INDEX
    for _ in range(int.from_bytes(data[8:12], "big")):
        start, after_id = at, at + _STAT_BYTES + id_bytes
        mode, object_id, flags = fixed(data, start)
        at = after_id + (4 if flags & _EXTENDED else 2)
        kept = 0
        if version == 4:
            dropped, at = _variable_length(data, at)
            kept = len(name) - dropped
            if kept < 0:
                raise ValueError("the length of a path is negative")
        flags_end, end = at, data.index(b"\0", at)
        # An entry of version 4 can repeat a path of any length in a few bytes.
        room -= kept + end - at
        if room < 0:
            return None
        name = name[:kept] + data[at:end]
        at = end + 1 if version == 4 else start + (end - start + 8) // 8 * 8
        # The low bits of the flags contain the length of the path.
        digest.update(b"%d %b%b\0" % (mode, data[start + _STAT_BYTES : flags_end], name))
        entries[name.decode("utf-8", "surrogateescape")] = (mode, object_id)
        is_recent = data[start : start + _TIME_BYTES] >= since
        if is_recent or flags & (_ASSUMED | _EXTENDED):
            more = int.from_bytes(data[after_id + 2 : after_id + 4], "big") if flags & _EXTENDED else 0
            flagged.append((name, flags, more, data[start:after_id] if is_recent else b""))
    if not _has_known_extensions(data, at, id_bytes):
        return None
    return Index(entries, digest.digest(), _marked(flagged))


def _variable_length(data: bytes, at: int) -> tuple[int, int]:
    """Reads a number in git's "offset encoding". Returns the number and the position after it."""
    byte = data[at]
    value = byte & 0x7F
    while byte & 0x80:
        at += 1
        byte = data[at]
        value = (value + 1 << 7) | byte & 0x7F
    return value, at + 1


def _has_known_extensions(data: bytes, at: int, id_bytes: int) -> bool:
    """Whether the name of each extension begins with an uppercase letter. Any other extension may change which files
    the index contains. Raises ``ValueError`` for an index that is truncated or damaged."""
    is_known = True
    while at < len(data) - id_bytes:
        if not data[at : at + 1].isalpha():
            raise ValueError("not the name of an extension")
        is_known = is_known and 65 <= data[at] <= 90
        at += 8 + int.from_bytes(data[at + 4 : at + 8], "big")
    if at != len(data) - id_bytes:
        raise ValueError("the index is truncated")
    return is_known
