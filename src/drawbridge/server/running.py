"""Where the server of a data directory is, for commands beside it: ``server.json`` (0600), there while it runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import psutil
from msgspec import Struct

from drawbridge.private_files import remove_quietly, write_private

FILE: Final = "server.json"


class Running(Struct, frozen=True, kw_only=True):
    """``pages``: addresses of its page, the best for another device first; where ``loopback``, no other device gets there.

    ``began``: when its process began (seconds since 1970), so that another one with its number is not taken for it.
    """

    pid: int
    began: float
    url: str
    pages: tuple[str, ...]
    loopback: bool
    fingerprint: str | None
    authority: bool = False
    """Whether it has one of its own, to be trusted once (``/ca.crt``)."""


@contextlib.contextmanager
def announced(
    directory: Path,
    url: str,
    pages: tuple[str, ...],
    fingerprint: str | None,
    *,
    loopback: bool,
    authority: bool = False,
) -> Iterator[None]:
    """While the block lasts, others find this process there."""
    path = str(directory / FILE)
    me = psutil.Process()
    found = Running(
        pid=me.pid,
        began=me.create_time(),
        url=url,
        pages=pages,
        loopback=loopback,
        fingerprint=fingerprint,
        authority=authority,
    )
    write_private(path, msgspec.json.encode(found))
    try:
        yield
    finally:
        remove_quietly(path)


def find(directory: Path) -> Running | None:
    """The server that works with this data; what a killed one left behind is none."""
    try:
        found = msgspec.json.decode((directory / FILE).read_bytes(), type=Running)
        began = psutil.Process(found.pid).create_time()
    except (OSError, msgspec.DecodeError, psutil.Error, ValueError):
        return None
    return found if abs(began - found.began) < 1 else None
