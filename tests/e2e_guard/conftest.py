"""The desk that every end-to-end test of the guard sits at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import programs
from tests.e2e.conftest import pytest_runtest_makereport  # noqa: F401 - screens in the report of a test that failed
from tests.e2e.messages_stub import MessagesStub
from tests.e2e.tmux import Tmux

from .desk import GuardedDesk


def oldest_and_newest() -> list[Any]:
    """The oldest with ``make thorough``: what agents do is the same, and tests/guard_nvim asks it everything in every run."""
    *older, newest = programs.each_nvim()
    return [pytest.param(*one.values, id=one.id, marks=pytest.mark.thorough) for one in older[:1]] + [newest]


@pytest.fixture
def desk(home: Path) -> Iterator[GuardedDesk]:
    programs.tmux()
    with MessagesStub() as model, Tmux.server() as tmux, GuardedDesk(home / "project", model, tmux) as desk:
        yield desk
