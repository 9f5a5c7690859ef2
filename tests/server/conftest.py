from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from drawbridge.server.sessions import file_index, places
from drawbridge.server.store import search
from tests.server.auth.rig import Server, serving
from tests.server.wire_client import WireClient


@pytest.fixture(autouse=True)
def time_to_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search or a walk that takes too long is ended: on a busy machine that is chance. Tests of the limits set their own."""
    monkeypatch.setattr(search, "SEARCH_SECONDS", 60.0)
    monkeypatch.setattr(places, "SEARCH_SECONDS", 60.0)
    monkeypatch.setattr(file_index, "WALK_SECONDS", 60.0)


@pytest.fixture
async def whole_server(tmp_path: Path) -> AsyncIterator[Server]:
    """With real projects, in the process of the test; also for folders whose ``server`` is another one."""
    async with serving(tmp_path) as server:
        yield server


@pytest.fixture
def server(whole_server: Server) -> Server:
    return whole_server


@pytest.fixture
async def owner(server: Server) -> AsyncIterator[WireClient]:
    async with server.client() as client:
        yield client
