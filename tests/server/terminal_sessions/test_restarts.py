"""A server is killed or restarts while an agent in a terminal waits. Clients show one card, and its answer arrives
once.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import time
import uuid
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path

import pytest

from drawbridge.cli.hook import for_guard
from drawbridge.core.errors import HistoryUnreadable
from drawbridge.server.terminal_sessions import continuation, questions, report_queue
from drawbridge.server.terminal_sessions import sessions as sessions_module
from drawbridge.server.terminal_sessions import turn as turn_module
from drawbridge.server.terminal_sessions import turns as turns_module
from drawbridge.server.terminal_sessions.reports import ReturnTimeOver
from drawbridge.server.terminal_sessions.session import TerminalSession
from drawbridge.settings.hook import HookSettings
from tests.guard import processes
from tests.guard.payloads import recorded as payload_of
from tests.server.processes import serving
from tests.waiting import PATIENCE, until

from .socket_rig import Line, Message, Session, SocketRig, socket_rig
from .test_sessions import ANOTHER, COMMAND, prompt, result, said, used

KNOWN_AS = "0123456789abcdef"
HOW = pytest.mark.parametrize("how", ["ended", "killed"])


@contextlib.asynccontextmanager
async def first_server(folder: Path, how: str) -> AsyncIterator[SocketRig]:
    """A server that ends cleanly. If ``how`` is "killed", its data is then restored to what it was before the end."""
    data, kept = folder / "data", folder / "as-it-was"
    async with socket_rig(folder) as rig:
        yield rig
        if how == "killed":
            shutil.copytree(data, kept, symlinks=True)
    if how == "killed":
        shutil.rmtree(data)
        kept.rename(data)


def ask(hook: Line, session: Session, given: Message = COMMAND, tool: str = "Bash") -> None:
    """Asks a question, which has the same id each time."""
    payload = session.payload("PermissionRequest", tool_name=tool, tool_input=given)
    hook.send(type="hook", pid=session.pid, payload=payload, question=KNOWN_AS)


@contextlib.asynccontextmanager
async def asked(folder: Path, how: str) -> AsyncIterator[tuple[SocketRig, Session, Line, Message]]:
    """Asks a question while the first server runs. Afterwards, the server has ended, and the hook's connection is
    closed."""
    async with contextlib.AsyncExitStack() as longer:
        async with first_server(folder, how) as rig:
            session = Session(rig)
            await session.reports("UserPromptSubmit", prompt="Go")
            session.writes(prompt("Go"))
            hook = await longer.enter_async_context(Line.open())
            ask(hook, session)
            await until(lambda: rig.questions, "the question")
            yield rig, session, hook, rig.questions[0]
        assert await hook.receive() is None


async def reconnects(later: SocketRig, session: Session, hook: Line) -> None:
    ask(hook, session)
    await until(lambda: later.server.core.terminal_sessions.find(session.project), "the session")
    await later.idle()


async def open_in(rig: SocketRig, session: Session) -> list[str]:
    return [one["approval_id"] for one in (await rig.info(session))["approvals"]]


def ways(rig: SocketRig, session: Session) -> set[str]:
    """The class names of the surfaces that show the session's open approval requests."""
    found = rig.server.core.terminal_sessions.find(session.project)
    return {type(asker).__name__ for askers in (found.approvals._askers.values() if found else ()) for asker in askers}


async def recorded(rig: SocketRig, session: Session, *subtypes: str) -> list[Message]:
    answer = await rig.does("get_messages", session.project, after_seq=0)
    records = [record["message"] for record in answer["data"]["messages"] if record["direction"] == "server"]
    return [one["message"] for one in records if one["subtype"] in subtypes]


@HOW
async def test_the_same_card_is_shown_after_a_restart(tmp_path: Path, how: str) -> None:
    async with asked(tmp_path, how) as (_, session, _, question):
        pass
    async with socket_rig(tmp_path) as later, Line.open() as hook:
        info = await later.info(session)
        assert (info["state"], info["desk"]["state"]) == ("EXECUTING", "waiting")
        joined = (await later.does("project_join", session.project))["data"]["data"]
        assert joined["open_approvals"] == [question]
        await reconnects(later, session.at(later), hook)
        assert await open_in(later, session) == [question["approval_id"]]
        assert await hook.receives_nothing()
        await later.answers(question, updated_input=ANOTHER)
        assert await hook.receive() == {"decision": {"behavior": "allow", "updatedInput": ANOTHER}}
        assert await hook.receive() is None
        assert later.questions == []
        assert await recorded(later, session, "permission_withdrawn", "run_finished") == []
        assert len(await recorded(later, session, "permission_request", "run_started")) == 2


@HOW
async def test_an_answer_after_a_restart_reaches_the_hook_later(tmp_path: Path, how: str) -> None:
    async with asked(tmp_path, how) as (_, session, _, question):
        pass
    async with socket_rig(tmp_path) as later:
        await later.answers(question, "deny", message="not now")
        async with Line.open() as hook:
            await reconnects(later, session, hook)
            assert await hook.receive() == {"decision": {"behavior": "deny", "message": "not now"}}
        error = await later.refusal(
            "permission_response", session.project, approval_id=question["approval_id"], decision="allow"
        )
        assert error.code == "APPROVAL_RESOLVED"


