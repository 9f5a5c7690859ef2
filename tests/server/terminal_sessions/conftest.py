"""A person's desk with a plain ``claude``, and an agent server of the same person, whose clients answer its questions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests import programs
from tests.e2e.conftest import pytest_runtest_makereport  # noqa: F401 - screens in the report of a test that failed
from tests.page.conftest import browser  # noqa: F401 - a fixture
from tests.rigs.tmux import Tmux
from tests.server.processes import Server, serving

from .rig import Models, ServedDesk


@pytest.fixture
def desk(home: Path) -> Iterator[ServedDesk]:
    programs.tmux()
    with Models() as model, Tmux.server() as tmux, ServedDesk(home / "project", model, tmux) as desk:
        yield desk


@pytest.fixture
async def server(home: Path) -> AsyncIterator[Server]:
    async with serving(home / "data", "--no-tls") as server:
        yield server
