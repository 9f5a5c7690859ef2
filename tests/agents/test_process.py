"""Agent processes are started, observed, and always ended, whatever they do."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
import time
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from drawbridge.agents.base import (
    AgentLine,
    AgentRefused,
    AgentUnusable,
    Decision,
    DirectoryChanged,
    Exited,
    Launch,
    ModeChanged,
    Question,
    QuestionCancelled,
    SessionIdentified,
    StateReported,
    TurnEnded,
)
from drawbridge.agents.demo import driver
from drawbridge.agents.demo.driver import Demo
from drawbridge.agents.output import LINE_LIMIT, STDERR_LIMIT
from drawbridge.agents.process import Times
from drawbridge.agents.supervisor_pipe import SupervisorPipe
from tests import programs
from tests.waiting import PATIENCE, until

from .rig import BAD_AGENT, ReceivedEvents, Session, bad_agent, eventually, lives, session

HASTE = Times(interrupt=0.2, leave=0.2, leave_idle=0.5, sigint=1.0, sigterm=0.5, pipes=0.3)
AT_ONCE = Times(interrupt=0.05, leave=0.05, leave_idle=0.1, sigint=0.1, sigterm=0.1, pipes=0.1)
"""Limits for agents that ignore every request to end."""


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[Session]:
    """A session with the misbehaving agent, which is idle and has not misbehaved yet."""
    async with session(bad_agent(), tmp_path, times=HASTE) as started:
        yield started


async def test_canceling_a_start_ends_the_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hanging = asyncio.Event()

    async def agent_pid(pipe: SupervisorPipe) -> None:
        hanging.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(SupervisorPipe, "agent_pid", agent_pid)
    received = ReceivedEvents()
    starting = asyncio.create_task(bad_agent().start(Launch(str(tmp_path), str(uuid.uuid4())), received))
    await asyncio.wait_for(hanging.wait(), PATIENCE)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert isinstance(received.events[-1], Exited)


# Ordinary use.


async def test_a_prompt_is_answered_line_by_line(agent: Session) -> None:
    ended = await agent.turn("say Hello there")

    assert ended == TurnEnded(ok=True, session_id=agent.id, cost_usd=0.0)
    assert agent.received.words == "Hello there"
    kinds = [type(event) for event in agent.received.events if not isinstance(event, StateReported)]
    assert kinds == [AgentLine, SessionIdentified, ModeChanged, DirectoryChanged, AgentLine, AgentLine, TurnEnded]


async def test_it_accepts_several_prompts_in_turn(agent: Session) -> None:
    for number in range(5):
        agent.process.prompt(f"say {number}")
        assert agent.process.busy
        await agent.received.next(TurnEnded)
    assert agent.received.words == "0\n1\n2\n3\n4"


async def test_it_works_in_the_projects_directory(agent: Session, tmp_path: Path) -> None:
    await agent.turn("say hello")
    assert agent.received.messages[0]["cwd"] == str(tmp_path)
    assert os.getsid(agent.process.pid) == agent.process.pid


@pytest.mark.parametrize("allow", [True, False])
async def test_a_question_is_answered(agent: Session, waits: list[bool], allow: bool) -> None:
    agent.process.prompt('ask Bash {"command": "make"}')
    question = await agent.received.next(Question)
    assert (question.tool_name, json.loads(bytes(question.input))) == ("Bash", {"command": "make"})

    assert waits == [True]
    agent.process.answer(question.question_id, Decision(allow, message="No."))
    assert waits == [True, False]
    agent.process.answer(question.question_id, Decision(not allow))

    assert (await agent.received.next(TurnEnded)).ok
    received = json.loads(agent.received.words)
    assert received == (
        {"behavior": "allow", "updatedInput": {"command": "make"}} if allow else received | {"message": "No."}
    )
    assert received["behavior"] == ("allow" if allow else "deny")


async def test_a_change_is_shown_and_written_as_edited(agent: Session, tmp_path: Path) -> None:
    file = tmp_path / "poem.txt"
    file.write_text("one two\n")
    agent.process.prompt("edit poem.txt two 2")
    question = await agent.received.next(Question)
    assert question.proposal is not None
    assert (question.proposal.old_text, question.proposal.new_text) == ("one two\n", "one 2\n")

    given = json.loads(bytes(question.input)) | {"new_string": "zwei"}
    agent.process.answer(question.question_id, Decision(allow=True, updated_input=given))

    await agent.received.next(TurnEnded)
    assert file.read_text() == "one zwei\n"


async def test_a_mode_is_set_or_refused(agent: Session) -> None:
    await agent.process.set_mode("plan")
    await agent.process.set_model("opus")
    with pytest.raises(AgentRefused, match=r"^There is no such mode\.$"):
        await agent.process.set_mode("nonsense")


async def test_a_mode_change_without_an_answer_times_out(agent: Session) -> None:
    agent.process.times = msgspec.structs.replace(HASTE, reply=0.3)
    agent.process.prompt("deaf")
    await agent.received.next(AgentLine)
    with pytest.raises(AgentRefused, match=r"did not answer within 0\.3 s"):
        await agent.process.set_mode("plan")


async def test_it_exits_when_it_is_stopped(agent: Session) -> None:
    await agent.turn("say hello")
    await agent.process.stop()
    assert agent.received.events[-1] == Exited(0, "")
    assert not lives(agent.process.pid)


async def test_calls_after_the_end_have_no_effect(agent: Session) -> None:
    await agent.process.stop()
    count = len(agent.received.events)

    agent.process.prompt("say hello")
    agent.process.answer("q1", Decision(allow=True))
    agent.process.interrupt()
    with pytest.raises(AgentRefused, match="has ended"):
        await agent.process.set_mode("plan")
    await agent.process.stop()
    await agent.process.kill()

    assert len(agent.received.events) == count


async def test_a_failing_listener_does_not_stop_the_stream(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    received = ReceivedEvents()

    def hear(event: object) -> None:
        if isinstance(event, AgentLine):
            raise RuntimeError("a fault of ours")
        received(event)  # type: ignore[arg-type]

    launch = Launch(str(tmp_path), str(uuid.uuid4()))
    process = await bad_agent().start(launch, hear)
    process.prompt("flood 50")  # all lines at once
    assert (await received.next(TurnEnded)).ok
    await process.stop()
    assert "a fault of ours" in caplog.text


# Misbehavior.


async def test_junk_between_the_messages_is_skipped(agent: Session) -> None:
    assert (await agent.turn("junk")).ok
    assert [message["type"] for message in agent.received.messages] == ["system", "result"]


async def test_without_stderr_the_error_contains_the_junk(agent: Session) -> None:
    ended = await agent.turn("junk-and-die")
    assert ended.error == "The bad agent exited with code 4 before it had finished: Killed by a hook"


@pytest.mark.parametrize("command", ["bad-utf8", "surrogate", "odd", "unknown"])
async def test_odd_messages_are_passed_on_as_valid_json(agent: Session, command: str) -> None:
    assert (await agent.turn(command)).ok
    for line in agent.received.all(AgentLine):
        json.loads(line.raw.decode(), parse_constant=pytest.fail)
    count = {"bad-utf8": 3, "surrogate": 3, "odd": 9, "unknown": 4}
    assert len(agent.received.all(AgentLine)) == count[command]


async def test_a_line_of_20_mb_is_passed_on_as_one_line(agent: Session) -> None:
    assert (await agent.turn("line 20000000")).ok
    assert [len(line.raw) for line in agent.received.all(AgentLine)][1] == 20_000_000 - 1


async def test_an_agent_that_writes_an_endless_line_is_ended(agent: Session) -> None:
    ended = await agent.turn("endless-line")
    assert ended.error == f"The bad agent sent a line longer than {LINE_LIMIT // 2**20} MB, and was stopped."
    assert (await agent.received.next(Exited)).code == -signal.SIGTERM


async def test_a_turn_ends_when_its_agent_exits(agent: Session) -> None:
    ended = await agent.turn("die 3")
    assert (ended.ok, ended.code) == (False, "AGENT_EXITED")
    assert ended.error == "The bad agent exited with code 3 before it had finished: Something broke."
    assert await agent.received.next(Exited) == Exited(3, "Something broke.")
    assert agent.received.words == "I was about to"


async def test_the_death_of_an_agent_cancels_its_questions(agent: Session) -> None:
    agent.process.prompt("ask-and-die")
    question = await agent.received.next(Question)
    assert await agent.received.next(QuestionCancelled) == QuestionCancelled(
        question.question_id, "The bad agent has ended"
    )
    assert not (await agent.received.next(TurnEnded)).ok
    assert (await agent.received.next(Exited)).code == 3


async def test_an_incomplete_last_message_is_part_of_the_error(agent: Session) -> None:
    ended = await agent.turn("torn")
    assert ended.error is not None
    assert 'exited with code 0 before it had finished: {"type": "assistant", "text": "no newl' in ended.error


async def test_a_second_result_of_a_turn_is_ignored(agent: Session) -> None:
    await agent.turn("twice")
    await agent.turn("say hello")
    assert len(agent.received.all(TurnEnded)) == 2


async def test_a_withdrawn_question_is_removed(agent: Session, waits: list[bool]) -> None:
    await agent.turn("ask-and-withdraw")
    assert waits == [True, False]
    assert agent.received.all(QuestionCancelled) == [
        QuestionCancelled(agent.received.all(Question)[0].question_id, "decided elsewhere or no longer needed")
    ]


async def test_an_invalid_question_is_answered_with_an_error(agent: Session) -> None:
    await agent.turn("ask-badly")
    assert agent.received.all(Question) == []
    assert [answer["subtype"] for answer in json.loads(agent.received.words)] == ["error", "error"]


@pytest.mark.parametrize("command", ["close-stdout", "close-stdin"])
async def test_an_agent_that_closes_its_pipes_is_ended(agent: Session, command: str) -> None:
    ended = await agent.turn(command)
    assert ended.error == "The bad agent closed its input or output but continued to run, and was stopped."
    assert not lives(agent.process.pid)


async def test_an_agent_that_does_not_read_is_ended(agent: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drawbridge.agents.process.STDIN_LIMIT", 1_000_000)
    await agent.turn("say hello")
    agent.process.prompt("deaf")
    await agent.received.next(AgentLine)
    with pytest.raises(AgentRefused):
        await agent.process.set_model("x" * 2_000_000)
    ended = await agent.received.next(TurnEnded)
    assert ended.error == "The bad agent is not reading its input, and was stopped."


async def test_the_end_of_stderr_is_kept(agent: Session) -> None:
    assert (await agent.turn("stderr 1000000")).ok
    await agent.process.stop()
    stderr = agent.received.all(Exited)[0].stderr
    assert stderr.endswith("eee\nlast words")
    assert STDERR_LIMIT - 100 < len(stderr) <= STDERR_LIMIT


async def test_a_flood_does_not_block_other_agents(agent: Session, tmp_path: Path) -> None:
    async with session(bad_agent(), tmp_path, times=HASTE) as other:
        await other.turn("say hello")
        agent.process.prompt("flood")
        await until(lambda: len(agent.received.events) > 10_000)
        assert (await other.turn("say hello")).ok
        await agent.process.kill()
    assert not lives(agent.process.pid)


async def test_the_reason_for_an_immediate_exit_is_reported(tmp_path: Path) -> None:
    async with session(bad_agent("die-at-once"), tmp_path) as agent:
        ended = await agent.turn("say hello")
    assert ended.error == "The bad agent exited with code 7 before it had finished: I can't even begin."


# Interrupt, stop and kill.


async def test_an_ignored_interrupt_keeps_the_turn_open(agent: Session) -> None:
    agent.process.prompt("silent")
    await agent.received.next(AgentLine)
    agent.process.interrupt()
    assert agent.process.busy


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("obliging", 0),
        ("half", -signal.SIGINT),
        ("silent", -signal.SIGINT),
        ("deaf", -signal.SIGINT),
        ("sturdy", -signal.SIGTERM),
        ("stubborn", -signal.SIGKILL),
        ("ask", -signal.SIGINT),
    ],
)
async def test_a_kill_escalates_only_as_far_as_needed(agent: Session, command: str, code: int) -> None:
    agent.process.times = AT_ONCE if command in ("stubborn", "sturdy") else HASTE
    agent.process.prompt(command)
    await agent.received.next(SessionIdentified)
    if command != "silent":
        await agent.received.next(Question if command == "ask" else AgentLine)

    await agent.process.kill()

    ended = agent.received.all(TurnEnded)
    assert [(turn.ok, turn.interrupted) for turn in ended] == [(False, True)]
    exited = agent.received.events[-1]
    assert isinstance(exited, Exited)
    assert exited.code == code
    assert command != "obliging" or agent.received.words == "To begin with,\nI stop.", "its last message is kept"
    assert not lives(agent.process.pid)


async def test_stop_ends_an_idle_agent_that_ignores_signals(tmp_path: Path) -> None:
    async with session(bad_agent("stubborn"), tmp_path, times=HASTE) as agent:
        # Until then, the process is a copy of the supervisor, which ignores SIGTERM.
        await eventually(lambda: program(agent.process.pid) == "bad_agent.py", "the start of the agent's program")
        await eventually(lambda: ignores(agent.process.pid, signal.SIGTERM), "the agent's signal handlers")
        await agent.process.stop()
    assert agent.received.events == [Exited(-signal.SIGKILL, "")]


async def test_canceling_a_kill_does_not_stop_it(agent: Session) -> None:
    agent.process.times = AT_ONCE
    agent.process.prompt("stubborn")
    await agent.received.next(AgentLine)

    waiting = asyncio.create_task(agent.process.kill())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    assert (await agent.received.next(Exited)).code == -signal.SIGKILL


async def test_concurrent_stops_and_kills_end_the_agent_once(agent: Session) -> None:
    agent.process.prompt("half")
    await agent.received.next(AgentLine)
    await asyncio.gather(agent.process.stop(), agent.process.kill(), agent.process.kill())
    assert len(agent.received.all(Exited)) == len(agent.received.all(TurnEnded)) == 1


@pytest.mark.parametrize("command", ["child", "child-and-die", "escape", "escape-and-die"])
async def test_processes_that_the_agent_started_end_with_it(agent: Session, command: str) -> None:
    """The child has its own session and ignores signals. It may keep the agent's pipes open, or share nothing with it."""
    ended = await agent.turn(command)
    child = int(agent.received.words)
    assert ended.ok == lives(child) or command.endswith("-and-die")

    began = time.monotonic()
    await agent.process.kill()

    assert not lives(child)
    assert agent.received.all(Exited)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("command", ["child", "escape"])
