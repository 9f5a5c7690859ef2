"""With a bridge at the private socket, a proposal and the hook for it become one approval request, which users can
answer in an editor.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from drawbridge.core.errors import HistoryNotWritten
from drawbridge.server.store.log import History
from drawbridge.server.terminal_sessions import shown_proposals
from tests.waiting import until

from .socket_rig import Line, Message, Session, SocketRig, in_editors, socket_rig

OLD, NEW, MINE = "one\ntwo\n", "one\nTWO\n", "one\nzwei\n"
CLAUDE = os.getpid()
"""The agent's process id. The test uses its own, since the process must be running."""


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[SocketRig]:
    async with socket_rig(tmp_path) as rig:
        yield rig


@pytest.fixture
def file(rig: SocketRig) -> Path:
    file = rig.folder / "a.py"
    file.write_text(OLD)
    return file


@contextlib.asynccontextmanager
async def bridge(rig: SocketRig, *folders: Path, pids: tuple[int, ...] = ()) -> AsyncIterator[Line]:
    async with Line.open() as line:
        about = {"editor": "Neovim", "folders": [str(folder) for folder in folders or (rig.folder,)], "pids": pids}
        line.send(type="bridge", **about)
        editors = rig.server.core.context.editors._editors
        before = len(editors)
        await until(lambda: len(editors) > before, "the bridge")
        yield line


def proposed(line: Line, file: Path, *, new_text: str = NEW, agent: str = "Claude Code", **more: Any) -> None:
    fields = {"id": "7", "agent": agent, "session": "s", "path": str(file), "old_text": OLD, "new_text": new_text}
    line.send(type="proposed", **fields, **more)


def edit(file: Path) -> Message:
    return {"file_path": str(file), "old_string": "two", "new_string": "TWO"}


# Claude's hook, and the diff that its bridge shows


@pytest.mark.parametrize("first", ["hook", "bridge"])
async def test_a_hook_and_a_diff_become_one_approval_request(rig: SocketRig, file: Path, first: str) -> None:
    session = Session(rig, pid=CLAUDE)
    async with bridge(rig, pids=(CLAUDE,)) as neovim, contextlib.AsyncExitStack() as later:
        if first == "bridge":
            proposed(neovim, file, pid=CLAUDE)
        hook, question = await later.enter_async_context(session.asks("Edit", **edit(file)))
        if first == "hook":
            proposed(neovim, file, pid=CLAUDE)
        neovim.send(type="decided", id="7", text=MINE)
        assert await neovim.receive() == {"type": "ruling", "id": "7", "won": True}
        assert await hook.receive() is None  # the agent gets the answer from its bridge
        (resolved,) = rig.client.updates("permission_resolved")
        assert (resolved["approval_id"], resolved["by"], resolved["decision"]) == (
            question["approval_id"],
            "Neovim",
            "allow",
        )
        assert len(rig.questions) == 1
        answered = {"approval_id": question["approval_id"], "decision": "allow", "changed": True}
        assert in_editors(rig) == [("answered", "Neovim", {**answered, "tool": "Edit", "path": str(file)})]


async def test_a_clients_answer_reaches_the_hook_before_the_editor(rig: SocketRig, file: Path) -> None:
    session = Session(rig, pid=CLAUDE)
    async with bridge(rig, pids=(CLAUDE,)) as neovim, session.asks("Edit", **edit(file)) as (hook, question):
        proposed(neovim, file, pid=CLAUDE)
        await rig.answers(question)
        assert await hook.receive() == {"decision": {"behavior": "allow"}}
        neovim.send(type="decided", id="7", text=MINE)
        assert await neovim.receive() == {"type": "ruling", "id": "7", "won": False}


async def test_a_view_closed_by_the_agent_withdraws_its_request(rig: SocketRig, file: Path) -> None:
    session = Session(rig, pid=CLAUDE)
    async with bridge(rig, pids=(CLAUDE,)) as neovim, session.asks("Edit", **edit(file)) as (hook, question):
        proposed(neovim, file, pid=CLAUDE)
        neovim.send(type="gone", id="7", settled=True)
        assert await hook.receive() is None
        assert rig.withdrawn(question) == ["answered elsewhere"]


@pytest.mark.parametrize("how", ["a view that is gone", "a bridge that is gone"])
async def test_a_request_stays_open_when_only_the_editor_closes(rig: SocketRig, file: Path, how: str) -> None:
    session = Session(rig, pid=CLAUDE)
    async with bridge(rig, pids=(CLAUDE,)) as neovim, session.asks("Edit", **edit(file)) as (hook, question):
        proposed(neovim, file, pid=CLAUDE)
        if how == "a view that is gone":
            neovim.send(type="gone", id="7")
        else:
            await neovim.close()
        await rig.idle()
        assert await rig.is_open(question)
        await rig.answers(question)
        assert await hook.receive() == {"decision": {"behavior": "allow"}}


