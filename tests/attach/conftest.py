"""For each test a server with the demo agent and a project "blog"."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from drawbridge.attach import approval_view
from tests.server.processes import Server, serving


@pytest.fixture(autouse=True)
def _quick_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody here presses a key that was meant for something else, but where a test says so."""
    monkeypatch.setattr(approval_view, "READING_SECONDS", 0.0)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    directory = tmp_path / "work" / "blog"
    directory.mkdir(parents=True)
    (directory / "notes.md").write_text("# Notes\n\nThe bridge is up.\n")
    return directory


@pytest.fixture
async def server(tmp_path: Path, directory: Path) -> AsyncIterator[Server]:
    async with serving(tmp_path / "data", "--no-tls", "--allow", directory.parent) as server:
        await make_project(server, directory)
        yield server


async def make_project(server: Server, directory: Path) -> str:
    async with server.client() as client:
        await client.tell("project_create", {"path": str(directory), "agent": "demo"})
        return str((await client.hear("update", "project_state"))["project_id"])
