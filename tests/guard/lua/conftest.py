"""Runs each test with each installed version of Neovim."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.guard.lua.rig import Workstation, workstation
from tests.programs import each_nvim


@pytest.fixture(params=each_nvim())
def program(request: pytest.FixtureRequest) -> Path:
    assert isinstance(request.param, Path)
    return request.param


@pytest.fixture
async def at(program: Path, tmp_path: Path) -> AsyncIterator[Workstation]:
    """A Neovim without configuration, and a user who works in it."""
    async with workstation(program, tmp_path) as made:
        yield made
