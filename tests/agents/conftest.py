"""Fixtures for the tests of all agents."""

from __future__ import annotations

from pathlib import Path

import pytest

from drawbridge.agents.supervisor_pipe import SupervisorPipe

POEM = "one\ntwo\n"


@pytest.fixture
def project(home: Path) -> Path:
    """A project directory with the file poem.txt."""
    path = home / "project"
    path.mkdir()
    (path / "poem.txt").write_text(POEM)
    return path


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Records, at each call of ``SupervisorPipe.waits``, whether the agent is waiting for a decision.

    If the server dies, the supervisor must not let a waiting agent continue.
    """
    calls: list[bool] = []
    tell = SupervisorPipe.waits

    def note(pipe: SupervisorPipe, *, for_decision: bool) -> None:
        calls.append(for_decision)
        tell(pipe, for_decision=for_decision)

    monkeypatch.setattr(SupervisorPipe, "waits", note)
    return calls
