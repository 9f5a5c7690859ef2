"""Fixtures that the tests of editors share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from drawbridge.editors.neovim import rpc as neovim_rpc
from tests.editors.rigs import KINDS, Rig
from tests.nvim.rig import Workstation, workstation
from tests.programs import each_nvim
from tests.waiting import PATIENCE


@pytest.fixture(autouse=True)
def _patient() -> Iterator[None]:
    """Gives a Neovim on a busy machine more time to answer. Tests of a Neovim that hangs set their own limit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neovim_rpc, "CALL_SECONDS", PATIENCE)
        patch.setattr(neovim_rpc, "CONNECT_SECONDS", PATIENCE)
        yield


@pytest.fixture(name="rig", params=each_nvim())
async def _rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Workstation]:
    """A Neovim of each version, with a connected bridge."""
    async with workstation(request.param, tmp_path) as made:
        yield made


@pytest.fixture(params=KINDS)
async def editor_rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    """Each kind of editor in an empty folder, with a connected bridge and a person who uses it."""
    folder = tmp_path / "work"
    folder.mkdir()
    async with request.param.start(folder) as rig:
        yield rig
