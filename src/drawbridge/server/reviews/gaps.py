"""What a review does not contain, because a checkpoint before a run was not taken, or was taken late, or because the
agent worked elsewhere. It is kept in a file, so that it is still known after a restart of the server."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from drawbridge.core.errors import DrawbridgeError
from drawbridge.core.json_text import UNDECODABLE
from drawbridge.core.private_files import write_private

logger = logging.getLogger("drawbridge.server")

NAME: Final = "gaps.json"

BACKGROUND_SECONDS: Final = 600.0
"""Seconds after the end of the run that started a background command in which the command's changes belong to the
review. Tests and builds are done by then. A development server never ends on its own, and a user's changes must not be
taken for the agent's forever."""


class _Known(Struct, frozen=True, omit_defaults=True):
    missed: str = ""
    lost: str = ""
    elsewhere: str = ""
    outlasted: bool = False


class Gaps:
    """The gaps of one review. ``path``: the file. They are kept only in memory if its folder does not exist. All reasons
    are for the user."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known = _Known()
        self._is_read = False

    @property
    def missed(self) -> str:
        """Why the checkpoint before the latest run was not taken, or was late; empty if it was taken. What has changed
        since the last checkpoint then counts as the agent's work."""
        return self._known.missed

    @property
    def lost(self) -> str:
        """Why the review may lack what the latest run changed; empty if it lacks nothing."""
        return self._known.lost

    @property
    def elsewhere(self) -> str:
        """The other work tree, or the directory outside the review's, in which the latest run worked, as it is shown to
        the user; empty if it worked in the review's directory."""
        return self._known.elsewhere

    @property
    def outlasted(self) -> bool:
        """Whether a background command of the latest run was still running when the review was closed, so that the
        review lacks what the command has changed since."""
        return self._known.outlasted

    async def read(self) -> None:
        """Reads the file, if it has not been read yet."""
        if not self._is_read:
            known = await asyncio.to_thread(self._read)
            if not self._is_read:
                self._is_read, self._known = True, known

    async def set(self, *, missed: str = "", lost: str = "", outlasted: bool = False) -> None:
        await self.read()
        await self._set(_Known(missed, lost, self._known.elsewhere, outlasted))

    async def set_elsewhere(self, elsewhere: str) -> None:
        await self.read()
        await self._set(msgspec.structs.replace(self._known, elsewhere=elsewhere))

    async def set_outlasted(self) -> None:
        await self.read()
        await self._set(msgspec.structs.replace(self._known, outlasted=True))

    async def _set(self, known: _Known) -> None:
        if known != self._known:
            self._known = known
            await asyncio.to_thread(self._write, known)

    def _read(self) -> _Known:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_Known)
        except FileNotFoundError:
            return _Known()
        except (OSError, *UNDECODABLE) as error:
            logger.warning(
                "%s can't be read, so changes may be missing from a review without notice: %s", self._path, error
            )
            return _Known()

    def _write(self, known: _Known) -> None:
        try:
            if known == _Known():
                self._path.unlink(missing_ok=True)
            elif self._path.parent.is_dir():
                write_private(str(self._path), msgspec.json.encode(known))
        except (OSError, DrawbridgeError) as error:
            logger.warning("%s can't be written, so after a restart a review may lack changes: %s", self._path, error)
