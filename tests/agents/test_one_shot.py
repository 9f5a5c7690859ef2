"""Agents that run one process per prompt: the real Codex with a stub for its model, and custom commands."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drawbridge.agents.base import (
    AgentLine,
    AgentUnusable,
    Attachment,
    Exited,
    Launch,
    Options,
    SessionIdentified,
    TurnEnded,
)
from drawbridge.agents.codex import driver as codex
from drawbridge.agents.command.driver import Command
from tests import programs
from tests.agents.rig import ReceivedEvents, blocks, eventually, session
from tests.rigs.responses_stub import ResponsesStub, apply_patch, shell, text
from tests.server.processes import serving

PATCH = "*** Begin Patch\n*** Add File: new.txt\n+new\n*** End Patch\n"
ANYTHING = Options(dangerously_skip_permissions=True)


def lines(received: ReceivedEvents) -> list[dict[str, Any]]:
    return [json.loads(line.raw) for line in received.all(AgentLine) if line.durable]


# Codex.


@pytest.fixture
def model(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ResponsesStub]:
    with ResponsesStub() as stub:
        folder = Path(os.environ["HOME"]) / ".codex"
        folder.mkdir()
        provider = (
            f'[model_providers.stub]\nname = "stub"\nbase_url = "{stub.url}"\nwire_api = "responses"\nenv_key = "KEY"\n'
        )
        settings = 'model_provider = "stub"\nmodel = "gpt-5.5"\n\n[analytics]\nenabled = false\n\n'
        (folder / "config.toml").write_text(settings + provider)
        monkeypatch.setenv("KEY", "for-nobody")
        yield stub


def real_codex() -> codex.Codex:
    return codex.Codex(str(programs.codex()), os.environ)


def scripted(model: ResponsesStub, *turns: dict[str, object]) -> None:
    model._turns += turns


async def test_codex_answers_and_resumes_its_conversation(project: Path, model: ResponsesStub) -> None:
    scripted(model, text("I am Ada."), text("Ada, as I said."))
    async with session(real_codex(), project) as first:
        done = await first.turn("Who are you?")
        await first.received.next(Exited)
    [known] = first.received.all(SessionIdentified)
    assert (done.ok, done.session_id) == (True, known.session_id)
    assert [line["type"] for line in lines(first.received)] == [
        *("thread.started", "turn.started", "assistant", "turn.completed")
    ]
    async with session(real_codex(), project, session_id=known.session_id, resume=True) as second:
        assert (await second.turn("Who?")).ok
    assert "I am Ada." in json.dumps(model.requests[-1]["input"])
    assert second.received.all(SessionIdentified) == [known]


async def test_codex_writes_files_when_everything_is_allowed(project: Path, model: ResponsesStub) -> None:
    scripted(model, apply_patch(PATCH), text("Done."))
    async with session(real_codex(), project, ANYTHING) as warm:
        assert (await warm.turn("Write it")).ok
    assert (project / "new.txt").read_text() == "new\n"
    called, result, answer = blocks(warm.received.all(AgentLine))
    assert (called["name"], called["input"]) == ("Write", {"file_path": str(project / "new.txt")})
    assert (result["tool_use_id"], result["is_error"]) == (called["id"], False)
    assert answer == {"type": "text", "text": "Done."}


async def test_a_codex_command_is_shown_with_its_output(project: Path, model: ResponsesStub) -> None:
    """Each process uses different ids, although Codex counts its items from 0 in each."""
    ids = set()
    for status in (0, 3):
        scripted(model, shell(f"echo hello; exit {status}"), text("Done."))
        async with session(real_codex(), project, ANYTHING) as warm:
            assert (await warm.turn("Say hello")).ok
        called, result, answer = blocks(warm.received.all(AgentLine))
        assert called["name"] == "Bash"
        assert "echo hello" in called["input"]["command"]
        assert (result["tool_use_id"], result["content"], result["is_error"]) == (called["id"], "hello\n", status != 0)
        assert answer["text"] == "Done."
        ids.add(called["id"])
    assert len(ids) == 2


async def test_codex_writes_nothing_without_permission(project: Path, model: ResponsesStub) -> None:
    scripted(model, apply_patch(PATCH), text("I could not."))
    async with session(real_codex(), project) as warm:
        assert (await warm.turn("Write it")).ok
    assert not (project / "new.txt").exists()


async def test_codex_can_be_interrupted(project: Path, model: ResponsesStub) -> None:
    scripted(model, shell("touch begun; sleep 60"))
    async with session(real_codex(), project, ANYTHING) as warm:
        warm.process.prompt("Sleep")
        await eventually((project / "begun").exists, "the command's start")
        warm.process.interrupt()
        done = await warm.ended()
        assert (done.ok, done.interrupted) == (False, True)


async def test_an_unknown_codex_conversation_is_reported(project: Path, model: ResponsesStub) -> None:
    gone = "00000000-0000-4000-8000-000000000000"
    async with session(real_codex(), project, session_id=gone, resume=True) as warm:
        done = await warm.turn("Who?")
        assert (done.ok, done.code) == (False, "SESSION_NOT_FOUND"), done.error


@pytest.mark.parametrize(
    ("options", "flag"),
    [
        (Options(), '--config=sandbox_mode="read-only"'),
        (Options(permission_mode="plan"), '--config=sandbox_mode="read-only"'),
        (Options(permission_mode="acceptEdits"), '--config=sandbox_mode="workspace-write"'),
        (ANYTHING, "--dangerously-bypass-approvals-and-sandbox"),
        (Options(model="gpt-5"), "--model=gpt-5"),
        (Options(add_dirs=("/a b",)), '--config=sandbox_workspace_write.writable_roots=["/a b"]'),
    ],
)
def test_options_become_codex_arguments(options: Options, flag: str) -> None:
    words = list(codex.arguments(Launch("/p", "", options=options)))
    assert flag in words
    assert (words[0], words[-1]) == ("exec", "-")


@pytest.mark.parametrize(
    ("launch", "named"),
    [
        (Launch("/p", "", options=Options(max_turns=1)), "options.max_turns"),
        (Launch("/p", "", options=Options(permission_mode="full")), "options.permission_mode"),
        (Launch("/p", "", options=Options(model="--full")), "options.model"),
        (Launch("/p", "--last", resume=True), "does not have a conversation"),
    ],
)
def test_unsupported_codex_options_are_rejected(launch: Launch, named: str) -> None:
    with pytest.raises(AgentUnusable, match=named):
        list(codex.arguments(launch))


@pytest.mark.parametrize(
    ("reported", "code", "text"),
    [
        ({"message": "boom"}, 0, "Codex reported a failure: boom."),
        ({"message": "boom"}, 1, "Codex exited with code 1: boom"),
        ({}, 1, "Codex exited with code 1: it gave no reason"),
    ],
)
def test_a_failed_codex_turn_is_reported_with_its_reason(reported: dict[str, str], code: int, text: str) -> None:
    conversation = codex.CodexConversation("Codex")
    conversation.prompt("Go")
    conversation.received(json.dumps({"type": "turn.failed", "error": reported}).encode())
    ended, _ = conversation.ended(code, "", None)
    assert isinstance(ended, TurnEnded)
    assert (ended.ok, ended.error) == (False, text)


# Custom commands.


def command(script: str) -> Command:
    return Command("mine", [sys.executable, "-c", script])


ECHO = "import sys; print('You said', sys.stdin.read()); print('Done.')"


async def test_the_output_of_a_command_is_its_answer(project: Path) -> None:
    async with session(command(ECHO), project, Options(partial_messages=True)) as warm:
        done = await warm.turn("Hello, größer")
        await warm.received.next(Exited)
    assert (done.ok, done.session_id) == (True, None)
    assert blocks(warm.received.all(AgentLine)) == [{"type": "text", "text": "You said Hello, größer\nDone.\n"}]
    passing = [json.loads(line.raw)["event"] for line in warm.received.all(AgentLine) if not line.durable]
    assert [event["type"].removeprefix("content_block_") for event in passing] == ["start", "delta", "delta"]
    assert [event["delta"]["text"] for event in passing[1:]] == ["You said Hello, größer\n", "Done.\n"]


async def test_a_command_can_name_its_conversation_in_json_lines(project: Path) -> None:
    """The lines are passed on byte for byte, and the next process receives the id in ``DRAWBRIDGE_SESSION_ID``."""
    script = """