async def test_a_stored_answer_is_sent_by_the_next_server(tmp_path: Path) -> None:
    """The first server was killed after it stored the answer. The answer that the next one sends contains the edited
    input.
    """
    async with asked(tmp_path, "killed") as (rig, session, _, question):
        (deaf,) = rig.server.core.terminal_sessions.find(session.project).approvals._askers.values()  # type: ignore[union-attr]
        deaf[0].decided = lambda *_: None  # type: ignore[method-assign]
        await rig.answers(question, updated_input=ANOTHER)
    async with socket_rig(tmp_path) as later:
        assert await open_in(later, session) == []
        for _ in range(2):  # the answer is sent again, since the hook may not have received it
            async with Line.open() as again:
                await reconnects(later, session, again)
                assert await again.receive() == {"decision": {"behavior": "allow", "updatedInput": ANOTHER}}
        error = await later.refusal(
            "permission_response", session.project, approval_id=question["approval_id"], decision="deny"
        )
        assert (error.code, error.details) == ("APPROVAL_RESOLVED", {"by": "phone", "decision": "allow"})
        assert later.questions == later.client.updates("permission_resolved") == []


@HOW
async def test_a_question_answered_while_no_server_ran_is_resolved(tmp_path: Path, how: str) -> None:
    async with asked(tmp_path, how) as (_, session, _, question):
        session.writes(used("t1", COMMAND))
        await session.reports("Notification")
    session.writes(result("t1"))
    async with socket_rig(tmp_path) as later:
        await until(lambda: not later.server.core.terminal_sessions.find(session.project).approvals, "its end")  # type: ignore[union-attr]
        assert await recorded(later, session, "permission_withdrawn") == [
            {"approval_id": question["approval_id"], "reason": "answered elsewhere"}
        ]
        async with Line.open() as hook:
            await reconnects(later, session, hook)
            assert await hook.receive() == {"decision": None}
        assert later.questions == []


@HOW
async def test_a_question_resolved_before_a_restart_stays_resolved(tmp_path: Path, how: str) -> None:
    async with asked(tmp_path, how) as (_, session, hook, _):
        await session.reports("Stop")
        assert await hook.receive() == {"decision": None}
    async with socket_rig(tmp_path) as later, Line.open() as again:
        await reconnects(later, session, again)
        assert await again.receive() == {"decision": None}
        assert (await later.info(session))["desk"]["state"] == "finished"


async def test_a_hook_that_does_not_reconnect_loses_its_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions_module, "RETURN_SECONDS", 0.05)
    async with asked(tmp_path, "killed") as (_, session, _, question):
        pass
    async with socket_rig(tmp_path) as later:
        await until(lambda: not later.server.core.terminal_sessions.find(session.project).approvals, "its end")  # type: ignore[union-attr]
        assert await recorded(later, session, "permission_withdrawn") == [
            {"approval_id": question["approval_id"], "reason": "the agent is no longer waiting for it"}
        ]
        async with Line.open() as late:  # a hook that was suspended, for example, asks again
            ask(late, session)
            await until(lambda: later.questions, "the question")
            await later.answers(later.questions[0])
            assert await late.receive() == {"decision": {"behavior": "allow"}}


@pytest.mark.parametrize("dies", ["while no server runs", "before the hook comes again"])
async def test_a_question_survives_the_end_of_another_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies: str
) -> None:
    monkeypatch.setattr(report_queue, "WORKING_SECONDS", 0.02)
    second = await asyncio.create_subprocess_exec("sleep", "60")
    async with asked(tmp_path, "killed") as (_, session, _, question):
        first, session.pid = session.pid, second.pid
        await session.reports("SessionStart", source="resume")
    session.pid = first
    if dies == "while no server runs":
        second.kill()
        await second.wait()
    async with socket_rig(tmp_path) as later:
        found = later.server.core.terminal_sessions.find(session.project)
        assert found
        if dies == "before the hook comes again":
            second.kill()
            await second.wait()
            await until(lambda: second.pid not in [one.pid for one in found.processes.all], "its end")
        assert await open_in(later, session) == [question["approval_id"]]
        async with Line.open() as hook:
            await reconnects(later, session, hook)
            await later.answers(question)
            assert await hook.receive() == {"decision": {"behavior": "allow"}}
        assert later.questions == []


async def test_the_request_of_an_exited_terminal_ends_with_its_run(tmp_path: Path) -> None:
    """The conversation is also open in another terminal, which does nothing."""
    async with contextlib.AsyncExitStack() as longer:
        async with asked(tmp_path, "killed") as (_, session, _, question):
            await longer.enter_async_context(opened_elsewhere(session))
        file = tmp_path / "data" / "desk" / session.project / "desk.json"
        facts = json.loads(file.read_text())
        [first] = facts["others"]
        first["began"] = "another start"  # another program has the process id by now
        file.write_text(json.dumps(facts))
        async with socket_rig(tmp_path) as later:
            assert (await later.info(session))["desk"]["state"] == "finished"
            assert [one["outcome"] for one in await recorded(later, session, "run_finished")] == ["interrupted"]
            withdrawn = await recorded(later, session, "permission_withdrawn")
            assert [one["approval_id"] for one in withdrawn] == [question["approval_id"]]


@contextlib.asynccontextmanager
async def opened_elsewhere(session: Session) -> AsyncIterator[int]:
    """Opens the conversation in another terminal, which stays idle. Yields the id of its process."""
    process = await asyncio.create_subprocess_exec("sleep", "600")
    first, session.pid = session.pid, process.pid
    await session.reports("SessionStart", source="resume")
    session.describes_itself(status="idle", statusUpdatedAt=time.time() * 1000)
    session.pid = first
    try:
        yield process.pid
    finally:
        process.kill()
        await process.wait()