@pytest.mark.parametrize(
    ("text", "audited"),
    [(NEW, {"decision": "allow"}), (MINE, {"decision": "allow", "changed": True}), (None, {"decision": "deny"})],
)
async def test_a_decision_before_the_hook_leaves_no_request(
    rig: SocketRig, file: Path, text: str | None, audited: Message
) -> None:
    session = Session(rig, pid=CLAUDE)
    async with bridge(rig, pids=(CLAUDE,)) as neovim:
        proposed(neovim, file, pid=CLAUDE)
        neovim.send(type="decided", id="7", text=text)
        assert await neovim.receive() == {"type": "ruling", "id": "7", "won": True}
        async with session.asks("Edit", **edit(file)) as (hook, question):
            assert await hook.receive() is None
            assert rig.withdrawn(question) == ["answered elsewhere"]
            about = {"approval_id": question["approval_id"], "tool": "Edit", "path": str(file)}
            assert in_editors(rig) == [("answered", "Neovim", about | audited)]


@pytest.mark.parametrize("waits", [True, False])
async def test_a_decision_in_a_closed_view_leaves_no_request(rig: SocketRig, file: Path, waits: bool) -> None:
    """The bridge closes the view as soon as the decision counts. ``waits``: whether the hook still waits when the server
    processes its question."""
    session = Session(rig, pid=CLAUDE)
    async with bridge(rig, pids=(CLAUDE,)) as neovim:
        proposed(neovim, file, pid=CLAUDE)
        neovim.send(type="decided", id="7", text=NEW)
        assert await neovim.receive() == {"type": "ruling", "id": "7", "won": True}
        neovim.send(type="gone", id="7", settled=True)
        await until(lambda: not list(rig.server.core.terminal_sessions.shown), "the end of the view")
        async with Line.open() as hook:
            asked = session.payload("PermissionRequest", tool_name="Edit", tool_input=edit(file))
            hook.send(type="hook", pid=CLAUDE, payload=asked)
            if not waits:
                hook.end()
            await until(lambda: in_editors(rig), "the entry in the audit log")
        [question] = rig.questions
        assert rig.withdrawn(question) == ["answered elsewhere"]
        about = {"approval_id": question["approval_id"], "tool": "Edit", "path": str(file), "decision": "allow"}
        assert in_editors(rig) == [("answered", "Neovim", about)]


