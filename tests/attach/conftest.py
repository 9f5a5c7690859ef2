"""One server for all tests of a process; for each test a project of its own with the demo agent."""

from __future__ import annotations

import itertools
import json
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import IO, cast

import pytest

from drawbridge.attach import approval_view
from tests.page.conftest import COMMAND
from tests.server.processes import Server

ENDING_SECONDS = 15.0


@pytest.fixture(autouse=True)
def _quick_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody here presses a key that was meant for something else, but where a test says so."""
    monkeypatch.setattr(approval_view, "READING_SECONDS", 0.0)


@pytest.fixture(scope="session")
def lasting() -> Iterator[Server]:
    """In a place that belongs to no test: it outlives each of them."""
    with tempfile.TemporaryDirectory(prefix="db-attach-", dir="/tmp") as place:
        root = Path(place)
        (root / "work").mkdir()
        arguments = ["--json", "--port", "0", "--no-tls", "--data-dir", root / "data", "--allow", root / "work"]
        command = [*COMMAND, *map(str, arguments), "--max-runs", "50", "--continue-limited"]
        with (root / "errors").open("w+b") as errors:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)
            out = cast(IO[bytes], process.stdout)
            line = out.readline()
            assert line, (root / "errors").read_text()
            yield Server(None, errors, json.loads(line), root / "data")  # type: ignore[arg-type]  # nobody here ends it
            process.terminate()
            assert process.wait(ENDING_SECONDS) == 0, (root / "errors").read_text()
            out.close()


_numbers = itertools.count(1)


@pytest.fixture
def directory(lasting: Server) -> Path:
    """Of the project. Its own is the name, too."""
    return make_directory(lasting.data.parent / "work" / f"blog{next(_numbers)}")


def make_directory(path: Path) -> Path:
    path.mkdir(parents=True)
    (path / "notes.md").write_text("# Notes\n\nThe bridge is up.\n")
    return path


@pytest.fixture
async def server(lasting: Server, directory: Path) -> AsyncIterator[Server]:
    """There is a project in ``directory``; all of them are gone afterwards."""
    await make_project(lasting, directory)
    yield lasting
    async with lasting.client() as client:
        for project in (await client.ask("project_list"))["data"]["projects"]:
            await client.ask("agent_kill", project_id=project["id"])
            await client.ask("project_delete", project_id=project["id"])


async def make_project(server: Server, directory: Path) -> str:
    async with server.client() as client:
        await client.tell("project_create", {"path": str(directory), "agent": "demo"})
        return str((await client.hear("update", "project_state"))["project_id"])
