"""The ``metadata.json`` of a project or a terminal session: the specification's fields and what the server remembers.

It is written atomically, and a copy of the previous version is kept next to it.
"""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from drawbridge.agents import catalog
from drawbridge.agents.base import Options
from drawbridge.core.json_text import UNDECODABLE
from drawbridge.core.private_files import write_private
from drawbridge.server.events import ReviewNumbers
from drawbridge.server.sessions.recorded_state import RecordedState

NAME = "metadata.json"
COPY = "metadata.json.bak"
VERSION = 1
"""The version of the file's format. A new field does not require a new version as long as it may be missing and may be
lost.
"""
ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
TERMINAL_PREFIX = "desk_"
"""The prefix of the ids of terminal sessions."""


class Waiting(Struct):
    """A run that will continue automatically: its prompt, sender, agent and options. ``at``: when it continues, in
    seconds since 1970."""

    at: float
    prompt: str
    by: str
    agent: str | None = None
    options: Options | None = None


class SessionMode(Struct):
    """The permission mode that the agent switched to in one conversation, on its own or because of a decision."""

    session_id: str
    mode: str


class Metadata(Struct):
    """The contents of the file. Times are RFC 3339 in UTC. ``recorded`` covers the history up to ``recorded.seq``.
    Later records are read when the server starts. ``review``: the review's numbers for clients, stored because
    comparing the files of all projects at startup would take too long."""

    id: str
    path: str
    session_id: str
    created_at: str
    last_active: str
    agent: str = catalog.FIRST
    options: Options = Options()
    recorded: RecordedState = msgspec.field(default_factory=RecordedState, name="memory")
    waiting: Waiting | None = None
    review: ReviewNumbers | None = None
    session_mode: SessionMode | None = None
    version: int = VERSION


class Unreadable(Exception):
    """The file can't be read at the moment; the text is the reason, without a path."""


class Damaged(Exception):
    """Neither the file nor its copy can be used; the text is the reason, without a path."""


class Newer(Exception):
    """The file was written by a newer Drawbridge, and must not be changed."""


def save(directory: Path, metadata: Metadata) -> None:
    """Writes the file. If it can't be written, the previous file stays unchanged and ``NotPrivate`` or OSError is
    raised."""
    data = msgspec.json.format(msgspec.json.encode(metadata), indent=2) + b"\n"
    path = directory / NAME
    if path.exists():
        copy = directory / f"{COPY}.new"
        copy.unlink(missing_ok=True)
        os.link(path, copy)
        os.replace(copy, directory / COPY)
    write_private(str(path), data)


def deleted(directory: Path) -> Metadata | None:
    """The metadata of a project in the trash, after its directory was renamed; None if it can't be read."""
    try:
        return msgspec.json.decode((directory / NAME).read_bytes(), type=Metadata)
    except (OSError, *UNDECODABLE):
        return None


def load(directory: Path) -> Metadata:
    """The metadata in the file or, if that can't be used, in its copy. If neither can be used, raises ``Unreadable`` if
    one of them can't be read now, and otherwise ``Damaged``. Raises ``Newer`` if it was written by a newer Drawbridge.
    """
    problem, denied = f"{NAME} does not exist", ""
    for name in (NAME, COPY):
        try:
            found = msgspec.json.decode((directory / name).read_bytes(), type=Metadata)
        except FileNotFoundError:
            continue
        except OSError as error:
            denied = f"{name}: {(error.strerror or type(error).__name__).lower()}"
            continue
        except UNDECODABLE as error:
            problem = f"{name}: {type(error).__name__}"
            continue
        if found.version > VERSION:
            raise Newer("it was written by a newer Drawbridge")
        if found.id != directory.name or not ID.fullmatch(found.id):
            problem = f"{name}: its ID is not the name of its directory"
        elif not found.path.startswith(os.sep) and not Path(found.path).is_absolute():
            problem = f"{name}: the project's path is not absolute"
        else:
            return found
    if denied:
        raise Unreadable(denied)
    raise Damaged(problem)


def now() -> str:
    """The current time as RFC 3339 in UTC, to the millisecond."""
    return _rfc3339(datetime.now(UTC))


def instant(moment: datetime | None) -> str | None:
    """A time in UTC as RFC 3339, to the millisecond; None if ``moment`` is None."""
    return None if moment is None else _rfc3339(moment)


def instant_of(seconds: float | None) -> str | None:
    """Seconds since 1970 as RFC 3339 in UTC, to the millisecond; None if ``seconds`` is None."""
    return None if seconds is None else _rfc3339(datetime.fromtimestamp(seconds, UTC))


def _rfc3339(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
