"""The desk that every end-to-end test sits at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import programs
from tests.rigs.messages_stub import MessagesStub
from tests.rigs.tmux import Tmux

from .desk import Desk


@pytest.fixture
def desk(home: Path) -> Iterator[Desk]:
    programs.tmux()
    with MessagesStub() as model, Tmux.server() as tmux, Desk(home / "project", model, tmux) as desk:
        yield desk
