"""Real Neovims, and sockets on which no program answers."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from drawbridge.core import launcher
from tests import programs
from tests.core.test_launcher import started
from tests.doctor.conftest import Doctor


@pytest.fixture
def silent(project: Path) -> Iterator[str]:
    """The socket of an editor that accepts connections and never answers."""
    path = f"{os.environ['XDG_RUNTIME_DIR']}/{launcher.socket_prefix(str(project)).rpartition('/')[2]}1.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        yield path


async def test_a_running_neovim_answers(doctor: Doctor, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAWBRIDGE_NVIM_PROGRAM", str(programs.nvim()))
    async with started(cwd=project) as neovim:
        output = doctor()
        assert neovim
    assert output.one("editor-works")["title"].startswith("Neovim ")


def test_an_editor_that_does_not_answer_is_reported(
    doctor: Doctor, silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAWBRIDGE_HOOK_DEADLINE", "200")
    output = doctor()
    assert output.one("editor-silent")["title"] == f"The editor at {silent} did not answer in time."
    assert output.code == 3


def test_editors_outside_the_guards_directories_are_reported(
    doctor: Doctor, silent: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAWBRIDGE_HOOK_SOCKET_DIR", str(home))
    assert os.path.dirname(silent) in doctor().one("editor-unseen")["title"]
