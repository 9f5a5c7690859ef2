"""A project in a git work tree, and its checkpoints."""

from __future__ import annotations

from pathlib import Path

import pytest

from drawbridge.server.checkpoints.checkpoints import Checkpoints
from tests.server.checkpoints.rig import make_project


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "project")


@pytest.fixture
def checkpoints(project: Path, tmp_path: Path) -> Checkpoints:
    """The project's checkpoints, with a folder in which the index of the last checkpoint is kept."""
    folder = tmp_path / "data"
    folder.mkdir()
    return Checkpoints(project, "proj_1", folder=folder)
