"""Managed and terminal sessions share a base class, and one list contains both."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any

import pytest

from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.commands import ProjectList
from drawbridge.server.sessions.managed import ManagedSession
from drawbridge.server.sessions.session import Session
from drawbridge.server.store import log
from drawbridge.server.terminal_sessions.session import TerminalSession
from tests.server.core_rig import Client, Server, check_list, serving
from tests.waiting import until

SHARED = ("info", "shown", "snapshot", "publish_state", "decide", "withdraw", "withdraw_all", "recorded", "_fields")


def begun(server: Server) -> TerminalSession:
    sessions = server.core.terminal_sessions
    session = sessions.begin(sessions.new_id(), str(server.root), "claude", str(uuid.uuid4()))
    assert session is not None
    return session


@pytest.mark.parametrize("kind", [ManagedSession, TerminalSession])
def test_subclasses_do_not_override_the_common_parts(kind: type[Session]) -> None:
    assert [name for name in SHARED if name in vars(kind)] == []


def test_there_are_two_kinds_of_sessions() -> None:
    assert set(Session.__subclasses__()) == {ManagedSession, TerminalSession}


async def test_one_list_has_sessions_of_both_kinds(tmp_path: Path) -> None:
    """Managed sessions come first, in whatever order the sessions were added."""
    phone = Client()
    async with serving(tmp_path) as server:
        terminal = begun(server)
        managed = await server.project(phone)
        listed = (await server.does(phone, "project_list"))["data"]["projects"]
        assert [one["id"] for one in listed] == [managed, terminal.id] == [one.id for one in server.core.all_sessions]
        assert server.core.path_of(terminal.id) == server.root
        for id in (managed, terminal.id):
            assert (await server.does(phone, "project_join", id))["project_id"] == id


async def test_a_list_makes_anew_only_what_has_changed(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        changed, same = server.core.projects.get(await server.project(phone)), begun(server)
        before = changed.info(), same.info()
        await server.running(phone, changed.id)
        client: Any = phone  # the core uses a client only as a subscriber
        listed = (await server.core.project_list(ProjectList(), client)).data.projects
        assert [one.state for one in listed] == ["EXECUTING", "IDLE"]
        assert listed[1] is before[1]
        check_list(server)


async def test_a_list_shows_how_much_history_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Old records are deleted in a thread, without an event."""
    monkeypatch.setattr(log, "MOST_RECORDS", 1)
    phone = Client()
    async with serving(tmp_path) as server:
        session = server.core.projects.get(await server.project(phone))
        process = await server.running(phone, session.id)
        process.ends()
        await until(lambda: session.state == "IDLE")
        before = session.info()
        assert await asyncio.to_thread(session.history.drop, None, 0)
        assert session.info().first_seq > before.first_seq
        check_list(server)


async def test_a_deleted_session_of_either_kind_leaves_the_list(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        for id in (begun(server).id, await server.project(phone)):
            await server.does(phone, "project_delete", id)
            assert server.core.all_sessions.find(id) is None
            with pytest.raises(ClientError):
                await server.does(phone, "project_join", id)
        assert list(server.core.all_sessions) == []


async def test_a_thread_can_read_the_list_while_it_changes(tmp_path: Path) -> None:
    """An iteration over the list, which may continue in a thread, covers the sessions that existed when it began."""
    async with serving(tmp_path) as server:
        first = begun(server)
        reading = iter(server.core.all_sessions)
        begun(server)
        assert await asyncio.to_thread(list, reading) == [first]


async def test_commands_for_runs_are_refused_in_a_terminal_session(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        session = begun(server)
        with pytest.raises(ClientError, match="controlled there") as refused:
            await server.does(Client(), "agent_kill", session.id)
        assert refused.value.code == "NOT_SUPPORTED"
