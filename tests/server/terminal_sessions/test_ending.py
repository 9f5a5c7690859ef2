"""A session is removed from the list, or the server ends, while hooks and bridges continue to send."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from drawbridge.agents.claude import terminal
from drawbridge.server.terminal_sessions import sessions as sessions_module
from drawbridge.server.terminal_sessions.processes import Process
from drawbridge.server.terminal_sessions.report_queue import ReportQueue
from drawbridge.server.terminal_sessions.session import TerminalSession
from tests.waiting import PATIENCE, until

from .socket_rig import Line, Session, SocketRig, in_editors, socket_rig
from .test_bridges import MINE, bridge, proposed
from .test_sessions import COMMAND

GEMINI = "Gemini CLI"


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[SocketRig]:
    async with socket_rig(tmp_path) as rig:
        yield rig


@pytest.fixture
def file(rig: SocketRig) -> Path:
    file = rig.folder / "a.py"
    file.write_text("one\ntwo\n")
    return file


async def history(rig: SocketRig, session: Session) -> list[int]:
    return [one["seq"] for one in (await rig.does("get_messages", session.project, after_seq=0))["data"]["messages"]]


# removed from the list


@pytest.mark.parametrize("how", ["taken", "gives way"])
async def test_a_hook_during_a_removal_begins_a_new_session(
    rig: SocketRig, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """The new session's data is stored in the same directory, and only the history of the removed session is
    deleted."""
    session, withdraw_all = Session(rig), TerminalSession.withdraw_all
    event = terminal.agent().event(Raw(json.dumps(session.payload("SessionStart", source="resume")).encode()))
    known = rig.server.core.terminal_sessions
    began: list[asyncio.Task[None]] = []

    async def begin() -> None:
        await known.examine(event)
        known.report("claude", event, Process(session.pid))

    def meanwhile(closed: TerminalSession, *reason: str) -> None:
        withdraw_all(closed, *reason)
        if reason:
            began.append(asyncio.create_task(begin()))

    await session.reports("SessionEnd", reason="exit")
    monkeypatch.setattr(TerminalSession, "withdraw_all", meanwhile)
    if how == "taken":
        await rig.does("project_delete", session.project)
    else:
        monkeypatch.setattr(sessions_module, "MOST", 2)
        for another in (Session(rig), Session(rig)):
            await another.reports("SessionEnd", reason="exit")
    await until(lambda: rig.client.updates("project_deleted"))
    await began[0]
    assert (await rig.info(session))["desk"]["state"] == "finished"
    assert (rig.server.folder / "data" / "desk" / session.project / "metadata.json").exists()
    assert await history(rig, session)


async def test_a_second_removal_does_not_remove_the_new_session(
    rig: SocketRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, processed, second = Session(rig), ReportQueue.processed, asyncio.Event()

    async def slowly(reports: ReportQueue) -> None:
        await processed(reports)
        if second.is_set():
            second.clear()
            async with asyncio.timeout(PATIENCE):
                await second.wait()
        second.set()

    await session.reports("Stop")
    monkeypatch.setattr(ReportQueue, "processed", slowly)
    second.set()
    late = asyncio.create_task(rig.does("project_delete", session.project))
    await until(lambda: not second.is_set())
    monkeypatch.setattr(ReportQueue, "processed", processed)
    await rig.does("project_delete", session.project)
    await session.reports("UserPromptSubmit", prompt="Again")
    second.set()
    await late
    assert (await rig.info(session))["desk"]["state"] == "working"


async def test_a_removed_session_answers_a_waiting_question(rig: SocketRig, monkeypatch: pytest.MonkeyPatch) -> None:
    session, processed, reading = Session(rig), ReportQueue.processed, asyncio.Event()

    async def forever(reports: ReportQueue, *until: object) -> None:
        reading.set()
        await asyncio.Event().wait()

    async def asks_during_the_removal(reports: ReportQueue) -> None:
        await processed(reports)
        monkeypatch.setattr(ReportQueue, "_read_until", forever)
        for hook in hooks:
            payload = session.payload("PermissionRequest", tool_name="Bash", tool_input=COMMAND)
            hook.send(type="hook", pid=session.pid, payload=payload)
        await until(lambda: reading.is_set() and reports.waiting)

    await session.reports("Stop")
    async with Line.open() as first, Line.open() as second:
        hooks = [first, second]
        monkeypatch.setattr(ReportQueue, "processed", asks_during_the_removal)
        await rig.does("project_delete", session.project)
        for hook in hooks:
            assert await hook.receive() is None, "the agent's dialog is open, and decides"


@pytest.mark.parametrize("asked_by", [{}, {"agent_id": "a1", "agent_type": "explorer"}], ids=["main", "subagent"])
async def test_a_hook_that_ends_before_it_is_processed_asks_nothing(
    rig: SocketRig, monkeypatch: pytest.MonkeyPatch, asked_by: dict[str, str]
) -> None:
    """The server processes the hook's report only after the hook has ended, for example because the server was
    suspended. The report that the agent was working still counts.
    """
    session, may_read, read_until = Session(rig), asyncio.Event(), ReportQueue._read_until

    async def later(reports: ReportQueue, *until: Any) -> None:
        await may_read.wait()
        await read_until(reports, *until)

    await session.reports("SessionStart", source="startup")
    monkeypatch.setattr(ReportQueue, "_read_until", later)
    async with session.question_of(asked_by, **COMMAND) as hook:
        hook.end()
        assert await hook.receive() is None
    may_read.set()
    await rig.idle()
    assert rig.questions == rig.client.updates("permission_withdrawn") == []
    info = await rig.info(session)
    assert (info["desk"]["state"], info["desk"].get("background_tasks", 0)) == ("working", len(asked_by) // 2)


def audited_decision(rig: SocketRig, file: Path) -> str:
    """The id of the only approval request that was answered in Neovim according to the audit log."""
    [(event, _, fields)] = in_editors(rig)
    id = fields.pop("approval_id")
    assert (event, fields) == (
        "answered",
        {"decision": "allow", "changed": True, "tool": "Write", "path": str(file)},
    )
    return str(id)


async def test_a_decision_in_an_editor_counts_after_a_removal(rig: SocketRig, file: Path) -> None:
    async with bridge(rig) as neovim:
        proposed(neovim, file, agent=GEMINI)
        await until(lambda: rig.questions, "the question")
        (session,) = rig.server.core.terminal_sessions
        await rig.does("project_delete", session.id)
        neovim.send(type="decided", id="7", text=MINE)
        assert await neovim.receive() == {"type": "ruling", "id": "7", "won": True}
        assert audited_decision(rig, file) == rig.questions[0]["approval_id"]


# the server ends


@contextlib.asynccontextmanager
async def ended(rig: SocketRig) -> AsyncIterator[None]:
    """Closes the sessions but not the socket, like a server that is ending and still has to stop its agents."""
    await rig.server.core.terminal_sessions.close("the server is ending")
    yield


async def test_a_decision_in_an_editor_counts_as_the_server_ends(rig: SocketRig, file: Path) -> None:
    async with bridge(rig) as neovim:
        proposed(neovim, file, agent=GEMINI)
        await until(lambda: rig.questions, "the question")
        async with ended(rig):
            neovim.send(type="decided", id="7", text=MINE)
            assert await neovim.receive() == {"type": "ruling", "id": "7", "won": True}
        assert audited_decision(rig, file) == rig.questions[0]["approval_id"]


async def test_a_clients_answer_counts_as_the_server_ends(rig: SocketRig, file: Path) -> None:
    async with bridge(rig) as neovim:
        proposed(neovim, file, agent=GEMINI)
        await until(lambda: rig.questions, "the question")
        await rig.answers(rig.questions[0])
        assert (await neovim.receive() or {})["type"] == "answer"
        async with ended(rig):
            neovim.send(type="decided", id="7", text=MINE)
            assert await neovim.receive() == {"type": "ruling", "id": "7", "won": False}
        assert in_editors(rig) == [], "only the client's answer counts"


async def test_hooks_that_connect_during_the_end_wait_for_a_server(
    rig: SocketRig, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    session = Session(rig)
    async with bridge(rig) as neovim, Line.open() as hook:
        proposed(neovim, file, agent=GEMINI)
        await until(lambda: rig.questions, "the question")
        async with ended(rig):
            proposed(neovim, file, new_text=MINE, agent=GEMINI)
            payload = session.payload("PermissionRequest", tool_name="Bash", tool_input=COMMAND)
            hook.send(type="hook", pid=session.pid, payload=payload, question="0123456789abcdef")
            assert await hook.receives_nothing()
            assert await neovim.receives_nothing()
            assert len(rig.questions) == 1
            assert not (rig.server.folder / "data" / "desk" / session.project).exists()
    assert not [one for one in caplog.records if one.levelname == "ERROR"]
