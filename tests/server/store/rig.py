"""Timestamps, messages, and a reader of history files that shares no code with the one under test."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from drawbridge.server.store.log import History, Page

NOON = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    """The time that is ``seconds`` seconds after ``NOON``."""
    return NOON + timedelta(seconds=seconds)


def message(text: object, size: int = 0) -> bytes:
    return json.dumps({"type": "assistant", "text": text, "rest": "x" * size}).encode()


def open_history(directory: Path, **options: Any) -> History:
    return History.open(directory, **{"fsync": "off", **options})


def fill(history: History, count: int, size: int = 0) -> None:
    """Appends ``count`` records, one second apart."""
    for _ in range(count):
        number = history.last_seq + 1
        history.append("claude", message(number, size), at(number))


def files(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("messages_*.jsonl"))


def seqs(page: Page) -> list[int]:
    return [record.seq for record in page.records]


def all_seqs(history: History) -> list[int]:
    return [record.seq for record in history.after(0)]


def read_independently(directory: Path, *, torn_end: bool = False) -> list[dict[str, Any]]:
    """The records in all files, sorted by number. Each line must be valid JSON. Data after the last line break of a
    file is ignored if ``torn_end``, and fails the test otherwise.
    """
    found = []
    for path in directory.glob("messages_*.jsonl"):
        *lines, rest = path.read_bytes().split(b"\n")
        assert torn_end or rest == b"", f"{path.name} ends in the middle of a line"
        found += [json.loads(line) for line in lines]
    return sorted(found, key=lambda record: record["seq"])
