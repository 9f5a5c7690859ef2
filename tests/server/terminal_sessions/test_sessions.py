"""Hook reports become a session that clients see, and each of its approval requests is answered once."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import threading
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from drawbridge.agents import catalog, registry
from drawbridge.guard import calls
from drawbridge.server.sessions.directories import allowed_directories
from drawbridge.server.sessions.directories.allowed_directories import AllowedDirectories
from drawbridge.server.terminal_sessions import report_queue, transcript_file
from drawbridge.server.terminal_sessions import sessions as sessions_module
from drawbridge.server.terminal_sessions.reports import ProcessCheck, Report
from drawbridge.server.terminal_sessions.session import TerminalSession
from tests.waiting import PATIENCE, until

from .socket_rig import Line, Message, Session, SocketRig, socket_rig

COMMAND: Message = {"command": "touch made"}
ANOTHER: Message = {"command": "touch another"}


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[SocketRig]:
    async with socket_rig(tmp_path) as rig:
        yield rig


async def test_a_session_appears_in_the_list_with_its_state(rig: SocketRig) -> None:
    session = Session(rig)
    await session.reports("SessionStart", source="startup")
    (created,) = rig.client.updates("project_created")
    assert (created["id"], created["agent"], created["session_id"]) == (session.project, "claude", session.id)
    assert (created["path"], created["state"], created["desk"]["state"]) == (str(rig.folder), "IDLE", "finished")
    await session.reports("UserPromptSubmit", prompt="Go")
    assert (await rig.info(session))["desk"]["state"] == "working"
    async with session.asks(**COMMAND):
        info = await rig.info(session)
        assert (info["state"], info["desk"]["state"]) == ("EXECUTING", "waiting")
        assert [one["tool_name"] for one in info["approvals"]] == ["Bash"]
        await session.reports("Stop")
    assert (await rig.info(session))["desk"] == {"state": "finished", "permission_mode": "default"}
    await session.reports("SessionEnd", reason="exit")
    assert (await rig.info(session))["desk"]["state"] == "ended"
    assert [one["outcome"] for one in rig.client.updates("run_finished")] == ["completed"]


async def test_an_unresponsive_disk_delays_only_its_own_session(
    rig: SocketRig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent, problem = tmp_path / "silent", AllowedDirectories.problem
    silent.mkdir()
    asked, may_respond = threading.Event(), threading.Event()

    def examined(directories: AllowedDirectories, path: Path) -> str | None:
        if path == silent:
            asked.set()
            may_respond.wait(PATIENCE)
        return problem(directories, path)

    monkeypatch.setattr(AllowedDirectories, "problem", examined)
    monkeypatch.setattr(allowed_directories, "EXAMINING_SECONDS", PATIENCE)
    first = asyncio.create_task(Session(rig, silent).reports("SessionStart", source="startup"))
    try:
        await until(asked.is_set, "the examination")
        await Session(rig).reports("SessionStart", source="startup")
        assert not first.done()
        assert [one["path"] for one in rig.client.updates("project_created")] == [str(rig.folder)]
    finally:
        may_respond.set()
    await first
    assert [one["path"] for one in rig.client.updates("project_created")] == [str(rig.folder), str(silent)]


@pytest.mark.parametrize("mode", ["auto", "bypassPermissions", "dontAsk"])
async def test_a_mode_that_never_asks_is_shown(rig: SocketRig, mode: str) -> None:
    session = Session(rig)
    await session.reports("UserPromptSubmit", prompt="Go", permission_mode=mode)
    assert (await rig.info(session))["desk"] == {"state": "working", "permission_mode": mode, "asks": False}


async def test_an_answer_reaches_the_agent_in_its_own_format(rig: SocketRig) -> None:
    session = Session(rig)
    suggestions = [{"type": "addRules", "rules": [{"toolName": "Bash"}], "behavior": "allow", "destination": "session"}]
    cases: list[tuple[Message, Message]] = [
        ({}, {"behavior": "allow"}),
        ({"decision": "deny", "message": "not now"}, {"behavior": "deny", "message": "not now"}),
        ({"updated_input": ANOTHER}, {"behavior": "allow", "updatedInput": ANOTHER}),
    ]
    for answer, verdict in cases:
        async with session.asks(**COMMAND) as (hook, question):
            message = await rig.answers(question, **answer)
            assert message["data"]["data"]["by"] == "phone"
            assert await hook.receive() == {"decision": verdict}
            assert await hook.receive() is None
    async with Line.open() as hook:
        payload = session.payload(
            "PermissionRequest", tool_name="Bash", tool_input=COMMAND, permission_suggestions=suggestions
        )
        hook.send(type="hook", pid=session.pid, payload=payload)
        await until(lambda: len(rig.questions) == 4, "the question")
        await rig.answers(rig.questions[-1], remember=True)
        assert await hook.receive() == {"decision": {"behavior": "allow", "updatedPermissions": suggestions}}


async def test_a_change_is_shown_as_the_files_new_text(rig: SocketRig) -> None:
    file = rig.folder / "a.py"
    file.write_text("one\ntwo\n")
    given: Message = {"file_path": str(file), "old_string": "two", "new_string": "TWO"}
    async with Session(rig).asks("Edit", **given) as (_, question):
        assert question["proposal"] == {"path": str(file), "old_text": "one\ntwo\n", "new_text": "one\nTWO\n"}


@pytest.mark.parametrize(
    ("event", "more"),
    [
        ("PostToolUse", {"tool_name": "Bash", "tool_input": COMMAND}),
        ("PostToolUse", {"tool_name": "Bash", "tool_input": {**COMMAND, "timeout": 5}}),
        ("PostToolUseFailure", {"tool_name": "Bash", "tool_input": COMMAND}),
        ("Stop", {}),
        ("UserPromptSubmit", {"prompt": "Another", "prompt_id": "another"}),
    ],
)
async def test_an_answer_in_the_terminal_withdraws_the_question(rig: SocketRig, event: str, more: Message) -> None:
    session = Session(rig)
    async with session.asks(**COMMAND) as (hook, question):
        await session.reports(event, **more)
        assert await hook.receive() is None
        assert rig.withdrawn(question) == ["answered elsewhere"]


@pytest.mark.parametrize(
    ("event", "more"), [("SessionEnd", {"reason": "exit"}), ("SessionStart", {"source": "resume"})]
)
async def test_the_end_of_the_program_is_not_an_answer(rig: SocketRig, event: str, more: Message) -> None:
    session = Session(rig)
    async with session.asks(**COMMAND) as (hook, question):
        await session.reports(event, **more)
        assert await hook.receive() is None
        assert rig.withdrawn(question) == ["the agent's program has ended or left the conversation"]


@pytest.mark.parametrize(
    ("event", "more"),
    [
        ("PostToolUse", {"tool_name": "Bash", "tool_input": ANOTHER}),
        ("PostToolUse", {"tool_name": "Edit", "tool_input": COMMAND}),
        ("SessionStart", {"source": "compact"}),
        ("Notification", {"notification_type": "permission_prompt"}),
        ("UserPromptSubmit", {"prompt": "typed while it works"}),
        ("SubagentStop", {"agent_id": "a1"}),
        ("PostToolUse", {"tool_name": "Bash", "tool_input": COMMAND, "agent_id": "a1"}),
    ],
)
async def test_unrelated_events_leave_a_question_open(rig: SocketRig, event: str, more: Message) -> None:
    session = Session(rig)
    async with session.asks(**COMMAND) as (hook, question):
        await session.reports(event, **more)
        await Session(rig).reports("Stop")
        assert await rig.is_open(question)
        assert await hook.receives_nothing()


async def test_a_call_settles_the_request_with_its_own_text(rig: SocketRig) -> None:
    """Another change to the same file is still open."""
    session = Session(rig)
    file: Message = {"file_path": str(rig.folder / "a.py")}
    other, own = ({**file, "content": content} for content in ("1", "2"))
    async with session.asks("Write", **other) as (_, first), session.asks("Write", **own) as (_, second):
        await session.reports("PostToolUse", tool_name="Write", tool_input=own)
        assert (await rig.is_open(first), await rig.is_open(second)) == (True, False)


@pytest.mark.parametrize("order", ["hook first", "transcript first"])
async def test_a_call_that_is_reported_twice_settles_one_request(rig: SocketRig, order: str) -> None:
    session = Session(rig)
    await session.reports("UserPromptSubmit", prompt="Go")
    session.writes(prompt("Go"), used("c1", COMMAND))
    ran: Message = {"tool_name": "Bash", "tool_input": COMMAND, "tool_use_id": "c1"}
    async with session.asks(**COMMAND) as (_, first), session.asks(**COMMAND) as (_, second):
        if order == "hook first":
            await session.reports("PostToolUse", **ran)
        session.writes(result("c1"))
        await session.reports("PreToolUse", tool_name="Read")
        if order == "transcript first":
            await session.reports("PostToolUse", **ran)
        assert (await rig.is_open(first), await rig.is_open(second)) == (False, True)


async def test_a_text_edited_in_the_terminal_resolves_the_question(rig: SocketRig) -> None:
    session = Session(rig)
    given: Message = {"file_path": str(rig.folder / "a.py"), "content": "theirs"}
    async with session.asks("Write", **given) as (_, question):
        await session.reports("PostToolUse", tool_name="Write", tool_input={**given, "content": "mine"})
        assert rig.withdrawn(question) == ["answered elsewhere"]


def another_process() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "600"])


async def test_a_second_terminal_leaves_the_first_ones_question_open(rig: SocketRig) -> None:
    """``claude --continue`` opens the conversation that another terminal has open, and then ends."""
    session = Session(rig)
    first = session.pid
    await session.reports("UserPromptSubmit", prompt="Go")
    async with session.asks(**COMMAND) as (hook, question):
        with another_process() as second:
            session.pid = second.pid
            await session.reports("SessionStart", source="resume")
            assert rig.withdrawn(question) == []
            await session.reports("SessionEnd")
            assert rig.withdrawn(question) == []
            assert (await rig.info(session))["desk"]["state"] == "waiting"
            second.kill()
        session.pid = first
        await rig.answers(question)
        assert await hook.receive() == {"decision": {"behavior": "allow"}}
    await session.reports("SessionEnd")
    assert (await rig.info(session))["desk"]["state"] == "ended"


async def test_the_question_of_a_second_terminal_ends_with_it(rig: SocketRig) -> None:
    session = Session(rig)
    first = session.pid
    await session.reports("UserPromptSubmit", prompt="Go")
    async with session.asks(**COMMAND) as (hook, question):
        with another_process() as second:
            session.pid = second.pid
            await session.reports("SessionStart", source="resume")
            async with session.asks(command="theirs") as (_, theirs):
                second.kill()
                second.wait()
                await until(lambda: rig.withdrawn(theirs), "its end")
        session.pid = first
        assert await rig.is_open(question)
        await rig.answers(question)
        assert await hook.receive() == {"decision": {"behavior": "allow"}}


async def test_tasks_of_a_second_terminal_end_with_it(rig: SocketRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_queue, "RESTING_SECONDS", 0.05)
    session = Session(rig)
    await session.reports("Stop")
    with another_process() as second:
        first, session.pid = session.pid, second.pid
        await session.reports("SessionStart", source="resume")
        session.turn = str(uuid.uuid4())
        await session.reports("UserPromptSubmit", prompt="Go")
        await session.reports("PreToolUse", tool_name="Bash", tool_input=COMMAND, agent_id="a1", agent_type="explorer")
        assert (await rig.info(session))["desk"]["state"] == "working"
        second.kill()
        second.wait()
        session.pid = first
        await until(lambda: [one.phase for one in rig.server.core.terminal_sessions] == ["finished"], "its end")


async def test_tasks_of_the_first_terminal_outlive_the_second(rig: SocketRig) -> None:
    session = Session(rig)
    await session.reports("UserPromptSubmit", prompt="Go")
    await session.reports("Stop", background_tasks=[{"id": "a1", "type": "subagent", "status": "running"}])
    with another_process() as second:
        session.pid, session.turn = second.pid, str(uuid.uuid4())
        await session.reports("SessionStart", source="resume")
        await session.reports("UserPromptSubmit", prompt="More")
        await session.reports("SessionEnd")
        second.kill()
    desk = (await rig.info(session))["desk"]
    assert (desk["state"], desk["background_tasks"]) == ("working", 1)


async def test_the_first_terminals_dialog_is_shown_after_the_second(rig: SocketRig) -> None:
    """Clients must know of the dialog, since the Enter that is typed with a prompt would answer it."""
    session = Session(rig)
    await session.reports("UserPromptSubmit", prompt="Go")
    await session.reports("Notification", notification_type="permission_prompt")
    with another_process() as second:
        session.pid, session.turn = second.pid, str(uuid.uuid4())
        await session.reports("SessionStart", source="resume")
        await session.reports("UserPromptSubmit", prompt="More")
        await session.reports("SessionEnd")
        second.kill()
    desk = (await rig.info(session))["desk"]
    assert (desk["state"], desk["in_terminal"]) == ("waiting", True)


async def test_a_hook_with_the_id_of_another_question_gets_no_answer(rig: SocketRig) -> None:
    session = Session(rig)
    async with Line.open() as first, Line.open() as second:
        for line, command in ((first, "ls"), (second, "rm -rf ~")):
            payload = session.payload("PermissionRequest", tool_name="Bash", tool_input={"command": command})
            line.send(type="hook", pid=session.pid, payload=payload, question="the same")
            await until(lambda: rig.questions, "the question")
        assert await second.receive() == {"decision": None}
        [question] = rig.questions
        await rig.answers(question)
        assert await first.receive() == {"decision": {"behavior": "allow"}}


async def test_ending_a_hook_withdraws_its_question(rig: SocketRig) -> None:
    async with Session(rig).asks(**COMMAND) as (hook, question):
        await hook.close()
        await until(lambda: rig.withdrawn(question) == ["answered elsewhere"], "its end")


async def test_the_agents_own_answer_overrules_a_clients(rig: SocketRig) -> None:
    """A client and the user in the terminal answer at the same moment, and the agent has processed the answer in the
    terminal first.
    """
    session = Session(rig)
    overruled = "overruled: it was {} in the terminal at the same moment"
    async with session.asks(**COMMAND) as (_, question):
        await rig.answers(question, "deny")
        await session.reports("PostToolUse", tool_name="Bash", tool_input=COMMAND)
        assert rig.withdrawn(question) == [overruled.format("allowed")]
    async with session.asks(**COMMAND) as (_, question):
        await rig.answers(question, updated_input=ANOTHER)
        await session.reports("PostToolUse", tool_name="Bash", tool_input=COMMAND)
        assert rig.withdrawn(question) == [overruled.format("allowed unchanged")]
    async with session.asks(**COMMAND) as (_, question):
        await rig.answers(question)
        session.writes(used("t1", COMMAND), result("t1", toolDenialKind="user-rejected"))
        await session.reports("Notification")
        assert rig.withdrawn(question) == [overruled.format("rejected")]
    file = rig.folder / "a.py"
    given: Message = {"file_path": str(file), "content": "theirs"}
    async with session.asks("Write", **given) as (_, question):
        await rig.answers(question, updated_input={**given, "content": "mine"})
        file.write_text("theirs")
        await session.reports("PostToolUse", tool_name="Write", tool_input=given)
        assert rig.withdrawn(question) == [overruled.format("allowed with different text")]


async def test_a_decision_that_was_executed_is_not_withdrawn(rig: SocketRig) -> None:
    session = Session(rig)
    async with session.asks(**COMMAND) as (_, question):
        await rig.answers(question)
        await session.reports("PostToolUse", tool_name="Bash", tool_input=COMMAND)
    async with session.asks(**ANOTHER) as (_, denied):
        await rig.answers(denied, "deny")
        session.writes(used("t1", ANOTHER), result("t1", toolDenialKind="hook"))
        await session.reports("Stop")
    async with session.asks(**COMMAND) as (_, changed):
        await rig.answers(changed, updated_input=ANOTHER)
        await session.reports("PostToolUse", tool_name="Bash", tool_input=ANOTHER)
        await session.reports("PostToolUse", tool_name="Bash", tool_input=COMMAND)
    assert [rig.withdrawn(each) for each in (question, denied, changed)] == [[], [], []]


def used(id: str, given: Message) -> Message:
    block = {"type": "tool_use", "id": id, "name": "Bash", "input": given}
    return {"type": "assistant", "message": {"role": "assistant", "content": [block]}}


def result(id: str, **more: Any) -> Message:
    block = {"type": "tool_result", "tool_use_id": id, "content": "said"}
    return {"type": "user", "message": {"role": "user", "content": [block]}, **more}


def said(text: str) -> Message:
    return {"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": text}]}}


def prompt(text: str, **more: Any) -> Message:
    return {"type": "user", "message": {"role": "user", "content": text}, **more}


# the conversation


async def shown(rig: SocketRig, session: Session) -> list[str]:
    """The prompts, each after "> ", and the agent's texts in the history, in order. A block without a text is
    represented by its type.
    """
    answer = await rig.does("get_messages", session.project, after_seq=0)
    texts = []
    for record in answer["data"]["messages"]:
        message = record["message"]
        if record["direction"] == "client":
            texts.append(f"> {message['message']['prompt']}")
        elif record["direction"] == "claude":
            texts += [block.get("text", block["type"]) for block in message["message"]["content"]]
    return texts


async def test_only_messages_are_read_from_the_conversations_file(rig: SocketRig) -> None:
    session = Session(rig)
    session.writes(
        {"type": "file-history-snapshot", "snapshot": "secret"},
        prompt("<command-name>/clear</command-name>"),
        prompt("meta", isMeta=True),
        prompt("Once", promptId="another"),
        prompt("Go"),
        {"type": "api-request", "params": "secret"},
        {"type": "attachment", "attachment": "secret"},
        used("t1", COMMAND),
        result("t1", toolUseResult={"originalFile": "secret"}, cwd="secret"),
        said("Done."),
    )
    with session.transcript.open("ab") as file:
        file.write(b'nonsense\n[]\n{"type": "assistant"}\n{"type":"user","uuid":"x","message":{"content":7}}\n')
        file.write(json.dumps({**said("half \ud800"), "uuid": "y"}).encode() + b"\n")
        file.write(json.dumps({**said("not yet whole"), "uuid": "z"}).encode()[:-3])
    await session.reports("Stop", last_assistant_message="half \ufffd")
    assert await shown(rig, session) == ["> Once", "> Go", "tool_use", "tool_result", "Done.", "half \ufffd"]
    answer = await rig.does("get_messages", session.project, after_seq=0)
    assert "secret" not in json.dumps(answer)
    # Clients are not notified of runs that ended before the server knew the session.
    assert [one["run_id"] for one in rig.client.updates("run_finished")] == [session.turn]


async def test_decisions_in_the_terminal_are_in_the_history(rig: SocketRig) -> None:
    """Answers and rejections are recorded in the format of the CLI's stream."""
    session = Session(rig)
    answered = {"questions": "secret", "answers": {"Which?": "oak", "What else?": ["a", "b"]}}
    await session.reports("UserPromptSubmit", prompt="Go")
    session.writes(
        prompt("Go"),
        *(used("t1", COMMAND), result("t1", toolUseResult=answered)),
        *(used("t2", COMMAND), result("t2", toolDenialKind="user-rejected")),
    )
    await session.reports("Stop")
    history = (await rig.does("get_messages", session.project, after_seq=0))["data"]["messages"]
    lines = [one["message"] for one in history if one["direction"] == "claude"]
    results = [line for line in lines if line["type"] == "user"]
    assert [one.get("tool_use_result") for one in results] == [{"answers": answered["answers"]}, None]
    denied = [{"id": "t2", "non_execution_kind": "user-rejected"}]
    assert [one.get("tool_result_meta") for one in results] == [None, denied]
    assert "secret" not in json.dumps(history)


