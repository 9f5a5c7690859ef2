"""A prompt for an agent that runs in an editor's terminal is typed there by the editor's bridge."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import uuid
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from drawbridge.agents.claude import start_mode
from drawbridge.agents.claude.terminal import agent as claude
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.sessions.directories.allowed_directories import GONE
from drawbridge.server.sessions.options.ceilings import Ceilings
from drawbridge.server.terminal_sessions import prompt_text, report_queue
from drawbridge.server.terminal_sessions import prompts as prompts_module
from tests.waiting import PATIENCE, until

from .socket_rig import Line, Message, Session, SocketRig, socket_rig

CLAUDE = os.getpid()
"""The agent's process id. The test uses its own, since the process must be running."""

NOBODY = 2**22
"""A process id that no process has."""


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[SocketRig]:
    async with socket_rig(tmp_path) as rig:
        yield rig


class Neovim:
    """A bridge whose editor has terminals. The test decides whether the bridge types a prompt."""

    def __init__(self, line: Line) -> None:
        self.line = line

    def has(self, *terminals: int) -> None:
        self.line.send(type="bridge", editor="Neovim", folders=[], pids=[], terminals=terminals)

    async def asked(self) -> Message:
        """Waits for the next prompt that the bridge has to type. Returns the server's message."""
        message = await self.line.receive()
        assert message is not None
        assert message["type"] == "prompt"
        return message


@contextlib.asynccontextmanager
async def neovim(rig: SocketRig, *terminals: int) -> AsyncIterator[Neovim]:
    async with Line.open() as line:
        neovim = Neovim(line)
        neovim.has(*terminals)
        held = rig.server.core.terminal_sessions.terminals._editors
        await until(lambda: any(one.about and one.about.terminals == terminals for one in held), "the bridge")
        yield neovim


@contextlib.asynccontextmanager
async def at_work(rig: SocketRig) -> AsyncIterator[tuple[Session, Neovim]]:
    """A session that is ready for a prompt, and the editor in whose terminal it runs."""
    session = Session(rig, pid=CLAUDE)
    async with neovim(rig, CLAUDE) as editor:
        await session.reports("SessionStart", source="startup")
        yield session, editor


def sends(rig: SocketRig, session: Session, prompt: str = "Do it", **more: Any) -> asyncio.Task[Message]:
    return asyncio.create_task(rig.does("execute", session.project, prompt=prompt, **more))


async def begins(session: Session, editor: Neovim, turn: str = "t1") -> Message:
    """Confirms as the bridge that the prompt was typed, and reports that the agent began the run. Returns the
    message that the server sent to the bridge.
    """
    asked = await editor.asked()
    session.turn = turn
    editor.line.send(type="typed", id=asked["id"])
    await session.reports("UserPromptSubmit", prompt=asked["text"])
    return asked


def prompts(rig: SocketRig, session: Session) -> list[tuple[str, str, str]]:
    """The prompts in the history: the text, the sender, and the id of the run."""
    found = rig.server.core.terminal_sessions.find(session.project)
    assert found is not None
    lines = list(found.history.read(after_seq=0, limit=100).records)
    messages = [json.loads(one.line) for one in lines]
    return [
        (one["message"]["message"]["prompt"], one["message"]["by"], one["message"]["run_id"])
        for one in messages
        if one["direction"] == "client"
    ]


async def refused(sending: asyncio.Task[Message]) -> ClientError:
    with pytest.raises(ClientError) as raised:
        await sending
    return raised.value


# accepted prompts


