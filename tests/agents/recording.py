"""Records what a real agent and its driver send each other, and reads the recordings.

A transcript consists of JSON lines. The first one describes it: ``{"cli", "recorded", "what"}``. The others are
``{"from": AGENT | "drawbridge", "line": …}``. A transcript contains no paths of this machine. The test's directories
are written as /project and /home.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from drawbridge.agents.base import Output, Unread

TRANSCRIPTS = Path(__file__).parents[1] / "transcripts"

RECORD_INTO = os.environ.get("DRAWBRIDGE_TEST_RECORD")
"""The directory for the transcripts that tests record; None to record nothing."""


class Recorder:
    """Records every conversation of one test by wrapping the methods ``received`` and ``outgoing`` of ``conversation``.

    ``places``: pairs of a text that is specific to this machine and the text that replaces it.
    """

    def __init__(
        self,
        agent: str,
        conversation: type[Any],
        places: list[tuple[str, str]],
        patch: pytest.MonkeyPatch,
    ) -> None:
        self._places = places
        self.lines: list[dict[str, Any]] = []
        received, outgoing = conversation.received, conversation.outgoing

        def recorded_received(conversation: Any, line: bytes) -> Any:
            self._add(agent, line)
            return received(conversation, line)

        def recorded_outgoing(conversation: Any) -> Any:
            data = outgoing(conversation)
            for line in data.splitlines():
                self._add("drawbridge", line)
            return data

        patch.setattr(conversation, "received", recorded_received)
        patch.setattr(conversation, "outgoing", recorded_outgoing)

    def _add(self, sender: str, line: bytes) -> None:
        if line.strip():
            self.lines.append({"from": sender, "line": self.shown(line.decode())})

    def shown(self, line: str) -> dict[str, Any]:
        """Returns the message as it is recorded."""
        for place, shown in self._places:
            line = line.replace(place, shown)
        message: dict[str, Any] = json.loads(line)
        return message

    def write(self, file: str, what: str, version: str) -> None:
        """Writes the transcript as ``file`` into ``RECORD_INTO``."""
        first = {"cli": version, "recorded": datetime.now(UTC).date().isoformat(), "what": what}
        path = Path(RECORD_INTO or "") / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in [first, *self.lines]))


def read(output: Output) -> Output:
    """Returns a question after the file that it is about was read. Returns any other output unchanged."""
    return output.read() if isinstance(output, Unread) else output


def load(folder: str, pattern: str) -> list[dict[str, Any]]:
    """Returns the lines of the newest transcript in ``folder`` that matches ``pattern``, without the first line."""
    path = sorted((TRANSCRIPTS / folder).glob(pattern))[-1]
    return [json.loads(line) for line in path.read_text().splitlines()[1:]]
