"""Bridges at the private socket: what their agents propose is one question with its hook, and their editors are reviewers."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from drawbridge.core.errors import HistoryNotWritten
from drawbridge.server.store.log import History
from tests.waiting import until

from .socket_rig import Line, Message, Session, SocketDesk, socket_desk

OLD, NEW, MINE = "one\ntwo\n", "one\nTWO\n", "one\nzwei\n"
CLAUDE = os.getpid()
"""Stands for the agent's process; it has to live."""


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[SocketDesk]:
    async with socket_desk(tmp_path) as desk:
        yield desk


@pytest.fixture
def file(desk: SocketDesk) -> Path:
    file = desk.folder / "a.py"
    file.write_text(OLD)
    return file


@contextlib.asynccontextmanager
async def bridge(desk: SocketDesk, *folders: Path, pids: tuple[int, ...] = ()) -> AsyncIterator[Line]:
    async with Line.open() as line:
        about = {"editor": "Neovim", "folders": [str(folder) for folder in folders or (desk.folder,)], "pids": pids}
        line.say(type="bridge", **about)
        editors = desk.server.core.context.editors._editors
        before = len(editors)
        await until(lambda: len(editors) > before, "the bridge")
        yield line


def proposed(line: Line, file: Path, *, new_text: str = NEW, agent: str = "Claude Code", **more: Any) -> None:
    said = {"id": "7", "agent": agent, "session": "s", "path": str(file), "old_text": OLD, "new_text": new_text}
    line.say(type="proposed", **said, **more)


def edit(file: Path) -> Message:
    return {"file_path": str(file), "old_string": "two", "new_string": "TWO"}


# Claude's hook and the diff that its bridge shows.


@pytest.mark.parametrize("first", ["hook", "bridge"])
async def test_one_question_is_one_approval_whichever_way_it_came_first(
    desk: SocketDesk, file: Path, first: str
) -> None:
    session = Session(desk, pid=CLAUDE)
    async with bridge(desk, pids=(CLAUDE,)) as neovim, contextlib.AsyncExitStack() as later:
        if first == "bridge":
            proposed(neovim, file, pid=CLAUDE)
        hook, question = await later.enter_async_context(session.asks("Edit", **edit(file)))
        if first == "hook":
            proposed(neovim, file, pid=CLAUDE)
        neovim.say(type="decided", id="7", text=MINE)
        assert await neovim.hear() == {"type": "ruling", "id": "7", "won": True}
        assert await hook.hear() is None  # the agent hears it from its bridge
        (resolved,) = desk.client.updates("permission_resolved")
        assert (resolved["approval_id"], resolved["by"], resolved["decision"]) == (
            question["approval_id"],
            "Neovim",
            "allow",
        )
        assert len(desk.questions) == 1


async def test_an_answer_of_a_client_goes_to_the_hook_and_the_editor_comes_too_late(
    desk: SocketDesk, file: Path
) -> None:
    session = Session(desk, pid=CLAUDE)
    async with bridge(desk, pids=(CLAUDE,)) as neovim, session.asks("Edit", **edit(file)) as (hook, question):
        proposed(neovim, file, pid=CLAUDE)
        await desk.answers(question)
        assert await hook.hear() == {"decision": {"behavior": "allow"}}
        neovim.say(type="decided", id="7", text=MINE)
        assert await neovim.hear() == {"type": "ruling", "id": "7", "won": False}


async def test_a_view_that_the_agent_closes_was_decided_in_its_terminal(desk: SocketDesk, file: Path) -> None:
    session = Session(desk, pid=CLAUDE)
    async with bridge(desk, pids=(CLAUDE,)) as neovim, session.asks("Edit", **edit(file)) as (hook, question):
        proposed(neovim, file, pid=CLAUDE)
        neovim.say(type="gone", id="7", settled=True)
        assert await hook.hear() is None
        assert desk.withdrawn(question) == ["answered elsewhere"]


@pytest.mark.parametrize("how", ["a view that is gone", "a bridge that is gone"])
async def test_the_question_stays_where_only_the_editor_goes(desk: SocketDesk, file: Path, how: str) -> None:
    session = Session(desk, pid=CLAUDE)
    async with bridge(desk, pids=(CLAUDE,)) as neovim, session.asks("Edit", **edit(file)) as (hook, question):
        proposed(neovim, file, pid=CLAUDE)
        if how == "a view that is gone":
            neovim.say(type="gone", id="7")
        else:
            await neovim.close()
        await desk.idle()
        assert await desk.is_open(question)
        await desk.answers(question)
        assert await hook.hear() == {"decision": {"behavior": "allow"}}


async def test_what_was_decided_in_the_editor_before_its_hook_came_is_no_question_any_more(
    desk: SocketDesk, file: Path
) -> None:
    session = Session(desk, pid=CLAUDE)
    async with bridge(desk, pids=(CLAUDE,)) as neovim:
        proposed(neovim, file, pid=CLAUDE)
        neovim.say(type="decided", id="7", text=NEW)
        assert await neovim.hear() == {"type": "ruling", "id": "7", "won": True}
        async with session.asks("Edit", **edit(file)) as (hook, question):
            assert await hook.hear() is None
            assert desk.withdrawn(question) == ["answered elsewhere"]


