"""The files of a project, as clients may see them: one directory, or the content of one file, never outside the
project.

A client may have a scope that only allows reading, so a path is opened part by part, each relative to the directory
before it, and no part may be a symbolic link. Links in a client's path are resolved beforehand, and the target must be
inside the project too. The following are neither listed nor read: what the privacy list names, git's own files (a URL
in them may contain a password), hidden files and directories directly in the home directory, and the server's own data.

The functions block, but creating a ``Project`` is cheap.
"""

from __future__ import annotations

import errno
import functools
import os
import secrets
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import Struct

from drawbridge.core.privacy import Privacy
from drawbridge.editors.files import language
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.messages import FRAME_BYTES, Truncated
from drawbridge.server.protocol.replies import FileContent, FileEntry

LARGEST_TEXT: Final = 2 * 1024 * 1024
LARGEST_IMAGE: Final = 10 * 1024 * 1024
"""The largest text and the largest image that are read, in bytes."""

LARGEST_SHOWN: Final = FRAME_BYTES * 3 // 4
"""The largest text in a reply, in bytes as JSON. The reply contains only the beginning of a larger one."""

BEGINNING: Final = 100_000
"""The number of characters to which a text that is too large for a reply is shortened. Each character takes at most six
bytes in JSON."""

MOST_ENTRIES: Final = 1_000
"""The maximum number of entries of one directory in a reply."""

MOST_SCANNED: Final = 20_000
"""The maximum number of entries of one directory that are examined."""

GIT: Final = ".git"

SHOWN: Final = "shown"
COMPARED: Final = "compared with the last commit"

PREFIX: Final = "file:"
"""The prefix of blob ids that stand for a project's files. No client can upload a blob with such an id."""

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

_SIGNATURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"\x00\x00\x01\x00", "image/x-icon"),
)

_BMP_HEADERS: Final = frozenset({12, 16, 40, 52, 56, 64, 108, 124})
"""The sizes of the second header of a bitmap. They are checked because texts can also begin with a bitmap's signature,
"BM"."""

Version = tuple[int, int, int, int]


class Source(Struct, frozen=True):
    """One file of a project in one version. Its bytes can be read again later."""

    parts: tuple[str, ...]
    version: Version
    size: int


class Project(Struct, frozen=True):
    """The directory of a project. ``root``: its canonical path. ``data``: the canonical path of the server's data."""

    root: Path
    data: Path
    privacy: Privacy

    def hides(self, parts: Sequence[str]) -> bool:
        """Whether a path in the project, or a directory on the way to it, is hidden from clients."""
        return not all(self.shows("/".join(parts[:index]), part) for index, part in enumerate(parts))

    def shows(self, folder: str, name: str) -> bool:
        """Whether clients may see ``name`` in ``folder`` (relative, "" for the project), if they may see the folder."""
        inside = os.path.join(self.root, folder) if folder else str(self.root)
        path = os.path.join(inside, name)
        if path == str(self.data) or (name.startswith(".") and inside == _real(str(Path.home()))):
            return False
        return _is_text(name) and name.casefold() != GIT and not self.privacy.hides_in_any_case(path)

    def parts(self, given: str) -> tuple[str, ...]:
        """The parts of the path that a client sent, with symbolic links resolved. Raises ``ClientError``."""
        if "\0" in given:
            raise _invalid("The path must not contain a null character.")
        if ".." in given.split("/"):
            raise _invalid('The path must not contain "..", which could lead outside the project.')
        if given.startswith("/"):
            root = f"{self.root}/".replace("//", "/")
            if not f"{given}/".startswith(root):
                raise _outside()
            given = given[len(root) :]
        parts = tuple(part for part in given.split("/") if part not in ("", "."))
        if self.hides(parts):
            raise _private()
        try:
            real = Path(os.path.realpath(os.path.join(self.root, *parts)))
        except (OSError, ValueError):
            raise missing() from None
        if real != self.root and self.root not in real.parents:
            raise _outside()
        followed = real.relative_to(self.root).parts
        if self.hides(followed):
            raise _private()
        return followed

    def directory(self, parts: Sequence[str]) -> int:
        """Opens a directory. Returns its file descriptor. Raises ``ClientError``."""
        try:
            at = os.open(self.root, _DIRECTORY)
            try:
                for part in ("", *parts):
                    if part:
                        inner = os.open(part, _DIRECTORY, dir_fd=at)
                        os.close(at)
                        at = inner
                    if _is(at, self.data):
                        raise _private()
            except BaseException:
                os.close(at)
                raise
        except (OSError, ValueError) as error:
            raise _refusal(error) from None
        return at

    def file(self, parts: Sequence[str], use: str = SHOWN) -> tuple[int, os.stat_result]:
        """Opens a regular file to be ``SHOWN`` or ``COMPARED``. Returns its file descriptor and its status.
        Raises ``ClientError``."""
        if not parts:
            raise _directory(use)
        at = self.directory(parts[:-1])
        try:
            # Opening a device can have effects, so the kind is checked before it is opened, too.
            _check_regular(os.stat(parts[-1], dir_fd=at, follow_symlinks=False), use)
            file = os.open(parts[-1], _FILE, dir_fd=at)
        except (OSError, ValueError) as error:
            raise _refusal(error) from None
        finally:
            os.close(at)
        try:
            status = os.fstat(file)
            _check_regular(status, use)
        except BaseException:
            os.close(file)
            raise
        return file, status


