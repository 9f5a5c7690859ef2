"""Whether a person has moved a conversation to the background (the left arrow in ``claude``).

The CLI then copies the conversation into a background session with an id and a process of its own; the former process stays
and only shows the list of agents, and no hook reports it. Its file about its process does, which is undocumented (2.1.329):
a file of another form means that the conversation was not moved.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

MOST_BYTES: Final = 64 * 1024

JOB: Final = re.compile(r"[0-9a-f]{8}")


class _Process(Struct, rename={"session_id": "sessionId", "job": "parkedJobId"}):
    session_id: str = ""
    job: str | None = None


def moved_to(transcript: str, session_id: str, pid: int) -> str | None:
    """How the id of the background session begins that continues this one. ``transcript``: this one's checked file."""
    path = Path(transcript).parent.parent.parent / "sessions" / f"{pid}.json"
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        process = msgspec.json.decode(os.read(file, MOST_BYTES), type=_Process)
    except (OSError, msgspec.MsgspecError):
        return None
    finally:
        os.close(file)
    moved = process.session_id == session_id and process.job is not None and JOB.fullmatch(process.job)
    return process.job if moved else None
