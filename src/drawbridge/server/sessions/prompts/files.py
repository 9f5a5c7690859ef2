"""The files that users sent with prompts and that an agent opens by their paths. Each file is in its own directory next
to the history. The history's records contain the files' ids. A file is removed with the record that names it, or
earlier if the files take up too much room.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import shutil
import unicodedata
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from drawbridge.agents.attached import EMBEDDED
from drawbridge.agents.base import Attachment
from drawbridge.core.errors import NotPrivate
from drawbridge.core.private_files import PRIVATE_DIRECTORY, PRIVATE_FILE, make_private_directory
from drawbridge.server.events import PromptFile
from drawbridge.server.protocol.client_errors import ClientError, no_project
from drawbridge.server.sessions.prompts.images import CLOCK_SECONDS
from drawbridge.text.counts import size

logger = logging.getLogger("drawbridge.server")

ALTOGETHER: Final = 500_000_000
"""The maximum total size of one project's files, in bytes. The oldest ones are removed first, except files of queued
and running prompts."""

LONGEST_NAME: Final = 120
"""The maximum length of a file's name, in bytes of UTF-8. File systems allow 255."""

LONGEST_SUFFIX: Final = 20

NO_ROOM: Final = {
    errno.ENOSPC: "the server's disk is full",
    errno.EDQUOT: "the disk quota of the server's user is used up",
}
"""Maps errors after which a file can be stored once there is room to their reasons."""

ID: Final = re.compile(r"file_[0-9a-f]{32}")

SAFE: Final = " ._-+=@~"
"""The characters that a name may contain in addition to letters, marks and numbers. Other characters may have a meaning
in a shell, or be misleading."""


class PromptFiles:
    """The stored files of one project. ``directory`` belongs to this object and to the agent. All methods read or write
    the disk, so they must not be called on the event loop's thread."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def store(
        self, attachments: Sequence[Attachment], embeds: Callable[[Attachment], bool], in_use: Collection[str]
    ) -> tuple[tuple[Attachment, ...], tuple[PromptFile, ...]]:
        """Stores the attachments that the agent does not embed, or for which the prompt has no room. Returns all
        attachments (the stored ones with their paths), and the stored files for the history.

        ``in_use``: the ids of the files of queued and running prompts. Raises ``ClientError`` without storing anything.
        """
        apart = _apart(attachments, embeds)
        if not any(apart):
            return tuple(attachments), ()
        self._check_room(
            sum(len(one.data) for one, is_apart in zip(attachments, apart, strict=True) if is_apart), in_use
        )
        if not self.directory.parent.is_dir():
            raise no_project()
        stored: list[PromptFile] = []
        try:
            make_private_directory(str(self.directory))
            return tuple(
                self._store(one, stored) if is_apart else one for one, is_apart in zip(attachments, apart, strict=True)
            ), tuple(stored)
        except (NotPrivate, OSError) as error:
            self.remove(file.id for file in stored)
            logger.warning("a file of a prompt can't be stored: %s", error)
            raise _not_stored(error) from None

    def _store(self, attachment: Attachment, stored: list[PromptFile]) -> Attachment:
        """Stores one file, which is added to ``stored`` before it is written. Returns the attachment with its path."""
        file = PromptFile(f"file_{uuid.uuid4().hex}", len(attachment.data), attachment.name)
        stored.append(file)
        folder = self.directory.resolve() / file.id
        folder.mkdir(PRIVATE_DIRECTORY)
        path = folder / file_name(attachment.name)
        how = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        with open(os.open(path, how, PRIVATE_FILE), "wb") as written:
            written.write(attachment.data)
        return msgspec.structs.replace(attachment, path=str(path))

    def remove(self, ids: Iterable[str]) -> None:
        for id in ids:
            if ID.fullmatch(id):
                shutil.rmtree(self.directory / id, ignore_errors=True)

    def remove_before(self, seconds: float) -> None:
        """Removes the files of records that were written before the time ``seconds``, in seconds since 1970."""
        self.remove(id for stored_at, _, id in self._stored() if stored_at < seconds - CLOCK_SECONDS)

    def make_room(self, in_use: Collection[str]) -> None:
        """Removes the oldest files above the limit, except those ``in_use``. Called once a prompt has been accepted."""
        stored = self._stored()
        excess = sum(bytes for _, bytes, _ in stored) - ALTOGETHER
        for _, freed, id in stored:
            if excess <= 0:
                break
            if id not in in_use:
                self.remove([id])
                excess -= freed

    def _check_room(self, more: int, in_use: Collection[str]) -> None:
        used = sum(bytes for _, bytes, id in self._stored() if id in in_use)
        if used + more > ALTOGETHER:
            waiting = f" in addition to the {size(used)} of queued and running prompts" if used else ""
            text = f"{size(more)} of attached files can't be stored{waiting}: a project can store at most {size(ALTOGETHER)}."
            raise ClientError("RESOURCE_LIMIT", text, field="data.attachments")

    def _stored(self) -> Sequence[tuple[float, int, str]]:
        """The time at which each file was stored, its size in bytes and its id, the oldest first. Files that the agent
        itself put into the directory are left out.
        """
        found = []
        with contextlib.suppress(OSError):
            for folder in self.directory.iterdir():
                if ID.fullmatch(folder.name):
                    with contextlib.suppress(OSError):
                        bytes = sum(path.lstat().st_size for path in folder.iterdir())
                        found.append((folder.lstat().st_mtime, bytes, folder.name))
        return sorted(found)


def _apart(attachments: Sequence[Attachment], embeds: Callable[[Attachment], bool]) -> list[bool]:
    """Whether each attachment has to be stored. One that the agent embeds becomes part of the prompt if the attachments
    before it have left enough room."""
    room, apart = EMBEDDED, []
    for one in attachments:
        is_embedded = len(one.data) <= room and embeds(one)
        apart.append(not is_embedded)
        if is_embedded:
            room -= len(one.data)
    return apart


def file_name(name: str | None) -> str:
    """The name of an attachment's file: the attachment's name without what could lead elsewhere, hide the file, or be
    interpreted by a shell."""
    plain = unicodedata.normalize("NFC", name or "").encode(errors="replace").decode()
    safe = "".join(sign if sign in SAFE or unicodedata.category(sign)[0] in "LMN" else "_" for sign in plain)
    stem, dot, suffix = safe.strip(" .-~").rpartition(".")
    if not dot or len(suffix.encode()) > LONGEST_SUFFIX:
        stem, suffix = f"{stem}{dot}{suffix}", ""
    else:
        suffix = f".{suffix}"
    stem = stem.encode()[: LONGEST_NAME - len(suffix.encode())].decode(errors="ignore").rstrip(" .")
    return f"{stem}{suffix}" if stem else f"file{suffix}"


def _not_stored(error: NotPrivate | OSError) -> ClientError:
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        text = f"The attached files can't be stored: {NO_ROOM[error.errno]}. Free some space there."
        return ClientError("DISK_SPACE_LOW", text, field="data.attachments")
    reason = (
        (error.strerror or "unknown reason").lower()
        if isinstance(error, OSError)
        else "the directory for them can't be created or made private"
    )
    text = f"The attached files can't be stored in the server's data directory: {reason}."
    return ClientError("FILE_OPERATION", text, field="data.attachments")
