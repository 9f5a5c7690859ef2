"""The running processes of Claude Code on this machine, including those in terminals, and their open conversations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from drawbridge.agents.claude import earlier, sessions
from drawbridge.core.json_text import UNDECODABLE
from drawbridge.core.private_files import process_alive


class _Process(Struct):
    """``<config>/sessions/<pid>.json`` (2.1.329): one for each running process of the CLI."""

    pid: int
    sessionId: str  # noqa: N815 - the CLI's own name
    procStart: Any = None  # noqa: N815
    parkedJobId: Any = None  # noqa: N815 - set if its conversation was moved to a background session (2.1.329)


def used_by(session_id: str) -> list[int]:
    """The ids of the running processes that have the conversation open. Blocking."""
    found = []
    for file in (sessions.config() / "sessions").glob("*.json"):
        try:
            process = msgspec.json.decode(_head(file), type=_Process)
        except (OSError, *UNDECODABLE):
            continue
        if process.sessionId == session_id and not process.parkedJobId and _runs(process):
            found.append(process.pid)
    return found


def _head(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(sessions.HEAD_BYTES)


def _runs(process: _Process) -> bool:
    """Whether the process that wrote the file is still running. PIDs are reused, so on Linux the start time must match,
    too, if the file contains it."""
    if not process_alive(process.pid):
        return False
    try:
        status = Path(f"/proc/{process.pid}/stat").read_text(errors="replace")
    except OSError:
        return True
    started = status.rpartition(")")[2].split()[19:20]
    return not isinstance(process.procStart, str) or started in ([], [process.procStart])


class ClaudeSessions:
    """Claude Code's implementation of ``StoredConversations``."""

    directories = staticmethod(sessions.directories)
    listed = staticmethod(sessions.listed)
    known = staticmethod(sessions.known)
    title = staticmethod(sessions.title)
    messages = staticmethod(earlier.messages)
    messages_from = staticmethod(earlier.messages_from)
    used_by = staticmethod(used_by)
