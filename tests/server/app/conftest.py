from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.server.app.rig import TOKEN, Server, serving
from tests.server.wire_client import WireClient, connected


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with serving(tmp_path) as server:
        yield server


@pytest.fixture
async def client(server: Server) -> AsyncIterator[WireClient]:
    """A client that authenticates with the token in its header."""
    async with connected(server.url, TOKEN) as client:
        yield client