def entries(project: Project, given: str) -> tuple[list[FileEntry], bool]:
    """The entries of a directory, directories first, and whether the directory has more. Raises ``ClientError``."""
    parts = project.parts(given)
    at = project.directory(parts)
    found: list[FileEntry] = []
    more = False
    try:
        with os.scandir(at) as scanned:
            for number, entry in enumerate(scanned):
                if number == MOST_SCANNED:
                    more = True
                    break
                if shown := _entry(project, parts, entry):
                    found.append(shown)
    except OSError as error:
        raise _refusal(error) from None
    finally:
        os.close(at)
    found.sort(key=order)
    return found[:MOST_ENTRIES], more or len(found) > MOST_ENTRIES


def order(entry: FileEntry) -> tuple[bool, str, str]:
    """A sort key: directories first, then by name."""
    return entry.kind != "directory", entry.path.casefold(), entry.path


def find_entry(project: Project, path: str) -> FileEntry | None:
    """The entry of one path in the project's list of files (``file_index``); None if a client may not see the path, or
    it no longer exists."""
    parts = tuple(path.split("/"))
    try:
        if project.hides(parts) or project.parts("/".join(parts[:-1])) != parts[:-1]:
            return None
        return _described(project, parts, os.lstat(os.path.join(project.root, *parts)))
    except (ClientError, OSError, ValueError):
        return None


def _entry(project: Project, inside: tuple[str, ...], entry: os.DirEntry[str]) -> FileEntry | None:
    parts = (*inside, entry.name)
    if not project.shows("/".join(inside), entry.name):
        return None
    try:
        status = entry.stat(follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode) and _same(status, project.data):
            return None
        return _described(project, parts, status)
    except OSError:
        return FileEntry(path="/".join(parts), kind="other")


def _described(project: Project, parts: tuple[str, ...], status: os.stat_result) -> FileEntry | None:
    link = stat.S_ISLNK(status.st_mode)
    if link:
        try:
            target = project.parts("/".join(parts))
            status = os.lstat(os.path.join(project.root, *target))
        except ClientError as refused:
            return None if refused.code == "FILE_PRIVATE" else FileEntry(path="/".join(parts), kind="other", link=True)
        except OSError:
            return FileEntry(path="/".join(parts), kind="other", link=True)
    kind: Literal["file", "directory", "other"] = "other"
    if stat.S_ISREG(status.st_mode):
        kind = "file"
    elif stat.S_ISDIR(status.st_mode):
        kind = "directory"
    return FileEntry(path="/".join(parts), kind=kind, size=status.st_size if kind == "file" else None, link=link)


def read(project: Project, given: str, kept: Callable[[Source], str]) -> FileContent:
    """The content of a file. ``kept`` returns the id of the blob for a source. Raises ``ClientError``."""
    parts = project.parts(given)
    path, content, source = "/".join(parts), *_content(project, parts)
    if isinstance(content, str):
        return FileContent(path=path, kind="image", size=source.size, media_type=content, blob_id=kept(source))
    return _text(path, content, lambda: kept(source))


def text(project: Project, parts: Sequence[str], use: str) -> str:
    """The whole text of a file. Raises ``ClientError``, even for an image, which ``read`` accepts."""
    content, _ = _content(project, parts, use)
    if isinstance(content, str):
        raise unsupported("it is an image", use)
    return decoded(content, use)


def _content(project: Project, parts: Sequence[str], use: str = SHOWN) -> tuple[bytes | str, Source]:
    """The bytes of a file or the media type of an image, and its source. Raises ``ClientError``."""
    file, status = project.file(parts, use)
    source = Source(tuple(parts), _version(status), status.st_size)
    with os.fdopen(file, "rb") as opened:
        try:
            head = opened.read(64)
            media_type = image_type(head)
            limit = LARGEST_TEXT if media_type is None else LARGEST_IMAGE
            if source.size > limit:
                raise too_large(source.size, limit, use)
            if media_type is not None:
                return media_type, source
            data = head + opened.read(limit + 1 - len(head))
        except OSError as error:
            raise _refusal(error) from None
    if len(data) > limit:  # the file has grown, or does not report its size
        raise too_large(len(data), limit, use)
    return data, source


def decoded(data: bytes, use: str = SHOWN) -> str:
    """The bytes as text. Raises ``ClientError`` if they are not UTF-8 text."""
    if b"\0" in data:
        raise unsupported("it is binary", use)
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise unsupported("it is not UTF-8 text", use) from None


