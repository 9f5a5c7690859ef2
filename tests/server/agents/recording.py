"""What the real CLI and we said to each other: written down, and read again.

A transcript is JSON lines. First what it is: ``{"cli", "recorded", "what"}``. Then ``{"from": "claude" | "drawbridge",
"line": …}``. Nothing of the machine gets in: the test's directories are written as /project and /home, the long lists of
``system/init`` are cut to three entries.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import pytest

from drawbridge.agents.base import Output
from drawbridge.agents.claude.conversation import ClaudeConversation

TRANSCRIPTS = Path(__file__).parents[2] / "transcripts" / "server"

RECORD_INTO = os.environ.get("DRAWBRIDGE_TEST_RECORD")
"""A directory: sessions that a test names are recorded there."""

LONGEST_LIST = 3


class Recorder:
    """Listens to every conversation of one test."""

    def __init__(self, project: Path, patch: pytest.MonkeyPatch) -> None:
        place = Path(os.environ["HOME"]).parent
        self._places = [(str(project), "/project"), (os.environ["HOME"], "/home"), (str(place), "")]
        self._places += [(re.sub("[^A-Za-z0-9]", "-", str(place)), "")]  # as the CLI names its own files
        self._lines: list[dict[str, Any]] = []
        received, outgoing = ClaudeConversation.received, ClaudeConversation.outgoing

        def hear(conversation: ClaudeConversation, line: bytes) -> list[Output]:
            self._add("claude", line)
            return received(conversation, line)

        def tell(conversation: ClaudeConversation) -> bytes:
            data = outgoing(conversation)
            for line in data.splitlines():
                self._add("drawbridge", line)
            return data

        patch.setattr(ClaudeConversation, "received", hear)
        patch.setattr(ClaudeConversation, "outgoing", tell)

    def _add(self, sender: str, line: bytes) -> None:
        if line.strip():
            text = line.decode()
            for place, shown in self._places:
                text = text.replace(place, shown)
            text = re.sub(r"cc-socks/\d+", "cc-socks/4242", text)
            self._lines.append({"from": sender, "line": _shortened(json.loads(text))})

    def write(self, name: str, what: str, version: str) -> None:
        first = {"cli": version, "recorded": datetime.now(UTC).date().isoformat(), "what": what}
        path = Path(RECORD_INTO or "") / f"{version}-{name}.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in [first, *self._lines]))


def _shortened(message: dict[str, Any]) -> dict[str, Any]:
    if message.get("subtype") != "init":
        return message
    return {name: value[:LONGEST_LIST] if isinstance(value, list) else value for name, value in message.items()}


def load(name: str) -> list[dict[str, Any]]:
    """The lines of the newest recording of that name, without the first."""
    path = sorted(TRANSCRIPTS.glob(f"*-{name}.jsonl"))[-1]
    return [json.loads(line) for line in path.read_text().splitlines()[1:]]


Test = TypeVar("Test", bound=Callable[..., Any])
NAMED: dict[Callable[..., Any], tuple[str, str]] = {}


def recorded(name: str, what: str) -> Callable[[Test], Test]:
    """What happens in this test is to be kept as a transcript: its name, and a sentence about it."""

    def remember(test: Test) -> Test:
        NAMED[test] = (name, what)
        return test

    return remember