async def test_processes_of_another_agent_keep_running(agent: Session, tmp_path: Path, command: str) -> None:
    async with session(bad_agent(), tmp_path, times=HASTE) as other:
        await other.turn(command)
        child = int(other.received.words)
        await agent.turn("say hello")
        await agent.process.kill()
        assert lives(child)
        assert lives(other.process.pid)


@pytest.fixture(scope="module")
def uvloop() -> Any:
    """The uvloop module. Its first loop leaves a pipe open, so the loop is created before a test counts open files."""
    module = programs.uvloop()
    module.new_event_loop().close()
    return module


@pytest.mark.parametrize("command", ["say hello", "die 3", "child-and-die", "stubborn", "close-stdout", "line 1000000"])
def test_agents_behave_the_same_under_uvloop(uvloop: Any, tmp_path: Path, command: str) -> None:
    async def meet() -> ReceivedEvents:
        times = {"stubborn": AT_ONCE, "close-stdout": HASTE}.get(command, Times())  # the others end when asked
        async with session(bad_agent(), tmp_path, times=times) as agent:
            agent.process.prompt(command)
            await agent.received.next(AgentLine if command == "stubborn" else TurnEnded)
        return agent.received

    received = uvloop.run(meet())

    codes = {"say hello": 0, "die 3": 3, "child-and-die": 5, "stubborn": -9, "close-stdout": -15, "line 1000000": 0}
    assert received.events[-1].code == codes[command]
    assert len(received.all(TurnEnded)) == 1
    if command == "child-and-die":
        assert not lives(int(received.words))