@pytest.mark.parametrize(
    "other",
    [{"pid": CLAUDE + 1}, {"pid": None}, {"new_text": "something else"}, {"agent_text": "something else"}],
)
async def test_what_is_another_question_is_not_joined(desk: SocketDesk, file: Path, other: Message) -> None:
    session = Session(desk, pid=CLAUDE)
    async with bridge(desk, pids=(CLAUDE,)) as neovim, session.asks("Edit", **edit(file)) as (hook, question):
        proposed(neovim, file, **{"pid": CLAUDE, **other})
        neovim.say(type="decided", id="7", text=MINE)
        assert await neovim.hear() == {"type": "ruling", "id": "7", "won": True}
        assert await desk.is_open(question)
        assert await hook.hears_nothing()


async def test_line_ends_and_what_the_person_had_not_saved_make_no_other_question(desk: SocketDesk, file: Path) -> None:
    file.write_bytes(OLD.replace("\n", "\r\n").encode())
    session = Session(desk, pid=CLAUDE)
    async with bridge(desk, pids=(CLAUDE,)) as neovim, session.asks("Edit", **edit(file)) as (hook, _):
        proposed(neovim, file, pid=CLAUDE, new_text=f"{NEW}unsaved\n", agent_text=NEW)
        neovim.say(type="decided", id="7", text=MINE)
        assert (await neovim.hear() or {})["won"]
        assert await hook.hear() is None


async def test_a_diff_of_claude_without_its_hook_is_no_matter_of_the_server(desk: SocketDesk, file: Path) -> None:
    async with bridge(desk, pids=(CLAUDE,)) as neovim:
        proposed(neovim, file, pid=CLAUDE)
        neovim.say(type="decided", id="7", text=None)
        assert await neovim.hear() == {"type": "ruling", "id": "7", "won": True}
    assert desk.client.heard == []


# What Gemini proposes.


async def test_what_gemini_proposes_is_a_session_with_a_question(desk: SocketDesk, file: Path) -> None:
    async with bridge(desk) as neovim:
        proposed(neovim, file, agent="Gemini CLI")
        await until(lambda: desk.questions, "the question")
        (created,) = desk.client.updates("project_created")
        assert (created["agent"], created["path"], created["session_id"]) == ("gemini", str(desk.folder), "")
        (question,) = desk.questions
        assert (question["tool_name"], question["input"]) == ("Write", {"file_path": str(file), "content": NEW})
        assert question["proposal"] == {"path": str(file), "old_text": OLD, "new_text": NEW}
        neovim.say(type="gone", id="7", settled=True)
        await until(lambda: desk.withdrawn(question) == ["answered elsewhere"], "its end")
        proposed(neovim, file, agent="Gemini CLI")
        await until(lambda: len(desk.questions) == 2, "the second question")
        assert len(desk.client.updates("project_created")) == 1
    await until(
        lambda: [one.phase for one in desk.server.core.terminal_sessions] == ["ended"], "the end of the session"
    )
    assert desk.withdrawn(desk.questions[1]) == ["answered elsewhere"]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({}, NEW),
        ({"updated_input": {"file_path": "a.py", "content": MINE}}, MINE),
        ({"decision": "deny"}, None),
    ],
)
async def test_an_answer_of_a_client_reaches_gemini_through_its_bridge(
    desk: SocketDesk, file: Path, answer: Message, text: str | None
) -> None:
    async with bridge(desk) as neovim:
        proposed(neovim, file, agent="Gemini CLI")
        await until(lambda: desk.questions, "the question")
        await desk.answers(desk.questions[0], **answer)
        assert await neovim.hear() == {"type": "answer", "id": "7", "by": "phone", "text": text}


@pytest.mark.parametrize(("text", "decision"), [(MINE, "allow"), (None, "deny")])
async def test_what_was_decided_in_the_editor_is_the_answer(
    desk: SocketDesk, file: Path, text: str | None, decision: str
) -> None:
    async with bridge(desk) as neovim:
        proposed(neovim, file, agent="Gemini CLI")
        await until(lambda: desk.questions, "the question")
        neovim.say(type="decided", id="7", text=text)
        assert await neovim.hear() == {"type": "ruling", "id": "7", "won": True}
        (resolved,) = desk.client.updates("permission_resolved")
        assert (resolved["by"], resolved["decision"]) == ("Neovim", decision)


# Editors as reviewers of what others propose.


async def offered(line: Line) -> Message:
    said = await line.hear()
    assert said is not None
    assert said["type"] == "offer"
    return said


