"""What the tests of Gemini CLI's side of the bridge share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.ide.gemini_rig import House, make_project, open_house


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_project(tmp_path)


@pytest.fixture
async def house(folder: Path) -> AsyncIterator[House]:
    async with open_house(folder) as house:
        yield house
