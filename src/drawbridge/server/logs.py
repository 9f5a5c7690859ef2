"""The server's log, either for reading on a console or as one JSON object per line. Each line that is logged while a
command from a signed-in client is executed contains the request's correlation id."""

from __future__ import annotations

import logging
import logging.handlers
import sys
from datetime import UTC, datetime
from typing import Final, Literal

import msgspec

from drawbridge.core.log_text import encodable
from drawbridge.core.terminal_text import harmless
from drawbridge.server.app.dispatch import correlation

FILE_BYTES: Final = 10 * 1024 * 1024
FILES_KEPT: Final = 5


def configure(level: str, form: Literal["console", "json"], file: str | None) -> None:
    """Configures logging to stderr or, if ``file`` is not None, to that file. The file is rotated at 10 MB. Five old
    files are kept."""
    handler: logging.Handler
    if file is None:
        handler = logging.StreamHandler(sys.stderr)
    else:
        handler = logging.handlers.RotatingFileHandler(
            file, maxBytes=FILE_BYTES, backupCount=FILES_KEPT, encoding="utf-8", errors="backslashreplace"
        )
    handler.setFormatter(_Json() if form == "json" else _Console())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(True)


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _time(record).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": encodable(record.getMessage()),
        }
        if correlation_id := correlation.get():
            line["correlation_id"] = correlation_id
        if record.exc_info:
            line["exception"] = encodable(self.formatException(record.exc_info))
        return msgspec.json.encode(line).decode()


class _Console(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        when = _time(record).astimezone().strftime("%H:%M:%S")
        name = record.name.removeprefix("drawbridge.")
        where = f" [{correlation_id}]" if (correlation_id := correlation.get()) else ""
        line = f"{when} {record.levelname.lower():<7} {name}: {harmless(record.getMessage())}{where}"
        trace = self.formatException(record.exc_info).splitlines() if record.exc_info else []
        return "\n".join([line, *map(harmless, trace)])


def _time(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)