async def test_only_the_end_of_a_long_conversation_is_read(rig: SocketRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcript_file, "BEGIN_BYTES", 2_000)
    session = Session(rig)
    session.writes(prompt("Count\nto 100"), *(said(f"{number}") for number in range(100)))
    await session.reports("Stop")
    taken = await shown(rig, session)
    assert (await rig.info(session))["title"] == "Count to 100"
    assert 1 < len(taken) < 15
    assert taken == [str(number) for number in range(100 - len(taken), 100)]


async def test_after_a_restart_each_line_is_in_the_history_once(rig: SocketRig, tmp_path: Path) -> None:
    session = Session(rig)
    session.writes(prompt("Go"), said("one"))
    await session.reports("UserPromptSubmit", prompt="Go")
    async with session.asks(**COMMAND) as (hook, question):
        await rig.server.core.close("the server is ending")
        assert await hook.receive() is None
        assert rig.withdrawn(question) == ["the server is ending"]
    session.writes(said("two"))
    async with socket_rig(tmp_path) as later:
        info = await later.info(session)
        assert (info["desk"]["state"], info["state"]) == ("working", "EXECUTING")
        session.writes(said("three"))
        await session.at(later).reports("Notification")
        assert await shown(later, session) == ["> Go", "one", "two", "three"]


