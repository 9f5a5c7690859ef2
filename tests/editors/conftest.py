"""What the tests of editors share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from drawbridge.editors import neovim_rpc
from tests.editors.rigs import KINDS, Rig
from tests.nvim.rig import Workstation, workstation
from tests.programs import each_nvim
from tests.waiting import PATIENCE


@pytest.fixture(autouse=True)
def _patient() -> Iterator[None]:
    """The bridge waits for a Neovim on a busy machine. Tests of one that hangs set and undo their own limit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neovim_rpc, "CALL_SECONDS", PATIENCE)
        patch.setattr(neovim_rpc, "CONNECT_SECONDS", PATIENCE)
        yield


@pytest.fixture(name="rig", params=each_nvim())
async def _rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Workstation]:
    """A Neovim of each version with a bridge at it."""
    async with workstation(request.param, tmp_path) as made:
        yield made


@pytest.fixture(params=KINDS)
async def editor_rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    """Every kind of editor with a bridge at it and a person who uses it, in an empty folder."""
    folder = tmp_path / "work"
    folder.mkdir()
    async with request.param.start(folder) as rig:
        yield rig
