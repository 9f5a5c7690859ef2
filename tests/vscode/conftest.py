"""One VS Code for all tests of a process, and for each test a workstation in its main window."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .rig import VSCode, Window, running
from .workstation import Workstation


@pytest.fixture(scope="session")
def vscode() -> Iterator[VSCode]:
    with running() as vscode:
        yield vscode


@pytest.fixture(scope="session")
def main_window(vscode: VSCode) -> Window:
    """The window that all tests share. It shows two folders, ``one`` and ``two``."""
    folders = [vscode.directory / "one", vscode.directory / "two"]
    for folder in folders:
        folder.mkdir()
    return vscode.window(*folders)


@pytest.fixture
def rig(main_window: Window, vscode: VSCode, request: pytest.FixtureRequest) -> Iterator[Workstation]:
    name = request.node.name.partition("[")[0]
    rig = Workstation(main_window, vscode, _fresh(vscode.directory / "one", name))
    yield rig
    rig.clear()


def _fresh(folder: Path, name: str) -> Path:
    number = 0
    while (place := folder / f"{name[:60]}{number or ''}").exists():
        number += 1
    place.mkdir()
    return place
