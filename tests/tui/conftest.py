"""One server for all tests of a process. Each test has its own project, with the demo agent."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet

from drawbridge.tui import approval_view
from tests.page.agent import COMMAND
from tests.server import processes
from tests.server.processes import Server
from tests.server.wire_client import deleted


@pytest.fixture(autouse=True)
def _quick_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys answer an approval request as soon as it appears, unless a test sets ``READING_SECONDS``."""
    monkeypatch.setattr(approval_view, "READING_SECONDS", 0.0)


@pytest.fixture(autouse=True)
def _quick_pilot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shortens the pilot's checks for an idle application to a quarter. Each check still takes longer than one frame at
    the 240 frames a second that tests/conftest.py sets, as Textual's own checks do at 60."""
    monkeypatch.setattr("textual._wait.SLEEP_GRANULARITY", 1 / 200)
    monkeypatch.setattr("textual._wait.SLEEP_IDLE", 1 / 4_000)


_parsed: dict[object, list[RuleSet]] = {}


@pytest.fixture(autouse=True)
def _quick_styles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parses each style sheet once for all tests, because each test has a new application, which would parse them all
    again."""
    parse = Stylesheet._parse_rules

    def parse_once(self: Stylesheet, *given: Any, **named: Any) -> list[RuleSet]:
        key = (given, tuple(named.items()), tuple(self._variables.items()))
        if key not in _parsed:
            _parsed[key] = parse(self, *given, **named)
        return _parsed[key]

    monkeypatch.setattr(Stylesheet, "_parse_rules", parse_once)


@pytest.fixture(scope="session")
def lasting() -> Iterator[Server]:
    with processes.lasting(
        "db-attach-", "--max-runs", "50", "--continue-limited", "--allow-commit", command=COMMAND
    ) as server:
        yield server


_numbers = itertools.count(1)


@pytest.fixture
def directory(lasting: Server) -> Path:
    """The project's directory, whose name no other test uses."""
    return make_directory(lasting.data.parent / "work" / f"blog{next(_numbers)}")


def make_directory(path: Path) -> Path:
    path.mkdir(parents=True)
    (path / "notes.md").write_text("# Notes\n\nThe bridge is up.\n")
    return path


@pytest.fixture
async def server(lasting: Server, directory: Path) -> AsyncIterator[Server]:
    """The shared server, with a project in ``directory``. All its projects are deleted after the test."""
    await make_project(lasting, directory)
    yield lasting
    async with lasting.client() as client:
        for project in (await client.ask("project_list"))["data"]["projects"]:
            await client.ask("agent_kill", project_id=project["id"])
            await deleted(client, project["id"])


async def make_project(server: Server, directory: Path) -> str:
    async with server.client() as client:
        await client.send("project_create", {"path": str(directory), "agent": "demo"})
        return str((await client.receive("update", "project_state"))["project_id"])
