"""Files as text, paths and file URIs. Reads, never writes."""

from __future__ import annotations

import os
import stat
from typing import Final
from urllib.parse import quote_from_bytes, unquote_to_bytes

from drawbridge.errors import CallerError, UnusableFile

FILE_LIMIT: Final = 16 * 1024 * 1024
"""Bytes of a text that is shown or proposed."""

_HEAD: Final = 8_192
"""Bytes that are looked at to tell text from binary, as git does."""


def read_text(path: str, limit: int = FILE_LIMIT) -> str | None:
    """The whole text, byte for byte (a byte-order mark is U+FEFF); None where nothing is.

    Raises ``UnusableFile`` for a directory, a special file, and what is unreadable, binary, not UTF-8 or over ``limit``.
    """
    file = _open(path, limit)
    if file is None:
        return None
    with open(file, "rb") as stream:
        data = stream.read(limit + 1)
    if len(data) > limit:
        raise _too_large(path, len(data), limit)
    if b"\0" in data:
        raise _binary(path)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UnusableFile(f"{path} is not UTF-8 text (byte {error.start:,}). Nothing was opened.") from None


def check_text_file(path: str, limit: int = FILE_LIMIT) -> None:
    """Raises ``UnusableFile`` where ``read_text`` would, or nothing is there; looks at the beginning of the text only."""
    file = _open(path, limit)
    if file is None:
        raise UnusableFile(f"{path} does not exist. Nothing was opened.")
    with open(file, "rb") as stream:
        if b"\0" in stream.read(_HEAD):
            raise _binary(path)


def absolute(path: str, folder: str) -> str:
    """``path`` taken from ``folder`` where it is relative; ``.`` and ``..`` are resolved by name, links are not followed."""
    return os.path.normpath(os.path.join(folder, path))


def to_uri(path: str) -> str:
    """``file:///…`` of an absolute path; every byte that a URI can't hold is percent-encoded."""
    return "file://" + quote_from_bytes(os.fsencode(path), safe="/-._~")


def from_uri(uri_or_path: str) -> str:
    """The path of a ``file:`` URI of this machine; a plain path is itself. Raises ``CallerError`` for another scheme."""
    scheme, separator, rest = uri_or_path.partition("://")
    if not separator or "/" in scheme:
        return uri_or_path
    host, slash, path = rest.partition("/")
    if scheme.lower() != "file" or host.lower() not in ("", "localhost"):
        raise CallerError(f"{uri_or_path} is no file of this machine. Nothing was opened.")
    return os.fsdecode(unquote_to_bytes(slash + path))


def _open(path: str, limit: int) -> int | None:
    """A descriptor of a regular file that is not too large; never blocks, also not on a pipe that nobody writes to."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "no valid path"
        raise UnusableFile(f"{path} can't be read: {reason.lower()}. Nothing was opened.") from None
    found = os.fstat(file)
    problem: UnusableFile | None = None
    if stat.S_ISDIR(found.st_mode):
        problem = UnusableFile(f"{path} is a directory. Nothing was opened.")
    elif not stat.S_ISREG(found.st_mode):
        problem = UnusableFile(f"{path} is no regular file. Nothing was opened.")
    elif found.st_size > limit:
        problem = _too_large(path, found.st_size, limit)
    if problem is not None:
        os.close(file)
        raise problem
    return file


def _too_large(path: str, size: int, limit: int) -> UnusableFile:
    return UnusableFile(f"{path} has {size:,} bytes; files up to {limit:,} are opened. Nothing was opened.")


def _binary(path: str) -> UnusableFile:
    return UnusableFile(f"{path} is binary. Nothing was opened.")