async def test_a_run_continues_while_another_terminal_is_idle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_queue, "WORKING_SECONDS", 0.02)
    monkeypatch.setattr(turns_module, "IDLE_SECONDS", 0.05)
    async with contextlib.AsyncExitStack() as longer:
        async with first_server(tmp_path, "killed") as rig:
            session = Session(rig)
            await session.reports("UserPromptSubmit", prompt="Go")
            session.writes(prompt("Go"))
            await longer.enter_async_context(opened_elsewhere(session))
        async with socket_rig(tmp_path) as later:
            looks = asyncio.get_running_loop().time() + 0.5
            await until(lambda: asyncio.get_running_loop().time() > looks, "some looks")
            assert (await later.info(session))["desk"]["state"] == "working"
            assert await recorded(later, session, "run_finished") == []
            await session.at(later).reports("Stop")
            assert [one["outcome"] for one in await recorded(later, session, "run_finished")] == ["completed"]


async def test_a_subagents_answer_leaves_the_main_question_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The conversation is also open in another terminal."""
    monkeypatch.setattr(sessions_module, "RETURN_SECONDS", 0.2)
    async with contextlib.AsyncExitStack() as longer:
        async with asked(tmp_path, "killed") as (rig, session, _, question):
            hook = await longer.enter_async_context(Line.open())
            subagent = {"agent_id": "a1", "agent_type": "explorer"}
            command = {"tool_name": "Bash", "tool_input": {"command": "theirs"}}
            payload = session.payload("PermissionRequest", **command, **subagent)
            hook.send(type="hook", pid=session.pid, payload=payload, question="ab" * 8)
            await until(lambda: len(rig.questions) == 2, "the second question")
            await longer.enter_async_context(opened_elsewhere(session))
        async with socket_rig(tmp_path) as later, Line.open() as again:
            await reconnects(later, session.at(later), again)
            await until(lambda: later.client.updates("permission_withdrawn"), "the end of the other one")
            assert await open_in(later, session) == [question["approval_id"]]
            assert await recorded(later, session, "run_finished") == []
            await later.answers(question)
            assert await again.receive() == {"decision": {"behavior": "allow"}}
            await session.reports("SubagentStop", agent_id="a1")
            await session.reports("Stop")
            assert (await later.info(session))["desk"]["state"] == "finished"


@HOW
async def test_a_conversation_that_was_closed_stays_closed(tmp_path: Path, how: str) -> None:
    """``/clear`` begins another conversation in the same process, and ``/resume`` opens the first one again."""
    async with first_server(tmp_path, how) as rig:
        session = Session(rig)
        await session.reports("UserPromptSubmit", prompt="Go")
        await session.reports("SessionEnd", reason="clear")
    async with first_server(tmp_path, how) as rig:
        assert (await rig.info(session))["desk"]["state"] == "ended"
        assert not rig.server.core.terminal_sessions.open_in_terminal(session.id)
        await session.at(rig).reports("SessionStart", source="resume")
        assert (await rig.info(session))["desk"]["state"] == "finished"
    async with socket_rig(tmp_path) as rig:
        assert (await rig.info(session))["desk"]["state"] == "finished"


async def test_an_answer_without_a_hook_is_overruled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client answers right after the server was restarted, but the agent's hook never reconnects to receive the
    answer.
    """
    monkeypatch.setattr(sessions_module, "RETURN_SECONDS", 3.0)
    async with asked(tmp_path, "killed") as (_, _, _, question):
        pass
    async with socket_rig(tmp_path) as later:
        await later.answers(question)
        await until(lambda: later.withdrawn(question) == [questions.NO_LONGER_WAITED], "its end")


async def test_an_overruled_question_can_be_asked_again(tmp_path: Path) -> None:
    """The agent's hook was suspended, for example, and reconnects after the answer was recorded as overruled."""
    async with asked(tmp_path, "killed") as (_, session, _, question):
        pass
    async with socket_rig(tmp_path) as later, Line.open() as late:
        await later.answers(question)
        found = later.server.core.terminal_sessions.find(session.project)
        assert found is not None
        found.process(ReturnTimeOver())
        await until(lambda: later.withdrawn(question) == [questions.NO_LONGER_WAITED], "its end")
        ask(late, session)
        await until(lambda: later.questions, "the question")
        await later.answers(later.questions[0])
        assert await late.receive() == {"decision": {"behavior": "allow"}}


async def test_an_overruled_question_can_be_answered_in_the_terminal(tmp_path: Path) -> None:
    """The call that has run settles the request that is open, not the decision that was overruled before."""
    async with asked(tmp_path, "killed") as (_, session, _, question):
        pass
    async with socket_rig(tmp_path) as later, Line.open() as late:
        await later.answers(question)
        found = later.server.core.terminal_sessions.find(session.project)
        assert found is not None
        found.process(ReturnTimeOver())
        await until(lambda: later.withdrawn(question) == [questions.NO_LONGER_WAITED], "its end")
        ask(late, session)
        await until(lambda: later.questions, "the question")
        await session.at(later).reports("PostToolUse", tool_name="Bash", tool_input=COMMAND)
        assert later.withdrawn(later.questions[0]) == [questions.ELSEWHERE]


