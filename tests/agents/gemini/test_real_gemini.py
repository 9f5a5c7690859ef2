"""The real Gemini CLI over the Agent Client Protocol, with a stub for its model.

``DRAWBRIDGE_TEST_RECORD=tests/transcripts/acp pytest tests/agents/gemini/test_real_gemini.py`` records the sessions again.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from drawbridge.agents.base import (
    AgentUnusable,
    Attachment,
    Decision,
    Launch,
    Options,
    Proposal,
    Question,
    SessionIdentified,
)
from drawbridge.agents.gemini.driver import Gemini
from tests.agents.acp.peers import words
from tests.agents.conftest import POEM
from tests.agents.recording import RECORD_INTO
from tests.agents.rig import eventually, session
from tests.rigs import gemini_rig
from tests.rigs.gemini_stub import GeminiStub, function_call, replace, text, write_file

from . import rig as gemini
from .recording import Recorder


@pytest.fixture(autouse=True)
def recorded(request: pytest.FixtureRequest, project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    recorder = Recorder(project, monkeypatch) if RECORD_INTO else None
    yield
    if recorder is not None and recorder.lines:
        name = request.node.name.removeprefix("test_").replace("_", "-")
        what = (request.function.__doc__ or name.replace("-", " ")).strip()
        recorder.write(f"gemini-0.61.0-{name}.jsonl", what, "0.61.0")


async def test_a_prompt(project: Path, model: GeminiStub) -> None:
    """The requested model answers a prompt and sees an additional directory."""
    beside = project.parent / "beside"
    beside.mkdir()
    model.will_say(text("Hello there."))
    options = Options(model="gemini-2.5-pro", add_dirs=(str(beside),))
    async with session(gemini.agent(model), project, options) as warm:
        done = await warm.turn("Say hello")

        [known] = warm.received.all(SessionIdentified)
        assert (done.ok, done.error, done.session_id) == (True, None, known.session_id)
        assert words(warm.received) == ["Hello there."]
        received = model.requests[0].new_text
        assert "Say hello" in received
        assert str(beside) in received
        kept = gemini.agent(model).sessions
        assert [(one.session_id, one.title) for one in kept.listed(project, 10)] == [(known.session_id, "Say hello")]
        assert kept.known(project, known.session_id)
        assert not kept.known(project.parent, known.session_id)


@pytest.mark.thorough
async def test_stored_messages_are_read(project: Path, model: GeminiStub) -> None:
    poem, ever = project / "poem.txt", (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))
    model.will_say(replace(poem, "two", "zwei"), text("Done."))
    async with session(gemini.agent(model), project) as warm:
        warm.process.prompt("Translate it")
        warm.process.answer((await warm.asked()).question_id, Decision(allow=True))
        await warm.ended()
        [known] = warm.received.all(SessionIdentified)
    kept = gemini.agent(model).sessions
    found = list(kept.messages_from(project, known.session_id, after=ever[0], before=ever[1], start=0))
    assert found[0][1].prompt == "Translate it"
    blocks = [json.loads(one.line)["message"]["content"][0] for _, one in found[1:]]
    assert [block["type"] for block in blocks] == ["tool_use", "tool_result", "text"]
    assert (blocks[0]["name"], blocks[0]["input"]["file_path"]) == ("Edit", str(poem))
    assert blocks[2]["text"] == "Done."
    last = kept.messages(project, known.session_id, after=ever[0], before=ever[1], end=None, limit=2, size=10_000)
    assert (list(last.messages), last.before) == ([one for _, one in found[2:]], 2)


@pytest.mark.thorough
async def test_questions(project: Path, model: GeminiStub) -> None:
    """A change is denied, a change is allowed, and a command is allowed for the rest of the session."""
    poem = project / "poem.txt"
    shell = function_call("run_shell_command", command="touch made", description="Makes it")
    model.will_say(replace(poem, "two", "zwei"), text("Pity."), replace(poem, "two", "zwei"), text("Done."))
    model.will_say(shell, text("Made."), function_call("run_shell_command", command="touch made2"), text("Again."))
    async with session(gemini.agent(model), project) as warm:
        for allow, after in ((False, POEM), (True, "one\nzwei\n")):
            warm.process.prompt("Translate it")
            asked = await warm.asked()
            assert (asked.tool_name, asked.changeable) == ("edit", False)
            assert asked.proposal == Proposal(str(poem), POEM, "one\nzwei\n")
            assert poem.read_text() == POEM
            warm.process.answer(asked.question_id, Decision(allow=allow))
            assert (await warm.ended()).ok
            assert poem.read_text() == after
        assert "canceled by the user" in str(model.requests[1].tool_results)

        warm.process.prompt("Make it")
        asked = await warm.asked()
        assert (asked.tool_name, asked.proposal) == ("execute", None)
        assert json.loads(bytes(asked.input))["title"] == "touch made"
        warm.process.answer(asked.question_id, Decision(allow=True, remember=True))
        assert (await warm.ended()).ok
        assert (await warm.turn("Once more")).ok, "Gemini CLI does not ask about the command again"
        assert words(warm.received) == ["Pity.", "Done.", "Made.", "Again."]
        assert (project / "made2").exists()


@pytest.mark.slow
async def test_interrupts(project: Path, model: GeminiStub) -> None:
    """A turn is interrupted while the model is silent, and another while an approval request is open."""
    new = project / "new.txt"
    model.will_say(gemini.HOLD, write_file(new, "new\n"), text("Here I am."))
    async with session(gemini.agent(model), project) as warm:
        warm.process.prompt("Wait")
        await eventually(lambda: model.requests, "the request to the model")
        warm.process.interrupt()
        assert (await warm.ended()).interrupted

        warm.process.prompt("Write it")
        await warm.asked()
        warm.process.interrupt()
        assert (await warm.ended()).interrupted
        assert (await warm.turn("Hello?")).ok
        assert words(warm.received) == ["Here I am."]
    assert not new.exists()


@pytest.mark.slow
async def test_modes(project: Path, model: GeminiStub) -> None:
    """The session starts in one mode, and another is set between two prompts."""
    new = project / "new.txt"
    model.will_say(write_file(new, "new\n"), text("Done."), write_file(new, "newer\n"), text("Pity."))
    async with session(gemini.agent(model), project, Options(permission_mode="acceptEdits")) as warm:
        assert (await warm.turn("Write it")).ok
        assert new.read_text() == "new\n"
        await warm.process.set_mode("default")
        warm.process.prompt("Write it")
        warm.process.answer((await warm.asked()).question_id, Decision(allow=False))
        assert (await warm.ended()).ok
        assert new.read_text() == "new\n"
        assert "[MODE_UPDATE] default" in words(warm.received), "Gemini CLI reports the mode in its text"


@pytest.mark.slow
async def test_a_missing_login(project: Path, model: GeminiStub) -> None:
    """Gemini CLI is not logged in, because it has no API key."""
    environment = gemini_rig.environment(model)
    del environment["GEMINI_API_KEY"]
    agent = Gemini(gemini.agent(model)._command[0], environment)
    async with session(agent, project) as warm:
        done = await warm.turn("Hello")
        assert (done.ok, done.code) == (False, "AGENT_NOT_LOGGED_IN")
        assert "Gemini API key is missing" in (done.error or "")


@pytest.mark.slow
async def test_a_lost_conversation(project: Path, model: GeminiStub) -> None:
    """The conversation to resume no longer exists."""
    gone = "00000000-0000-4000-8000-000000000000"
    async with session(gemini.agent(model), project, session_id=gone, resume=True) as warm:
        done = await warm.turn("Hello")
        assert (done.ok, done.code) == (False, "SESSION_NOT_FOUND")


@pytest.mark.slow
async def test_a_resumed_conversation(project: Path, model: GeminiStub) -> None:
    """A new process resumes the conversation in the minute in which the conversation began. Replayed messages are not
    passed on again.
    """
    model.will_say(text("I am Ada."), text("Ada, as I said."))
    async with session(gemini.agent(model), project) as first:
        assert (await first.turn("Who are you?")).ok
        [known] = first.received.all(SessionIdentified)
    async with session(gemini.agent(model), project, session_id=known.session_id, resume=True) as second:
        assert (await second.turn("Who?")).ok
        assert words(second.received) == ["Ada, as I said."]
    assert "I am Ada." in json.dumps(model.requests[-1].body["contents"])


async def test_a_stored_file_is_read_without_a_question(project: Path, model: GeminiStub) -> None:
    files = project.parent / "data" / "files"
    (files / "file_1").mkdir(parents=True)
    (stored := files / "file_1" / "report.txt").write_text("the stored words\n")
    model.will_say(function_call("read_file", file_path=str(stored)), text("Done."))
    async with session(gemini.agent(model), project, files=str(files)) as warm:
        warm.process.prompt("Look", (Attachment("application/zip", b"\xff", "report.txt", path=str(stored)),))
        assert (await warm.ended()).ok
        assert warm.received.all(Question) == []
    assert f"Attached file: {stored} (1 kB)" in model.requests[0].new_text
    assert "the stored words" in json.dumps(model.requests[-1].body["contents"])


async def test_a_path_with_a_comma_is_refused(project: Path, model: GeminiStub) -> None:
    launch = Launch(str(project), "", options=Options(add_dirs=("/a,b",)))
    with pytest.raises(AgentUnusable, match="does not accept paths that contain a comma"):
        await gemini.agent(model).start(launch, lambda event: None)


def test_without_its_directory_no_conversations_are_listed(project: Path, model: GeminiStub) -> None:
    shutil.rmtree(Path(os.environ["HOME"]) / ".gemini")
    assert gemini.agent(model).sessions.listed(project, 10) == []
