"""Agents of other makers, as the server runs them: Gemini CLI with a stand-in for its model, and agents of our own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rigs.gemini_stub import GeminiStub

from .gemini import rig as gemini

POEM = "one\ntwo\n"


@pytest.fixture
def project(home: Path) -> Path:
    """A directory with a poem in it."""
    path = home / "project"
    path.mkdir()
    (path / "poem.txt").write_text(POEM)
    return path


@pytest.fixture
def model(project: Path) -> Iterator[GeminiStub]:
    """What Gemini CLI takes for its model; its folder is in the test's home."""
    gemini.prepare_home()
    with gemini.HoldingStub() as stub:
        yield stub