@pytest.mark.parametrize("trick", ["elsewhere", "another name", "a link", "a link on the way", "up and down"])
async def test_no_other_file_is_read(rig: SocketRig, tmp_path: Path, trick: str) -> None:
    session = Session(rig)
    session.writes(said("secret"))
    own = session.transcript
    if trick == "elsewhere":
        session.transcript = tmp_path / own.name
        own.rename(session.transcript)
    elif trick == "another name":
        session.transcript = own.rename(own.with_name(f"{uuid.uuid4()}.jsonl"))
    elif trick == "a link":
        own.rename(tmp_path / "file")
        own.symlink_to(tmp_path / "file")
    elif trick == "a link on the way":
        own.parent.rename(tmp_path / "directory")
        own.parent.symlink_to(tmp_path / "directory")
    else:
        session.transcript = own.parent / ".." / own.parent.name / own.name
    await session.reports("Stop")
    assert await shown(rig, session) == []


# what clients can do with a terminal session


async def test_commands_for_runs_are_not_supported(rig: SocketRig) -> None:
    session = Session(rig)
    await session.reports("UserPromptSubmit", prompt="Go")
    for type, data in [("execute", {"prompt": "x"}), ("agent_kill", {}), ("set_mode", {"mode": "plan"})]:
        error = await rig.refusal(type, session.project, **data)
        assert error.code == "NOT_SUPPORTED", error
    assert (await rig.info(session))["desk"]["state"] == "working"


