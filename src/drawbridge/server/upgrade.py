"""The format of a data directory: older ones are opened as they are and brought up to date, newer ones are left alone.

``format.json`` says which it is. Up to format 0, which has no such file, metadata files lacked some of today's fields; missing
ones are filled in when a file is read, and stored when it is next written. Indexes of histories that are of
another format are rebuilt from the logs.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from drawbridge.core.errors import DataTooNew, NotPrivate
from drawbridge.core.private_files import write_private

FORMAT: Final = 1
FILE: Final = "format.json"


class _Format(Struct):
    format: int
    drawbridge: str = "of an unknown version"
    """The version that wrote it."""


def check(data: Path) -> None:
    """Raises ``DataTooNew`` with nothing changed."""
    found = _read(data)
    if found is not None and found.format > FORMAT:
        raise DataTooNew(
            f"{data} was written by a newer Drawbridge ({found.drawbridge}); this one, {version('drawbridge')}, would lose "
            "data that it does not understand. Nothing was changed; install that version, or choose another directory with "
            "--data-dir."
        )


def mark(data: Path) -> None:
    """What is written from now on has today's format."""
    found = _read(data)
    if found is None or found.format < FORMAT:
        write_private(str(data / FILE), msgspec.json.encode(_Format(FORMAT, version("drawbridge"))) + b"\n")


def _read(data: Path) -> _Format | None:
    """Raises ``NotPrivate`` if the file can't be read, and so can't be trusted."""
    try:
        return msgspec.json.decode((data / FILE).read_bytes(), type=_Format)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise NotPrivate(
            f"{data / FILE} can't be read ({type(error).__name__}), so its version is not known. Nothing was changed. "
            "If this version or an older one used the directory last, remove the file."
        ) from None