async def test_a_prompt_is_typed_and_accepted_when_the_agent_begins(rig: SocketRig) -> None:
    async with at_work(rig) as (session, editor):
        assert (await rig.info(session))["desk"] == {
            "state": "finished",
            "permission_mode": "default",
            "prompts": True,
        }
        sending = sends(rig, session, "Do it\nwell")
        asked = await editor.asked()
        assert (asked["pid"], asked["text"]) == (CLAUDE, "Do it\nwell")
        editor.line.send(type="typed", id=asked["id"])
        await rig.idle()
        assert not sending.done()
        await session.reports("UserPromptSubmit", prompt="Do it\nwell")
        answer = await sending
        assert (answer["type"], answer["data"]) == ("accepted", {"run_id": session.turn, "position": 0})
        session.writes({"type": "user", "message": {"content": "Do it\nwell"}})
        await session.reports("Stop")
        assert prompts(rig, session) == [("Do it\nwell", "phone", session.turn)]


async def test_the_history_has_the_prompt_as_it_was_sent(rig: SocketRig) -> None:
    async with at_work(rig) as (session, editor):
        sending = sends(rig, session, "a\tb\nc")
        await editor.asked()
        inside = '\n\n<pasted_content id="b2">\na    b\nc\n</pasted_content id="b2">\n'
        session.writes({"type": "user", "message": {"content": inside}})
        await session.reports("UserPromptSubmit", prompt=inside)
        assert prompts(rig, session) == [("a\tb\nc", "phone", session.turn)]
        sending.cancel()


async def test_the_history_names_the_client_that_sent_it(rig: SocketRig) -> None:
    async with at_work(rig) as (session, editor):
        sending = sends(rig, session)
        await editor.asked()
        session.writes({"type": "user", "message": {"content": "Do it"}})
        await session.reports("UserPromptSubmit", prompt="Do it")
        found = rig.server.core.terminal_sessions.find(session.project)
        assert found is not None
        lines = [json.loads(one.line) for one in found.history.read(after_seq=0, limit=100).records]
        [prompt] = [line["message"] for line in lines if line["direction"] == "client"]
        assert (prompt["by"], prompt["client_id"]) == ("phone", rig.client.id)
        sending.cancel()


async def test_a_prompt_typed_in_the_terminal_is_the_users(rig: SocketRig) -> None:
    async with at_work(rig) as (session, editor):
        sending = sends(rig, session)
        asked = await editor.asked()
        session.writes({"type": "user", "message": {"content": "Do it well"}})
        await session.reports("UserPromptSubmit", prompt="Do it well")
        assert prompts(rig, session) == [("Do it well", "desk", session.turn)]
        assert not sending.done()
        editor.line.send(type="untyped", id=asked["id"], reason="Somebody has started typing there.")
        assert (await refused(sending)).code == "PROCESS_ACTIVE"


async def test_the_agent_may_be_a_child_of_the_terminals_program(rig: SocketRig) -> None:
    session = Session(rig, pid=CLAUDE)
    async with neovim(rig, os.getppid()) as editor:
        await session.reports("SessionStart")
        sending = sends(rig, session)
        assert (await begins(session, editor))["pid"] == os.getppid()
        await sending


