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
import threading
from collections import deque
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from drawbridge.core.private_files import PRIVATE_FILE

FILE: Final = "audit.jsonl"

FILE_BYTES: Final = 10 * 1024 * 1024
FILES_KEPT: Final = 10

ENDING_SECONDS: Final = 5.0
"""The maximum time that a server that ends waits for another process's lock."""

MOST_QUEUED: Final = 10_000
"""The maximum number of entries that wait for another process's lock. More are only logged."""

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
        self._add(line)

    def _add(self, line: bytes) -> None:
        """Appends a line. Waits while another process holds the file's lock."""
        try:
            self._append(line)
        except OSError as error:
            _report(error.strerror, line)

    def _append(self, line: bytes, *, wait: bool = True) -> None:
        """Raises OSError, which is ``BlockingIOError`` if another process holds the lock, unless ``wait`` is set."""
        while True:
            file = os.open(
                self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, PRIVATE_FILE
            )
            try:
                fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
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


class ServerAuditLog(AuditLog):
    """The audit log as the event loop writes to it: an entry is in the file when ``write`` returns, unless another
    process holds the lock. Then a thread waits for the lock, and appends this entry and those that follow in their
    order."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._queued: deque[bytes] = deque()
        """The lines that wait for the lock. The thread removes a line when it is in the file, and ends when no line is
        left."""
        self._changing = threading.Lock()
        """Held for changes to the queue, but never while the thread waits or writes."""
        self._thread: threading.Thread | None = None

    def _add(self, line: bytes) -> None:
        with self._changing:
            if len(self._queued) >= MOST_QUEUED:
                return _report(STILL_LOCKED, line)
            if self._queued:
                return self._queued.append(line)
        # The queue is empty, so the thread writes nothing, and no other thread adds a line.
        try:
            self._append(line, wait=False)
        except BlockingIOError:
            self._queued.append(line)
            self._thread = threading.Thread(target=self._write_queued, name="waiting for the audit log", daemon=True)
            self._thread.start()
        except OSError as error:
            _report(error.strerror, line)
        return None

    def _write_queued(self) -> None:
        while True:
            super()._add(self._queued[0])
            with self._changing:
                self._queued.popleft()
                if not self._queued:
                    return

    def close(self) -> None:
        """Returns when all entries are in the file. Waits at most ``ENDING_SECONDS`` for the lock, and logs entries that
        are not in the file by then."""
        if self._thread is not None:
            self._thread.join(ENDING_SECONDS)
        with self._changing:
            for line in self._queued:
                _report(STILL_LOCKED, line)


STILL_LOCKED: Final = "it is locked by another process"


def _report(why: str | None, line: bytes) -> None:
    logger.error("the audit log can't be written (%s): %s", why, line.decode().rstrip())


def _short(value: Any) -> Any:
    return value.encode(errors="replace")[:TEXT].decode(errors="ignore") if isinstance(value, str) else value
