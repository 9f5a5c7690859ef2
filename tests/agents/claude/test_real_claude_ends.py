"""The real ``claude`` CLI as the server's agent: interrupts, ends, refusals, and turns that it begins on its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest

from drawbridge.agents.base import (
    AgentRefused,
    Decision,
    Exited,
    ModeChanged,
    Options,
    Question,
    QuestionCancelled,
    TurnEnded,
)
from drawbridge.agents.claude.driver import Claude
from tests import programs
from tests.agents.rig import Session, eventually, lives, session
from tests.rigs import claude_rig
from tests.rigs.messages_stub import HOLD, Block, MessagesStub, edit, failure, read, text, tool_use

from .recording import recorded

# Interrupt and kill.


@recorded("interrupt", "An interrupt in the middle of an answer, and another prompt.")
async def test_an_interrupt_keeps_the_text_and_the_process(warm: Session, model: MessagesStub) -> None:
    model.will_say([text("To begin with"), HOLD], text("Yes?"))
    warm.process.prompt("Tell me everything")
    await eventually(lambda: warm.received.words == "To begin with", "the beginning")

    warm.process.interrupt()

    done = await warm.ended()
    assert (done.ok, done.interrupted) == (False, True)
    assert (await warm.turn("And now?")).ok
    assert warm.received.words == "To begin with\nYes?"


@recorded("interrupt-question", "An interrupt while the agent waits for an answer.")
async def test_an_interrupt_withdraws_a_question(warm: Session, model: MessagesStub, project: Path) -> None:
    model.will_say(tool_use("Bash", command="touch a", description="d"))
    warm.process.prompt("Touch it")
    question = await warm.asked()

    warm.process.interrupt()

    assert (await warm.ended()).interrupted
    assert warm.received.all(QuestionCancelled) == [QuestionCancelled(question.question_id, "the run was interrupted")]
    warm.process.answer(question.question_id, Decision(allow=True))
    assert (await warm.turn("Go on")).ok
    assert not (project / "a").exists()


async def test_an_interrupt_right_after_the_prompt_works(warm: Session, model: MessagesStub) -> None:
    model.will_say([text("To begin with"), HOLD])
    warm.process.prompt("Tell me everything")
    warm.process.interrupt()
    assert (await warm.ended()).interrupted


@pytest.mark.parametrize("how", ["kill", "SIGKILL"])
async def test_no_process_remains_after_the_end(warm: Session, model: MessagesStub, how: str) -> None:
    """The CLI runs its commands in separate process sessions and does not end them when it is killed."""
    model.will_say(tool_use("Bash", command="touch log; tail -f log", description="d"))
    warm.process.prompt("Watch it")
    question = await warm.asked()
    warm.process.answer(question.question_id, Decision(allow=True))
    command = await command_of(warm.process.pid)

    if how == "kill":
        await warm.process.kill()
    else:
        os.kill(warm.process.pid, signal.SIGKILL)
        await warm.received.next(Exited)

    assert not lives(command)
    assert not lives(warm.process.pid)
    assert [done.ok for done in warm.received.all(TurnEnded)] == [False]


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="a process is not notified of its parent's death there")
async def test_killing_the_server_ends_the_agent_and_its_commands(project: Path, model: MessagesStub) -> None:
    model.will_say(tool_use("Bash", command="touch log; tail -f log", description="d"))
    server = await asyncio.create_subprocess_exec(
        sys.executable,
        str(Path(__file__).parents[1] / "server_to_kill.py"),
        "Watch it",
        str(project),
        str(programs.claude()),
        env=claude_rig.environment(model),
        stdout=asyncio.subprocess.PIPE,
    )
    assert server.stdout is not None
    pid = int(await server.stdout.readline())
    command = await command_of(pid)

    server.kill()
    await server.communicate()

    await eventually(lambda: not lives(pid) and not lives(command), "the end of both")


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="a process is not notified of its parent's death there")
async def test_a_waiting_agent_does_not_continue_without_its_server(project: Path, model: MessagesStub) -> None:
    """The CLI would treat the end of its input as a denial and ask its model how to continue."""
    model.will_say(tool_use("Bash", command="touch log", description="d"), text("Then without."))
    server = await asyncio.create_subprocess_exec(
        sys.executable,
        str(Path(__file__).parents[1] / "server_to_kill.py"),
        "Touch it",
        str(project),
        str(programs.claude()),
        "unanswered",
        env=claude_rig.environment(model),
        stdout=asyncio.subprocess.PIPE,
    )
    assert server.stdout is not None
    pid = int(await server.stdout.readline())

    server.kill()
    await server.communicate()

    await eventually(lambda: not lives(pid), "its end")
    assert len(model.requests) == 1
    assert not (project / "log").exists()


async def command_of(claude: int) -> int:
    """Waits until the CLI runs ``tail`` and returns the process id of the ``tail``."""
    found: list[int] = []

    def running() -> bool:
        with contextlib.suppress(psutil.Error):
            children = psutil.Process(claude).children(recursive=True)
            found[:] = [child.pid for child in children if child.name() == "tail"]
        return bool(found)

    await eventually(running, "the command")
    return found[0]


@pytest.mark.thorough
async def test_an_idle_process_exits_without_a_signal(warm: Session) -> None:
    await warm.turn("Hello")
    await warm.process.stop()
    assert warm.received.events[-1] == Exited(0, ""), "a slow process is ended by a signal"


# Turns that it begins on its own.

UNTIL_LATER = "until [ -e later ]; do sleep 0.05; done; seq 3"
"""A command that ends after a test has created the file ``later``. A command that ended during the first turn would not
cause a second one."""


@recorded("own-turn", "A background command ends, the CLI begins a turn on its own, and a prompt is sent during it.")
async def test_a_prompt_during_the_agents_own_turn_is_answered_once(
    warm: Session, model: MessagesStub, project: Path
) -> None:
    background = tool_use("Bash", command=UNTIL_LATER, description="d", run_in_background=True)
    model.will_say(background, text("Started."), [text("It has ended"), HOLD, text("with 3")], text("Second answer."))
    assert (await warm.turn("Start it")).ok
    assert warm.process.busy
    (project / "later").touch()
    await eventually(lambda: "It has ended" in warm.received.words, "its own turn")

    warm.process.prompt("Second")
    model.go_on()

    assert (await warm.ended()).ok
    assert warm.received.words.endswith("Second answer.")
    assert len(warm.received.all(TurnEnded)) == 2
    assert not warm.process.busy


async def test_a_prompt_can_be_answered_in_the_agents_own_turn(
    warm: Session, model: MessagesStub, project: Path
) -> None:
    background = tool_use("Bash", command=UNTIL_LATER, description="d", run_in_background=True)
    model.will_say(
        background, text("Started."), tool_use("Bash", command="touch a", description="d"), text("Both done.")
    )
    assert (await warm.turn("Start it")).ok
    (project / "later").touch()
    question = await warm.asked()

    warm.process.prompt("Second")
    await eventually(lambda: warm.received.messages[-1].get("state") == "queued", "the prompt in its queue")
    warm.process.answer(question.question_id, Decision(allow=True))

    assert (await warm.ended()).ok
    assert warm.received.words.endswith("Both done.")
    assert "Second" in model.requests[-1].new_text


# Modes, limits, failures.


@recorded("modes", "Modes and models are set, and invalid ones are refused.")
async def test_a_mode_is_accepted_or_refused(warm: Session, model: MessagesStub, project: Path) -> None:
    poem = project / "poem.txt"
    await warm.process.set_mode("acceptEdits")
    await warm.process.set_model("claude-haiku-9")
    with pytest.raises(AgentRefused, match="must be one of"):
        await warm.process.set_mode("nonsense")
    with pytest.raises(AgentRefused, match="was not launched with"):
        await warm.process.set_mode("bypassPermissions")

    model.will_say(read(poem), edit(poem, "two", "2"), text("Done."))
    assert (await warm.turn("Change it")).ok
    assert warm.received.all(Question) == []
    assert warm.received.all(ModeChanged)[-1] == ModeChanged("acceptEdits")
    assert poem.read_text() == "one\n2\nthree\n"
    assert model.requests[-1].body["model"] == "claude-haiku-9"


async def test_options_take_effect(claude: Claude, project: Path, model: MessagesStub) -> None:
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
        assert (await warm.turn("Do it")).ok
    init = next(message for message in warm.received.messages if message.get("subtype") == "init")
    assert (init["permissionMode"], init["model"]) == ("plan", "claude-haiku-9")
    assert "--dangerously-skip-permissions\\nBe brief." in json.dumps(model.requests[0].body["system"])
    assert "Write" not in [tool["name"] for tool in model.requests[0].body["tools"]]


@recorded("max-turns", "A turn limit ends the prompt.")
@pytest.mark.thorough
async def test_a_turn_limit_ends_the_prompt(claude: Claude, project: Path, model: MessagesStub) -> None:
    model.will_say(read(project / "poem.txt"))
    async with session(claude, project, Options(max_turns=1)) as warm:
        done = await warm.turn("Read it")
    assert done.error == ("Claude Code stopped: Reached maximum number of turns (1). Send a prompt to continue.")


@recorded("budget", "A budget ends the prompt.")
async def test_a_budget_ends_the_prompt(claude: Claude, project: Path, model: MessagesStub) -> None:
    model.will_say(read(project / "poem.txt"))
    async with session(claude, project, Options(max_budget_usd=0.0001)) as warm:
        done = await warm.turn("Read it")
    assert done.error is not None
    assert done.error.startswith("Claude Code stopped: Reached maximum budget ($0.0001)")


@pytest.mark.thorough
async def test_a_resumed_conversation_starts_with_a_full_budget(
    claude: Claude, project: Path, model: MessagesStub
) -> None:
    """All turns of a process share a budget, but a new process starts with the full one. The server relies on both."""
    async with session(claude, project) as first:
        one = (await first.turn("Hello")).cost_usd
    assert one is not None
    options, id = Options(max_budget_usd=one * 1.5), first.id
    async with session(claude, project, options, session_id=id, resume=True) as second:
        assert [(await second.turn("Go on")).ok for _ in range(3)] == [True, False, False]
    async with session(claude, project, options, session_id=id, resume=True) as third:
        done = await third.turn("Go on")
        assert done.ok
        assert done.cost_usd == pytest.approx(one)
        model.will_say(*[read(project / "poem.txt")] * 5)
        over = await third.turn("Read it")
    assert over.error is not None
    assert over.error.startswith("Claude Code stopped: Reached maximum budget")
    assert over.cost_usd == pytest.approx(one)


@recorded("api-error", "An API error, and the next prompt in the same process.")
@pytest.mark.thorough
async def test_an_api_error_ends_the_turn_but_not_the_process(warm: Session, model: MessagesStub) -> None:
    model.will_say(failure(429, "rate_limit_error", "slow down"))
    done = await warm.turn("Hello")
    assert (done.ok, done.code) == (False, "AGENT_RATE_LIMITED")
    assert done.error is not None
    assert "slow down" in done.error

    model.will_say(text("Here I am."))
    assert (await warm.turn("Hello?")).ok


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("reply", "code", "words"),
    [
        (failure(529, "overloaded_error", "Overloaded"), "MODEL_UNAVAILABLE", "529"),
        (failure(500, "api_error", "Internal server error"), "MODEL_UNAVAILABLE", "500"),
        (
            failure(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
            "CONTEXT_TOO_LONG",
            "Prompt is too long",
        ),
    ],
)
async def test_an_api_error_has_the_code_of_its_reason(
    warm: Session, model: MessagesStub, reply: Block, code: str, words: str
) -> None:
    model.will_say(*[reply] * 8)
    done = await warm.turn("Hello")
    assert (done.ok, done.code) == (False, code)
    assert done.error is not None
    assert words in done.error


@recorded("not-logged-in", "The CLI is not logged in.")
async def test_a_missing_login_is_reported_with_its_code(claude: Claude, project: Path, model: MessagesStub) -> None:
    environment = claude_rig.environment(model)
    del environment["ANTHROPIC_API_KEY"]
    async with session(Claude(str(programs.claude()), environment), project) as warm:
        done = await warm.turn("Hello")
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
async def test_an_invalid_option_is_reported_with_the_reason(
    claude: Claude, project: Path, options: Options, words: str
) -> None:
    async with session(claude, project, options) as warm:
        done = await warm.turn("Hello")
        assert (await warm.received.next(Exited)).code == 1
    assert done.error is not None
    assert words in done.error


@pytest.mark.thorough
async def test_a_session_id_in_use_is_reported(claude: Claude, project: Path, warm: Session) -> None:
    await warm.turn("Hello")
    async with session(claude, project, session_id=warm.id) as second:
        done = await second.turn("Hello")
    assert done.error is not None
    assert "is already in use" in done.error
