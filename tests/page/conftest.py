"""Fixtures with one browser and one server for all tests of a process. Each test has its own directory and project."""

from __future__ import annotations

import functools
import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests import programs
from tests.e2e.conftest import pytest_runtest_makereport  # noqa: F401 - adds screens to the report of a failed test
from tests.server import processes
from tests.server.processes import Server
from tests.server.wire_client import deleted

from .agent import COMMAND
from .rig import Browser

serving = functools.partial(processes.serving, command=COMMAND)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    browser = Browser()
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def lasting() -> Iterator[Server]:
    programs.page()  # a server that starts during the build would serve only some of the files
    with processes.lasting("db-page-", "--continue-limited", command=COMMAND) as server:
        yield server


_numbers = itertools.count(1)


@pytest.fixture
def directory(lasting: Server) -> Path:
    """The directory of the project."""
    directory = lasting.data.parent / "work" / str(next(_numbers)) / "blog"
    directory.mkdir(parents=True)
    (directory / "notes.md").write_text("# Notes\n\nThe bridge is up.\n")
    return directory


@pytest.fixture
async def server(browser: Browser, lasting: Server) -> AsyncIterator[Server]:
    """The shared server. All its projects are removed after the test."""
    yield lasting
    async with lasting.client() as client:
        for project in (await client.ask("project_list"))["data"]["projects"]:
            await client.ask("agent_kill", project_id=project["id"])
            await deleted(client, project["id"])


@pytest.fixture
async def own_server(browser: Browser, tmp_path: Path, directory: Path) -> AsyncIterator[Server]:
    """A new server for this test only, to which no client has connected yet."""
    async with serving(tmp_path / "data", "--no-tls", "--allow", directory.parent) as server:
        yield server


def page_of(server: Server) -> str:
    return server.url.replace("ws://", "http://").removesuffix("ws")


async def project_in(server: Server, directory: Path) -> str:
    async with server.client() as client:
        await client.send("project_create", {"path": str(directory), "agent": "demo"})
        return str((await client.receive("update", "project_state"))["project_id"])


@pytest.fixture
async def address(server: Server, directory: Path) -> str:
    """The address of the project in the web UI, including the token."""
    project = await project_in(server, directory)
    return f"{page_of(server)}#token={server.token}&project={project}"
