"""Records and reads transcripts of the real Gemini CLI. Lists of commands are cut to three entries."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from drawbridge.agents.acp.conversation import AcpConversation
from tests.agents import recording


class Recorder(recording.Recorder):
    def __init__(self, project: Path, patch: pytest.MonkeyPatch) -> None:
        super().__init__("gemini", AcpConversation, [(str(project), "/project"), (os.environ["HOME"], "/home")], patch)

    def shown(self, line: str) -> dict[str, Any]:
        message = super().shown(line)
        update = message.get("params", {}).get("update", {})
        if "availableCommands" in update:
            update["availableCommands"] = update["availableCommands"][:3]
        return message


def load(name: str) -> list[dict[str, Any]]:
    """Returns the lines of the newest recording with that name, without the first line."""
    return recording.load("acp", f"gemini-*-{name}.jsonl")
