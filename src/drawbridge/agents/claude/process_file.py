"""The CLI's own file about one of its processes, ``<config>/sessions/<pid>.json``. It is undocumented (2.1.329), so a
file in another format is ignored.

It shows what no hook reports: that the user has moved the conversation to the background (the left arrow key in
``claude``), and that the agent waits for a prompt although its turn did not end. Pressing Esc before the first words of
an answer puts the prompt back into the prompt box, and leaves no line in the conversation's file.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from drawbridge.core.json_text import UNDECODABLE

SIZE: Final = 64 * 1024
"""The maximum number of bytes that are read."""

IDLE: Final = ("idle", "shell")

JOB: Final = re.compile(r"[0-9a-f]{8}")


class ProcessFile(
    Struct, rename={"session_id": "sessionId", "job": "parkedJobId", "updated": "statusUpdatedAt"}, frozen=True
):
    """The contents of the file. ``status``: "busy", "waiting" (for an answer), "idle", or "shell" (idle, while a
    command runs in the background), since ``updated`` (milliseconds since 1970). The status is "busy" until the last
    Stop hook has ended. ``job``: the beginning of the id of the background session to which the conversation was
    moved."""

    session_id: str = ""
    job: str | None = None
    status: str = ""
    updated: float = 0.0

    def moved_to(self, session_id: str) -> str | None:
        """The first 8 characters of the id of the background session that continues the session ``session_id``; None if
        no session does.

        The CLI copies the conversation into a background session with its own id and process. The previous process
        keeps running, but only shows the list of agents.
        """
        moved = self.session_id == session_id and self.job is not None and JOB.fullmatch(self.job)
        return self.job if moved else None

    def idle_since(self, session_id: str) -> float | None:
        """The time at which the agent began to wait for a prompt (seconds since 1970); None if it is not waiting, or if
        that is not known."""
        return self.updated / 1000 if self.session_id == session_id and self.status in IDLE else None


def read(transcript: str, pid: int) -> ProcessFile:
    """Reads the CLI's file about the process ``pid``. Returns an empty ``ProcessFile`` if that fails. ``transcript``:
    the checked path of the conversation's file. Blocking."""
    path = Path(transcript).parent.parent.parent / "sessions" / f"{pid}.json"
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return ProcessFile()
    try:
        return msgspec.json.decode(os.read(file, SIZE), type=ProcessFile)
    except (OSError, *UNDECODABLE):
        return ProcessFile()
    finally:
        os.close(file)