# Starting.


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_missing_directory_is_reported_as_the_reason(tmp_path: Path, uvloop: Any, loop: str) -> None:
    async def start() -> None:
        await bad_agent().start(Launch(str(tmp_path / "gone"), str(uuid.uuid4())), print)

    with pytest.raises(AgentUnusable, match="directory does not exist") as caught:
        (asyncio if loop == "asyncio" else uvloop).run(start())
    assert caught.value.code == "INVALID_PATH"


async def test_a_program_that_cannot_run_is_reported(tmp_path: Path) -> None:
    program = tmp_path / "agent"
    program.write_text("no program at all")
    program.chmod(0o755)
    async with session(Demo([str(program)], name="bad"), tmp_path) as agent:
        ended = await agent.turn("say hello")
    assert ended.error is not None
    assert "agent can't be run: Exec format error" in ended.error


def test_every_misbehavior_is_documented() -> None:
    program = BAD_AGENT.read_text()
    described = program.partition('"""')[2].partition('"""')[0]
    acts = [
        line[8:].partition("(")[0].replace("_", "-") for line in program.splitlines() if line.startswith("def act_")
    ]
    assert len(acts) > 30
    assert [act for act in acts if f"\n    {act} " not in described and f"\n    {act}\n" not in described] == []


def program(pid: int) -> str:
    """The name of the Python program that the process runs. Empty if Python was started with options."""
    words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")  # empty for a moment while the program is replaced
    return "" if len(words) < 2 or words[1].startswith("-") else Path(words[1]).name