async def test_a_removed_terminal_session_is_not_found(rig: SocketRig) -> None:
    error = await rig.refusal("project_join", "desk_nobody")
    assert (error.code, error.field) == ("PROJECT_NOT_FOUND", "project_id")


async def test_a_session_can_be_forked_into_a_project(rig: SocketRig) -> None:
    session = Session(rig)
    name = "".join(sign if sign.isalnum() else "-" for sign in str(rig.folder))
    session.transcript = session.transcript.parent.with_name(name) / session.transcript.name
    session.writes(prompt("Go"), said("one"))
    await session.reports("Stop")
    project = str((await rig.does("project_create", path=str(rig.folder), join=True))["project_id"])
    await rig.does("session_fork", project, session_id=session.id)
    process = await rig.server.running(rig.client, project)
    assert (process.launch.fork_from, process.launch.resume) == (session.id, False)
    process.ends()


async def test_a_session_can_be_removed_with_all_its_data(rig: SocketRig, tmp_path: Path) -> None:
    session = Session(rig)
    session.writes(said("one"))
    await session.reports("Stop")
    await rig.does("project_delete", session.project)
    assert (await rig.does("project_list"))["data"]["projects"] == []
    assert [one["project_id"] for one in rig.client.updates("project_deleted")] == [session.project]
    assert list((tmp_path / "data" / "desk").iterdir()) == []
    assert session.transcript.exists()
    await session.reports("UserPromptSubmit", prompt="Again")
    assert (await rig.info(session))["desk"]["state"] == "working"


