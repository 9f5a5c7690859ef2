"""Starts the real Gemini CLI as an agent of the server."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

from drawbridge.agents.gemini.driver import Gemini
from tests import programs
from tests.rigs import gemini_rig
from tests.rigs.gemini_stub import GeminiStub, Part, text
from tests.waiting import PATIENCE

HOLD = text("(the model is silent)")


class HoldingStub(GeminiStub):
    """A stub that holds back a turn with ``HOLD`` until the test ends, but no longer than ``PATIENCE`` seconds."""

    def __init__(self) -> None:
        super().__init__()
        self._over = threading.Event()

    def answer(self, body: dict[str, Any]) -> list[Part]:
        parts = super().answer(body)
        if HOLD in parts:
            self._over.wait(PATIENCE)
        return parts

    def __exit__(self, *_: object) -> None:
        self._over.set()
        super().__exit__()


def prepare_home() -> None:
    """Writes the CLI's settings as after onboarding: with an API key, without folder trust or the IDE connection."""
    folder = Path(os.environ["HOME"]) / ".gemini"
    folder.mkdir(exist_ok=True)
    (folder / "settings.json").write_text(json.dumps(gemini_rig.SETTINGS | {"ide": {"enabled": False}}))


def agent(model: GeminiStub) -> Gemini:
    return Gemini(str(programs.gemini()), gemini_rig.environment(model))
