"""The real ``claude`` CLI as the server's agent, with a stand-in for its model.

``DRAWBRIDGE_TEST_RECORD=tests/transcripts/server pytest tests/server/agents/test_real_claude.py`` records the named
sessions anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest
from msgspec import Raw

from drawbridge.server.agents.claude_agent import Claude
from drawbridge.server.agents.port import (
    AgentRefused,
    Attachment,
    Decision,
    Exited,
    Line,
    Options,
    Question,
    QuestionGone,
    SessionKnown,
    TurnEnded,
)
from tests import programs
from tests.e2e import claude_rig
from tests.e2e.messages_stub import HOLD, MessagesStub, edit, failure, read, text, tool_use, write
from tests.waiting import until

from .recording import RECORD_INTO, Recorder
from .rig import Session, lives, session

PATIENCE = 20.0
"""The CLI needs a quarter of a second to start, and many times that where many do."""

POEM = "one\ntwo\nthree\n"


Test = TypeVar("Test", bound=Callable[..., Any])
NAMED: dict[Callable[..., Any], tuple[str, str]] = {}


def recorded(name: str, what: str) -> Callable[[Test], Test]:
    """What happens in this test is to be kept as a transcript: its name, and a sentence about it."""

    def remember(test: Test) -> Test:
        NAMED[test] = (name, what)
        return test

    return remember


@pytest.fixture
def project(home: Path) -> Path:
    path = home / "project"
    path.mkdir()
    (path / "poem.txt").write_text(POEM)
    claude_rig.prepare_home(path)
    return path


@pytest.fixture
def model() -> Iterator[MessagesStub]:
    with MessagesStub() as stub:
        yield stub


@pytest.fixture
def claude(model: MessagesStub, project: Path) -> Claude:
    return agent(model)


def agent(model: MessagesStub, **variables: str) -> Claude:
    environment = claude_rig.environment(model) | {"CLAUDE_CODE_MAX_RETRIES": "0"} | variables
    return Claude(str(programs.claude()), {name: value for name, value in environment.items() if value})


@pytest.fixture
async def warm(claude: Claude, project: Path) -> AsyncIterator[Session]:
    """A new conversation."""
    async with session(claude, project) as started:
        yield started


@pytest.fixture(autouse=True)
async def _recorded(
    request: pytest.FixtureRequest, project: Path, claude: Claude, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[None]:
    """What a test named with ``recorded`` is written down where that is wanted."""
    name, what = NAMED.get(request.function, (None, ""))
    if RECORD_INTO is None or name is None:
        yield
        return
    recorder = Recorder(project, monkeypatch)
    yield
    recorder.write(name, what, await claude.probe())


async def ended(claude: Session) -> TurnEnded:
    return await claude.heard.next(TurnEnded, PATIENCE)


async def turn(claude: Session, words: str) -> TurnEnded:
    return await claude.turn(words, PATIENCE)


async def asked(claude: Session) -> Question:
    return await claude.heard.next(Question, PATIENCE)


def changed(question: Question, **fields: Any) -> Decision:
    """Yes, but with these fields of the input."""
    given = json.loads(bytes(question.input)) | fields
    return Decision(allow=True, updated_input=Raw(json.dumps(given).encode()))


# Prompts.


async def test_its_version_is_known(claude: Claude) -> None:
    assert tuple(map(int, (await claude.probe()).split("."))) >= (2, 0, 0)


@recorded("prompt", "One prompt, one answer.")
async def test_a_prompt_is_answered(warm: Session, model: MessagesStub) -> None:
    model.will_say(text("Hello there."))

    done = await turn(warm, "Say hello")

    assert (done.ok, done.session_id, done.error) == (True, warm.id, None)
    assert done.cost_usd is not None
    assert done.cost_usd > 0
    assert warm.heard.words == "Hello there."
    assert warm.heard.all(SessionKnown) == [SessionKnown(warm.id)]
    assert "Say hello" in model.requests[0].told


@recorded("streaming", "Partial messages.")
async def test_partial_text_comes_first_and_is_not_for_the_history(
    claude: Claude, project: Path, model: MessagesStub
) -> None:
    model.will_say([text("Hello"), HOLD, text("there")])
    async with session(claude, project, Options(partial_messages=True)) as warm:
        warm.process.prompt("Say hello")
        async with asyncio.timeout(PATIENCE):
            while b'"text_delta"' not in (line := await warm.heard.next(Line, PATIENCE)).data:
                pass
        assert not line.durable
        assert warm.heard.all(TurnEnded) == []
        model.go_on()
        assert (await ended(warm)).ok

    lines = {
        (message["type"], line.durable) for message, line in zip(warm.heard.messages, warm.heard.all(Line), strict=True)
    }
    assert {("stream_event", False), ("assistant", True), ("result", True)} <= lines
    assert ("stream_event", True) not in lines


@recorded("two-prompts", "Two prompts in one process.")
async def test_a_warm_process_takes_the_next_prompt(warm: Session, model: MessagesStub) -> None:
    model.will_say(text("One."), text("Two."))
    first, second = await turn(warm, "First"), await turn(warm, "Second")
    assert (first.ok, second.ok) == (True, True)
    assert first.cost_usd == second.cost_usd
    assert warm.heard.words == "One.\nTwo."
    assert "One." in json.dumps(model.requests[1].body["messages"])


async def test_a_prompt_of_200_kb_arrives_whole(warm: Session, model: MessagesStub) -> None:
    words = "".join(f"{number} und weiter äöü\n" for number in range(11_000))
    assert len(words) > 200_000
    assert (await turn(warm, words)).ok
    assert words.strip() in model.requests[0].told


async def test_a_prompt_is_text_whatever_it_looks_like(warm: Session, model: MessagesStub) -> None:
    prompts = ["--version", "-p", '"; rm -rf / #', "one\n\ntwo\r\n\t'three'", "{}", '{"type":"user"}', "$(id) `id` \\n"]
    for number, words in enumerate([*prompts, "\u2028 \x07 😀"]):
        assert (await turn(warm, words)).ok
        assert words.strip() in model.requests[number].told


async def test_pictures_and_texts_go_with_a_prompt(warm: Session, model: MessagesStub) -> None:
    picture = bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d4944415478da6364f8cf500f0003860180"
        "5a347d6b0000000049454e44ae426082"
    )
    attachments = (Attachment("image/png", picture, "a.png"), Attachment("text/plain", b"a secret", "a.txt"))
    warm.process.prompt("Look at these", attachments)
    assert (await ended(warm)).ok
    content = json.dumps(model.requests[0].body["messages"])
    assert '"image/png"' in content
    assert "a secret" in content


# Conversations.


@recorded("resume", "A conversation that goes on in another process.")
async def test_a_conversation_goes_on_in_a_new_process(claude: Claude, project: Path, model: MessagesStub) -> None:
    model.will_say(text("I am Ada."), text("Ada, as I said."))
    async with session(claude, project) as first:
        paid = await turn(first, "Who are you?")
        await first.process.stop()
        assert first.heard.events[-1] == Exited(0, "")

    async with session(claude, project, session_id=first.id, resume=True) as second:
        done = await turn(second, "Who?")

    assert (done.ok, done.session_id, done.cost_usd) == (True, first.id, paid.cost_usd)
    assert "I am Ada." in json.dumps(model.requests[1].body["messages"])


async def test_a_fork_knows_what_was_said_and_has_the_id_that_it_was_given(
    claude: Claude, project: Path, model: MessagesStub
) -> None:
    model.will_say(text("I am Ada."), text("Ada, as I said."))
    async with session(claude, project) as first:
        paid = await turn(first, "Who are you?")
    async with session(claude, project, fork_from=first.id) as fork:
        done = await turn(fork, "Who?")
    assert (done.ok, done.session_id, done.cost_usd) == (True, fork.id, paid.cost_usd)
    assert fork.id != first.id
    assert "I am Ada." in json.dumps(model.requests[1].body["messages"])


async def test_after_a_kill_in_mid_sentence_the_conversation_goes_on(
    claude: Claude, project: Path, model: MessagesStub
) -> None:
    model.will_say(text("I am Ada."), [text("Again"), HOLD], text("Ada, as I said."))
    async with session(claude, project) as first:
        await turn(first, "Who are you?")
        first.process.prompt("Again")
        await asyncio.to_thread(model.wait_for_request, 2)
        os.kill(first.process.pid, signal.SIGKILL)
        assert not (await ended(first)).ok
    async with session(claude, project, session_id=first.id, resume=True) as second:
        assert (await turn(second, "Who?")).ok
    assert "I am Ada." in json.dumps(model.requests[-1].body["messages"])


@recorded("bad-session", "A conversation that does not exist.")
async def test_a_conversation_that_does_not_exist_is_said_to(claude: Claude, project: Path) -> None:
    id = str(uuid.uuid4())
    async with session(claude, project, session_id=id, resume=True) as lost:
        done = await turn(lost, "Who?")
        assert (done.ok, done.code) == (False, "SESSION_NOT_FOUND")
        assert done.error is not None
        assert f"No conversation found with session ID: {id}" in done.error
        assert (await lost.heard.next(Exited, PATIENCE)).code == 1
    assert lost.heard.all(SessionKnown) == []


async def test_a_conversation_that_does_not_exist_is_said_to_a_late_prompt_too(claude: Claude, project: Path) -> None:
    async with session(claude, project, session_id=str(uuid.uuid4()), resume=True) as lost:
        await lost.heard.next(Line, PATIENCE)
        lost.process.prompt("Who?")
        assert (await ended(lost)).code == "SESSION_NOT_FOUND"


@recorded("clear", "A prompt that begins a new conversation.")
async def test_a_conversation_that_is_cleared_has_another_id(warm: Session, model: MessagesStub) -> None:
    model.will_say(text("One."), text("Two."))
    first = await turn(warm, "First")

    cleared = await turn(warm, "/clear")

    second = await turn(warm, "Second")
    known = [event.session_id for event in warm.heard.all(SessionKnown)]
    assert known[0] == warm.id
    assert len(set(known)) == 2
    assert cleared.session_id == second.session_id == known[1]
    assert (cleared.cost_usd, second.cost_usd) == (0, first.cost_usd)


# Questions.


@recorded("allow", "An Edit, allowed.")
async def test_allowed_it_writes_what_was_shown(warm: Session, model: MessagesStub, project: Path) -> None:
    poem = project / "poem.txt"
    model.will_say(read(poem), edit(poem, "two", "2"), text("Done."))
    warm.process.prompt("Change it")

    question = await asked(warm)
    assert question.tool_name == "Edit"
    assert question.proposal is not None
    assert (question.proposal.path, question.proposal.old_text) == (str(poem), POEM)
    assert poem.read_text() == POEM
    warm.process.answer(question.question_id, Decision(allow=True))

    assert (await ended(warm)).ok
    assert poem.read_text() == question.proposal.new_text == "one\n2\nthree\n"


@recorded("deny", "An Edit, denied.")
async def test_denied_it_writes_nothing_and_hears_why(warm: Session, model: MessagesStub, project: Path) -> None:
    poem = project / "poem.txt"
    model.will_say(read(poem), edit(poem, "two", "2"), text("I see."))
    warm.process.prompt("Change it")

    question = await asked(warm)
    warm.process.answer(question.question_id, Decision(allow=False, message="Leave it."))
    warm.process.answer(question.question_id, Decision(allow=True))

    assert (await ended(warm)).ok
    assert poem.read_text() == POEM
    assert model.requests[-1].tool_results == ["Leave it."]


@recorded("allow-edited", "An Edit, allowed with another text: the whole file as old and new.")
async def test_allowed_with_changes_it_writes_those(warm: Session, model: MessagesStub, project: Path) -> None:
    poem = project / "poem.txt"
    model.will_say(read(poem), edit(poem, "two", "2"), text("I see."))
    warm.process.prompt("Change it")
    question = await asked(warm)

    warm.process.answer(question.question_id, changed(question, old_string=POEM, new_string="all mine\n"))

    assert (await ended(warm)).ok
    assert poem.read_text() == "all mine\n"


NOTEBOOK = {
    "cells": [
        {
            "cell_type": "code",
            "id": "c1",
            "metadata": {},
            "outputs": [],
            "execution_count": 1,
            "source": ["a = 1.5\n", "b"],
        },
        {"cell_type": "markdown", "id": "m1", "metadata": {}, "source": "# Ä"},
    ],
    "metadata": {"kernelspec": {"name": "python3", "language": "python"}, "empty": {}},
    "nbformat": 4,
    "nbformat_minor": 5,
}


def cell(path: Path, **fields: Any) -> dict[str, Any]:
    return tool_use("NotebookEdit", notebook_path=str(path), **fields)


async def test_what_is_shown_is_what_is_written(warm: Session, model: MessagesStub, project: Path) -> None:
    crlf, lf, new, notebook = (project / name for name in ("crlf.txt", "lf.txt", "new.txt", "n.ipynb"))
    crlf.write_bytes(b"one\r\ntwo\r\nthree\r\n")
    lf.write_bytes(b"one\ntwo\none\n\xc3\xa4")
    notebook.write_text(json.dumps(NOTEBOOK) + "\n")
    calls = [
        (crlf, edit(crlf, "two", "2\n2b")),
        (crlf, edit(crlf, "one\n", "")),
        (lf, edit(lf, "two", "")),
        (lf, tool_use("Edit", file_path=str(lf), old_string="one", new_string="1", replace_all=True)),
        (new, tool_use("Edit", file_path=str(new), old_string="", new_string="fresh\n")),
        (new, write(new, "again\nand again")),
        (crlf, write(crlf, "now\nwithout\n")),
        (notebook, cell(notebook, cell_id="c1", new_source="a = 2")),
        (notebook, cell(notebook, cell_id="cell-1", new_source="x", cell_type="code")),
        (notebook, cell(notebook, cell_id="c1", new_source="", edit_mode="delete")),
    ]
    for file, call in calls:
        model.will_say(read(file), call, text("Done."))
        warm.process.prompt("Change it")
        question = await asked(warm)
        assert question.proposal is not None, call
        assert question.proposal.old_text.encode() == (file.read_bytes() if file.exists() else b"")

        warm.process.answer(question.question_id, Decision(allow=True))

        assert (await ended(warm)).ok
        assert file.read_bytes() == question.proposal.new_text.encode(), call


async def test_a_question_that_is_remembered_is_not_asked_again(warm: Session, model: MessagesStub) -> None:
    call = tool_use("Bash", command="touch a", description="d")
    model.will_say(call, text("Done."), tool_use("Bash", command="touch a", description="d"), text("Done."))
    warm.process.prompt("Touch it")
    question = await asked(warm)
    assert {rule["type"] for rule in json.loads(bytes(question.suggestions))} >= {"addRules", "setMode"}
    warm.process.answer(question.question_id, Decision(allow=True, remember=True))
    await ended(warm)

    assert (await turn(warm, "Touch it again")).ok

    assert len(warm.heard.all(Question)) == 1
    assert {message["permissionMode"] for message in warm.heard.messages if message.get("subtype") == "init"} == {
        "default"
    }


@recorded("ask-user", "AskUserQuestion, answered.")
async def test_a_question_with_choices_is_answered(warm: Session, model: MessagesStub) -> None:
    options = [{"label": "Red", "description": "r"}, {"label": "Blue", "description": "b"}]
    questions = [{"question": "Which colour?", "header": "Colour", "multiSelect": False, "options": options}]
    model.will_say(tool_use("AskUserQuestion", questions=questions), text("Red it is."))
    warm.process.prompt("Paint it")

    question = await asked(warm)
    assert question.tool_name == "AskUserQuestion"
    warm.process.answer(question.question_id, changed(question, answers={"Which colour?": "Red"}))

    assert (await ended(warm)).ok
    assert '"Which colour?"="Red"' in model.requests[-1].tool_results[0]


# Interrupt and kill.


@recorded("interrupt", "An interrupt in the middle of an answer, and another prompt.")
async def test_an_interrupt_keeps_what_was_said_and_the_process(warm: Session, model: MessagesStub) -> None:
    model.will_say([text("To begin with"), HOLD], text("Yes?"))
    warm.process.prompt("Tell me everything")
    await until(lambda: warm.heard.words == "To begin with")

    warm.process.interrupt()

    done = await ended(warm)
    assert (done.ok, done.interrupted) == (False, True)
    assert (await turn(warm, "And now?")).ok
    assert warm.heard.words == "To begin with\nYes?"


@recorded("interrupt-question", "An interrupt while a person is asked.")
async def test_an_interrupt_takes_a_question_back(warm: Session, model: MessagesStub, project: Path) -> None:
    model.will_say(tool_use("Bash", command="touch a", description="d"))
    warm.process.prompt("Touch it")
    question = await asked(warm)

    warm.process.interrupt()

    assert (await ended(warm)).interrupted
    assert warm.heard.all(QuestionGone) == [QuestionGone(question.question_id, "interrupted")]
    warm.process.answer(question.question_id, Decision(allow=True))
    assert (await turn(warm, "Go on")).ok
    assert not (project / "a").exists()


async def test_an_interrupt_right_behind_the_prompt_is_heard(warm: Session, model: MessagesStub) -> None:
    model.will_say([text("To begin with"), HOLD])
    warm.process.prompt("Tell me everything")
    warm.process.interrupt()
    assert (await ended(warm)).interrupted


@pytest.mark.parametrize("how", ["kill", "SIGKILL"])
async def test_nothing_runs_on_after_the_end(warm: Session, model: MessagesStub, how: str) -> None:
    """The CLI runs its commands in sessions of their own, and does not end them when it is killed."""
    model.will_say(tool_use("Bash", command="touch log; tail -f log", description="d"))
    warm.process.prompt("Watch it")
    question = await asked(warm)
    warm.process.answer(question.question_id, Decision(allow=True))
    command = await command_of(warm)

    if how == "kill":
        await warm.process.kill()
    else:
        os.kill(warm.process.pid, signal.SIGKILL)
        await warm.heard.next(Exited, PATIENCE)

    assert not lives(command)
    assert not lives(warm.process.pid)
    assert [done.ok for done in warm.heard.all(TurnEnded)] == [False]


async def command_of(claude: Session) -> int:
    """The ``tail`` that runs."""
    found: list[int] = []

    def running() -> bool:
        with contextlib.suppress(psutil.Error):
            children = psutil.Process(claude.process.pid).children(recursive=True)
            found[:] = [child.pid for child in children if child.name() == "tail"]
        return bool(found)

    await until(running, "the command")
    return found[0]


async def test_an_idle_process_leaves_quickly(warm: Session) -> None:
    await turn(warm, "Hello")
    began = time.monotonic()
    await warm.process.stop()
    assert time.monotonic() - began < 2
    assert warm.heard.events[-1] == Exited(0, "")


# Turns of its own.


@recorded("own-turn", "A command in the background: when it ends, the CLI begins a turn, and a prompt comes meanwhile.")
async def test_a_prompt_during_a_turn_of_its_own_is_answered_once(warm: Session, model: MessagesStub) -> None:
    background = tool_use("Bash", command="sleep 0.3; seq 3", description="d", run_in_background=True)
    model.will_say(background, text("Started."), [text("It has ended"), HOLD, text("with 3")], text("Second answer."))
    assert (await turn(warm, "Start it")).ok
    assert warm.process.busy
    await until(lambda: "It has ended" in warm.heard.words)

    warm.process.prompt("Second")
    model.go_on()

    assert (await ended(warm)).ok
    assert warm.heard.words.endswith("Second answer.")
    assert len(warm.heard.all(TurnEnded)) == 2
    assert not warm.process.busy


async def test_a_prompt_that_its_own_turn_takes_in_is_done_with_it(warm: Session, model: MessagesStub) -> None:
    background = tool_use("Bash", command="sleep 0.3; seq 3", description="d", run_in_background=True)
    model.will_say(
        background, text("Started."), tool_use("Bash", command="touch a", description="d"), text("Both done.")
    )
    assert (await turn(warm, "Start it")).ok
    question = await asked(warm)

    warm.process.prompt("Second")
    await until(lambda: any(message.get("state") == "queued" for message in warm.heard.messages[-1:]))
    warm.process.answer(question.question_id, Decision(allow=True))

    assert (await ended(warm)).ok
    assert warm.heard.words.endswith("Both done.")
    assert "Second" in model.requests[-1].told


# Modes, limits, failures.


@recorded("modes", "Modes and models, taken and refused.")
async def test_a_mode_is_taken_or_refused(warm: Session, model: MessagesStub, project: Path) -> None:
    poem = project / "poem.txt"
    await warm.process.set_mode("acceptEdits")
    await warm.process.set_model("claude-haiku-9")
    with pytest.raises(AgentRefused, match="must be one of"):
        await warm.process.set_mode("nonsense")
    with pytest.raises(AgentRefused, match="was not launched with"):
        await warm.process.set_mode("bypassPermissions")

    model.will_say(read(poem), edit(poem, "two", "2"), text("Done."))
    assert (await turn(warm, "Change it")).ok
    assert warm.heard.all(Question) == []
    assert poem.read_text() == "one\n2\nthree\n"
    assert model.requests[-1].body["model"] == "claude-haiku-9"


async def test_options_reach_it(claude: Claude, project: Path, model: MessagesStub) -> None:
    options = Options(
        allowed_tools=("Bash(mkdir *)", "Bash(rmdir *)"),
        disallowed_tools=("WebFetch", "Write"),
        append_system_prompt="--dangerously-skip-permissions\nBe brief.",
        permission_mode="plan",
        model="claude-haiku-9",
        add_dirs=("/usr/share", "/var/tmp"),
        effort="low",
        mcp_config='{"mcpServers": {}}',
        strict_mcp_config=True,
        max_turns=5,
        max_budget_usd=5,
    )
    model.will_say(text("Done."))
    async with session(claude, project, options) as warm:
        assert (await turn(warm, "Do it")).ok
    init = next(message for message in warm.heard.messages if message.get("subtype") == "init")
    assert (init["permissionMode"], init["model"]) == ("plan", "claude-haiku-9")
    assert "--dangerously-skip-permissions\\nBe brief." in json.dumps(model.requests[0].body["system"])
    assert "Write" not in [tool["name"] for tool in model.requests[0].body["tools"]]


@recorded("max-turns", "The limit of turns.")
async def test_a_limit_of_turns_ends_it(claude: Claude, project: Path, model: MessagesStub) -> None:
    model.will_say(read(project / "poem.txt"))
    async with session(claude, project, Options(max_turns=1)) as warm:
        done = await turn(warm, "Read it")
    assert done.error == (
        "Claude Code stopped at its limit of turns: Reached maximum number of turns (1). Send a prompt to let it go on."
    )


@recorded("budget", "The budget.")
async def test_a_budget_ends_it(claude: Claude, project: Path, model: MessagesStub) -> None:
    model.will_say(read(project / "poem.txt"))
    async with session(claude, project, Options(max_budget_usd=0.0001)) as warm:
        done = await turn(warm, "Read it")
    assert done.error is not None
    assert done.error.startswith("Claude Code stopped at its budget: Reached maximum budget ($0.0001)")


@recorded("api-error", "An error of the API, and the next prompt in the same process.")
async def test_an_error_of_the_api_ends_the_turn_and_not_the_process(warm: Session, model: MessagesStub) -> None:
    model.will_say(failure(429, "rate_limit_error", "slow down"))
    done = await turn(warm, "Hello")
    assert (done.ok, done.code) == (False, "EXECUTION_FAILED")
    assert done.error is not None
    assert "slow down" in done.error

    model.will_say(text("Here I am."))
    assert (await turn(warm, "Hello?")).ok


@recorded("not-logged-in", "No login.")
async def test_a_missing_login_is_named(project: Path, model: MessagesStub) -> None:
    async with session(agent(model, ANTHROPIC_API_KEY=""), project) as warm:
        done = await turn(warm, "Hello")
    assert done.code == "AGENT_NOT_LOGGED_IN"
    assert done.error is not None
    assert done.error.startswith("Claude Code has no valid login on the server's machine: Not logged in")
    assert model.requests == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (Options(permission_mode="nonsense"), "argument 'nonsense' is invalid"),
        (Options(mcp_config="/no/such/file"), "MCP config file not found"),
    ],
)
async def test_an_option_that_it_refuses_is_explained(
    claude: Claude, project: Path, options: Options, words: str
) -> None:
    async with session(claude, project, options) as warm:
        done = await turn(warm, "Hello")
        assert (await warm.heard.next(Exited, PATIENCE)).code == 1
    assert done.error is not None
    assert words in done.error


async def test_an_id_that_is_taken_is_explained(claude: Claude, project: Path, warm: Session) -> None:
    await turn(warm, "Hello")
    async with session(claude, project, session_id=warm.id) as second:
        done = await turn(second, "Hello")
    assert done.error is not None
    assert "is already in use" in done.error
