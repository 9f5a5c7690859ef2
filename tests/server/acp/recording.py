"""What the real Gemini CLI and we said to each other: written down, and read again.

A transcript is JSON lines, as in ``tests/transcripts/server``: first ``{"cli", "recorded", "what"}``, then
``{"from": "gemini" | "drawbridge", "line": …}``. The test's directories are written as /project and /home, the CLI's long
list of commands is cut.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from drawbridge.agents.acp.conversation import AcpConversation
from drawbridge.agents.base import Output

TRANSCRIPTS = Path(__file__).parents[2] / "transcripts" / "acp"

RECORD_INTO = os.environ.get("DRAWBRIDGE_TEST_RECORD")
"""A directory: the named tests are recorded there."""


class Recorder:
    def __init__(self, project: Path, patch: pytest.MonkeyPatch) -> None:
        self._places = [(str(project), "/project"), (os.environ["HOME"], "/home")]
        self.lines: list[dict[str, Any]] = []
        received, outgoing = AcpConversation.received, AcpConversation.outgoing

        def hear(conversation: AcpConversation, line: bytes) -> list[Output]:
            self._add("gemini", line)
            return received(conversation, line)

        def tell(conversation: AcpConversation) -> bytes:
            data = outgoing(conversation)
            for line in data.splitlines():
                self._add("drawbridge", line)
            return data

        patch.setattr(AcpConversation, "received", hear)
        patch.setattr(AcpConversation, "outgoing", tell)

    def _add(self, sender: str, line: bytes) -> None:
        if line.strip():
            text = line.decode()
            for place, shown in self._places:
                text = text.replace(place, shown)
            message = json.loads(text)
            update = message.get("params", {}).get("update", {})
            if "availableCommands" in update:
                update["availableCommands"] = update["availableCommands"][:3]
            self.lines.append({"from": sender, "line": message})

    def write(self, name: str, what: str, version: str) -> None:
        first = {"cli": version, "recorded": datetime.now(UTC).date().isoformat(), "what": what}
        path = Path(RECORD_INTO or "") / f"gemini-{version}-{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in [first, *self.lines]))


def load(name: str) -> list[dict[str, Any]]:
    """The lines of the newest recording of that name, without the first."""
    path = sorted(TRANSCRIPTS.glob(f"gemini-*-{name}.jsonl"))[-1]
    return [json.loads(line) for line in path.read_text().splitlines()[1:]]
