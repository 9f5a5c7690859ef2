"""Fixtures for the real ``claude`` CLI as the server's agent, with a stub for its model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from drawbridge.agents.claude.driver import Claude
from tests import programs
from tests.agents.recording import RECORD_INTO
from tests.agents.rig import Session, session
from tests.rigs import claude_rig
from tests.rigs.messages_stub import MessagesStub

from .recording import NAMED, Recorder

POEM = "one\ntwo\nthree\n"


@pytest.fixture
def project(home: Path) -> Path:
    """A project directory with the file poem.txt, which the CLI trusts."""
    path = home / "project"
    path.mkdir()
    (path / "poem.txt").write_text(POEM)
    claude_rig.prepare_home(path)
    return path


@pytest.fixture
def model() -> Iterator[MessagesStub]:
    with MessagesStub() as stub:
        yield stub


@pytest.fixture
async def claude(
    request: pytest.FixtureRequest, model: MessagesStub, project: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Claude]:
    """The real CLI. If ``RECORD_INTO`` is set, the session of a test marked with ``recorded`` is written there."""
    agent = Claude(str(programs.claude()), claude_rig.environment(model) | {"CLAUDE_CODE_MAX_RETRIES": "0"})
    name, what = NAMED.get(request.function, ("", ""))
    recorder = Recorder(project, monkeypatch) if RECORD_INTO and name else None
    yield agent
    if recorder is not None:
        version = await agent.probe()
        recorder.write(f"{version}-{name}.jsonl", what, version)


@pytest.fixture
async def warm(claude: Claude, project: Path) -> AsyncIterator[Session]:
    """A new session with the real CLI."""
    async with session(claude, project) as started:
        yield started
