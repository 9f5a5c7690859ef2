"""The real Gemini CLI as an agent of the server."""

from __future__ import annotations

import json
import os
from pathlib import Path

from drawbridge.server.agents.gemini import Gemini
from tests import programs
from tests.e2e_gemini import gemini_rig
from tests.e2e_gemini.gemini_stub import GeminiStub


def prepare_home() -> None:
    """As if the person had been through the CLI's first start: an API key is to be used, folders are trusted."""
    folder = Path(os.environ["HOME"]) / ".gemini"
    folder.mkdir(exist_ok=True)
    (folder / "settings.json").write_text(json.dumps(gemini_rig.SETTINGS | {"ide": {"enabled": False}}))


def agent(model: GeminiStub) -> Gemini:
    return Gemini(str(programs.gemini()), gemini_rig.environment(model))
