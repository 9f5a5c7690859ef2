"""The workstation for the guard's end-to-end tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import programs
from tests.rigs.messages_stub import MessagesStub
from tests.rigs.tmux import Tmux

from .workstation import GuardedWorkstation


@pytest.fixture
def rig(home: Path) -> Iterator[GuardedWorkstation]:
    programs.tmux()
    with MessagesStub() as model, Tmux.server() as tmux, GuardedWorkstation(home / "project", model, tmux) as rig:
        yield rig
