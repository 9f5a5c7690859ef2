"""The workstation of the end-to-end tests with Gemini CLI."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import programs
from tests.rigs.gemini_stub import GeminiStub
from tests.rigs.tmux import Tmux

from .workstation import Workstation


@pytest.fixture
def rig(home: Path) -> Iterator[Workstation]:
    programs.tmux()
    with GeminiStub() as model, Tmux.server() as tmux, Workstation(home / "project", model, tmux) as rig:
        yield rig
