"""What the tests of all agents share."""

from __future__ import annotations

from pathlib import Path

import pytest

POEM = "one\ntwo\n"


@pytest.fixture
def project(home: Path) -> Path:
    """A directory with a poem in it."""
    path = home / "project"
    path.mkdir()
    (path / "poem.txt").write_text(POEM)
    return path
