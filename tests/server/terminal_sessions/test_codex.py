"""A ``codex`` in a terminal, as its hooks and its transcript report it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from drawbridge.server.terminal_sessions import questions, report_queue, sessions, turn
from tests.waiting import until

from .socket_rig import Line, Message, Session, SocketRig, socket_rig
from .test_subagents import HANDED_OVER, standing

COMMAND: Message = {"command": "touch made", "description": "I need it"}
RAN: Message = {"tool_name": "Bash", "tool_input": {"command": "touch made"}}
SUBAGENT: Message = {"agent_id": "01a2222d-ecb3-7f53-b3de-cc437929e46b", "agent_type": "default"}


@pytest.fixture
async def rig(tmp_path: Path, home: Path) -> AsyncIterator[SocketRig]:
    async with socket_rig(tmp_path) as rig:
        yield rig


class Codex(Session):
    """A session of Codex, with its transcript."""

    def __init__(self, rig: SocketRig, cwd: Path | None = None, pid: int | None = None) -> None:
        super().__init__(rig, cwd, pid)
        self.agent = {"agent": "codex"}
        folder = Path.home() / ".codex" / "sessions" / "2026" / "11" / "28"
        folder.mkdir(parents=True, exist_ok=True)
        self.transcript = folder / f"rollout-2026-11-28T12-07-01-{self.id}.jsonl"
        self._lines = 0

    def payload(self, event: str, **more: Any) -> Message:
        known = {"session_id": self.id, "cwd": str(self.cwd), "transcript_path": str(self.transcript)}
        return {**known, "permission_mode": "default", "turn_id": self.turn, "hook_event_name": event, **more}

    def records(self, kind: str, **fields: Any) -> None:
        """Appends a line to the transcript."""
        line = {"timestamp": "2026-11-28T12:07:01.969Z", "ordinal": self._lines, "type": kind, "payload": fields}
        self._lines += 1
        with self.transcript.open("a") as file:
            file.write(json.dumps(line, separators=(",", ":")) + "\n")

    def is_set(self, **settings: Any) -> None:
        """Records the settings of the next turn, by default with a sandbox in which nothing can be written."""
        sandbox = {"type": "managed", "file_system": {"type": "restricted", "entries": []}}
        self.records("turn_context", **{"approval_policy": "on-request", "permission_profile": sandbox} | settings)

    async def begins(self, words: str = "Go") -> None:
        self.records("event_msg", type="task_started", turn_id=self.turn)
        item = {"type": "UserMessage", "id": "i1", "content": [{"type": "text", "text": words}]}
        self.records("event_msg", type="item_completed", turn_id=self.turn, item=item)
        await self.reports("UserPromptSubmit", prompt=words)


def ended(rig: SocketRig) -> list[tuple[str, str | None, str | None]]:
    """The outcome, the error and the code of each run that has ended."""
    return [(one["outcome"], one.get("error"), one.get("code")) for one in rig.client.updates("run_finished")]


async def test_a_request_waits_for_a_client(rig: SocketRig) -> None:
    session = Codex(rig)
    await session.begins()
    async with session.asks(**COMMAND) as (hook, question):
        assert (question["title"]["text"], question["changeable"]) == ("Codex wants to run a command", False)
        assert await hook.receives_nothing()
        assert "in_terminal" not in standing(rig, session)
        await rig.answers(question, "deny", message="Not this")
        assert await hook.receive() == {"decision": {"behavior": "deny", "message": "The user rejected this: Not this"}}


async def test_a_change_of_the_input_is_refused(rig: SocketRig) -> None:
    session = Codex(rig)
    await session.begins()
    async with session.asks(**COMMAND) as (hook, question):
        given = {"approval_id": question["approval_id"], "decision": "allow", "updated_input": {"command": "ls"}}
        error = await rig.refusal("permission_response", session.project, **given)
        assert error.code == "NOT_SUPPORTED", error
        assert await rig.is_open(question)
        await rig.answers(question)
        assert await hook.receive() == {"decision": {"behavior": "allow"}}


async def test_without_a_client_the_dialog_appears_immediately(rig: SocketRig) -> None:
    rig.server.core.remove_client(rig.client)
    session = Codex(rig)
    await session.begins()
    async with session.question_of({}, **COMMAND) as hook:
        assert await hook.receive() is None
    assert standing(rig, session) == {"state": "waiting", "in_terminal": True}
    await session.reports("PostToolUse", **RAN)
    assert standing(rig, session) == {"state": "working"}


async def test_the_dialog_appears_if_no_client_answers(rig: SocketRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "HOLD_SECONDS", 0.1)
    session = Codex(rig)
    await session.begins()
    async with session.asks(**COMMAND) as (hook, question):
        assert await hook.receive() is None
        assert rig.withdrawn(question) == HANDED_OVER
    assert standing(rig, session) == {"state": "waiting", "in_terminal": True}
    await session.reports("Interrupt")
    assert standing(rig, session) == {"state": "finished"}
    assert ended(rig) == [("interrupted", None, None)]


async def test_an_interruption_withdraws_the_requests_of_the_run(rig: SocketRig) -> None:
    session = Codex(rig)
    await session.begins()
    async with session.asks(**COMMAND) as (hook, question):
        await session.reports("Interrupt")
        assert rig.withdrawn(question) == [questions.GONE]
        assert await hook.receive() is None
    session.records("event_msg", type="turn_aborted", turn_id=session.turn, reason="interrupted")
    await session.reports("SessionEnd", reason="other")
    assert ended(rig) == [("interrupted", None, None)]


async def test_an_interruption_is_read_from_the_transcript(rig: SocketRig) -> None:
    session = Codex(rig)
    await session.begins()
    session.records("event_msg", type="turn_aborted", turn_id=session.turn, reason="interrupted")
    await until(lambda: ended(rig), "the end of the run")
    assert ended(rig) == [("interrupted", None, None)]


async def test_a_failed_run_is_read_from_the_transcript(rig: SocketRig) -> None:
    session = Codex(rig)
    await session.begins()
    failed = {"message": "You've hit your usage limit.", "codex_error_info": "usage_limit_exceeded"}
    session.records("event_msg", type="task_complete", turn_id=session.turn, last_agent_message=None, error=failed)
    await until(lambda: ended(rig), "the end of the run")
    assert ended(rig) == [("failed", "You've hit your usage limit.", "AGENT_RATE_LIMITED")]


async def test_the_end_of_an_earlier_turn_does_not_end_the_run(rig: SocketRig) -> None:
    session = Codex(rig)
    await session.begins()
    await session.reports("Stop", last_assistant_message=None)
    earlier, session.turn = session.turn, "another"
    await session.begins("Go on")
    session.records("event_msg", type="task_complete", turn_id=earlier, last_agent_message=None)
    await session.reports("PreToolUse", **RAN)
    assert standing(rig, session) == {"state": "working"}
    assert len(ended(rig)) == 1


async def test_the_run_ends_with_its_last_subagent(rig: SocketRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn, "LAST_SECONDS", 0.0)
    monkeypatch.setattr(report_queue, "WORKING_SECONDS", 0.05)
    session = Codex(rig)
    await session.begins()
    await session.reports("SubagentStart", **SUBAGENT)
    await session.reports("Stop", last_assistant_message=None)
    session.records("event_msg", type="task_complete", turn_id=session.turn, last_agent_message=None)
    await rig.idle()
    assert standing(rig, session) == {"state": "working", "background_tasks": 1}
    await session.reports("SubagentStop", **SUBAGENT)
    await until(lambda: ended(rig), "the end of the run")
    assert ended(rig) == [("completed", None, None)]
    assert standing(rig, session) == {"state": "finished"}


async def test_a_subagents_own_transcript_is_not_the_sessions(rig: SocketRig) -> None:
    session = Codex(rig)
    await session.begins()
    own = session.transcript.with_name(f"rollout-2026-11-28T12-08-00-{SUBAGENT['agent_id']}.jsonl")
    own.write_text("")
    await session.reports("PreToolUse", **RAN, **SUBAGENT, transcript_path=str(own))
    item = {"type": "AgentMessage", "id": "i2", "content": [{"type": "Text", "text": "I have begun."}]}
    session.records("event_msg", type="item_completed", turn_id=session.turn, item=item)
    await session.reports("PreToolUse", **RAN)
    lines = (await rig.does("get_messages", session.project, after_seq=0))["data"]["messages"]
    assert sum("I have begun." in json.dumps(line) for line in lines) == 1


async def test_a_session_without_a_transcript_is_shown(rig: SocketRig) -> None:
    session = Codex(rig)
    await session.reports("UserPromptSubmit", prompt="Go", transcript_path=None)
    assert (await rig.info(session))["agent"] == "codex"
    assert standing(rig, session) == {"state": "working"}
    await session.reports("Stop", transcript_path=None, last_assistant_message="Done.")
    assert standing(rig, session) == {"state": "finished"}


@pytest.mark.parametrize(
    ("patch", "title", "kind"),
    [
        ("*** Update File: a.py\n@@\n-1\n+2", {"text": "Codex wants to edit", "path": "a.py"}, "edit"),
        ("*** Add File: a.py\n+2", {"text": "Codex wants to create", "path": "a.py"}, "create"),
        ("*** Delete File: a.py", {"text": "Codex wants to delete", "path": "a.py"}, "delete"),
        ("*** Delete File: a.py\n*** Add File: b.py\n+1", {"text": "Codex wants to edit 2 files"}, "edit"),
        ("*** Update File: a.py\n*** Move to: b.py\n@@\n-1\n+2", {"text": "Codex wants to edit 2 files"}, "edit"),
    ],
)
async def test_the_title_of_a_patch_describes_the_change(rig: SocketRig, patch: str, title: Message, kind: str) -> None:
    session = Codex(rig)
    await session.begins()
    whole = f"*** Begin Patch\n{patch}\n*** End Patch"
    async with session.asks("apply_patch", command=whole) as (_, question):
        assert (question["title"], question["kind"]) == (title, kind)
        assert question["input"]["patch"] == whole


async def test_a_patch_outside_the_project_is_marked(rig: SocketRig) -> None:
    session = Codex(rig)
    await session.begins()
    patch = "*** Begin Patch\n*** Update File: /etc/hosts\n@@\n-1\n+2\n*** End Patch"
    async with session.asks("apply_patch", command=patch) as (_, question):
        assert [one["code"] for one in question["risks"]] == ["outside_project"]


async def test_the_directory_of_a_command_is_shown(rig: SocketRig) -> None:
    """The paths in the command are relative to it."""
    session = Codex(rig)
    await session.begins()
    async with session.asks(command="touch made", more={"cwd": "/elsewhere"}) as (_, question):
        assert question["input"] == {"command": "touch made", "directory": "/elsewhere"}
        assert [one["code"] for one in question["risks"]] == ["outside_project"]
    async with session.asks(command="touch another") as (_, question):
        assert question["input"] == {"command": "touch another"}
        assert question.get("risks", []) == []


async def test_a_patch_in_another_form_is_still_a_request(rig: SocketRig) -> None:
    session = Codex(rig)
    await session.begins()
    async with session.asks("apply_patch", odd=[1, {"two": 3}]) as (hook, question):
        assert question["title"] == {"text": "Codex wants to edit a file"}
        await rig.answers(question)
        assert await hook.receive() == {"decision": {"behavior": "allow"}}


async def test_a_subagent_without_an_end_does_not_keep_the_run_open(
    rig: SocketRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No hook reports the end of a subagent whose request to the model has failed."""
    monkeypatch.setattr(turn, "TASK_SECONDS", 0.2)
    monkeypatch.setattr(report_queue, "WORKING_SECONDS", 0.05)
    monkeypatch.setattr(questions, "HOLD_SECONDS", 0.0)
    session = Codex(rig)
    await session.begins()
    async with session.asks(more=SUBAGENT, **COMMAND) as (hook, _):
        assert await hook.receive() is None
    await session.reports("Stop", last_assistant_message=None)
    await until(lambda: ended(rig), "the end of the run")
    await until(lambda: standing(rig, session) == {"state": "finished"}, "an idle session")


