"""``drawbridge doctor`` in a project in the test's own home, with only the agents and editors that a test adds."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from drawbridge.agents import catalog
from drawbridge.cli import main
from drawbridge.doctor import agents, bridges, hooks, machine, report, servers
from drawbridge.info import guards
from tests.waiting import PATIENCE


class Output(NamedTuple):
    code: int
    output: str
    errors: str

    @property
    def findings(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.output)["findings"]
        return found

    @property
    def wrong(self) -> list[str]:
        """The ids of the problems and warnings."""
        return [one["id"] for one in self.findings if one["severity"] in ("problem", "warning")]

    def one(self, id: str) -> dict[str, Any]:
        """The only finding with this id."""
        [found] = [one for one in self.findings if one["id"] == id]
        return found

    def ids(self) -> set[str]:
        return {one["id"] for one in self.findings}


Doctor = Callable[..., Output]


@pytest.fixture
def project(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = home / "project"
    made.mkdir()
    monkeypatch.chdir(made)
    return made


@pytest.fixture
def programs_on_path(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only directory on PATH. It contains a shell, a few utilities, git (or a stub on a machine without git), and
    the programs that a test adds. Agents are not searched for anywhere else."""
    place = home / "bin"
    place.mkdir()
    for name in ("cat", "git", "sh", "sleep", "true"):
        if found := shutil.which(name):
            (place / name).symlink_to(found)
    if not (place / "git").exists():
        (place / "git").write_text("#!/bin/sh\necho git version 2.39.5\n")
        (place / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(place))
    for row in catalog.ROWS:
        monkeypatch.setattr(row, "places", ())
    return place


@pytest.fixture
def agent(programs_on_path: Path) -> Callable[..., Path]:
    """Returns a function that adds a program: ``agent("claude", "echo 2.1.329")`` creates a script with that name."""

    def made(name: str, script: str) -> Path:
        path = programs_on_path / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    return made


@pytest.fixture
def doctor(
    project: Path, programs_on_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Doctor:
    """Returns a function that runs ``drawbridge doctor`` with its arguments, or with ``--json`` if it is given none."""
    monkeypatch.setenv("DRAWBRIDGE_HOOK_SOCKET_DIR", os.environ["XDG_RUNTIME_DIR"])
    monkeypatch.setenv("DRAWBRIDGE_SOCKET_DIR", os.environ["XDG_RUNTIME_DIR"])
    # The limits are long, because other tests run at the same time. A test of a limit sets a shorter one.
    monkeypatch.setenv("DRAWBRIDGE_HOOK_DEADLINE", "5000")
    for limits in (agents, bridges, machine, servers):
        monkeypatch.setattr(limits, "SECONDS", PATIENCE)
    monkeypatch.setattr(guards, "RUN_SECONDS", PATIENCE)
    monkeypatch.setattr(hooks, "SLOW_MILLISECONDS", PATIENCE * 1000)
    monkeypatch.setattr(report, "SECONDS", PATIENCE)

    def run(*words: str) -> Output:
        capsys.readouterr()
        code = main(["doctor", *(words or ["--json"])])
        printed = capsys.readouterr()
        return Output(code, printed.out, printed.err)

    return run