async def test_the_ancestors_of_an_agent_are_looked_up_rarely(rig: SocketRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a prompt needs to know them as they are now."""
    looked_up, ancestors = list[int](), prompts_module._with_ancestors

    def looks_up(pid: int) -> Sequence[int]:
        looked_up.append(pid)
        return ancestors(pid)

    monkeypatch.setattr(prompts_module, "_with_ancestors", looks_up)
    monkeypatch.setattr(prompts_module, "ANCESTORS_SECONDS", PATIENCE)
    async with at_work(rig) as (session, editor):
        for _ in range(3):
            await session.reports("UserPromptSubmit", prompt="Go")
            await session.reports("Stop")
            assert (await rig.info(session))["desk"]["prompts"] is True
        assert looked_up == [CLAUDE]
        sending = asyncio.create_task(rig.does("execute", session.project, prompt="More"))
        await editor.asked()
        assert looked_up == [CLAUDE, CLAUDE]
        sending.cancel()


async def test_clients_see_when_a_session_accepts_prompts(rig: SocketRig) -> None:
    session = Session(rig, pid=CLAUDE)
    await session.reports("SessionStart")

    def notified() -> bool:
        return bool(rig.client.updates("project_state")[-1]["desk"].get("prompts"))

    assert not notified()
    async with neovim(rig) as editor:
        editor.has(CLAUDE)
        await until(notified, "that it takes prompts")
        editor.has()
        await until(lambda: not notified(), "that it takes none")
        editor.has(CLAUDE)
        await until(notified, "that it takes prompts")
    await until(lambda: not notified(), "that it takes none")


# exactly once


async def test_a_repeated_request_does_not_type_again(rig: SocketRig) -> None:
    async with at_work(rig) as (session, editor):
        sending = [sends(rig, session, request_id="r1") for _ in range(2)]
        await begins(session, editor)
        answers = [await one for one in sending]
        before = [await sends(rig, session, request_id="r1")]
        session.writes({"type": "user", "message": {"content": "Do it"}})
        await session.reports("Stop")
        after = [await sends(rig, session, request_id="r1")]
        assert {one["data"]["run_id"] for one in answers + before + after} == {session.turn}
        assert await editor.line.receives_nothing()
        sending = [sends(rig, session, "Another", request_id="r1")]
        assert (await begins(session, editor, "t2"))["text"] == "Another"
        await sending[0]


async def test_a_prompt_is_typed_even_if_its_client_disconnects(rig: SocketRig) -> None:
    async with at_work(rig) as (session, editor):
        sending = sends(rig, session, request_id="r1")
        asked = await editor.asked()
        sending.cancel()
        editor.line.send(type="typed", id=asked["id"])
        again = sends(rig, session, request_id="r1")
        await session.reports("UserPromptSubmit", prompt="Do it")
        assert (await again)["data"]["run_id"] == session.turn
        assert await editor.line.receives_nothing()


@pytest.mark.parametrize("begun", [True, False])
async def test_a_repeated_request_is_recognized_after_a_restart(tmp_path: Path, begun: bool) -> None:
    async with socket_rig(tmp_path) as rig, at_work(rig) as (session, editor):
        sending = sends(rig, session, request_id="r1")
        await editor.asked()
    assert (await refused(sending)).code in ("EXECUTION_FAILED", "SHUTTING_DOWN")
    if begun:
        session.writes({"type": "user", "message": {"content": "Do it"}})
    async with socket_rig(tmp_path) as rig, neovim(rig, CLAUDE) as editor:
        again = sends(rig, session, request_id="r1")
        if begun:
            assert (await again)["data"]["run_id"] == session.turn
            assert prompts(rig, session) == [("Do it", "phone", session.turn)]
        else:
            assert (await refused(again)).code == "EXECUTION_FAILED"
        assert await editor.line.receives_nothing()


# refused prompts, for which nothing is typed into the terminal


async def test_an_agent_in_an_unknown_terminal_gets_no_prompt(rig: SocketRig) -> None:
    session = Session(rig, pid=CLAUDE)
    async with neovim(rig, NOBODY) as editor:
        await session.reports("SessionStart")
        assert "prompts" not in (await rig.info(session))["desk"]
        error = await rig.refusal("execute", session.project, prompt="Do it")
        assert (error.code, error.retryable) == ("NOT_SUPPORTED", False)
        assert "fork" in error.text
        assert await editor.line.receives_nothing()


async def test_an_ended_agent_gets_no_prompt(rig: SocketRig) -> None:
    async with at_work(rig) as (session, editor):
        await session.reports("SessionEnd")
        error = await rig.refusal("execute", session.project, prompt="Do it")
        assert (error.code, "session has ended" in error.text) == ("NOT_SUPPORTED", True)
        assert await editor.line.receives_nothing()


async def test_an_agent_with_an_open_question_gets_no_prompt(rig: SocketRig) -> None:
    async with at_work(rig) as (session, editor), session.asks(command="ls") as (hook, question):
        error = await rig.refusal("execute", session.project, prompt="Do it")
        assert (error.code, error.retryable) == ("PROCESS_ACTIVE", True)
        assert "waiting for an answer" in error.text
        assert await editor.line.receives_nothing()
        await rig.answers(question)
        assert await hook.receive() == {"decision": {"behavior": "allow"}}


async def test_an_agent_at_work_gets_no_prompt(rig: SocketRig) -> None:
    async with at_work(rig) as (session, editor):
        await session.reports("UserPromptSubmit", prompt="x")
        error = await rig.refusal("execute", session.project, prompt="Do it")
        assert (error.code, error.retryable) == ("PROCESS_ACTIVE", True)
        assert await editor.line.receives_nothing()
        await session.reports("Stop")
        sending = sends(rig, session)
        await begins(session, editor, "t2")
        await sending


async def test_a_second_prompt_is_refused_while_one_is_typed(rig: SocketRig) -> None:
    async with at_work(rig) as (session, editor):
        sending = sends(rig, session)
        asked = await editor.asked()
        error = await rig.refusal("execute", session.project, prompt="Another")
        assert (error.code, error.retryable) == ("PROCESS_ACTIVE", True)
        assert await editor.line.receives_nothing()
        editor.line.send(type="typed", id=asked["id"])
        await session.reports("UserPromptSubmit", prompt="Do it")
        await sending


async def test_an_editors_reason_for_typing_nothing_is_reported(rig: SocketRig) -> None:
    async with at_work(rig) as (session, editor):
        sending = sends(rig, session, request_id="r1")
        asked = await editor.asked()
        editor.line.send(type="untyped", id=asked["id"], reason="Somebody has started typing there.")
        error = await refused(sending)
        assert (error.code, error.retryable, error.text) == (
            "PROCESS_ACTIVE",
            True,
            "Somebody has started typing there.",
        )
        sending = sends(rig, session, request_id="r1")  # the same request may be sent again
        await begins(session, editor)
        await sending


async def test_an_editor_that_disconnects_is_reported(rig: SocketRig) -> None:
    async with at_work(rig) as (session, editor):
        sending = sends(rig, session, request_id="r1")
        await editor.asked()
        await editor.line.close()
        error = await refused(sending)
        assert (error.code, error.retryable) == ("EXECUTION_FAILED", False)
        assert "has disconnected" in error.text
        async with neovim(rig, CLAUDE) as other:
            assert (await refused(sends(rig, session, request_id="r1"))).code == "EXECUTION_FAILED"
            assert await other.line.receives_nothing()


@pytest.mark.parametrize("silent", ["the editor", "the agent"])
async def test_a_prompt_without_a_confirmation_is_reported(
    rig: SocketRig, monkeypatch: pytest.MonkeyPatch, silent: str
) -> None:
    monkeypatch.setattr(prompts_module, "TYPING_SECONDS", 0.05 if silent == "the editor" else 5)
    monkeypatch.setattr(prompts_module, "BEGIN_SECONDS", 0.05)
    async with at_work(rig) as (session, editor):
        sending = sends(rig, session, request_id="r1")
        asked = await editor.asked()
        if silent == "the agent":
            editor.line.send(type="typed", id=asked["id"])
        error = await refused(sending)
        assert (error.code, error.retryable) == ("EXECUTION_FAILED", False)
        assert "terminal" in error.text
        assert (await refused(sends(rig, session, request_id="r1"))).code == "EXECUTION_FAILED"
        await session.reports("UserPromptSubmit", prompt="Do it")  # the prompt had arrived
        assert (await sends(rig, session, request_id="r1"))["data"]["run_id"] == session.turn
        assert await editor.line.receives_nothing()


@pytest.mark.parametrize(
    ("field", "more"),
    [
        ("data.attachments", {"attachments": [{"blob_id": "b"}]}),
        ("data.agent", {"agent": "claude"}),
        ("data.options", {"options": {"model": "opus"}}),
    ],
)
async def test_only_text_can_be_typed(rig: SocketRig, field: str, more: Message) -> None:
    async with at_work(rig) as (session, editor):
        error = await rig.refusal("execute", session.project, prompt="Do it", **more)
        assert (error.code, error.field) == ("NOT_SUPPORTED", field)
        assert await editor.line.receives_nothing()


@pytest.fixture(
    params=[Ceilings(modes=("plan",)), Ceilings(restricted=True), Ceilings(models=("haiku",)), Ceilings(max_turns=1)]
)
def ceilings(request: pytest.FixtureRequest, rig: SocketRig) -> None:
    rig.server.core.grants.ceilings = request.param


@pytest.mark.usefixtures("ceilings")
async def test_an_agent_above_the_ceiling_gets_no_prompt(rig: SocketRig) -> None:
    async with at_work(rig) as (session, editor):
        assert (await rig.refusal("execute", session.project, prompt="Do it")).code == "PERMISSION_DENIED"
        assert await editor.line.receives_nothing()


async def test_an_agent_that_never_asks_gets_no_prompt(rig: SocketRig) -> None:
    async with at_work(rig) as (session, editor):
        await session.reports("SessionStart", permission_mode="bypassPermissions")
        assert (await rig.refusal("execute", session.project, prompt="Do it")).code == "PERMISSION_DENIED"
        assert await editor.line.receives_nothing()


async def test_an_agent_in_a_deleted_directory_gets_no_prompt(rig: SocketRig, monkeypatch: pytest.MonkeyPatch) -> None:
    async with at_work(rig) as (session, editor):
        monkeypatch.setattr(rig.server.core.grants.directories, "last_problem", lambda _: GONE)
        error = await rig.refusal("execute", session.project, prompt="Do it")
        assert (error.code, error.text) == ("INVALID_PATH", GONE)
        assert await editor.line.receives_nothing()


@pytest.mark.parametrize("reported_by", ["hook", "transcript"])
async def test_the_mode_is_known_after_a_restart(tmp_path: Path, reported_by: str) -> None:
    async with socket_rig(tmp_path) as rig:
        session = Session(rig, pid=CLAUDE)
        mode = "bypassPermissions" if reported_by == "hook" else "default"
        await session.reports("UserPromptSubmit", prompt="Go", permission_mode=mode)
        if reported_by == "transcript":
            session.writes({"type": "permission-mode", "permissionMode": "bypassPermissions"})
        await session.reports("Stop", permission_mode=None)
        before = await rig.info(session)
    async with socket_rig(tmp_path) as rig, neovim(rig, CLAUDE) as editor:
        desk = (await rig.info(session))["desk"]
        assert (desk["permission_mode"], desk["asks"]) == ("bypassPermissions", False)
        assert before["desk"]["permission_mode"] == "bypassPermissions"
        assert (await rig.refusal("execute", session.project, prompt="Do it")).code == "PERMISSION_DENIED"
        assert await editor.line.receives_nothing()


async def test_an_unknown_mode_gets_no_prompt(rig: SocketRig) -> None:
    async with neovim(rig, CLAUDE) as editor:
        session = Session(rig, pid=CLAUDE)
        await session.reports("SessionStart", source="clear", permission_mode=None)
        error = await rig.refusal("execute", session.project, prompt="Do it")
        assert (error.code, "not known" in error.text) == ("PERMISSION_DENIED", True)
        assert await editor.line.receives_nothing()


@pytest.mark.parametrize(("started_in", "typed"), [("auto", True), ("bypassPermissions", False), (None, False)])
async def test_a_new_agent_has_the_mode_it_was_started_in(
    rig: SocketRig, monkeypatch: pytest.MonkeyPatch, started_in: str | None, typed: bool
) -> None:
    """The mode that the session had in an earlier process is not used."""
    session = Session(rig, pid=os.getppid())
    await session.reports("SessionStart", source="startup")
    # This line of the earlier process is read with the next report.
    session.writes({"type": "permission-mode", "permissionMode": "default"})
    session.pid = CLAUDE
    monkeypatch.setattr(start_mode, "of_process", lambda pid, directory: started_in if pid == CLAUDE else "default")
    async with neovim(rig, CLAUDE) as editor:
        await session.reports("SessionStart", source="resume", permission_mode=None)
        sending = sends(rig, session)
        if typed:
            await begins(session, editor)
            await sending
        else:
            assert (await refused(sending)).code == "PERMISSION_DENIED"
            assert await editor.line.receives_nothing()


# two terminals have the conversation open: ``claude --continue`` in the second one


@contextlib.asynccontextmanager
async def second_terminal(session: Session, mode: str) -> AsyncIterator[None]:
    """Starts a second process, in this mode, that opens the conversation. Kills it afterwards without a report."""
    first = session.pid
    process = await asyncio.create_subprocess_exec("sleep", "600")
    session.pid = process.pid
    try:
        await session.reports("SessionStart", source="resume", permission_mode=mode)
        yield
    finally:
        session.pid = first
        process.kill()
        await process.wait()


def mode_of(rig: SocketRig, session: Session) -> str | None:
    found = rig.server.core.terminal_sessions.find(session.project)
    return found.permission_mode if found else None


@pytest.mark.parametrize("how", ["it closes the conversation", "it is killed"])
@pytest.mark.parametrize(("stays", "leaves"), [("bypassPermissions", "default"), ("default", "bypassPermissions")])
async def test_the_mode_is_that_of_the_terminal_that_stays(
    rig: SocketRig, monkeypatch: pytest.MonkeyPatch, how: str, stays: str, leaves: str
) -> None:
    monkeypatch.setattr(report_queue, "RESTING_SECONDS", 0.05)
    async with at_work(rig) as (session, editor):
        await session.reports("Stop", permission_mode=stays)
        async with second_terminal(session, leaves):
            assert (await rig.info(session))["desk"]["permission_mode"] == leaves
            if how == "it closes the conversation":
                await session.reports("SessionEnd", permission_mode=None)
        await until(lambda: mode_of(rig, session) == stays, "its mode")
        sending = sends(rig, session)
        if stays == "default":
            await begins(session, editor)
            await sending
        else:
            assert (await refused(sending)).code == "PERMISSION_DENIED"
            assert await editor.line.receives_nothing()


async def test_a_record_of_the_other_terminal_does_not_change_the_mode(rig: SocketRig) -> None:
    async with at_work(rig) as (session, editor):
        async with second_terminal(session, "default"):
            session.pid = CLAUDE
            await session.reports("Stop", permission_mode="bypassPermissions")
            session.writes({"type": "permission-mode", "permissionMode": "default"})
            await session.reports("Notification", permission_mode=None)
            assert (await rig.refusal("execute", session.project, prompt="Do it")).code == "PERMISSION_DENIED"
        assert await editor.line.receives_nothing()


async def test_a_mode_of_an_unknown_terminal_is_not_used(rig: SocketRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user changes the mode in one terminal, which reports it only with its next prompt, and then closes the other
    terminal.
    """
    monkeypatch.setattr(report_queue, "RESTING_SECONDS", 0.05)
    async with at_work(rig) as (session, editor):
        await session.reports("Stop", permission_mode="default")
        async with second_terminal(session, "default"):
            session.writes({"type": "permission-mode", "permissionMode": "bypassPermissions"})
            await session.reports("SessionEnd", permission_mode=None)
        error = await rig.refusal("execute", session.project, prompt="Do it")
        assert (error.code, "not known" in error.text) == ("PERMISSION_DENIED", True)
        assert await editor.line.receives_nothing()


@pytest.mark.parametrize("leaves", ["before the restart", "while no server runs"])
async def test_the_terminal_that_stays_is_known_after_a_restart(tmp_path: Path, leaves: str) -> None:
    async with contextlib.AsyncExitStack() as longer:
        async with socket_rig(tmp_path) as rig:
            session = Session(rig, pid=CLAUDE)
            await session.reports("Stop", permission_mode="bypassPermissions")
            await longer.enter_async_context(second_terminal(session, "default"))
            if leaves == "before the restart":
                await session.reports("SessionEnd", permission_mode=None)
        await longer.aclose()
        async with socket_rig(tmp_path) as rig, neovim(rig, CLAUDE) as editor:
            desk = (await rig.info(session))["desk"]
            assert (desk["state"], desk["permission_mode"]) == ("finished", "bypassPermissions")
            assert desk["prompts"], "it is in the terminal of that editor"
            assert (await rig.refusal("execute", session.project, prompt="Do it")).code == "PERMISSION_DENIED"
            assert await editor.line.receives_nothing()


async def test_both_terminals_are_known_after_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_queue, "RESTING_SECONDS", 0.05)
    async with contextlib.AsyncExitStack() as longer:
        async with socket_rig(tmp_path) as rig:
            session = Session(rig, pid=CLAUDE)
            await session.reports("Stop", permission_mode="bypassPermissions")
            await longer.enter_async_context(second_terminal(session, "default"))
        async with socket_rig(tmp_path) as rig:
            assert mode_of(rig, session) == "default"
            await longer.aclose()
            await until(lambda: mode_of(rig, session) == "bypassPermissions", "the mode of the other terminal")
            assert (await rig.info(session))["desk"]["state"] == "finished"


