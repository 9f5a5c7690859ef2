"""Files and their names: reads a file as text, either exactly or not at all, and converts paths and ``file:`` URIs."""

from __future__ import annotations

import errno
import os
import re
import stat
from typing import Final, NoReturn
from urllib.parse import quote_from_bytes, unquote_to_bytes

from drawbridge.core.errors import UnusableFile

FILE_LIMIT: Final = 16 * 1024 * 1024
"""The maximum size of text that is read or shown, in bytes. Agents and editors become slow long before that."""

HEAD: Final = 8192
"""The number of bytes at the start of a file in which ``check_text_file`` looks for a NUL byte. ``git`` looks in the
first 8,000."""

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def read_text(path: str, limit: int = FILE_LIMIT) -> str | None:
    """The whole file, exactly. Line endings are not converted, and a byte-order mark is U+FEFF. None if the file does
    not exist.

    Raises ``UnusableFile`` if it is not a regular file (in which case it is not opened, since a pipe could block),
    can't be read, is binary (contains a NUL byte), is not UTF-8 or has more than ``limit`` bytes.
    """
    content = _read(path, limit, limit)
    if content is None:
        return None
    _refuse_binary(path, content)
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UnusableFile(f"{_shown(path)} is not UTF-8 text (line {line}).") from None


def check_text_file(path: str, limit: int = FILE_LIMIT) -> None:
    """Raises ``UnusableFile`` if the file does not exist or an editor can't show it, judging by its type, its size and
    its first bytes alone."""
    head = _read(path, limit, HEAD)
    if head is None:
        raise UnusableFile(f"{_shown(path)} does not exist.")
    _refuse_binary(path, head)


def absolute(path: str, folder: str) -> str:
    """``path`` resolved against ``folder``, without "." and "..". "~" is an ordinary name. Raises ``UnusableFile`` if
    ``path`` is empty.
    """
    if not path:
        raise UnusableFile("The path is empty.")
    joined = os.path.normpath(os.path.join(folder, path))
    return joined[1:] if joined.startswith("//") else joined


def to_uri(path: str) -> str:
    """The ``file:`` URI of an absolute path, percent-encoded as RFC 3986 requires."""
    return "file://" + quote_from_bytes(os.fsencode(path), safe="/!$&'()*+,;=:@~")


def from_uri(uri_or_path: str) -> str:
    """The path in a ``file:`` URI. Text that is not a URI is returned unchanged. Raises ``UnusableFile`` for another
    scheme or host.

    "?" and "#" are part of the path: the real ``claude`` 2.1.329 puts "file://" in front of a path and encodes nothing.
    For the same reason a name with a percent sign is not decoded if only the file with the undecoded name exists.
    """
    scheme, rest = _scheme(uri_or_path)
    if scheme is None:
        return uri_or_path
    if scheme != "file":
        raise UnusableFile(f"{_shown(uri_or_path)} is not a file: URI. Give a path, or a URI with file://.")
    if rest.startswith("//"):
        host, slash, rest = rest[2:].partition("/")
        rest = slash + rest
        if host not in ("", "localhost"):
            raise UnusableFile(f"{_shown(uri_or_path)} names a file on another machine. Use file:///path.")
    path = os.fsdecode(unquote_to_bytes(rest))
    if path != rest and "\0" not in path and not os.path.lexists(path) and os.path.lexists(rest):
        return rest
    return path


def _scheme(text: str) -> tuple[str | None, str]:
    """The scheme in lower case (None if ``text`` has none), and the rest. A scheme is followed by "://", ``file`` also
    by ":/" alone. "notes: a.txt" is a path.
    """
    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):(?=//)|(file):(?=/)", text, re.IGNORECASE)
    return (match[0][:-1].lower(), text[match.end() :]) if match else (None, text)


def _read(path: str, limit: int, size: int) -> bytes | None:
    """The first ``size`` bytes of a regular file that has at most ``limit`` bytes; None if it does not exist.
    Raises ``UnusableFile`` for any other file."""
    try:
        _refuse_special(path, os.stat(path))
        # Between the check and the open the file may become a pipe, and its other end must not be waited for.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            _refuse_special(path, status)
            # Files in /proc report size 0, and a log may grow in the meantime, so the bytes that were read count, too.
            expected = min(status.st_size, size) + 1  # Python allocates this much memory before it reads
            content = file.read(expected)
            if len(content) == expected <= size:
                content += file.read(size + 1 - expected)
            if max(status.st_size, len(content)) > limit:
                raise UnusableFile(f"{_shown(path)} is too large: it has more than {limit:,} bytes.")
            return content[:size]
    except FileNotFoundError:
        return None
    except OSError as error:
        _refuse_unreadable(path, error)
    except ValueError:
        raise UnusableFile(f"{_shown(path)} is not a valid file name.") from None


def _refuse_special(path: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "not a regular file")
        raise UnusableFile(f"{_shown(path)} is {kind}.")


def _refuse_unreadable(path: str, error: OSError) -> NoReturn:
    if error.errno in (errno.EACCES, errno.EPERM):
        raise UnusableFile(f"You have no permission to read {_shown(path)}.") from None
    if error.errno == errno.ENOTDIR:
        raise UnusableFile(f"A part of {_shown(path)} is a file, not a directory.") from None
    raise UnusableFile(f"{_shown(path)} can't be read: {(error.strerror or str(error)).lower()}.") from None


def _refuse_binary(path: str, content: bytes) -> None:
    if b"\0" in content:
        raise UnusableFile(f"{_shown(path)} is binary (it contains NUL bytes).")


def _shown(path: str) -> str:
    """The name as valid Unicode, for a message. Bytes that are not UTF-8 are escaped."""
    return path.encode("utf-8", "backslashreplace").decode()


_LANGUAGES: Final = {
    "c": "c",
    "cc": "cpp",
    "cpp": "cpp",
    "cs": "csharp",
    "h": "c",
    "hpp": "cpp",
    "js": "javascript",
    "jsx": "javascriptreact",
    "kt": "kotlin",
    "md": "markdown",
    "mjs": "javascript",
    "pl": "perl",
    "py": "python",
    "rb": "ruby",
    "rs": "rust",
    "sh": "shellscript",
    "ts": "typescript",
    "tsx": "typescriptreact",
    "txt": "plaintext",
    "yml": "yaml",
}


def language(path: str) -> str:
    """The Language Server Protocol's identifier for a file's language, judged by the suffix alone. A suffix that is not
    in the table is returned in lower case. Without a suffix, "plaintext" is returned."""
    suffix = os.path.splitext(path)[1][1:].lower()
    return _LANGUAGES.get(suffix, suffix or "plaintext")
