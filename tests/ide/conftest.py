"""Fixtures for the tests of Gemini CLI's side of the bridge."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.ide.bridge_rig import BridgeRig
from tests.ide.gemini.rig import make_project, open_gemini_bridge


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_project(tmp_path)


@pytest.fixture
async def rig(folder: Path) -> AsyncIterator[BridgeRig]:
    async with open_gemini_bridge(folder) as rig:
        yield rig
