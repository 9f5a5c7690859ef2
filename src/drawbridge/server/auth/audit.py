"""The audit log: who signed in, who was refused, who started a run, and who decided on what. Each entry is one line of
JSON, for the owner.

Entries are only appended to ``audit.jsonl`` (0600) in the data directory. At 10 MB, the file is renamed to
``audit.jsonl.1``. Ten old files are kept. No client command reads, changes or removes the log. It contains names, ids,
addresses and paths, but never file contents, prompts or secrets.
"""

from __future__ import annotations

import fcntl
import logging
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from drawbridge.core.private_files import PRIVATE_FILE

FILE: Final = "audit.jsonl"

FILE_BYTES: Final = 10 * 1024 * 1024
FILES_KEPT: Final = 10

TEXT: Final = 300
"""The maximum number of bytes of a text field. Longer texts are cut."""

logger = logging.getLogger("drawbridge.server")


class AuditLog:
    """The audit log of one data directory. Several processes may write to it. If a write fails, the error is logged and
    nothing is raised."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE

    def write(self, event: str, **fields: Any) -> None:
        """Appends an entry. ``fields`` that are None are left out."""
        kept = {name: _short(value) for name, value in fields.items() if value is not None}
        moment = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = msgspec.json.encode({"time": moment, "event": event, **kept}) + b"\n"
        try:
            self._append(line)
        except OSError as error:
            logger.error("the audit log can't be written (%s): %s", error.strerror, line.decode().rstrip())

    def _append(self, line: bytes) -> None:
        while True:
            file = os.open(
                self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, PRIVATE_FILE
            )
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
                found = os.fstat(file)
                if not self._is_current(found):
                    continue  # another process has started a new file in the meantime
                if found.st_size and found.st_size + len(line) > FILE_BYTES:
                    self._rotate()
                    continue
                view = memoryview(line)
                try:
                    while view:
                        view = view[os.write(file, view) :]
                except OSError:
                    # A part may have been written to a disk that is now full. The next entry would be appended to it.
                    os.ftruncate(file, found.st_size)
                    raise
                return
            finally:
                os.close(file)

    def _is_current(self, found: os.stat_result) -> bool:
        try:
            return os.path.samestat(self._path.stat(), found)
        except FileNotFoundError:
            return False

    def _rotate(self) -> None:
        for number in range(FILES_KEPT, 0, -1):
            older = self._path if number == 1 else self._path.with_name(f"{FILE}.{number - 1}")
            if older.exists():
                os.replace(older, self._path.with_name(f"{FILE}.{number}"))


def _short(value: Any) -> Any:
    return value.encode(errors="replace")[:TEXT].decode(errors="ignore") if isinstance(value, str) else value