async def test_an_agent_that_has_ended_has_no_question(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec("sleep", "60")
    async with first_server(tmp_path, "killed") as rig:
        session = Session(rig, pid=process.pid)
        async with Line.open() as hook:
            ask(hook, session)
            await until(lambda: rig.questions, "the question")
            process.kill()
            await process.wait()
    async with socket_rig(tmp_path) as later:
        assert (await later.info(session))["desk"]["state"] == "ended"
        assert await open_in(later, session) == []
        (withdrawn,) = await recorded(later, session, "permission_withdrawn")
        assert withdrawn["reason"] == "the server was restarted"


async def test_removing_a_session_releases_its_waiting_hook(tmp_path: Path) -> None:
    async with socket_rig(tmp_path) as rig, Line.open() as hook:
        session = Session(rig)
        ask(hook, session)
        await until(lambda: rig.questions, "the question")
        await rig.does("project_delete", session.project)
        assert await hook.receive() == {"decision": None}


async def test_a_hook_asks_its_question_on_a_server_with_other_data(tmp_path: Path) -> None:
    """A server with other data now serves this machine's terminals."""
    async with asked(tmp_path, "killed") as (_, session, _, _):
        pass
    shutil.rmtree(tmp_path / "data")
    async with socket_rig(tmp_path) as other, Line.open() as hook:
        ask(hook, session)
        await until(lambda: other.questions, "the question")
        await other.answers(other.questions[0])
        assert await hook.receive() == {"decision": {"behavior": "allow"}}


async def test_a_question_is_found_in_a_history_of_any_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(continuation, "PAGE", 7)
    async with asked(tmp_path, "killed") as (_, session, _, question):
        session.writes(*(said(str(number)) for number in range(100)))
        await session.reports("Notification")
    async with socket_rig(tmp_path) as later:
        assert await open_in(later, session) == [question["approval_id"]]


@pytest.mark.parametrize("known", [True, False], ids=["with an id", "without an id"])
async def test_a_refused_question_with_an_id_gets_an_answer(tmp_path: Path, known: bool) -> None:
    """Without an answer, the hook would send a question with an id again."""
    async with socket_rig(tmp_path) as rig, Line.open() as hook:
        payload = Session(rig).payload("PermissionRequest", tool_name="Bash", tool_input=COMMAND)
        hook.send(
            type="hook", pid=os.getpid(), payload={**payload, "cwd": "not/whole"}, question=KNOWN_AS if known else ""
        )
        assert await hook.receive() == ({"decision": None} if known else None)


# restarts of a real server, with a real hook


async def test_a_real_hook_survives_killed_servers(home: Path) -> None:
    payload = payload_of("claude", "PermissionRequest", "Bash")
    words = processes.fast_form(home, for_guard(HookSettings()))
    process = await asyncio.create_subprocess_exec(*words, stdin=PIPE, stdout=PIPE)
    assert process.stdin is not None
    try:
        async with serving(home / "data", "--no-tls") as server, server.client() as client:
            await client.ask("subscribe", {"topics": ["approvals"]})
            process.stdin.write(processes.as_json(payload))
            process.stdin.close()
            question = (await client.receive("permission_request"))["data"]
            server.process.kill()
            await server.ended()
        async with serving(home / "data", "--no-tls") as server, server.client() as client:
            project = f"desk_{payload['session_id']}"
            joined = await client.ask("project_join", project_id=project)
            assert [one["approval_id"] for one in joined["data"]["data"]["open_approvals"]] == [question["approval_id"]]
            given = {"approval_id": question["approval_id"], "decision": "deny", "message": "not now"}
            await client.ask("permission_response", given, project)
            output, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
            assert json.loads(output)["hookSpecificOutput"]["decision"] == {"behavior": "deny", "message": "not now"}
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


# questions from a bridge


@contextlib.asynccontextmanager
async def bridge(rig: SocketRig, *pids: int) -> AsyncIterator[Line]:
    async with Line.open() as line:
        line.send(type="bridge", editor="Neovim", folders=[str(rig.folder)], pids=pids)
        yield line


def proposed(line: Line, agent: str, pid: int | None = None) -> None:
    """Sends a proposal with the same id and text each time, for a file that does not exist."""
    texts = {"old_text": "", "new_text": "new\n"}
    fields = {"id": "7", "agent": agent, "session": "s", "path": "/ws/a.py", "pid": pid, "question": f"{KNOWN_AS}-7"}
    line.send(type="proposed", **fields, **texts)


@HOW
async def test_a_gemini_proposal_keeps_its_card_after_a_restart(tmp_path: Path, how: str) -> None:
    async with first_server(tmp_path, how) as rig, bridge(rig) as neovim:
        proposed(neovim, "Gemini CLI")
        await until(lambda: rig.questions, "the question")
        (question,) = rig.questions
        if how == "ended":
            await rig.server.core.close("the server is ending")
    async with socket_rig(tmp_path) as later:
        (info,) = (await later.does("project_list"))["data"]["projects"]
        assert info["desk"]["state"] == "waiting"
        async with bridge(later) as neovim:
            proposed(neovim, "Gemini CLI")
            assert await neovim.receives_nothing()
            assert later.client.updates("project_created") == later.questions == []
            await later.answers(question)
            assert await neovim.receive() == {"type": "answer", "id": "7", "by": "phone", "text": "new\n"}
        await until(lambda: [one.phase for one in later.server.core.terminal_sessions] == ["ended"], "its end")


async def test_an_answer_after_a_restart_closes_geminis_proposal(tmp_path: Path) -> None:
    async with first_server(tmp_path, "killed") as rig, bridge(rig) as neovim:
        proposed(neovim, "Gemini CLI")
        await until(lambda: rig.questions, "the question")
    async with socket_rig(tmp_path) as later:
        await later.answers(rig.questions[0], "deny")
        async with bridge(later) as neovim:
            proposed(neovim, "Gemini CLI")
            assert await neovim.receive() == {"type": "answer", "id": "7", "by": "phone", "text": None}


async def test_a_bridge_that_does_not_reconnect_ends_its_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions_module, "RETURN_SECONDS", 0.05)
    async with first_server(tmp_path, "killed") as rig, bridge(rig) as neovim:
        proposed(neovim, "Gemini CLI")
        await until(lambda: rig.questions, "the question")
    async with socket_rig(tmp_path) as later:
        await until(lambda: [one.phase for one in later.server.core.terminal_sessions] == ["ended"], "its end")
        assert [one.state for one in later.server.core.terminal_sessions] == ["IDLE"]


