"""Fixtures for Gemini CLI as the server runs it, with a stub for its model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.gemini import rig as gemini
from tests.rigs.gemini_stub import GeminiStub


@pytest.fixture
def model(project: Path) -> Iterator[GeminiStub]:
    """Starts a stub for Gemini CLI's model and writes the CLI's settings to the test's home directory."""
    gemini.prepare_home()
    with gemini.HoldingStub() as stub:
        yield stub