async def test_a_prompt_for_a_subagent_does_not_begin_a_run(rig: SocketRig) -> None:
    session = Codex(rig)
    await session.begins()
    async with session.asks(**COMMAND) as (hook, question):
        await session.reports("UserPromptSubmit", prompt="For you", **SUBAGENT | {"turn_id": "another"})
        assert await rig.is_open(question)
        await rig.answers(question)
        assert await hook.receive() == {"decision": {"behavior": "allow"}}
    lines = (await rig.does("get_messages", session.project, after_seq=0))["data"]["messages"]
    assert sum(line["message"].get("subtype") == "run_started" for line in lines) == 1


async def test_two_dialogs_wait_in_the_terminal(rig: SocketRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Codex asks about calls at the same time, and shows the dialogs one after another."""
    monkeypatch.setattr(questions, "HOLD_SECONDS", 0.0)
    monkeypatch.setattr(questions, "HOLD_AGAIN_SECONDS", 3600.0)
    session = Codex(rig)
    await session.begins()
    async with session.asks(**COMMAND) as (first, _):
        assert await first.receive() is None
    async with session.asks(command="touch another") as (second, question):
        await rig.answers(question)
        assert await second.receive() == {"decision": {"behavior": "allow"}}
    assert standing(rig, session) == {"state": "waiting", "in_terminal": True}


async def test_interrupting_a_command_does_not_overrule_its_answer(rig: SocketRig) -> None:
    session = Codex(rig)
    await session.begins()
    arguments = json.dumps({"cmd": "touch made", "justification": "I need it"})
    call = {"type": "function_call", "name": "exec_command", "call_id": "c1", "arguments": arguments}
    session.records("response_item", **call)
    async with session.asks(**COMMAND) as (hook, question):
        await rig.answers(question)
        assert await hook.receive() == {"decision": {"behavior": "allow"}}
    output = "Wall time: 4.7 seconds\naborted by user"
    session.records("response_item", type="function_call_output", call_id="c1", output=output)
    await session.reports("Interrupt")
    assert rig.withdrawn(question) == []


async def test_a_session_is_not_listed_in_the_directory_of_a_call(rig: SocketRig) -> None:
    """The server was started during a run."""
    session = Codex(rig)
    await session.reports("PreToolUse", **RAN, cwd="/elsewhere")
    assert (await rig.does("project_list"))["data"]["projects"] == []
    await session.reports("Stop", last_assistant_message=None)
    assert (await rig.info(session))["path"] == str(session.cwd)


@contextlib.asynccontextmanager
async def restarted(folder: Path) -> AsyncIterator[tuple[Codex, Message]]:
    """Asks a question while the first server runs. The call is in the transcript."""
    async with contextlib.AsyncExitStack() as longer:
        async with socket_rig(folder) as rig:
            session = Codex(rig)
            await session.begins()
            arguments = json.dumps({"cmd": "touch made", "justification": "I need it"})
            call = {"type": "function_call", "name": "exec_command", "call_id": "c1", "arguments": arguments}
            session.records("response_item", **call)
            hook = await longer.enter_async_context(Line.open())
            payload = session.payload("PermissionRequest", tool_name="Bash", tool_input=COMMAND)
            hook.send(type="hook", pid=session.pid, question="q1", payload=payload, agent="codex")
            await until(lambda: rig.questions, "the question")
            question = rig.questions[0]
        yield session, question


async def test_a_question_answered_while_no_server_ran_is_closed(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transcript contains the call's result."""
    monkeypatch.setattr(sessions, "RETURN_SECONDS", 3600.0)
    async with restarted(tmp_path) as (session, question):
        output = "Chunk ID: a0\nProcess exited with code 0\nOutput:\n"
        session.records("response_item", type="function_call_output", call_id="c1", output=output)
        async with socket_rig(tmp_path) as later:
            session.at(later)
            await until(lambda: later.withdrawn(question), "the end of the question")
            assert later.withdrawn(question) == [questions.GONE]
            assert standing(later, session) == {"state": "working"}


async def test_a_question_whose_hook_has_ended_waits_in_the_terminal(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hook has waited for its maximum time while no server ran."""
    monkeypatch.setattr(sessions, "RETURN_SECONDS", 0.05)
    async with restarted(tmp_path) as (session, question), socket_rig(tmp_path) as later:
        session.at(later)
        await until(lambda: later.withdrawn(question), "the end of the wait")
        assert later.withdrawn(question) == HANDED_OVER
        assert standing(later, session) == {"state": "waiting", "in_terminal": True}
        await session.reports("PostToolUse", **RAN)
        assert standing(later, session) == {"state": "working"}


async def test_the_time_that_a_hook_waited_before_a_restart_counts(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hook ends a minute after it has asked."""
    monkeypatch.setattr(questions, "_age_of", lambda approval: questions.HOLD_SECONDS)
    async with restarted(tmp_path) as (session, question), socket_rig(tmp_path) as later:
        session.at(later)
        sessions, asked = later.server.core.terminal_sessions, question["approval_id"]
        await until(lambda: not any(one.approvals.find(asked) for one in sessions), "the end of the wait")
        page = await later.does("get_messages", session.project, after_seq=0)
        written = [one["message"] for one in page["data"]["messages"] if one["direction"] == "server"]
        reasons = [one["message"]["reason"] for one in written if one["subtype"] == "permission_withdrawn"]
        assert reasons == HANDED_OVER


async def test_a_continued_turn_ends_after_a_restart(tmp_path: Path, home: Path) -> None:
    """The run has another id than the turn, since the turn was over before."""
    async with socket_rig(tmp_path) as rig:
        session = Codex(rig)
        await session.begins()
        await session.reports("Stop", last_assistant_message=None)
        await session.reports("PreToolUse", **RAN)
        assert standing(rig, session) == {"state": "working"}
    async with socket_rig(tmp_path) as later:
        session.at(later)
        assert standing(later, session) == {"state": "working"}
        await session.reports("Interrupt")
        assert standing(later, session) == {"state": "finished"}


async def test_requests_that_codex_reviews_itself_do_not_wait(rig: SocketRig) -> None:
    session = Codex(rig)
    session.is_set(approvals_reviewer="auto_review")
    await session.begins()
    async with session.question_of({}, **COMMAND) as hook:
        assert await hook.receive() is None
    assert rig.questions == []
    assert standing(rig, session) == {"state": "working", "asks": False}


async def test_the_rejection_of_a_patch_is_not_overruled(rig: SocketRig) -> None:
    """The result of the call contains only the reason."""
    session = Codex(rig)
    await session.begins()
    patch = "*** Begin Patch\n*** Delete File: a.py\n*** End Patch"
    session.records("response_item", type="custom_tool_call", name="apply_patch", call_id="c1", input=patch)
    async with session.asks("apply_patch", command=patch) as (hook, question):
        await rig.answers(question, "deny", message="not this")
        answer = await hook.receive()
        assert answer is not None
    reason = answer["decision"]["message"]
    session.records("response_item", type="custom_tool_call_output", call_id="c1", output=reason)
    await session.reports("PreToolUse", **RAN)
    assert rig.withdrawn(question) == []


# Identical calls at the same time.


def called(session: Codex, id: str) -> None:
    arguments = json.dumps({"cmd": "touch made", "justification": "I need it"})
    session.records("response_item", type="function_call", name="exec_command", call_id=id, arguments=arguments)


def returned(session: Codex, id: str, output: str = "Chunk ID: a0\nProcess exited with code 0\nOutput:\n") -> None:
    session.records("response_item", type="function_call_output", call_id=id, output=output)


DENIED = 'exec_command failed: CreateProcess { message: "Rejected(\\"No\\")" }'


async def test_a_call_settles_only_the_older_of_two_requests(rig: SocketRig) -> None:
    """Both the hook and the transcript report each call."""
    session = Codex(rig)
    await session.begins()
    async with session.asks(**COMMAND) as (_, first), session.asks(**COMMAND) as (_, second):
        called(session, "c1")
        called(session, "c2")
        await session.reports("PostToolUse", **RAN, tool_use_id="c1")
        assert (rig.withdrawn(first), rig.withdrawn(second)) == ([questions.GONE], [])
        returned(session, "c1")
        await session.reports("PreToolUse", **RAN)
        assert await rig.is_open(second)
        returned(session, "c2")
        await session.reports("PreToolUse", **RAN)
        assert rig.withdrawn(second) == [questions.GONE]


@pytest.mark.parametrize("how", ["hook", "transcript"])
async def test_a_call_settles_the_request_that_was_accepted(rig: SocketRig, how: str) -> None:
    session = Codex(rig)
    await session.begins()
    called(session, "c1")
    async with session.asks(**COMMAND) as (_, first), session.asks(**COMMAND) as (_, second):
        await rig.answers(second)
        if how == "transcript":
            returned(session, "c1")
        await session.reports("PostToolUse" if how == "hook" else "PreToolUse", **RAN)
        assert (rig.withdrawn(first), rig.withdrawn(second)) == ([], [])
        assert await rig.is_open(first)


async def test_a_call_does_not_settle_an_identical_later_request(rig: SocketRig) -> None:
    session = Codex(rig)
    await session.begins()
    async with session.asks(**COMMAND) as (_, first):
        await rig.answers(first)
    async with session.asks(**COMMAND) as (_, second):
        await session.reports("PostToolUse", **RAN, tool_use_id="c1")
        assert await rig.is_open(second)
        await rig.answers(second, "deny")
        called(session, "c2")
        returned(session, "c2", DENIED)
        await session.reports("PreToolUse", **RAN)
    assert (rig.withdrawn(first), rig.withdrawn(second)) == ([], [])


@pytest.mark.parametrize("outputs", [(DENIED, None), (None, DENIED)])
async def test_different_answers_to_identical_requests_both_count(
    rig: SocketRig, outputs: tuple[str | None, str | None]
) -> None:
    session = Codex(rig)
    await session.begins()
    async with session.asks(**COMMAND) as (_, first), session.asks(**COMMAND) as (_, second):
        await rig.answers(first)
        await rig.answers(second, "deny")
    for id, output in zip(("c1", "c2"), outputs, strict=True):
        called(session, id)
        if output is None:
            await session.reports("PostToolUse", **RAN, tool_use_id=id)
            returned(session, id)
        else:
            returned(session, id, output)
    await session.reports("PreToolUse", **RAN)
    assert (rig.withdrawn(first), rig.withdrawn(second)) == ([], [])


async def test_identical_terminal_dialogs_are_closed_one_at_a_time(
    rig: SocketRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "HOLD_SECONDS", 0.0)
    monkeypatch.setattr(questions, "HOLD_AGAIN_SECONDS", 0.0)
    session = Codex(rig)
    await session.begins()
    async with session.asks(**COMMAND) as (first, _), session.asks(**COMMAND) as (second, _):
        assert (await first.receive(), await second.receive()) == (None, None)
    called(session, "c1")
    await session.reports("PostToolUse", **RAN, tool_use_id="c1")
    returned(session, "c1")
    await session.reports("PreToolUse", **RAN)
    assert standing(rig, session) == {"state": "waiting", "in_terminal": True}
    await session.reports("PostToolUse", **RAN, tool_use_id="c2")
    assert standing(rig, session) == {"state": "working"}
