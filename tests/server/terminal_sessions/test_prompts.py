"""A prompt for an agent at a desk: typed into its terminal where that is an editor's, by the bridge that says so."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.sessions.ceilings import Ceilings
from drawbridge.server.terminal_sessions import prompts as desk_prompts
from tests.waiting import until

from .socket_rig import Line, Message, Session, SocketDesk, socket_desk

CLAUDE = os.getpid()
"""Stands for the agent's process; it has to live."""

NOBODY = 2**22
"""No process has this number."""


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[SocketDesk]:
    async with socket_desk(tmp_path) as desk:
        yield desk


class Neovim:
    """A bridge whose editor has terminals; it types what it is told to, as the test wants."""

    def __init__(self, line: Line) -> None:
        self.line = line

    def has(self, *terminals: int) -> None:
        self.line.say(type="bridge", editor="Neovim", folders=[], pids=[], terminals=terminals)

    async def asked(self) -> Message:
        """The next prompt that it is to type."""
        said = await self.line.hear()
        assert said is not None
        assert said["type"] == "prompt"
        return said


@contextlib.asynccontextmanager
async def neovim(desk: SocketDesk, *terminals: int) -> AsyncIterator[Neovim]:
    async with Line.open() as line:
        neovim = Neovim(line)
        neovim.has(*terminals)
        held = desk.server.core.terminal_sessions.terminals._editors
        await until(lambda: any(one.about and one.about.terminals == terminals for one in held), "the bridge")
        yield neovim


@contextlib.asynccontextmanager
async def at_work(desk: SocketDesk) -> AsyncIterator[tuple[Session, Neovim]]:
    """A session in a terminal of that editor, ready for a prompt."""
    session = Session(desk, pid=CLAUDE)
    async with neovim(desk, CLAUDE) as editor:
        await session.tells("SessionStart", source="startup")
        yield session, editor


def sends(desk: SocketDesk, session: Session, prompt: str = "Do it", **more: Any) -> asyncio.Task[Message]:
    return asyncio.create_task(desk.does("execute", session.project, prompt=prompt, **more))


async def begins(session: Session, editor: Neovim, turn: str = "t1") -> Message:
    """It is typed, and the agent has begun with it."""
    asked = await editor.asked()
    session.turn = turn
    editor.line.say(type="typed", id=asked["id"])
    await session.tells("UserPromptSubmit", prompt=asked["text"])
    return asked


def prompts(desk: SocketDesk, session: Session) -> list[tuple[str, str, str]]:
    """Those of the history: the text, who has sent it, its run."""
    found = desk.server.core.terminal_sessions.find(session.project)
    assert found is not None
    lines = list(found.history.read(after_seq=0, limit=100).records)
    said = [json.loads(one.line) for one in lines]
    return [
        (one["message"]["message"]["prompt"], one["message"]["by"], one["message"]["run_id"])
        for one in said
        if one["direction"] == "client"
    ]


async def refused(sending: asyncio.Task[Message]) -> ClientError:
    with pytest.raises(ClientError) as raised:
        await sending
    return raised.value


# It arrives.


async def test_it_is_typed_there_and_accepted_when_the_agent_begins(desk: SocketDesk) -> None:
    async with at_work(desk) as (session, editor):
        assert (await desk.info(session))["desk"] == {
            "state": "finished",
            "permission_mode": "default",
            "prompts": True,
        }
        sending = sends(desk, session, "Do it\nwell")
        asked = await editor.asked()
        assert (asked["pid"], asked["text"]) == (CLAUDE, "Do it\nwell")
        editor.line.say(type="typed", id=asked["id"])
        await desk.idle()
        assert not sending.done()
        await session.tells("UserPromptSubmit", prompt="Do it\nwell")
        answer = await sending
        assert (answer["type"], answer["data"]) == ("accepted", {"run_id": session.turn, "position": 0})
        session.writes({"type": "user", "message": {"content": "Do it\nwell"}})
        await session.tells("Stop")
        assert prompts(desk, session) == [("Do it\nwell", "phone", session.turn)]