async def test_a_new_question_about_a_decided_change_is_asked(
    rig: SocketRig, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hook of the earlier one has never reported a question."""
    monkeypatch.setattr(shown_proposals, "CLOSED_SECONDS", 0.0)
    session = Session(rig, pid=CLAUDE)
    async with bridge(rig, pids=(CLAUDE,)) as neovim:
        proposed(neovim, file, pid=CLAUDE)
        neovim.send(type="decided", id="7", text=None)
        assert await neovim.receive() == {"type": "ruling", "id": "7", "won": True}
        neovim.send(type="gone", id="7", settled=True)
        await until(lambda: not list(rig.server.core.terminal_sessions.shown), "the end of the view")
        async with session.asks("Edit", **edit(file)) as (_, question):
            assert await rig.is_open(question)
        assert in_editors(rig) == []


@pytest.mark.parametrize(
    "other",
    [{"pid": CLAUDE + 1}, {"pid": None}, {"new_text": "something else"}, {"agent_text": "something else"}],
)
async def test_a_different_approval_request_is_not_merged(rig: SocketRig, file: Path, other: Message) -> None:
    session = Session(rig, pid=CLAUDE)
    async with bridge(rig, pids=(CLAUDE,)) as neovim, session.asks("Edit", **edit(file)) as (hook, question):
        proposed(neovim, file, **{"pid": CLAUDE, **other})
        neovim.send(type="decided", id="7", text=MINE)
        assert await neovim.receive() == {"type": "ruling", "id": "7", "won": True}
        assert await rig.is_open(question)
        assert await hook.receives_nothing()


async def test_line_endings_and_unsaved_text_do_not_split_a_request(rig: SocketRig, file: Path) -> None:
    file.write_bytes(OLD.replace("\n", "\r\n").encode())
    session = Session(rig, pid=CLAUDE)
    async with bridge(rig, pids=(CLAUDE,)) as neovim, session.asks("Edit", **edit(file)) as (hook, _):
        proposed(neovim, file, pid=CLAUDE, new_text=f"{NEW}unsaved\n", agent_text=NEW)
        neovim.send(type="decided", id="7", text=MINE)
        assert (await neovim.receive() or {})["won"]
        assert await hook.receive() is None


async def test_a_diff_from_claude_without_its_hook_is_ignored(rig: SocketRig, file: Path) -> None:
    async with bridge(rig, pids=(CLAUDE,)) as neovim:
        proposed(neovim, file, pid=CLAUDE)
        neovim.send(type="decided", id="7", text=None)
        assert await neovim.receive() == {"type": "ruling", "id": "7", "won": True}
    assert rig.client.received == []


# proposals from Gemini


async def test_a_proposal_from_gemini_creates_a_session_and_a_request(rig: SocketRig, file: Path) -> None:
    async with bridge(rig) as neovim:
        proposed(neovim, file, agent="Gemini CLI")
        await until(lambda: rig.questions, "the question")
        (created,) = rig.client.updates("project_created")
        assert (created["agent"], created["path"], created["session_id"]) == ("gemini", str(rig.folder), "")
        (question,) = rig.questions
        assert (question["tool_name"], question["input"]) == ("Write", {"file_path": str(file), "content": NEW})
        assert question["proposal"] == {"path": str(file), "old_text": OLD, "new_text": NEW}
        neovim.send(type="gone", id="7", settled=True)
        await until(lambda: rig.withdrawn(question) == ["answered elsewhere"], "its end")
        proposed(neovim, file, agent="Gemini CLI")
        await until(lambda: len(rig.questions) == 2, "the second question")
        assert len(rig.client.updates("project_created")) == 1
    await until(lambda: [one.phase for one in rig.server.core.terminal_sessions] == ["ended"], "the end of the session")
    assert rig.withdrawn(rig.questions[1]) == ["answered elsewhere"]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({}, NEW),
        ({"updated_input": {"file_path": "a.py", "content": MINE}}, MINE),
        ({"decision": "deny"}, None),
    ],
)
async def test_a_clients_answer_reaches_gemini_through_its_bridge(
    rig: SocketRig, file: Path, answer: Message, text: str | None
) -> None:
    async with bridge(rig) as neovim:
        proposed(neovim, file, agent="Gemini CLI")
        await until(lambda: rig.questions, "the question")
        await rig.answers(rig.questions[0], **answer)
        assert await neovim.receive() == {"type": "answer", "id": "7", "by": "phone", "text": text}


@pytest.mark.parametrize(("text", "decision"), [(MINE, "allow"), (None, "deny")])
async def test_a_decision_in_the_editor_is_the_answer(
    rig: SocketRig, file: Path, text: str | None, decision: str
) -> None:
    async with bridge(rig) as neovim:
        proposed(neovim, file, agent="Gemini CLI")
        await until(lambda: rig.questions, "the question")
        neovim.send(type="decided", id="7", text=text)
        assert await neovim.receive() == {"type": "ruling", "id": "7", "won": True}
        (resolved,) = rig.client.updates("permission_resolved")
        assert (resolved["by"], resolved["decision"]) == ("Neovim", decision)


# proposals from other agents in an editor


async def offered(line: Line) -> Message:
    message = await line.receive()
    assert message is not None
    assert message["type"] == "offer"
    return message


async def test_a_proposal_is_offered_to_editors_in_its_directory(rig: SocketRig, file: Path, tmp_path: Path) -> None:
    """An editor that connects later is offered it too, but the agent's own editor is not."""
    async with (
        bridge(rig) as here,
        bridge(rig, tmp_path / "elsewhere") as elsewhere,
        bridge(rig, pids=(CLAUDE,)) as its_own,
        Session(rig, pid=CLAUDE).asks("Edit", **edit(file)) as (hook, question),
        bridge(rig) as late,
    ):
        for line in (here, late):
            assert await offered(line) == {
                "type": "offer",
                "id": question["approval_id"],
                "agent": "Claude Code",
                "path": str(file),
                "new_text": NEW,
            }
        assert await elsewhere.receives_nothing()
        assert await its_own.receives_nothing()
        late.send(type="declined", id=question["approval_id"])
        here.send(type="answered", id=question["approval_id"], text=MINE)
        whole = {"old_string": OLD, "new_string": MINE, "replace_all": False}
        verdict = {"behavior": "allow", "updatedInput": edit(file) | whole}
        assert await hook.receive() == {"decision": verdict}
        here.send(type="answered", id=question["approval_id"], text=None)
        assert await late.receives_nothing()


def full_disk(patch: pytest.MonkeyPatch) -> None:
    def append(*_: object, **options: object) -> None:
        raise HistoryNotWritten("The disk is full.", disk_full=True)

    patch.setattr(History, "append", append)


async def test_an_editors_answer_that_cannot_be_stored_is_refused(
    rig: SocketRig, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent does not get the answer. The editor shows the proposal again, since there is no decision yet."""
    async with bridge(rig) as neovim, Session(rig).asks("Edit", **edit(file)) as (hook, question):
        await offered(neovim)
        with monkeypatch.context() as patch:
            full_disk(patch)
            neovim.send(type="answered", id=question["approval_id"], text=NEW)
            assert (await offered(neovim))["id"] == question["approval_id"]
        assert rig.client.updates("permission_resolved") == []
        neovim.send(type="answered", id=question["approval_id"], text=NEW)
        assert await hook.receive() == {"decision": {"behavior": "allow"}}


@pytest.mark.parametrize("agent", ["claude", "gemini"])
async def test_the_agents_own_editor_decides_on_a_full_disk(
    agent: str, rig: SocketRig, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The decision counts as it would without a server, since the server's full disk must not keep the user from
    working.
    """
    async with bridge(rig, pids=(CLAUDE,)) as neovim, contextlib.AsyncExitStack() as stack:
        if agent == "claude":
            proposed(neovim, file, pid=CLAUDE)
            await stack.enter_async_context(Session(rig, pid=CLAUDE).asks("Edit", **edit(file)))
        else:
            proposed(neovim, file, agent="Gemini CLI")
        await until(lambda: rig.questions, "the question")
        full_disk(monkeypatch)
        neovim.send(type="decided", id="7", text=MINE)
        assert await neovim.receive() == {"type": "ruling", "id": "7", "won": True}
        assert rig.client.updates("permission_resolved") == []
        await until(lambda: rig.client.updates("permission_withdrawn"), "the withdrawal for everybody else")
        [(event, _, entry)] = in_editors(rig)
        assert (event, entry["approval_id"], entry["decision"]) == (
            "answered",
            rig.questions[0]["approval_id"],
            "allow",
        )
        monkeypatch.undo()


async def test_a_late_answer_from_an_editor_is_ignored(rig: SocketRig, file: Path) -> None:
    async with (
        bridge(rig) as one,
        bridge(rig) as two,
        Session(rig).asks("Edit", **edit(file)) as (hook, question),
    ):
        await offered(one)
        await offered(two)
        two.send(type="answered", id=question["approval_id"], text=None)
        assert (await hook.receive() or {})["decision"]["behavior"] == "deny"
        assert await one.receive() == {"type": "withdraw", "id": question["approval_id"], "written": False}
        one.send(type="answered", id=question["approval_id"], text=MINE)
        await rig.idle()
        assert [one["by"] for one in rig.client.updates("permission_resolved")] == ["Neovim"]


async def test_a_request_without_a_proposal_is_not_shown_in_editors(rig: SocketRig, file: Path) -> None:
    async with bridge(rig) as neovim, Session(rig).asks(command="true"):
        assert await neovim.receives_nothing()


async def test_an_editor_can_decide_a_managed_sessions_request(rig: SocketRig) -> None:
    project = await rig.server.project(rig.client)
    directory = rig.folder / "one"
    async with bridge(rig, Path("/p")) as neovim, bridge(rig, directory) as other:
        process = await rig.server.running(rig.client, project)
        process.asks("q1")
        message = await offered(neovim)
        assert (message["path"], message["new_text"]) == ("/p/a.py", "new\n")
        neovim.send(type="answered", id=message["id"], text="new\n")
        await until(lambda: process.answers, "the answer")
        ((_, decision),) = process.answers
        assert (decision.allow, decision.updated_input) == (True, None)
        assert await other.receives_nothing()
        process.ends()


async def test_an_internal_error_ends_only_its_connection(
    rig: SocketRig, file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(line: bytes) -> None:
        raise RuntimeError("odd")

    with monkeypatch.context() as defect:
        defect.setattr("drawbridge.server.terminal_sessions.socket._read", fails)
        async with Line.open() as line:
            line.send_bytes(b"{}\n")
            assert await line.receive() is None
    assert "a connection to the private socket failed" in caplog.text
    async with Line.open() as line:
        line.send_bytes(b"{}\n")
        assert await line.receive() is None
    assert len([record for record in caplog.records if record.exc_info]) == 1