def _text(path: str, data: bytes, kept: Callable[[], str]) -> FileContent:
    text = decoded(data)
    lines = text.count("\n") + (not text.endswith("\n") and bool(text))
    whole = FileContent(path=path, kind="text", size=len(data), text=text, lines=lines, language=language(path))
    if len(msgspec.json.encode(text)) <= LARGEST_SHOWN:
        return whole
    return msgspec.structs.replace(whole, text=text[:BEGINNING], truncated=Truncated(kept(), len(data)))


def read_again(project: Project, source: Source, offset: int, length: int) -> bytes:
    """A part of a file that was read before. Raises ``ClientError`` (BLOB_NOT_FOUND) if the file has changed since, or
    can't be read."""
    changed = ClientError(
        "BLOB_NOT_FOUND", "The file has changed since it was read, or can't be read now. Read it again.", "data.blob_id"
    )
    try:
        file, status = project.file(source.parts)
    except ClientError:
        raise changed from None
    try:
        if _version(status) != source.version:
            raise changed
        return os.pread(file, length, offset)
    except OSError:
        raise changed from None
    finally:
        os.close(file)


def image_type(head: bytes) -> str | None:
    """The media type of an image that browsers can show, by its first bytes; None for anything else."""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    if head[4:12] in (b"ftypavif", b"ftypavis"):
        return "image/avif"
    if head[:2] == b"BM" and head[6:10] == bytes(4) and int.from_bytes(head[14:18], "little") in _BMP_HEADERS:
        return "image/bmp"
    return next((name for signature, name in _SIGNATURES if head.startswith(signature)), None)


@functools.lru_cache(maxsize=1)
def _real(home: str) -> str:
    """The home directory without symbolic links. It is cached, because a large project has many hidden files."""
    return os.path.realpath(home)


def _is_text(name: str) -> bool:
    """Whether a name is valid UTF-8. Other names can be neither sent nor requested."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is(descriptor: int, path: Path) -> bool:
    return _same(os.fstat(descriptor), path)


def _same(status: os.stat_result, path: Path) -> bool:
    try:
        return os.path.samestat(status, os.stat(path))
    except OSError:
        return False


def _version(status: os.stat_result) -> Version:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _check_regular(status: os.stat_result, use: str) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise _directory(use)
    if stat.S_ISLNK(status.st_mode):  # the links form a loop, or the file has become a link
        raise missing()
    if not stat.S_ISREG(status.st_mode):
        raise unsupported("it is not a regular file", use)


def _refusal(error: OSError | ValueError) -> ClientError:
    number = error.errno if isinstance(error, OSError) else errno.ENOENT
    if number in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG):
        return missing()
    if number in (errno.EACCES, errno.EPERM):
        return ClientError(
            "FILE_OPERATION",
            "The server has no permission to read the file or directory.",
            field="data.path",
            retryable=False,
        )
    return ClientError("FILE_OPERATION", "The file or directory could not be read. Try again later.", field="data.path")


def _outside() -> ClientError:
    return _invalid("The path is outside the project.")


def _invalid(text: str) -> ClientError:
    return ClientError("INVALID_PATH", text, field="data.path")


def _private() -> ClientError:
    return ClientError(
        "FILE_PRIVATE",
        "This path can't be shown: it is private, for example because it usually contains secrets.",
        field="data.path",
    )


def missing() -> ClientError:
    return ClientError("FILE_NOT_FOUND", "The project has no such file or directory.", field="data.path")


def unsupported(why: str, use: str, what: str = "The file") -> ClientError:
    return ClientError("FILE_UNSUPPORTED", f"{what} can't be {use}: {why}.", field="data.path")


def _directory(use: str) -> ClientError:
    return unsupported("it is a directory", use, "This path")


def too_large(size: int, limit: int, use: str, what: str = "it") -> ClientError:
    return ClientError(
        "FILE_TOO_LARGE",
        f"The file can't be {use}: {what} is {size:,} bytes; the limit is {limit:,}.",
        field="data.path",
        details={"size": size, "limit": limit},
    )


MOST_SOURCES: Final = 500
"""The maximum number of files that can be read again."""


class Sources:
    """The files that clients have read. Clients may request the bytes as blobs, by ids that can't be guessed."""

    def __init__(self) -> None:
        self._sources: dict[str, tuple[str, Source]] = {}

    def kept(self, project_id: str, source: Source) -> str:
        """Stores a source. Returns the id of its blob."""
        blob_id = f"{PREFIX}{secrets.token_urlsafe(16)}"
        self._sources[blob_id] = project_id, source
        while len(self._sources) > MOST_SOURCES:
            self._sources.pop(next(iter(self._sources)), None)
        return blob_id

    def of(self, blob_id: str) -> tuple[str, Source] | None:
        """The project's id and the source; None if the id is unknown, or newer sources have replaced this one."""
        return self._sources.get(blob_id)