@pytest.mark.parametrize("first", ["hook", "bridge"])
async def test_claudes_hook_and_diff_stay_one_question_after_a_restart(tmp_path: Path, first: str) -> None:
    given = {"file_path": "/ws/a.py", "content": "new\n"}
    async with first_server(tmp_path, "killed") as rig, bridge(rig, os.getpid()) as neovim, Line.open() as hook:
        session = Session(rig)
        ask(hook, session, given, tool="Write")
        await until(lambda: rig.questions, "the question")
        proposed(neovim, "Claude Code", session.pid)
        await until(lambda: len(ways(rig, session)) == 2, "the diff as a part of the question")
    async with socket_rig(tmp_path) as later, bridge(later, os.getpid()) as neovim, Line.open() as hook:
        if first == "hook":
            ask(hook, session, given, tool="Write")
            await until(lambda: ways(later, session) == {"AskingHook"}, "the hook")
        proposed(neovim, "Claude Code", session.pid)
        await until(lambda: "AskingBridge" in ways(later, session), "the diff")
        if first == "bridge":
            ask(hook, session, given, tool="Write")
        await until(lambda: ways(later, session) == {"AskingHook", "AskingBridge"}, "both")
        assert await open_in(later, session) == [rig.questions[0]["approval_id"]]
        neovim.send(type="decided", id="7", text="mine\n")
        assert await neovim.receive() == {"type": "ruling", "id": "7", "won": True}
        assert await hook.receive() == {"decision": None}
        (resolved,) = later.client.updates("permission_resolved")
        assert resolved["approval_id"] == rig.questions[0]["approval_id"]


# a session that can't be read


def newer(directory: Path) -> Callable[[], None]:
    file = directory / "metadata.json"
    before = file.read_bytes()
    file.write_bytes(before.replace(b'"version": 1', b'"version": 2'))

    def undo() -> None:
        file.write_bytes(before)

    return undo


def unreadable(name: str) -> Callable[[Path], Callable[[], None]]:
    """Returns a function that replaces the file with a directory, so that nobody can read it, and deletes the copy of
    the metadata. That function returns another one, which restores the file.
    """

    def make(directory: Path) -> Callable[[], None]:
        file, kept = directory / name, directory / "kept"
        (directory / "metadata.json.bak").unlink(missing_ok=True)
        file.rename(kept)
        file.mkdir()

        def undo() -> None:
            file.rmdir()
            kept.rename(file)

        return undo

    return make


@pytest.mark.parametrize(
    "spoil",
    [newer, unreadable("metadata.json"), unreadable("desk.json")],
    ids=["newer", "metadata", "facts"],
)
async def test_a_session_that_cannot_be_read_is_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, spoil: Callable[[Path], Callable[[], None]]
) -> None:
    async with socket_rig(tmp_path) as rig:
        session, other = Session(rig), Session(rig)
        for each in (session, other):
            await each.reports("UserPromptSubmit", prompt="Go")
            each.writes(said("It is done."))
            await each.reports("Stop")
    directory = tmp_path / "data" / "desk" / session.project
    undo = spoil(directory)
    async with socket_rig(tmp_path) as rig:
        assert [one.id for one in rig.server.core.terminal_sessions] == [other.project]
        kept = {file: file.read_bytes() for file in directory.rglob("*") if file.is_file()}
        await session.at(rig).reports("Stop")
        assert {file: file.read_bytes() for file in directory.rglob("*") if file.is_file()} == kept
        assert len([one for one in caplog.records if "can't be read at the moment" in one.message]) == 1
        undo()
        await session.reports("Stop")
        assert [one["id"] for one in rig.client.updates("project_created")] == [session.project]
        assert (await rig.info(session))["message_count"] > 0
        assert await recorded(rig, session, "run_started")


async def test_a_session_survives_an_error_while_reading_its_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with socket_rig(tmp_path) as rig:
        session = Session(rig)
        await session.reports("UserPromptSubmit", prompt="Go")

    def fail(self: object) -> None:
        raise HistoryUnreadable("the disk reports an error")

    with monkeypatch.context() as failing:
        failing.setattr(TerminalSession, "read_past", fail)
        async with socket_rig(tmp_path) as rig:
            assert list(rig.server.core.terminal_sessions) == []
    async with socket_rig(tmp_path) as rig:
        assert await recorded(rig, session, "run_started")


async def test_a_damaged_session_is_moved_to_quarantine(tmp_path: Path) -> None:
    async with socket_rig(tmp_path) as rig:
        session = Session(rig)
        await session.reports("UserPromptSubmit", prompt="Go")
    directory = tmp_path / "data" / "desk" / session.project
    (directory / "desk.json").write_text("{")
    async with socket_rig(tmp_path) as rig:
        assert list(rig.server.core.terminal_sessions) == []
        assert not directory.exists()
        (moved,) = (tmp_path / "data" / "quarantine").iterdir()
        assert session.project.removeprefix("desk_") in (moved / "logs" / "latest.jsonl").read_text()


# a turn that continues while no server runs


