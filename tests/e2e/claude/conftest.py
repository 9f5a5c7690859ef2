"""The workstation of the end-to-end tests with Claude Code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import programs
from tests.rigs.messages_stub import MessagesStub
from tests.rigs.tmux import Tmux

from .workstation import Workstation


@pytest.fixture
def rig(home: Path) -> Iterator[Workstation]:
    programs.tmux()
    with MessagesStub() as model, Tmux.server() as tmux, Workstation(home / "project", model, tmux) as rig:
        yield rig