def ignores(pid: int, number: int) -> bool:
    """Whether the process ignores the signal. The agent does so only once its program runs."""
    status = Path(f"/proc/{pid}/status").read_text()
    ignored = next(line for line in status.splitlines() if line.startswith("SigIgn"))
    return bool(int(ignored.split()[1], 16) & (1 << (number - 1)))


# A disk that does not respond


async def test_a_silent_disk_delays_a_question_only_briefly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The question is then asked without a proposal. The event loop does not wait for the disk."""
    responds = threading.Event()
    monkeypatch.setattr(driver, "read_file", lambda path: responds.wait(PATIENCE) and "one two\n")
    (tmp_path / "poem.txt").write_text("one two\n")
    async with session(bad_agent(), tmp_path, times=Times(reply=PATIENCE, disk=0.1)) as agent:
        try:
            agent.process.prompt("edit poem.txt two 2")
            question = await agent.asked()
            assert (question.tool_name, question.proposal, responds.is_set()) == ("Edit", None, False)
        finally:
            responds.set()
        agent.process.answer(question.question_id, Decision(allow=True))
        assert (await agent.ended()).ok


@pytest.mark.parametrize(
    ("prompt", "events"),
    [
        ("ask-and-withdraw", [Question, QuestionCancelled, TurnEnded]),
        ("ask-and-die", [Question, QuestionCancelled, TurnEnded, Exited]),
    ],
)
async def test_events_keep_their_order_during_a_look(tmp_path: Path, prompt: str, events: list[type]) -> None:
    """They wait until the disk has responded, even if the agent exits in the meantime."""
    asked, responds = threading.Event(), threading.Event()

    def look(event: object) -> str:
        if isinstance(event, Question):
            asked.set()
            assert responds.wait(PATIENCE)
        return "seen"

    async with session(bad_agent(), tmp_path, times=Times(reply=PATIENCE, disk=PATIENCE), look=look) as agent:
        agent.process.prompt(prompt)
        try:
            await until(asked.is_set, "the look")
            if Exited in events:
                await until(agent.process._exited.is_set, "the exit")
            assert not [event for event in agent.received.events if isinstance(event, tuple(events))]
        finally:
            responds.set()
        await agent.received.next(events[-1])
        seen = [event for event in agent.received.events if isinstance(event, tuple(events))]
        assert [type(event) for event in seen] == events
        assert isinstance(seen[0], Question)
        assert seen[0].look == "seen"