async def test_a_turn_ends_with_its_terminal_after_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_queue, "RESTING_SECONDS", 0.05)
    monkeypatch.setattr(report_queue, "WORKING_SECONDS", 0.05)
    async with contextlib.AsyncExitStack() as longer:
        async with socket_rig(tmp_path) as rig:
            session = Session(rig, pid=CLAUDE)
            await session.reports("Stop")
            await longer.enter_async_context(second_terminal(session, "default"))
            session.turn = str(uuid.uuid4())
            await session.reports("UserPromptSubmit", prompt="Go")
        async with socket_rig(tmp_path) as rig:
            assert (await rig.info(session))["desk"]["state"] == "working"
            await longer.aclose()
            await until(lambda: [one.phase for one in rig.server.core.terminal_sessions] == ["finished"], "its end")


# the typed text


@pytest.mark.parametrize(
    "command",
    ["/exit", "!ls", " \n\t/status", "\x1b/status", "\u200b!ls", "\ufeff/exit", "\u2003!ls", "exit", " quit\n", ":q!"],
)
def test_a_command_of_the_agents_program_is_refused(command: str) -> None:
    with pytest.raises(ClientError) as raised:
        prompt_text.typeable(claude(), command)
    assert (raised.value.code, raised.value.field) == ("NOT_SUPPORTED", "data.prompt")


@pytest.mark.parametrize(
    ("prompt", "typed"),
    [
        ("What is /etc, and is 1 != 2?", "What is /etc, and is 1 != 2?"),
        ("one\r\ntwo\rthree\n\tfour", "one\ntwo\nthree\n\tfour"),
        ("a\x1b[201~\x1b[A\rb", "a[201~[A\nb"),
        ("nul\0 bell\a del\x7f c1\x9b201~\u202e", "nul bell del c1201~"),
        ("👩\u200d👧 ünï 漢字", "👩\u200d👧 ünï 漢字"),
        ("no line end follows \\", "no line end follows \\ "),
    ],
)
def test_a_prompt_is_typed_without_control_characters(prompt: str, typed: str) -> None:
    assert prompt_text.typeable(claude(), prompt) == typed


@pytest.mark.parametrize(("prompt", "code"), [("\x1b \n", "VALIDATION_FAILED"), ("x" * 1_000_000, "NOT_SUPPORTED")])
def test_an_empty_or_too_long_prompt_is_refused(prompt: str, code: str) -> None:
    with pytest.raises(ClientError) as raised:
        prompt_text.typeable(claude(), prompt)
    assert raised.value.code == code
