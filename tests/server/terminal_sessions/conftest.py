"""A workstation with a plain ``claude``, and a server of the same user, whose clients answer the agent's approval
requests.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests import programs
from tests.e2e.conftest import pytest_runtest_makereport  # noqa: F401 - screens in the report of a test that failed
from tests.page.conftest import browser  # noqa: F401 - a fixture
from tests.rigs.tmux import Tmux
from tests.server.processes import Server, serving

from .rig import Models, ServedWorkstation


@pytest.fixture
def rig(home: Path) -> Iterator[ServedWorkstation]:
    programs.tmux()
    with Models() as model, Tmux.server() as tmux, ServedWorkstation(home / "project", model, tmux) as rig:
        yield rig


@pytest.fixture
async def server(home: Path) -> AsyncIterator[Server]:
    async with serving(home / "data", "--no-tls") as server:
        yield server
