from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.server.auth.rig import Server, serving
from tests.server.wire_client import WireClient


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with serving(tmp_path) as server:
        yield server


@pytest.fixture
async def owner(server: Server) -> AsyncIterator[WireClient]:
    async with server.client() as client:
        yield client