async def test_in_the_history_stands_what_was_sent_not_what_the_agent_puts_round_it(desk: SocketDesk) -> None:
    async with at_work(desk) as (session, editor):
        sending = sends(desk, session, "a\tb\nc")
        await editor.asked()
        inside = '\n\n<pasted_content id="b2">\na    b\nc\n</pasted_content id="b2">\n'
        session.writes({"type": "user", "message": {"content": inside}})
        await session.tells("UserPromptSubmit", prompt=inside)
        assert prompts(desk, session) == [("a\tb\nc", "phone", session.turn)]
        sending.cancel()


async def test_what_is_typed_at_the_desk_stays_the_persons(desk: SocketDesk) -> None:
    async with at_work(desk) as (session, editor):
        sending = sends(desk, session)
        asked = await editor.asked()
        session.writes({"type": "user", "message": {"content": "Do it well"}})
        await session.tells("UserPromptSubmit", prompt="Do it well")
        assert prompts(desk, session) == [("Do it well", "desk", session.turn)]
        assert not sending.done()
        editor.line.say(type="untyped", id=asked["id"], reason="Somebody has started typing there.")
        assert (await refused(sending)).code == "PROCESS_ACTIVE"


async def test_a_terminal_may_hold_a_program_that_has_started_the_agent(desk: SocketDesk) -> None:
    session = Session(desk, pid=CLAUDE)
    async with neovim(desk, os.getppid()) as editor:
        await session.tells("SessionStart")
        sending = sends(desk, session)
        assert (await begins(session, editor))["pid"] == os.getppid()
        await sending


async def test_clients_are_told_when_prompts_are_taken_and_when_no_more(desk: SocketDesk) -> None:
    session = Session(desk, pid=CLAUDE)
    await session.tells("SessionStart")

    def told() -> bool:
        return bool(desk.client.updates("project_state")[-1]["desk"].get("prompts"))

    assert not told()
    async with neovim(desk) as editor:
        editor.has(CLAUDE)
        await until(told, "that it takes prompts")
        editor.has()
        await until(lambda: not told(), "that it takes none")
        editor.has(CLAUDE)
        await until(told, "that it takes prompts")
    await until(lambda: not told(), "that it takes none")


# Exactly once.


async def test_a_repeated_request_types_nothing_again(desk: SocketDesk) -> None:
    async with at_work(desk) as (session, editor):
        sending = [sends(desk, session, request_id="r1") for _ in range(2)]
        await begins(session, editor)
        answers = [await one for one in sending]
        before = [await sends(desk, session, request_id="r1")]
        session.writes({"type": "user", "message": {"content": "Do it"}})
        await session.tells("Stop")
        after = [await sends(desk, session, request_id="r1")]
        assert {one["data"]["run_id"] for one in answers + before + after} == {session.turn}
        assert await editor.line.hears_nothing()
        sending = [sends(desk, session, "Another", request_id="r1")]
        assert (await begins(session, editor, "t2"))["text"] == "Another"
        await sending[0]


async def test_a_client_that_is_gone_leaves_its_prompt_under_way(desk: SocketDesk) -> None:
    async with at_work(desk) as (session, editor):
        sending = sends(desk, session, request_id="r1")
        asked = await editor.asked()
        sending.cancel()
        editor.line.say(type="typed", id=asked["id"])
        again = sends(desk, session, request_id="r1")
        await session.tells("UserPromptSubmit", prompt="Do it")
        assert (await again)["data"]["run_id"] == session.turn
        assert await editor.line.hears_nothing()


