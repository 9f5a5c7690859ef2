"""Lets other commands find this user's running agent servers: ``server.json`` (0600) in the data directory, and a copy
next to the server's private socket, so that servers with other data directories are also found. Both files exist while
the server runs.
"""

from __future__ import annotations

import contextlib
import os
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from drawbridge.core.json_text import UNDECODABLE
from drawbridge.core.private_files import make_private_directory, process_alive, remove_quietly, write_private
from drawbridge.core.process_start import StartTime, is_same_process, started_at
from drawbridge.transport import private_socket

FILE: Final = "server.json"
COPY_ENDING: Final = ".json"
ANSWER_SECONDS: Final = 0.5


class Running(Struct, frozen=True, kw_only=True):
    """The announcement of a server. ``url``: the address of its WebSocket; ``pages``: addresses of its web UI, the best
    one for other devices first; ``loopback``: whether only this machine can reach them; ``fingerprint``: SHA-256 of its
    TLS certificate, None if it does not use TLS.

    ``began``: when its process was started, to distinguish it from a later process with the same PID; None if not known.
    """

    pid: int
    began: StartTime | None
    url: str
    pages: tuple[str, ...]
    loopback: bool
    fingerprint: str | None
    authority: bool = False
    """Whether it has its own certificate authority (``/ca.crt``)."""
    data_dir: str = ""


@dataclass(frozen=True, kw_only=True)
class Server:
    """An agent server, for ``drawbridge info``. ``state``: "live", or "silent" if it does not answer in time."""

    pid: int
    url: str
    pages: tuple[str, ...]
    data_dir: str
    state: Literal["live", "silent"]


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
    """Lets other processes find this server while the block runs. Raises ``NotPrivate``."""
    path = str(directory / FILE)
    pid = os.getpid()
    found = Running(
        pid=pid,
        began=started_at(pid),
        url=url,
        pages=pages,
        loopback=loopback,
        fingerprint=fingerprint,
        authority=authority,
        data_dir=str(directory),
    )
    place = private_socket.directory()
    make_private_directory(place)
    copy = os.path.join(place, f"{pid}{COPY_ENDING}")
    for other in _copies():
        if _read(other) is None:
            remove_quietly(str(other))  # the server that wrote this file was killed
    try:
        for file in (path, copy):
            write_private(file, msgspec.json.encode(found))
        yield
    finally:
        remove_quietly(path)
        remove_quietly(copy)


def find(directory: Path) -> Running | None:
    """The announcement of the server that uses this data directory; None if no server uses it. The file of a server
    that was killed is ignored."""
    return _read(directory / FILE)


def servers() -> list[Server]:
    """All of this user's running servers, ordered by process id."""
    return [
        Server(
            pid=one.pid,
            url=one.url,
            pages=one.pages,
            data_dir=one.data_dir,
            state="live" if _answers(one.url) else "silent",
        )
        for one in announcements()
    ]


def announcements() -> list[Running]:
    """The announcements of this user's running servers, ordered by process id. The servers are not contacted."""
    found = {one.pid: one for one in map(_read, _copies()) if one is not None}
    return [one for _, one in sorted(found.items())]


def _copies() -> list[Path]:
    place = Path(private_socket.directory())
    try:
        status = place.stat()
        names = sorted(place.glob(f"*{COPY_ENDING}"))
    except OSError:
        return []
    return [] if status.st_uid != os.geteuid() or status.st_mode & 0o077 else names


def _answers(url: str) -> bool:
    """Whether the server answers ``/health`` in time. Nothing secret is sent, so the certificate is not checked."""
    place = urlsplit(url)
    connection: HTTPConnection
    if place.scheme == "wss":
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = HTTPSConnection(place.hostname or "", place.port, timeout=ANSWER_SECONDS, context=context)
    else:
        connection = HTTPConnection(place.hostname or "", place.port, timeout=ANSWER_SECONDS)
    with contextlib.closing(connection), contextlib.suppress(OSError, HTTPException):
        connection.request("GET", "/health")
        return connection.getresponse().status in (200, 503)
    return False


def _read(file: Path) -> Running | None:
    try:
        found = msgspec.json.decode(file.read_bytes(), type=Running)
    except (OSError, ValueError, *UNDECODABLE):
        return None
    return found if process_alive(found.pid) and is_same_process(found.pid, found.began) else None