@HOW
@pytest.mark.parametrize("ends_by", ["a hook", "the transcript", "the next prompt", "the process"])
@pytest.mark.parametrize("is_recorded", [True, False], ids=["with its prompt", "without its prompt"])
async def test_a_turn_stays_one_run_across_a_restart(tmp_path: Path, how: str, ends_by: str, is_recorded: bool) -> None:
    async with first_server(tmp_path, how) as rig:
        session = Session(rig)
        await session.reports("UserPromptSubmit", prompt="Go")
        turn = session.turn
        if is_recorded:
            session.writes({"type": "user", "message": {"content": "Go"}})
            await until_read(rig, session)
    outcome = "completed"
    async with socket_rig(tmp_path) as rig:
        session.at(rig)
        assert (await rig.info(session))["desk"]["state"] == "working"
        assert await recorded(rig, session, "run_finished") == []
        match ends_by:
            case "a hook":
                await session.reports("PostToolUse", tool_name="Bash", tool_input={"command": "ls"})
                session.writes(said("Done"))
                await session.reports("Stop", last_assistant_message="Done")
            case "the transcript":
                done = {"content": [{"type": "text", "text": "Done"}], "stop_reason": "end_turn"}
                session.writes({"type": "assistant", "message": done})
                await session.reports("Notification")
                await session.reports("Stop", last_assistant_message="Done")
            case "the next prompt":
                session.turn = "the next turn"
                await session.reports("UserPromptSubmit", prompt="More")
            case _:
                await session.reports("SessionEnd")
                outcome = "interrupted"
        runs = await recorded(rig, session, "run_started", "run_finished")
        assert [one.get("outcome") for one in runs if one["run_id"] == turn] == [None, outcome]


async def test_after_a_reboot_a_reused_process_id_is_detected(tmp_path: Path) -> None:
    async with first_server(tmp_path, "ended") as rig:
        session = Session(rig)
        await session.reports("UserPromptSubmit", prompt="Go")
    file = tmp_path / "data" / "desk" / session.project / "desk.json"
    facts = json.loads(file.read_text())
    file.write_text(json.dumps(facts | {"began": "another start"}))
    async with socket_rig(tmp_path) as rig:
        assert (await rig.info(session))["desk"]["state"] == "ended"
        assert [one["outcome"] for one in await recorded(rig, session, "run_finished")] == ["interrupted"]


@pytest.mark.parametrize("reason", ["stop_sequence", "max_tokens", "refusal"])
async def test_any_stop_reason_ends_a_turn_after_a_restart(tmp_path: Path, reason: str) -> None:
    async with first_server(tmp_path, "ended") as rig:
        session = Session(rig)
        await session.reports("UserPromptSubmit", prompt="Go")
    async with socket_rig(tmp_path) as rig:
        session.at(rig)
        session.writes(
            {"type": "assistant", "message": {"content": [{"type": "text", "text": "Oh"}], "stop_reason": reason}}
        )
        await session.reports("Notification")
        assert [one["outcome"] for one in await recorded(rig, session, "run_finished")] == ["completed"]


@HOW
@pytest.mark.parametrize(
    ("error", "code"), [({"error": "rate_limit"}, "AGENT_RATE_LIMITED"), ({"error": "unknown"}, None), ({}, None)]
)
async def test_a_turn_that_failed_with_no_server_is_recorded_as_failed(
    tmp_path: Path, how: str, error: Message, code: str | None
) -> None:
    async with first_server(tmp_path, how) as rig:
        session = Session(rig)
        await session.reports("UserPromptSubmit", prompt="Go")
        session.writes(prompt("Go"))
    words = "API Error: Request rejected (429) · slow down"
    written = {**said(words), "isApiErrorMessage": True, **error}
    written["message"] |= {"model": "<synthetic>", "stop_reason": "stop_sequence"}
    session.writes(written)
    async with socket_rig(tmp_path) as later:
        [found] = later.server.core.terminal_sessions
        await until(lambda: found.phase == "finished", "the end of the run")
        [end] = await recorded(later, session, "run_finished")
        assert (end["outcome"], end.get("error"), end.get("code")) == ("failed", words, code)


@HOW
async def test_a_turn_that_ended_while_no_server_ran_is_over(tmp_path: Path, how: str) -> None:
    """The turn's question was answered in the terminal, and the Stop hook found no server. The conversation's file
    shows the answer and the end of the turn.
    """
    async with asked(tmp_path, how) as (_, session, _, _):
        session.writes(used("t1", COMMAND))
        await session.reports("Notification")
    done = {"content": [{"type": "text", "text": "Done"}], "stop_reason": "end_turn"}
    session.writes(result("t1"), {"type": "assistant", "message": done})
    async with socket_rig(tmp_path) as later:
        [found] = later.server.core.terminal_sessions
        await until(lambda: found.phase == "finished", "the end of the run")
        assert [one["outcome"] for one in await recorded(later, session, "run_finished")] == ["completed"]


@HOW
async def test_a_turn_interrupted_while_no_server_ran_is_over(tmp_path: Path, how: str) -> None:
    """The user interrupted the turn in the dialog of an approval request. Only the conversation's file shows that."""
    async with asked(tmp_path, how) as (_, session, _, _):
        session.writes(used("t1", COMMAND))
        await session.reports("Notification")
    session.writes(prompt("[Request interrupted by user for tool use]"))
    async with socket_rig(tmp_path) as later:
        [found] = later.server.core.terminal_sessions
        await until(lambda: found.phase == "finished", "the end of the run")
        assert [one["outcome"] for one in await recorded(later, session, "run_finished")] == ["interrupted"]


