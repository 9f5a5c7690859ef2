"""One browser for all tests of a process; for each test a server with the demo agent, and a project."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.server.processes import Server, serving

from .rig import Browser


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    browser = Browser()
    yield browser
    browser.close()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Of the project."""
    directory = tmp_path / "work" / "blog"
    directory.mkdir(parents=True)
    (directory / "notes.md").write_text("# Notes\n\nThe bridge is up.\n")
    return directory


@pytest.fixture
async def server(browser: Browser, tmp_path: Path, directory: Path) -> AsyncIterator[Server]:
    async with serving(tmp_path / "data", "--no-tls", "--allow", directory.parent) as server:
        yield server


def page_of(server: Server) -> str:
    return server.url.replace("ws://", "http://").removesuffix("ws")


async def project_in(server: Server, directory: Path) -> str:
    async with server.client() as client:
        await client.tell("project_create", {"path": str(directory), "agent": "demo"})
        return str((await client.hear("update", "project_state"))["project_id"])


@pytest.fixture
async def address(server: Server, directory: Path) -> str:
    """Of the project in the page, with the token: what a person would open."""
    project = await project_in(server, directory)
    return f"{page_of(server)}#token={server.token}&project={project}"
