"""Checks the format of a data directory. Older formats are read as they are and brought up to date, and newer ones are
refused.

``format.json`` contains the format, which covers all files in the directory: the histories, and the files beside them
(such as ``comments.json``, ``devices.json`` and ``push.json``). A change that an earlier version can't read, or would
lose, needs a new format. A field with a default that may be lost does not. ``tests/server/test_saved_files.py`` fails
if a structure changes one of the files.

A directory without ``format.json`` has format 0. Its metadata files lack some of the current fields, which are filled in
when a file is read, and stored when it is next written. The indexes of histories have their own formats. An index in
another format is rebuilt from its history.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from drawbridge.core.errors import DataTooNew, NotPrivate
from drawbridge.core.json_text import UNDECODABLE
from drawbridge.core.private_files import write_private

FORMAT: Final = 1
FILE: Final = "format.json"


class _Format(Struct):
    format: int
    drawbridge: str = "of an unknown version"
    """The version of Drawbridge that wrote the file."""


def check(data: Path) -> None:
    """Checks the format without changing anything. Raises ``DataTooNew`` for a newer format, and ``NotPrivate`` if
    ``format.json`` can't be read."""
    found = _read(data)
    if found is not None and found.format > FORMAT:
        raise DataTooNew(
            f"{data} was written by a newer Drawbridge ({found.drawbridge}); this one, {version('drawbridge')}, would lose "
            "data that it does not understand. Nothing was changed. Install that version or a later one, or choose "
            "another directory with --data-dir."
        )


def mark(data: Path) -> None:
    """Writes the current format to ``format.json``, unless the file already contains it. Raises ``NotPrivate`` if the
    file can't be read or written."""
    found = _read(data)
    if found is None or found.format < FORMAT:
        write_private(str(data / FILE), msgspec.json.encode(_Format(FORMAT, version("drawbridge"))) + b"\n")


def _read(data: Path) -> _Format | None:
    """The content of ``format.json``; None if it does not exist. Raises ``NotPrivate`` if it can't be read and
    therefore can't be trusted.
    """
    try:
        return msgspec.json.decode((data / FILE).read_bytes(), type=_Format)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, *UNDECODABLE) as error:
        why = (error.strerror or "unknown reason").lower() if isinstance(error, OSError) else "it is damaged"
        raise NotPrivate(
            f"{data / FILE}, which contains the format of the data, can't be read: {why}. Nothing was changed. If this "
            "version of Drawbridge or an older one was the last to use the directory, remove the file."
        ) from None
