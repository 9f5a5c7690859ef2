"""Blobs: large input that clients upload in pieces. Stored in files for an hour, bounded in size and number."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Raw, Struct

from drawbridge.core.private_files import PRIVATE_FILE, make_private_directory
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.messages import BLOB_BYTES
from drawbridge.server.protocol.replies import BlobPiece, BlobStored
from drawbridge.text.counts import counted

ALTOGETHER: Final = 256 * 1024 * 1024
MOST: Final = 200
DEVICES_PART: Final = 0.75
"""The share of both limits for all devices together: the rest is reserved for the owner."""

DEVICE_PART: Final = 0.5
"""The share of both limits for one device."""

KEPT_SECONDS: Final = 3_600.0
"""Seconds that a blob is kept after its last use."""

DEEPER: Final = 500
"""A client's JSON may be nested by this many levels less than what can be parsed, since it is passed on inside other
messages."""


class _Blob(Struct):
    size: int = 0
    complete: bool = False
    touched: float = 0.0
    device: str | None = None
    """The device whose share it counts against: the one that sent the last piece. None: the owner."""

    @property
    def is_expired(self) -> bool:
        return time.monotonic() - self.touched > KEPT_SECONDS


class Blobs:
    """``directory`` belongs to this object alone; its contents are removed at each start."""

    def __init__(self, directory: Path) -> None:
        make_private_directory(str(directory))
        self._directory = directory
        self._blobs: dict[str, _Blob] = {}
        self._putting = asyncio.Lock()
        """Pieces are written one after the other: each is checked against the room that the last one has left."""
        for left in directory.iterdir():
            left.unlink()

    async def put(self, blob_id: str, offset: int, data: bytes, last: bool, device: str | None = None) -> BlobStored:
        """Appends a piece at ``offset`` (bytes), where the last one ended; ``offset`` 0 restarts an unfinished blob.

        ``device``: the id of the device that sends it; None: the owner. Raises ``ClientError``.
        """
        async with self._putting:
            for expired in [id for id, blob in self._blobs.items() if blob.is_expired]:
                await self._forget(expired)
            blob = self._blobs.get(blob_id) or _Blob()
            begins = offset == 0 and not blob.complete
            if not begins and (offset != blob.size or blob.complete):
                where = {"expected": blob.size, "complete": blob.complete}
                text = f"offset: the blob has {counted(blob.size, 'byte')}. Nothing was added."
                raise ClientError("BLOB_OFFSET", text, "data.offset", details=where)
            self._check_room(blob_id, offset + len(data), device)
            try:
                await asyncio.to_thread(self._write, blob_id, data, begins)
            except OSError as error:
                await self._forget(blob_id)
                raise ClientError(
                    "FILE_OPERATION", "The blob could not be written. Upload it again from the start."
                ) from error
            self._blobs[blob_id] = _Blob(offset + len(data), last, time.monotonic(), device)
        return BlobStored(blob_id, offset + len(data), last)

    async def read(self, blob_id: str) -> bytes:
        """Returns all bytes of a finished blob. It is kept, since a request may be sent twice. Raises BLOB_NOT_FOUND."""
        return await asyncio.to_thread(_content, self._used(blob_id))

    def take(self, blob_id: str) -> bytes:
        """As ``read``, but at once: for a decision, nothing may happen between the check of its scope and its use."""
        return _content(self._used(blob_id))

    def _used(self, blob_id: str) -> Path:
        """The file of a finished blob, which is kept for another hour. Raises BLOB_NOT_FOUND."""
        blob = self._blobs.get(blob_id)
        if blob is None or not blob.complete or blob.is_expired:
            raise no_blob()
        blob.touched = time.monotonic()
        return self._directory / blob_id

    def _write(self, blob_id: str, data: bytes, begins: bool) -> None:
        how = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_TRUNC if begins else os.O_APPEND)
        file = os.open(self._directory / blob_id, how, PRIVATE_FILE)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(file, view) :]
        finally:
            os.close(file)

    def _check_room(self, blob_id: str, size: int, device: str | None) -> None:
        if size > BLOB_BYTES:
            raise ClientError(
                "MESSAGE_SIZE_LIMIT", f"A blob may have at most {BLOB_BYTES} bytes. Nothing was added.", "data.data"
            )
        others = [blob for id, blob in self._blobs.items() if id != blob_id]
        if _is_full(others, size, 1.0):
            raise _no_room("Too many blobs are stored on this server.")
        if device is None:
            return
        if _is_full([blob for blob in others if blob.device is not None], size, DEVICES_PART):
            raise _no_room("Devices have stored too many blobs on this server.")
        if _is_full([blob for blob in others if blob.device == device], size, DEVICE_PART):
            raise _no_room("Your device has stored too many blobs on this server.")

    async def _forget(self, blob_id: str) -> None:
        self._blobs.pop(blob_id, None)
        await asyncio.to_thread((self._directory / blob_id).unlink, missing_ok=True)


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        raise no_blob() from None


def _is_full(blobs: Sequence[_Blob], size: int, part: float) -> bool:
    """Whether one more of this size would exceed ``part`` of the limits."""
    return sum(blob.size for blob in blobs) + size > ALTOGETHER * part or len(blobs) + 1 > MOST * part


def _no_room(what: str) -> ClientError:
    return ClientError(
        "RESOURCE_LIMIT",
        f"{what} Nothing was added; a blob is removed an hour after its last use. Try again later.",
    )


def piece(blob_id: str, data: bytes, offset: int, length: int) -> BlobPiece:
    """A part of a blob; past its end it is empty."""
    part = data[offset : offset + length]
    return BlobPiece(blob_id, offset, part, len(data), offset + len(part) >= len(data))


def no_blob() -> ClientError:
    return ClientError("BLOB_NOT_FOUND", "The blob does not exist, or it has expired. Send it again.", "data.blob_id")


def json_object(data: bytes, field: str) -> Raw:
    """A client's JSON object as one line that every agent can read and every history can store. Raises ``ClientError``."""
    try:
        msgspec.json.decode(b"[" * DEEPER + data + b"]" * DEEPER)  # all of it: a ``Raw`` may hold a number like 1e999
        return Raw(msgspec.json.encode(msgspec.json.decode(data, type=dict[str, Raw])))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        text = "it is not a JSON object, is nested too deeply, or contains a number that is out of range. Nothing was done."
        raise ClientError("VALIDATION_FAILED", f"{field}: {text}", field) from None
