"""Records the messages between Gemini CLI and a bridge.

A transcript consists of JSON lines. The first describes it: ``{"cli", "recorded", "what"}``. Each other line is ``{"from":
"gemini" | "bridge", "at": seconds since the first request, "exchange": N, ...}`` with one of ``request`` (method, path,
headers, body), ``answer`` (status, headers, body), ``event`` (id and data from the event stream) or ``closed``. A
transcript contains no secret and nothing about the machine: placeholders replace the token, session IDs, the port and
paths, and the times of open files are all replaced by the same one.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

SHOWN_HEADERS = {"accept", "authorization", "content-type", "host", "last-event-id", "user-agent"}
SHOWN_TIME = 1_700_000_000_000


class Transcript:
    """A file of recorded lines without anything about this machine: ``<folder>/<version of the CLI>-<name>.jsonl``."""

    def __init__(self, folder: Path, name: str, what: str, placeholders: Mapping[str, str]) -> None:
        self._folder = folder
        self._name = name
        self._what = what
        self._placeholders = dict(placeholders)
        self._started: float | None = None
        self._lock = threading.Lock()

    def hide(self, secret: str, placeholder: str) -> None:
        """Writes ``placeholder`` instead of ``secret`` from now on. The first placeholder for a secret stays."""
        self._placeholders.setdefault(secret, placeholder)

    def add(self, sender: str, exchange: int, **said: object) -> None:
        with self._lock:
            if self._started is None:
                self._started = time.monotonic()
                version = said["request"]["body"]["params"]["clientInfo"]["version"]  # type: ignore[index]
                self._folder.mkdir(parents=True, exist_ok=True)
                self._file = self._folder / f"{version}-{self._name}.jsonl"
                self._file.write_text("")
                self._write({"cli": version, "recorded": datetime.now(UTC).date().isoformat(), "what": self._what})
            at = round(time.monotonic() - self._started, 3)
            self._write({"from": sender, "at": at, "exchange": exchange, **said})

    def _write(self, line: dict[str, Any]) -> None:
        text = json.dumps(_with_one_time(line), ensure_ascii=False)
        for secret, placeholder in self._placeholders.items():
            text = text.replace(secret, placeholder)
        with self._file.open("a", encoding="utf-8") as file:
            file.write(text + "\n")


def shown_headers(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Returns the headers that a transcript shows, with their names in lower case."""
    lower = {name.lower(): value for name, value in headers}
    return {name: value for name, value in lower.items() if name in SHOWN_HEADERS or name.startswith("mcp-")}


def _with_one_time(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: SHOWN_TIME if key == "timestamp" else _with_one_time(item) for key, item in value.items()}
    return [_with_one_time(item) for item in value] if isinstance(value, list) else value