async def test_a_proposal_is_offered_to_the_editors_that_have_its_directory_open(
    desk: SocketDesk, file: Path, tmp_path: Path
) -> None:
    async with (
        bridge(desk) as here,
        bridge(desk, tmp_path / "elsewhere") as elsewhere,
        bridge(desk, pids=(CLAUDE,)) as its_own,
        Session(desk, pid=CLAUDE).asks("Edit", **edit(file)) as (hook, question),
        bridge(desk) as late,
    ):
        for line in (here, late):
            assert await offered(line) == {
                "type": "offer",
                "id": question["approval_id"],
                "agent": "Claude Code",
                "path": str(file),
                "new_text": NEW,
            }
        assert await elsewhere.hears_nothing()
        assert await its_own.hears_nothing()
        late.say(type="declined", id=question["approval_id"])
        here.say(type="answered", id=question["approval_id"], text=MINE)
        whole = {"old_string": OLD, "new_string": MINE, "replace_all": False}
        verdict = {"behavior": "allow", "updatedInput": edit(file) | whole}
        assert await hook.hear() == {"decision": verdict}
        here.say(type="answered", id=question["approval_id"], text=None)
        assert await late.hears_nothing()


def full_disk(patch: pytest.MonkeyPatch) -> None:
    def append(*_: object, **options: object) -> None:
        raise HistoryNotWritten("The disk is full.", disk_full=True)

    patch.setattr(History, "append", append)


async def test_an_editors_answer_that_can_not_be_written(
    desk: SocketDesk, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent does not get it. The editor shows the proposal again, since nobody has decided."""
    async with bridge(desk) as neovim, Session(desk).asks("Edit", **edit(file)) as (hook, question):
        await offered(neovim)
        with monkeypatch.context() as patch:
            full_disk(patch)
            neovim.say(type="answered", id=question["approval_id"], text=NEW)
            assert (await offered(neovim))["id"] == question["approval_id"]
        assert desk.client.updates("permission_resolved") == []
        neovim.say(type="answered", id=question["approval_id"], text=NEW)
        assert await hook.hear() == {"decision": {"behavior": "allow"}}


@pytest.mark.parametrize("agent", ["claude", "gemini"])
async def test_the_agents_own_editor_decides_on_a_full_disk(
    agent: str, desk: SocketDesk, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As without a server: the server's disk must not keep a person from working."""
    async with bridge(desk, pids=(CLAUDE,)) as neovim, contextlib.AsyncExitStack() as stack:
        if agent == "claude":
            proposed(neovim, file, pid=CLAUDE)
            await stack.enter_async_context(Session(desk, pid=CLAUDE).asks("Edit", **edit(file)))
        else:
            proposed(neovim, file, agent="Gemini CLI")
        await until(lambda: desk.questions, "the question")
        full_disk(monkeypatch)
        neovim.say(type="decided", id="7", text=MINE)
        assert await neovim.hear() == {"type": "ruling", "id": "7", "won": True}
        assert desk.client.updates("permission_resolved") == []
        await until(lambda: desk.client.updates("permission_withdrawn"), "that nobody else has to decide")
        monkeypatch.undo()


async def test_who_is_too_late_is_told_to_close_its_view(desk: SocketDesk, file: Path) -> None:
    async with (
        bridge(desk) as one,
        bridge(desk) as two,
        Session(desk).asks("Edit", **edit(file)) as (hook, question),
    ):
        await offered(one)
        await offered(two)
        two.say(type="answered", id=question["approval_id"], text=None)
        assert (await hook.hear() or {})["decision"]["behavior"] == "deny"
        assert await one.hear() == {"type": "withdraw", "id": question["approval_id"], "written": False}
        one.say(type="answered", id=question["approval_id"], text=MINE)
        await desk.idle()
        assert [one["by"] for one in desk.client.updates("permission_resolved")] == ["Neovim"]


async def test_what_has_no_text_to_be_shown_is_offered_to_nobody(desk: SocketDesk, file: Path) -> None:
    async with bridge(desk) as neovim, Session(desk).asks(command="true"):
        assert await neovim.hears_nothing()


async def test_an_agent_of_the_server_is_answered_in_an_editor(desk: SocketDesk) -> None:
    project = await desk.server.project(desk.client)
    directory = desk.folder / "one"
    async with bridge(desk, Path("/p")) as neovim, bridge(desk, directory) as other:
        process = await desk.server.running(desk.client, project)
        process.asks("q1")
        said = await offered(neovim)
        assert (said["path"], said["new_text"]) == ("/p/a.py", "new\n")
        neovim.say(type="answered", id=said["id"], text="new\n")
        await until(lambda: process.answers, "the answer")
        ((_, decision),) = process.answers
        assert (decision.allow, decision.updated_input) == (True, None)
        assert await other.hears_nothing()
        process.ends()


async def test_a_defect_ends_its_connection_and_no_other(
    desk: SocketDesk, file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(line: bytes) -> None:
        raise RuntimeError("odd")

    with monkeypatch.context() as defect:
        defect.setattr("drawbridge.server.terminal_sessions.socket._read", fails)
        async with Line.open() as line:
            line.send(b"{}\n")
            assert await line.hear() is None
    assert "a connection to the private socket failed" in caplog.text
    async with Line.open() as line:
        line.send(b"{}\n")
        assert await line.hear() is None
    assert len([record for record in caplog.records if record.exc_info]) == 1
