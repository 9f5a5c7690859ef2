"""The histories of terminal sessions are limited like those of managed sessions, and each is counted only once."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from drawbridge.agents.memory import MB
from drawbridge.agents.terminal import Message
from drawbridge.server.sessions.disk import Sizes
from drawbridge.server.sessions.options.limits import Limits
from drawbridge.server.sessions.projects import Maintenance, Retention
from drawbridge.server.store import log as history_module
from drawbridge.server.terminal_sessions.session import TerminalSession
from tests.server.core_rig import Client, Server, serving


def limits(project: int = 100 * MB, data: int = 100 * MB) -> Limits:
    return Limits(checkpoints=False, sizes=Sizes(project, data))


def begun(server: Server) -> TerminalSession:
    sessions = server.core.terminal_sessions
    session = sessions.begin(sessions.new_id(), str(server.root), "claude", str(uuid.uuid4()))
    assert session is not None
    return session


def reports(session: TerminalSession, size: int) -> None:
    data = b'{"type":"assistant","text":"' + b"x" * size + b'"}'
    session.add_entry(Message(uuid.uuid4().hex, data), quiet=True)


async def test_a_removed_terminal_session_no_longer_counts(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path, limits(data=250_000)) as server:
        session = begun(server)
        reports(session, 150_000)
        for _ in range(2):
            await server.core.maintenance.check()
            assert not server.core.disk.too_much
        await server.does(phone, "project_delete", session.id)
        another = begun(server)
        reports(another, 150_000)
        await server.core.maintenance.check()
        assert not server.core.disk.too_much
        reports(another, 120_000)
        assert another.history.size < 200_000, "together they exceed the limit"


async def test_the_size_of_a_session_is_known_right_after_a_restart(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        reports(begun(server), 150_000)
    async with serving(tmp_path, limits(project=100_000)) as server:
        await server.core.maintenance.check()
        [problem] = server.core.problems()
        assert "has reached its limit" in problem


async def test_at_the_limit_no_more_records_are_stored(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path, limits(project=100_000)) as server:
        server.core.follow(["projects"], phone)
        session = begun(server)
        for _ in range(5):
            reports(session, 40_000)
        assert 80_000 < session.history.size < 100_000
        assert len(phone.updates("disk_warning")) == 1


async def test_records_above_the_owners_limit_are_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_module, "MOST_RECORDS", 10)
    async with serving(tmp_path) as server:
        session = begun(server)
        for _ in range(34):
            reports(session, 100)
        core = server.core
        await Maintenance(core.disk, core.all_sessions, core.projects, Retention()).clean()
        assert session.history.first_seq == 1
        await Maintenance(core.disk, core.all_sessions, core.projects, Retention(bytes=3_000)).clean()
        assert session.history.first_seq > 10
        assert session.history.size < 3_000