@pytest.mark.parametrize("begun", [True, False])
async def test_after_a_restart_it_is_known_by_its_request(tmp_path: Path, begun: bool) -> None:
    async with socket_desk(tmp_path) as desk, at_work(desk) as (session, editor):
        sending = sends(desk, session, request_id="r1")
        await editor.asked()
    assert (await refused(sending)).code in ("EXECUTION_FAILED", "SHUTTING_DOWN")
    if begun:
        session.writes({"type": "user", "message": {"content": "Do it"}})
    async with socket_desk(tmp_path) as desk, neovim(desk, CLAUDE) as editor:
        again = sends(desk, session, request_id="r1")
        if begun:
            assert (await again)["data"]["run_id"] == session.turn
            assert prompts(desk, session) == [("Do it", "phone", session.turn)]
        else:
            assert (await refused(again)).code == "EXECUTION_FAILED"
        assert await editor.line.hears_nothing()


# It is refused, and nothing is typed.


async def test_no_terminal_of_ours_holds_it(desk: SocketDesk) -> None:
    session = Session(desk, pid=CLAUDE)
    async with neovim(desk, NOBODY) as editor:
        await session.tells("SessionStart")
        assert "prompts" not in (await desk.info(session))["desk"]
        error = await desk.refusal("execute", session.project, prompt="Do it")
        assert (error.code, error.retryable) == ("NOT_SUPPORTED", False)
        assert "fork" in error.text
        assert await editor.line.hears_nothing()


async def test_it_has_ended(desk: SocketDesk) -> None:
    async with at_work(desk) as (session, editor):
        await session.tells("SessionEnd")
        assert (await desk.refusal("execute", session.project, prompt="Do it")).code == "NOT_SUPPORTED"
        assert await editor.line.hears_nothing()


async def test_a_question_is_open(desk: SocketDesk) -> None:
    async with at_work(desk) as (session, editor), session.asks(command="ls") as (hook, question):
        error = await desk.refusal("execute", session.project, prompt="Do it")
        assert (error.code, error.retryable) == ("PROCESS_ACTIVE", True)
        assert "approval" in error.text
        assert await editor.line.hears_nothing()
        await desk.answers(question)
        assert await hook.hear() == {"decision": {"behavior": "allow"}}


async def test_it_is_at_work(desk: SocketDesk) -> None:
    async with at_work(desk) as (session, editor):
        await session.tells("UserPromptSubmit", prompt="x")
        error = await desk.refusal("execute", session.project, prompt="Do it")
        assert (error.code, error.retryable) == ("PROCESS_ACTIVE", True)
        assert await editor.line.hears_nothing()
        await session.tells("Stop")
        sending = sends(desk, session)
        await begins(session, editor, "t2")
        await sending


async def test_another_one_is_being_typed(desk: SocketDesk) -> None:
    async with at_work(desk) as (session, editor):
        sending = sends(desk, session)
        asked = await editor.asked()
        error = await desk.refusal("execute", session.project, prompt="Another")
        assert (error.code, error.retryable) == ("PROCESS_ACTIVE", True)
        assert await editor.line.hears_nothing()
        editor.line.say(type="typed", id=asked["id"])
        await session.tells("UserPromptSubmit", prompt="Do it")
        await sending


async def test_the_editor_types_nothing_and_says_why(desk: SocketDesk) -> None:
    async with at_work(desk) as (session, editor):
        sending = sends(desk, session, request_id="r1")
        asked = await editor.asked()
        editor.line.say(type="untyped", id=asked["id"], reason="Somebody has started typing there.")
        error = await refused(sending)
        assert (error.code, error.retryable, error.text) == (
            "PROCESS_ACTIVE",
            True,
            "Somebody has started typing there.",
        )
        sending = sends(desk, session, request_id="r1")  # it may be tried again
        await begins(session, editor)
        await sending


async def test_the_editor_is_gone_meanwhile(desk: SocketDesk) -> None:
    async with at_work(desk) as (session, editor):
        sending = sends(desk, session, request_id="r1")
        await editor.asked()
        await editor.line.close()
        error = await refused(sending)
        assert (error.code, error.retryable) == ("EXECUTION_FAILED", False)
        assert "has disconnected" in error.text
        async with neovim(desk, CLAUDE) as other:
            assert (await refused(sends(desk, session, request_id="r1"))).code == "EXECUTION_FAILED"
            assert await other.line.hears_nothing()