@HOW
@pytest.mark.parametrize("has_question", [True, False], ids=["with a question", "without a question"])
async def test_a_turn_withdrawn_while_no_server_ran_is_over(
    tmp_path: Path, how: str, has_question: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Esc leaves no line in the conversation's file. Only the CLI's file about its process shows that it is idle."""
    monkeypatch.setattr(sessions_module, "RETURN_SECONDS", 0.2)
    monkeypatch.setattr(report_queue, "WORKING_SECONDS", 0.02)
    monkeypatch.setattr(turns_module, "IDLE_SECONDS", 0.1)
    async with contextlib.AsyncExitStack() as first:
        if has_question:
            _, session, _, _ = await first.enter_async_context(asked(tmp_path, how))
        else:
            session = Session(await first.enter_async_context(first_server(tmp_path, how)))
            await session.reports("UserPromptSubmit", prompt="Go")
            session.writes(prompt("Go"))
    session.describes_itself(status="idle", statusUpdatedAt=time.time() * 1000)
    async with socket_rig(tmp_path) as later:
        [found] = later.server.core.terminal_sessions
        await until(lambda: found.phase == "finished", "the end of the run")
        assert [one["outcome"] for one in await recorded(later, session, "run_finished")] == ["interrupted"]


@HOW
@pytest.mark.parametrize("is_over", [True, False], ids=["over", "active"])
async def test_a_turn_begun_while_no_server_ran_ends_once(tmp_path: Path, how: str, is_over: bool) -> None:
    """A prompt was typed while no server ran, and perhaps its turn ended, too."""
    async with first_server(tmp_path, how) as rig:
        session = Session(rig)
        await session.reports("UserPromptSubmit", prompt="One")
        session.writes(prompt("One"), said("First."))
        await session.reports("Stop", last_assistant_message="First.")
    second = str(uuid.uuid4())
    session.writes(prompt("Two", promptId=second))
    if is_over:
        done = {"content": [{"type": "text", "text": "Second."}], "stop_reason": "end_turn"}
        session.writes({"type": "assistant", "message": done})
    async with socket_rig(tmp_path) as later:
        [found] = later.server.core.terminal_sessions
        await until_read(later, session)
        if not is_over:
            assert found.phase == "working"
            await session.at(later).reports("Stop", prompt_id=second)
        assert found.phase == "finished"
        ends = await recorded(later, session, "run_finished")
        assert [one["outcome"] for one in ends] == ["completed"] * 2
        assert ends[1]["run_id"] == second


async def test_questions_stored_without_a_kind_still_need_answers(tmp_path: Path) -> None:
    """Earlier versions did not store the kind of an approval request."""
    given: Message = {"questions": [{"question": "Which?"}]}
    async with contextlib.AsyncExitStack() as longer:
        async with first_server(tmp_path, "killed") as rig:
            session = Session(rig)
            await session.reports("UserPromptSubmit", prompt="Go")
            session.writes(prompt("Go"))
            hook = await longer.enter_async_context(Line.open())
            ask(hook, session, given, "AskUserQuestion")
            await until(lambda: rig.questions, "the question")
        stored = [file for file in (tmp_path / "data").rglob("*.jsonl") if b'"kind":"question"' in file.read_bytes()]
        assert stored
        for file in stored:
            file.write_bytes(file.read_bytes().replace(b'"kind":"question"', b'"none":"question"'))
        async with socket_rig(tmp_path) as later, Line.open() as again:
            ask(again, session, given, "AskUserQuestion")
            await until(lambda: later.server.core.terminal_sessions.find(session.project), "the session")
            await later.idle()
            session_now = later.server.core.terminal_sessions.find(session.project)
            assert session_now is not None
            assert [one.request.kind for one in session_now.approvals] == ["question"]
            answer = {"approval_id": rig.questions[0]["approval_id"], "decision": "allow"}
            error = await later.refusal("permission_response", session.project, **answer)
            assert (error.code, error.field) == ("VALIDATION_FAILED", "data.updated_input")
            assert await open_in(later, session) == [answer["approval_id"]]


@HOW
async def test_the_length_of_the_next_wait_survives_a_restart(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "HOLD_SECONDS", 0.1)
    subagent = {"agent_id": "a1", "agent_type": "general-purpose"}
    async with first_server(tmp_path, how) as rig:
        session = Session(rig)
        await session.reports("UserPromptSubmit", prompt="Go")
        async with session.asks(more=subagent, command="one") as (hook, _):
            assert await hook.receive() is None
    monkeypatch.setattr(questions, "HOLD_SECONDS", 3600.0)
    monkeypatch.setattr(questions, "HOLD_AGAIN_SECONDS", 0.1)
    async with socket_rig(tmp_path) as later:
        session.at(later)
        async with session.asks(more=subagent, command="two") as (hook, _):
            assert await hook.receive() is None
    async with first_server(tmp_path, how) as rig:
        session.at(rig)
        monkeypatch.setattr(questions, "HOLD_AGAIN_SECONDS", 3600.0)
        async with session.asks(more=subagent, command="three") as (hook, question):
            await rig.answers(question)
            assert await hook.receive() == {"decision": {"behavior": "allow"}}
    async with socket_rig(tmp_path) as later:
        monkeypatch.setattr(questions, "HOLD_SECONDS", 0.1)
        async with session.at(later).asks(more=subagent, command="four") as (hook, _):
            assert await hook.receive() is None


@HOW
async def test_a_late_hook_of_an_old_run_does_not_end_the_current_run(tmp_path: Path, how: str) -> None:
    """The end of the old run is no longer among the last records of the history."""
    calls = [part for id in range(150) for part in (used(f"t{id}", {"command": str(id)}), result(f"t{id}"))]
    async with first_server(tmp_path, how) as rig:
        session = Session(rig)
        old, new = session.turn, str(uuid.uuid4())
        await session.reports("UserPromptSubmit", prompt="One")
        session.writes(prompt("One"), said("First."))
        await session.reports("Stop", last_assistant_message="First.")
        session.turn = new
        await session.reports("UserPromptSubmit", prompt="Two")
        session.writes(prompt("Two"), *calls)
        await session.reports("PreToolUse", tool_name="Bash", tool_input=COMMAND)
    async with socket_rig(tmp_path) as later:
        session.at(later)
        await session.reports("PostToolUse", tool_name="Bash", tool_input=COMMAND, prompt_id=old)
        await session.reports("Stop", prompt_id=old)
        runs = [one["run_id"] for one in await recorded(later, session, "run_started", "run_finished")]
        assert runs == [old, old, new]
        await session.reports("Stop")
        assert [one["run_id"] for one in await recorded(later, session, "run_finished")] == [old, new]


SUBAGENT: Message = {"id": "a1", "type": "subagent", "status": "running", "description": "Read it"}
BUILD: Message = {"id": "b1", "type": "shell", "status": "running", "command": "make"}


@contextlib.asynccontextmanager
async def resting(folder: Path, how: str, *tasks: Message) -> AsyncIterator[tuple[SocketRig, Session]]:
    """The second server, and a session whose agent stopped while the first server ran, and left ``tasks`` running."""
    async with first_server(folder, how) as rig:
        session = Session(rig)
        await session.reports("UserPromptSubmit", prompt="Go")
        session.writes(prompt("Go"), said("It runs."))
        await session.reports("Stop", last_assistant_message="It runs.", background_tasks=tasks)
    async with socket_rig(folder) as later:
        yield later, session.at(later)


async def polls_for(rig: SocketRig, seconds: float = 0.3) -> None:
    looks = asyncio.get_running_loop().time() + seconds
    await until(lambda: asyncio.get_running_loop().time() > looks, "some looks")
    await rig.idle()


@HOW
async def test_a_run_waits_for_its_tasks_across_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(report_queue, "WORKING_SECONDS", 0.02)
    monkeypatch.setattr(turn_module, "LAST_SECONDS", 0.1)
    async with resting(tmp_path, how, SUBAGENT, BUILD) as (rig, session):
        await polls_for(rig)
        info = await rig.info(session)
        assert (info["desk"]["state"], info["desk"]["background_tasks"]) == ("working", 2)
        snapshot = (await rig.does("project_join", session.project))["data"]["data"]
        assert [task["text"] for task in snapshot["agent_state"]["tasks"]] == ["Read it", "make"]
        assert await recorded(rig, session, "run_finished") == []
        await session.reports("SubagentStop", agent_id="a1")
        await session.reports("UserPromptSubmit", prompt="<task-notification>", prompt_id="another")
        session.writes(ending("The first is done."))
        await session.reports("Stop", prompt_id="another", background_tasks=[BUILD])
        await polls_for(rig)
        assert await recorded(rig, session, "run_finished") == []
        await session.reports("UserPromptSubmit", prompt="<task-notification>", prompt_id="third")
        await session.reports("Stop", prompt_id="third", background_tasks=[])
        [end] = await recorded(rig, session, "run_finished")
        assert (end["run_id"], end["outcome"]) == (session.turn, "completed")
        assert (await rig.info(session))["desk"]["state"] == "finished"


async def test_a_silent_subagent_does_not_keep_a_run_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A subagent that reports nothing may have ended while no server ran."""
    monkeypatch.setattr(report_queue, "WORKING_SECONDS", 0.02)
    other = {**SUBAGENT, "id": "a2"}
    async with resting(tmp_path, "killed", SUBAGENT, other) as (rig, session):
        await session.reports("PreToolUse", tool_name="Bash", tool_input=COMMAND, agent_id="a1")
        monkeypatch.setattr(turn_module, "TASK_SECONDS", 0.2)
        await polls_for(rig, 0.5)
        assert await recorded(rig, session, "run_finished") == [], "the other one has reported"
        await session.reports("SubagentStop", agent_id="a1")
        [found] = rig.server.core.terminal_sessions
        await until(lambda: found.phase == "finished", "the end of the run")


async def test_tasks_that_ended_while_no_server_ran_are_not_awaited(tmp_path: Path) -> None:
    """The agent has mentioned the results of the tasks and ended its turn, which only the conversation's file shows."""
    async with first_server(tmp_path, "killed") as rig:
        session = Session(rig)
        await session.reports("UserPromptSubmit", prompt="Go")
        session.writes(prompt("Go"), said("It runs."))
        await session.reports("Stop", last_assistant_message="It runs.", background_tasks=[SUBAGENT, BUILD])
    session.writes(ending("All is done."))
    async with socket_rig(tmp_path) as later:
        [found] = later.server.core.terminal_sessions
        await until(lambda: found.phase == "finished", "the end of the run")
        assert [one["outcome"] for one in await recorded(later, session, "run_finished")] == ["completed"]


def ending(text: str) -> Message:
    """The agent's last message in a turn."""
    return {"type": "assistant", "message": {"content": [{"type": "text", "text": text}], "stop_reason": "end_turn"}}


class AnHourLater(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        return datetime.now(tz) + timedelta(hours=1)


async def test_a_run_keeps_its_start_time_after_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with first_server(tmp_path, "ended") as rig:
        session = Session(rig)
        await session.reports("UserPromptSubmit", prompt="Go")
    monkeypatch.setattr(continuation, "datetime", AnHourLater)
    async with socket_rig(tmp_path) as rig:
        run = (await rig.does("project_join", session.project))["data"]["data"]["run"]
        age = datetime.now(UTC) - datetime.fromisoformat(run["started_at"])
        assert timedelta(hours=1) <= age < timedelta(hours=1, minutes=1)


async def until_read(rig: SocketRig, session: Session) -> None:
    """Returns once the server has read all lines of the conversation's file."""
    written = len(session.transcript.read_text().splitlines())
    found = rig.server.core.terminal_sessions.find(session.project)
    assert found is not None
    await rig.idle()
    await until(lambda: found.history.count > written, "its record")
