"""What the tests of editors share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.nvim.rig import Desk, desk
from tests.programs import each_nvim


@pytest.fixture(name="desk", params=each_nvim())
async def _desk(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Desk]:
    """A Neovim of each version with a bridge at it."""
    async with desk(request.param, tmp_path) as made:
        yield made