import os, sys
sys.stdin.read()
print('{"type": "note",  "session_id": "s1", "before": "%s"}' % os.environ.get("DRAWBRIDGE_SESSION_ID", ""))
"""
    async with session(command(script), project) as first:
        assert (await first.turn("Go")).session_id == "s1"
    assert first.received.all(AgentLine)[0].raw == b'{"type": "note",  "session_id": "s1", "before": ""}'
    async with session(command(script), project, session_id="s1", resume=True) as second:
        assert (await second.turn("Go")).ok
    assert lines(second.received)[0]["before"] == "s1"


async def test_the_error_output_of_a_failed_command_is_reported(project: Path) -> None:
    async with session(command("import sys; sys.exit('It is Sunday')"), project) as warm:
        done = await warm.turn("Go")
        assert (done.ok, done.code) == (False, "EXECUTION_FAILED")
        assert done.error == "mine exited with code 1: It is Sunday"


async def test_a_command_is_interrupted_or_killed(project: Path) -> None:
    for way in ("interrupt", "kill"):
        async with session(command("import time; print('On it', flush=True); time.sleep(60)"), project) as warm:
            warm.process.times = type(warm.process.times)(interrupt=1.0)
            warm.process.prompt("Go")
            if way == "kill":
                await warm.process.kill()
            else:
                warm.process.interrupt()
            done = await warm.ended()
            assert (done.interrupted, done.error) == (True, "The run was interrupted.")


async def test_a_command_accepts_text_attachments_but_no_options(project: Path) -> None:
    async with session(command(ECHO), project) as warm:
        warm.process.prompt("Look", (Attachment("text/plain", b"a text", "a.txt"),))
        assert (await warm.ended()).ok
        assert "a.txt:\n\na text\n\nLook" in blocks(warm.received.all(AgentLine))[0]["text"]
    async with session(command(ECHO), project) as warm:
        warm.process.prompt("Look", (Attachment("image/png", b"\x89PNG", "a.png"),))
        done = await warm.ended()
        assert (done.ok, done.code) == (False, "VALIDATION_FAILED")
    async with session(command(ECHO), project) as warm:
        warm.process.prompt("Look", (Attachment("image/png", b"\x89PNG", "a.png", path="/files/a.png"),))
        assert (await warm.ended()).ok
        assert "Look\n\nAttached file: /files/a.png (1 kB)" in blocks(warm.received.all(AgentLine))[0]["text"]
    with pytest.raises(AgentUnusable, match=r"options\.permission_mode"):
        await command(ECHO).start(Launch(str(project), "", options=Options(permission_mode="plan")), lambda event: None)


async def test_each_queued_prompt_of_a_command_gets_a_process(project: Path, tmp_path: Path) -> None:
    script = tmp_path / "echo.py"
    script.write_text(ECHO)
    options = ("--no-tls", "--allow", project.parent, "--command-agent", f"mine={sys.executable} {script}")
    async with serving(tmp_path / "data", *options) as server, server.client() as client:
        made = await client.ask("project_create", {"path": str(project), "agent": "mine", "join": True})
        for number in range(3):
            await client.ask("execute", {"prompt": f"number {number}"}, made["project_id"])
        for _ in range(3):
            await client.receive("update", "run_finished", outcome="completed")
        messages = [one["data"]["messages"][0] for one in client.received if one["type"] == "agent_message"]
        assert [one["message"]["content"][0]["text"] for one in messages if one.get("type") == "assistant"] == [
            f"You said number {number}\nDone.\n" for number in range(3)
        ]