async def test_a_prompt_during_a_removal_is_refused(rig: SocketRig) -> None:
    """The prompt arrives while the session is still processing its last reports."""
    session = Session(rig)
    await session.reports("Stop")
    going = asyncio.create_task(rig.does("project_delete", session.project))
    await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE):
        assert (await rig.refusal("execute", session.project, prompt="go")).code == "PROJECT_NOT_FOUND"
    await going


async def test_a_report_during_a_removal_begins_a_new_session(rig: SocketRig, monkeypatch: pytest.MonkeyPatch) -> None:
    session, heard_of, rmtree = Session(rig), threading.Event(), shutil.rmtree

    def slowly(path: Path, **how: Any) -> None:
        heard_of.wait(PATIENCE)
        rmtree(path, **how)

    monkeypatch.setattr(shutil, "rmtree", slowly)
    await session.reports("Stop")
    going = asyncio.create_task(rig.does("project_delete", session.project))
    await until(lambda: rig.server.core.terminal_sessions.find(session.project) is None)
    await session.reports("UserPromptSubmit", prompt="Again")
    heard_of.set()
    await going
    async with session.asks("Bash", command="ls") as (hook, question):
        await rig.answers(question)
        assert await hook.receive() == {"decision": {"behavior": "allow"}}
    assert (await rig.does("get_messages", session.project, after_seq=0))["data"]["messages"]


