from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from drawbridge.server.app import history_commands
from drawbridge.server.checkpoints import private
from drawbridge.server.sessions.directories import allowed_directories
from drawbridge.server.sessions.files import file_changes, file_index
from drawbridge.server.sessions.runs import checkpointing
from drawbridge.server.store import search
from drawbridge.server.terminal_sessions import directories, prompts
from tests import programs
from tests.server.auth.rig import Server, serving
from tests.server.wire_client import WireClient
from tests.waiting import PATIENCE


@pytest.fixture(autouse=True)
def generous_time_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets time limits that are long enough for a busy machine. Tests of the limits set their own."""
    for module, name in (
        (search, "SEARCH_SECONDS"),
        (allowed_directories, "SEARCH_SECONDS"),
        (file_index, "WALK_SECONDS"),
        (file_index, "GIT_SECONDS"),
        (file_changes, "GIT_SECONDS"),
        (private, "LIST_SECONDS"),
        (history_commands, "COUNTING_SECONDS"),
        (checkpointing, "LAST_SECONDS"),
        (directories, "READY_SECONDS"),
        (directories, "CLOSE_SECONDS"),
        (prompts, "BEGIN_SECONDS"),
        (prompts, "TYPING_SECONDS"),
    ):
        monkeypatch.setattr(module, name, PATIENCE)


@pytest.fixture
async def whole_server(tmp_path: Path) -> AsyncIterator[Server]:
    """A server with real projects, in the test's process. Folders that override ``server`` can use this one, too."""
    async with serving(tmp_path) as server:
        yield server


@pytest.fixture
def server(whole_server: Server) -> Server:
    return whole_server


@pytest.fixture
async def owner(server: Server) -> AsyncIterator[WireClient]:
    async with server.client() as client:
        yield client


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """Returns a function that returns the arguments of each git command that was run since its last call. The commands
    are recorded by a ``git`` that comes before the real one on the PATH.
    """
    log, folder, real = tmp_path / "calls", tmp_path / "bin", programs.git()
    folder.mkdir()
    (folder / "git").write_text(f'#!/bin/sh\necho "$@" >>{log}\nexec {real} "$@"\n')
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    monkeypatch.setattr(programs, "git", lambda: real)

    def since() -> list[str]:
        lines = log.read_text().splitlines() if log.exists() else []
        log.write_text("")
        return lines

    return since
