"""Blobs: large input that clients upload in pieces. They are stored in files, expire an hour after their last use, and
are limited in size and number."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

from drawbridge.core.json_text import UNDECODABLE
from drawbridge.core.private_files import PRIVATE_FILE, make_private_directory
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.commands import check_depth
from drawbridge.server.protocol.messages import BLOB_BYTES
from drawbridge.server.protocol.replies import BlobPiece, BlobStored
from drawbridge.text.counts import counted

ALTOGETHER: Final = 256 * 1024 * 1024
MOST: Final = 200
DEVICES_PART: Final = 0.75
"""The share of ``ALTOGETHER`` (bytes) and ``MOST`` (blobs) that all devices together may use. The rest is reserved for
the owner."""

DEVICE_PART: Final = 0.5
"""The share of the same limits that one device may use."""

KEPT_SECONDS: Final = 3_600.0
"""Seconds from a blob's last use until it expires. Its file is removed when the next piece of any blob arrives after
that."""


Key: TypeAlias = tuple[str | None, str]
"""The device or SSH key that uploaded a blob (None for the owner), and the blob's id, which is unique only for that
device or key.
"""


class _Blob(Struct):
    name: str
    """The name of its file."""
    size: int = 0
    complete: bool = False
    touched: float = 0.0

    @property
    def is_expired(self) -> bool:
        return time.monotonic() - self.touched > KEPT_SECONDS


class Blobs:
    """All blobs, as files in ``directory``. Nothing else may use this directory, because its contents are removed at
    each start."""

    def __init__(self, directory: Path) -> None:
        make_private_directory(str(directory))
        self._directory = directory
        self._blobs: dict[Key, _Blob] = {}
        self._names = map(str, itertools.count())
        self._putting = asyncio.Lock()
        """Held while a piece is written, because each piece is checked against the room that the earlier pieces have
        left."""
        for left in directory.iterdir():
            left.unlink()

    async def put(self, blob_id: str, offset: int, data: bytes, last: bool, device: str | None = None) -> BlobStored:
        """Appends a piece at ``offset`` (bytes), where the previous piece ended. ``offset`` 0 restarts an unfinished
        blob. Raises ``ClientError``.

        ``last``: whether this piece completes the blob. ``device``: the device or SSH key that sends the piece; None
        for the owner.
        """
        key = device, blob_id
        async with self._putting:
            for expired in [key for key, blob in self._blobs.items() if blob.is_expired]:
                await self._forget(expired)
            blob = self._blobs.get(key) or _Blob(next(self._names))
            begins = offset == 0 and not blob.complete
            if not begins and (offset != blob.size or blob.complete):
                where = {"expected": blob.size, "complete": blob.complete}
                if blob.complete:
                    text = f"the blob is complete, with {counted(blob.size, 'byte')}. Use another ID for another blob."
                elif blob.size:
                    text = f"the blob has {counted(blob.size, 'byte')} so far. Continue from there."
                else:
                    text = "the blob has no bytes yet, or has expired. Upload it from the start."
                raise ClientError("BLOB_OFFSET", f"data.offset: {text}", "data.offset", details=where)
            self._check_room(key, offset + len(data))
            self._blobs[key] = blob
            try:
                await asyncio.to_thread(self._write, blob.name, data, begins)
            except OSError as error:
                await self._forget(key)
                why = (error.strerror or "unknown reason").lower()
                text = f"The blob could not be written: {why}. Upload it again from the start."
                raise ClientError("FILE_OPERATION", text) from error
            self._blobs[key] = _Blob(blob.name, offset + len(data), last, time.monotonic())
        return BlobStored(blob_id, offset + len(data), last)

    async def read(self, blob_id: str, device: str | None, field: str = "data.blob_id") -> bytes:
        """Returns all bytes of a finished blob that ``device`` uploaded. The blob is kept, because a request may be
        sent twice. ``field``: the field that names the blob, for the error. Raises ``ClientError`` (BLOB_NOT_FOUND).
        """
        return await asyncio.to_thread(_content, self._used((device, blob_id), field), field)

    def _used(self, key: Key, field: str) -> Path:
        """The file of a finished blob. Counts as a use of the blob. Raises ``ClientError`` (BLOB_NOT_FOUND)."""
        blob = self._blobs.get(key)
        if blob is None or not blob.complete or blob.is_expired:
            raise no_blob(field)
        blob.touched = time.monotonic()
        return self._directory / blob.name

    def _write(self, name: str, data: bytes, begins: bool) -> None:
        how = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_TRUNC if begins else os.O_APPEND)
        file = os.open(self._directory / name, how, PRIVATE_FILE)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(file, view) :]
        finally:
            os.close(file)

    def _check_room(self, key: Key, size: int) -> None:
        if size > BLOB_BYTES:
            raise ClientError("MESSAGE_SIZE_LIMIT", f"A blob can be at most {BLOB_BYTES:,} bytes long.", "data.data")
        device = key[0]
        others = {other: blob for other, blob in self._blobs.items() if other != key}
        if _is_full(others.values(), size, 1.0):
            raise _no_room("This server has reached its limit for stored uploads.")
        if device is None:
            return
        if _is_full([blob for (of, _), blob in others.items() if of is not None], size, DEVICES_PART):
            raise _no_room("All devices together have reached this server's limit for uploads.")
        if _is_full([blob for (of, _), blob in others.items() if of == device], size, DEVICE_PART):
            raise _no_room("Your device has reached this server's limit for uploads.")

    async def _forget(self, key: Key) -> None:
        blob = self._blobs.pop(key, None)
        if blob is not None:
            await asyncio.to_thread((self._directory / blob.name).unlink, missing_ok=True)


def _content(file: Path, field: str) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        raise no_blob(field) from None


def _is_full(blobs: Collection[_Blob], size: int, part: float) -> bool:
    """Whether one more blob of this size would exceed ``part`` of the limits."""
    return sum(blob.size for blob in blobs) + size > ALTOGETHER * part or len(blobs) + 1 > MOST * part


def _no_room(what: str) -> ClientError:
    return ClientError(
        "RESOURCE_LIMIT",
        f"{what} An upload is deleted an hour after its last use. Try again later.",
    )


def piece(blob_id: str, data: bytes, offset: int, length: int) -> BlobPiece:
    """The part of a blob that begins at ``offset``. It is empty if the blob has no byte at ``offset``."""
    part = data[offset : offset + length]
    return BlobPiece(blob_id, offset, part, len(data), offset + len(part) >= len(data))


def no_blob(field: str) -> ClientError:
    text = "The blob does not exist, is not complete, or has expired. Upload it again."
    return ClientError("BLOB_NOT_FOUND", text, field)


def json_object(data: bytes, field: str) -> dict[str, Any]:
    """The edited input in a blob. ``field``: the field that names the blob, for the error. Raises ``ClientError``."""
    try:
        found = msgspec.json.decode(data, type=dict[str, Any])
    except UNDECODABLE:
        text = "it is not a JSON object, is nested too deeply, or contains a number that is out of range."
        raise ClientError("VALIDATION_FAILED", f"{field}: {text}", field) from None
    check_depth(found, field)
    return found