async def test_the_sessions_that_ended_first_are_removed_for_new_ones(
    rig: SocketRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions_module, "MOST", 3)
    sessions = [Session(rig) for _ in range(5)]
    for session in sessions[:3]:
        await session.reports("Stop")
    await sessions[1].reports("SessionEnd")
    await sessions[0].reports("SessionEnd")
    await sessions[3].reports("Stop")
    await until(lambda: len(list(rig.server.core.terminal_sessions)) == 3, "room")
    shown = [one["id"] for one in (await rig.does("project_list"))["data"]["projects"]]
    assert shown == [sessions[number].project for number in (0, 2, 3)]
    await sessions[0].reports("Stop")  # the session is in use again, so it is not removed for the next one
    await until(lambda: len(list(rig.server.core.terminal_sessions)) == 3, "room")
    await sessions[4].reports("Stop")  # none of the sessions has ended, so this one is not shown
    shown = [one["id"] for one in (await rig.does("project_list"))["data"]["projects"]]
    assert shown == [sessions[number].project for number in (0, 2, 3)]


async def test_an_agent_that_ends_without_a_report_counts_as_ended(
    rig: SocketRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_queue, "RESTING_SECONDS", 0.05)
    process = await asyncio.create_subprocess_exec("sleep", "60")
    session = Session(rig, pid=process.pid)
    await session.reports("Stop")
    process.kill()
    await process.wait()
    await until(lambda: [one.phase for one in rig.server.core.terminal_sessions] == ["ended"], "its end")


