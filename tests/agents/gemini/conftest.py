"""Gemini CLI as the server runs it, with a stub for its model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.gemini import rig as gemini
from tests.rigs.gemini_stub import GeminiStub


@pytest.fixture
def model(project: Path) -> Iterator[GeminiStub]:
    """What Gemini CLI takes for its model; its folder is in the test's home."""
    gemini.prepare_home()
    with gemini.HoldingStub() as stub:
        yield stub