@pytest.mark.parametrize("silent", ["the editor", "the agent"])
async def test_nobody_says_what_became_of_it(desk: SocketDesk, monkeypatch: pytest.MonkeyPatch, silent: str) -> None:
    monkeypatch.setattr(desk_prompts, "TYPING_SECONDS", 0.05 if silent == "the editor" else 5)
    monkeypatch.setattr(desk_prompts, "BEGIN_SECONDS", 0.05)
    async with at_work(desk) as (session, editor):
        sending = sends(desk, session, request_id="r1")
        asked = await editor.asked()
        if silent == "the agent":
            editor.line.say(type="typed", id=asked["id"])
        error = await refused(sending)
        assert (error.code, error.retryable) == ("EXECUTION_FAILED", False)
        assert "terminal" in error.text
        assert (await refused(sends(desk, session, request_id="r1"))).code == "EXECUTION_FAILED"
        await session.tells("UserPromptSubmit", prompt="Do it")  # it had arrived
        assert (await sends(desk, session, request_id="r1"))["data"]["run_id"] == session.turn
        assert await editor.line.hears_nothing()


@pytest.mark.parametrize(
    ("field", "more"),
    [
        ("data.attachments", {"attachments": [{"blob_id": "b"}]}),
        ("data.agent", {"agent": "claude"}),
        ("data.options", {"options": {"model": "opus"}}),
    ],
)
async def test_only_text_can_be_typed(desk: SocketDesk, field: str, more: Message) -> None:
    async with at_work(desk) as (session, editor):
        error = await desk.refusal("execute", session.project, prompt="Do it", **more)
        assert (error.code, error.field) == ("NOT_SUPPORTED", field)
        assert await editor.line.hears_nothing()


@pytest.fixture(
    params=[Ceilings(modes=("plan",)), Ceilings(restricted=True), Ceilings(models=("haiku",)), Ceilings(max_turns=1)]
)
def ceilings(request: pytest.FixtureRequest, desk: SocketDesk) -> None:
    desk.server.core.context.ceilings = request.param


@pytest.mark.usefixtures("ceilings")
async def test_it_is_more_than_the_owner_lets_clients_start(desk: SocketDesk) -> None:
    async with at_work(desk) as (session, editor):
        assert (await desk.refusal("execute", session.project, prompt="Do it")).code == "PERMISSION_DENIED"
        assert await editor.line.hears_nothing()


async def test_it_asks_nobody(desk: SocketDesk) -> None:
    async with at_work(desk) as (session, editor):
        await session.tells("SessionStart", permission_mode="bypassPermissions")
        assert (await desk.refusal("execute", session.project, prompt="Do it")).code == "PERMISSION_DENIED"
        assert await editor.line.hears_nothing()


# What is typed.


@pytest.mark.parametrize(
    "command",
    ["/exit", "!ls", " \n\t/status", "\x1b/status", "\u200b!ls", "\ufeff/exit", "\u2003!ls", "exit", " quit\n", ":q!"],
)
def test_what_would_be_a_command_to_the_agents_program_is_refused(command: str) -> None:
    with pytest.raises(ClientError) as raised:
        desk_prompts.typeable(command)
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
def test_nothing_in_a_prompt_is_a_key(prompt: str, typed: str) -> None:
    assert desk_prompts.typeable(prompt) == typed


@pytest.mark.parametrize(("prompt", "code"), [("\x1b \n", "VALIDATION_FAILED"), ("x" * 1_000_000, "NOT_SUPPORTED")])
def test_what_is_nothing_or_too_much_is_refused(prompt: str, code: str) -> None:
    with pytest.raises(ClientError) as raised:
        desk_prompts.typeable(prompt)
    assert raised.value.code == code