async def test_an_agent_with_a_reused_process_id_counts_as_ended(
    rig: SocketRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_queue, "RESTING_SECONDS", 0.05)
    session = Session(rig)
    await session.reports("Stop")
    monkeypatch.setattr(psutil.Process, "is_running", lambda _: False)
    await until(lambda: [one.phase for one in rig.server.core.terminal_sessions] == ["ended"], "its end")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the start of a process does not depend on the clock")
async def test_no_session_ends_if_the_clock_is_changed(rig: SocketRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_queue, "RESTING_SECONDS", 0.05)
    session, checks, process = Session(rig), [0], TerminalSession.process

    def counted(checked: TerminalSession, report: Report) -> None:
        process(checked, report)
        checks[0] += isinstance(report, ProcessCheck)

    await session.reports("Stop")
    monkeypatch.setattr(TerminalSession, "process", counted)
    started, boot_time = psutil.Process().create_time(), psutil.boot_time()
    monkeypatch.setattr(psutil._pslinux, "boot_time", lambda: boot_time + 3_600)
    assert psutil.Process().create_time() > started + 3_000
    await until(lambda: checks[0] > 1, "a check of the process")
    assert (await rig.info(session))["desk"]["state"] == "finished"


# bad input


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"nonsense\n",
        b"[]\n",
        b'{"type": "hook"}\n',
        b'{"type": "hook", "pid": 1, "payload": []}\n',
        b'{"type": "hook", "pid": 1, "payload": {"hook_event_name": "Stop", "session_id": "../..", "cwd": "/"}}\n',
        b'{"type": "hook", "pid": 1, "payload": {"hook_event_name": "Stop", "session_id": "x", "cwd": "not/whole"}}\n',
        b'{"type": "king", "pid": 1}\n',
        b"[" * 100_000 + b"\n",
        b'{"type": "bridge", "editor": 5, "folders": []}\n',
        b'{"type": "bridge", "editor": "x", "folders": []}\n{"type": "hook", "pid": 1, "payload": {}}\n',
        b"no line at all",
    ],
)
async def test_invalid_lines_at_the_socket_change_nothing(rig: SocketRig, line: bytes) -> None:
    async with Line.open() as peer:
        peer.send_bytes(line)
        peer._writer.write_eof()
        assert await peer.receive() is None
    assert (await rig.does("project_list"))["data"]["projects"] == []
    session = Session(rig)
    await session.reports("Stop")
    assert (await rig.info(session))["desk"]["state"] == "finished"


