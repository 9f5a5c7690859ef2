"""One VS Code for all tests of a process, and a desk at its main window for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from . import rig
from .desk import Desk


@pytest.fixture(scope="session")
def vscode() -> Iterator[rig.VSCode]:
    with rig.running() as vscode:
        yield vscode


@pytest.fixture(scope="session")
def main_window(vscode: rig.VSCode) -> rig.Window:
    """Shows two folders, ``one`` and ``two``."""
    folders = [vscode.directory / "one", vscode.directory / "two"]
    for folder in folders:
        folder.mkdir()
    return vscode.window(*folders)


@pytest.fixture
def desk(main_window: rig.Window, vscode: rig.VSCode, request: pytest.FixtureRequest) -> Iterator[Desk]:
    name = request.node.name.partition("[")[0]
    desk = Desk(main_window, vscode, _fresh(vscode.directory / "one", name))
    yield desk
    desk.clear()


def _fresh(folder: Path, name: str) -> Path:
    number = 0
    while (place := folder / f"{name[:60]}{number or ''}").exists():
        number += 1
    place.mkdir()
    return place
