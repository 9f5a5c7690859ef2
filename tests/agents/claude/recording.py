"""Records transcripts of the real ``claude`` in marked tests. Lists in ``system/init`` are cut to ``LONGEST_LIST`` entries."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from drawbridge.agents.claude.conversation import ClaudeConversation
from tests.agents import recording

TRANSCRIPTS = recording.TRANSCRIPTS / "server"

LONGEST_LIST = 3


class Recorder(recording.Recorder):
    def __init__(self, project: Path, patch: pytest.MonkeyPatch) -> None:
        place = Path(os.environ["HOME"]).parent
        places = [(str(project), "/project"), (os.environ["HOME"], "/home"), (str(place), "")]
        places += [
            (re.sub("[^A-Za-z0-9]", "-", str(place)), "")
        ]  # the form of the path in the names of the CLI's own files
        super().__init__("claude", ClaudeConversation, places, patch)

    def shown(self, line: str) -> dict[str, Any]:
        message = super().shown(re.sub(r"cc-socks/\d+", "cc-socks/4242", line))
        if message.get("subtype") != "init":
            return message
        return {name: value[:LONGEST_LIST] if isinstance(value, list) else value for name, value in message.items()}


def load(name: str) -> list[dict[str, Any]]:
    """Returns the lines of the newest recording with that name, without the first line."""
    return recording.load("server", f"*-{name}.jsonl")


Test = TypeVar("Test", bound=Callable[..., Any])
NAMED: dict[Callable[..., Any], tuple[str, str]] = {}


def recorded(name: str, what: str) -> Callable[[Test], Test]:
    """Marks a test whose session is recorded as the transcript ``name``. ``what``: one sentence about it."""

    def remember(test: Test) -> Test:
        NAMED[test] = (name, what)
        return test

    return remember