async def test_only_hooks_that_can_be_read_are_followed(rig: SocketRig, caplog: pytest.LogCaptureFixture) -> None:
    """A hook of another agent is not taken for one of Claude Code's, and its agent doesn't have to wait."""
    session = Session(rig)
    asks = session.payload("PermissionRequest", tool_name="Bash", tool_input=COMMAND)
    async with Line.open() as line:
        line.send(type="hook", agent="demo", pid=session.pid, payload=asks)
        assert await line.receive() is None
    assert (await rig.does("project_list"))["data"]["projects"] == []
    assert "'demo'" in caplog.text
    async with Line.open() as line:
        line.send(type="hook", agent="claude", pid=session.pid, payload=asks)
        await until(lambda: rig.questions, "the question")
    assert (await rig.info(session))["agent"] == "claude"


def test_the_hooks_that_report_can_be_read() -> None:
    reporting = {row.name for row in catalog.ROWS if row.hooks and calls.dialect(row.name).session is not None}
    assert set(registry.terminal_agents()) == reporting


async def test_lone_surrogates_do_not_lose_a_question(rig: SocketRig) -> None:
    async with Session(rig).asks(command="echo \ud800") as (hook, question):
        assert question["input"] == {"command": "echo \ufffd"}
        await rig.answers(question)
        assert await hook.receive() == {"decision": {"behavior": "allow"}}
