"""The desk that every end-to-end test of the guard sits at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import programs
from tests.rigs.messages_stub import MessagesStub
from tests.rigs.tmux import Tmux

from .desk import GuardedDesk


@pytest.fixture
def desk(home: Path) -> Iterator[GuardedDesk]:
    programs.tmux()
    with MessagesStub() as model, Tmux.server() as tmux, GuardedDesk(home / "project", model, tmux) as desk:
        yield desk
