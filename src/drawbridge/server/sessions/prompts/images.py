"""The images that users sent with prompts, as files next to the history. The history's records contain only their ids,
media types, sizes and names.

The images are removed with the records that name them, or earlier if they take up too much room. What is sent to an
agent does not depend on these files.
"""

from __future__ import annotations

import contextlib
import logging
import re
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from drawbridge.agents.base import Attachment
from drawbridge.core.errors import DrawbridgeError
from drawbridge.core.private_files import make_private_directory, write_private
from drawbridge.server.events import PromptAccepted, PromptImage
from drawbridge.server.store.records import NOT_OURS, read

logger = logging.getLogger("drawbridge.server")

TYPES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""The media types that every browser displays and that can't contain programs, unlike SVG."""

LARGEST: Final = 10 * 1024 * 1024
"""The maximum size of an image, in bytes. A larger one is only mentioned in the history."""

ALTOGETHER: Final = 200 * 1024 * 1024
"""The maximum total size of one project's images, in bytes. The oldest ones are removed first."""

ID: Final = re.compile(r"img_[0-9a-f]{32}")

CLOCK_SECONDS: Final = 60.0
"""The maximum time between storing an image and writing the record that names it, in seconds."""


class PromptImages:
    """The stored images of one project. ``directory`` belongs to this object alone. All methods read or write the disk,
    so they must not be called on the event loop's thread."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def store(self, attachments: Iterable[Attachment]) -> tuple[PromptImage, ...]:
        """Stores the images among the attachments, and returns them. If one can't be stored, none is. This is only
        logged, so that the prompt is sent anyway."""
        images = [one for one in attachments if one.media_type in TYPES and len(one.data) <= LARGEST]
        stored: list[PromptImage] = []
        try:
            if images and not self._directory.parent.is_dir():  # the project was deleted
                return ()
            if images:
                make_private_directory(str(self._directory))
            for one in images:
                image = PromptImage(f"img_{uuid.uuid4().hex}", one.media_type, len(one.data), one.name)
                write_private(str(self._directory / image.id), one.data)
                stored.append(image)
        except (DrawbridgeError, OSError) as error:
            logger.warning("the images in a prompt could not be stored: %s", error)
            self.remove(image.id for image in stored)
            return ()
        return tuple(stored)

    def read(self, id: str) -> bytes | None:
        """The bytes of an image; None if it was not stored or has been removed."""
        if not ID.fullmatch(id):
            return None
        try:
            return (self._directory / id).read_bytes()
        except OSError:
            return None

    def remove(self, ids: Iterable[str]) -> None:
        for id in ids:
            if ID.fullmatch(id):
                with contextlib.suppress(OSError):
                    (self._directory / id).unlink()

    def remove_before(self, seconds: float) -> None:
        """Removes the images of records that were written before this moment, in seconds since 1970."""
        self.remove(path.name for stored_at, _, path in self._stored() if stored_at < seconds - CLOCK_SECONDS)

    def make_room(self) -> None:
        """Removes the oldest images above the limit. Called once a prompt with images has been accepted."""
        stored = self._stored()
        excess = sum(size for _, size, _ in stored) - ALTOGETHER
        for _, freed, path in stored:
            if excess <= 0:
                break
            self.remove([path.name])
            excess -= freed

    def _stored(self) -> Sequence[tuple[float, int, Path]]:
        """The time at which each image was stored, its size in bytes and its path, the oldest first."""
        found = []
        with contextlib.suppress(FileNotFoundError):
            for path in self._directory.iterdir():
                with contextlib.suppress(OSError):
                    status = path.lstat()
                    found.append((status.st_mtime, status.st_size, path))
        return sorted(found)


def named_in(records: Iterable[bytes]) -> set[str]:
    """The ids of the images and files that the prompts in ``records`` (lines of a history) refer to."""
    found: set[str] = set()
    for line in records:
        if b'"images"' in line or b'"files"' in line:
            with contextlib.suppress(*NOT_OURS):
                event = read(line).event
                if isinstance(event, PromptAccepted):
                    found.update(image.id for image in event.images)
                    found.update(file.id for file in event.files)
    return found
