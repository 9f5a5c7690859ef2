"""What hooks and lines of the transcript change about an agent's turns, without a server, files or time."""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import Any, Final

import pytest
from msgspec import Raw

from drawbridge.agents.claude.terminal import agent
from drawbridge.agents.terminal import HookEvent, Message, Prompt, Task, TurnOver
from drawbridge.server.terminal_sessions import turn as turn_module
from drawbridge.server.terminal_sessions.turns import (
    IDLE_SECONDS,
    Change,
    EarlierPromptFound,
    EverythingEnded,
    MainAgentStopped,
    OnlyRunning,
    PromptBegun,
    PromptFound,
    RunBegun,
    RunFinished,
    SubagentStopped,
    Turns,
)
from tests import seeds

from .socket_rig import Message as Line
from .test_runs_in_any_order import Hook, steps_of, turn_of

AGENT: Final = agent()
PID: Final = 5
SUBAGENT: Final = Task("s1", "subagent")
BUILD: Final = Task("b1", "shell")


class FakeClock:
    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def event(name: str, turn: str = "", **more: Any) -> HookEvent:
    return HookEvent(name, "the session", "/ws", turn=turn, **more)


def in_state(state: str, clock: FakeClock) -> Turns:
    """The turns of an agent whose turn "past" is over. Its turn "now" is in the state, unless that is "idle"."""
    turns = Turns(AGENT, clock, ["past"])
    if state != "idle":
        turns.hook(event("UserPromptSubmit", "now", prompt="Go"), PID, prompt="Go")
        turns.entry(Prompt("uuid", "now", "Go"), PID, prompt="Go")
    if state in ("resting", "continued, resting"):
        turns.hook(event("Stop", "now", tasks={"s1": SUBAGENT}), PID)
    if state.startswith("continued"):
        stored, turns = turns.stored, Turns(AGENT, clock, turns.stored.past)
        turns.restore("now", 60.0, stored, stored.works)
    return turns


def runs(changes: list[Change]) -> list[str]:
    """The runs that began and ended, as text. The id of a run that has no turn is left out."""
    found = []
    for change in changes:
        match change:
            case RunBegun(run):
                found.append("+" + ("another" if run.startswith("turn_") else run))
            case RunFinished(run, outcome, quiet=quiet):
                found.append(f"-{run} {outcome}{' quietly' if quiet else ''}")
    return found


def phase(turns: Turns) -> str:
    if turns.current is None:
        return "idle"
    name = "another" if turns.current.id.startswith("turn_") else turns.current.id
    return f"{name} {'rests' if turns.is_resting else 'works'}"


NOTHING: Final[list[str]] = []
STATES: Final = ("idle", "working", "resting", "continued", "continued, resting")

EVENTS: Final[dict[str, tuple[HookEvent, dict[str, tuple[list[str], str]]]]] = {
    "a start": (
        event("SessionStart", source="resume"),
        {"idle": (NOTHING, "idle"), "*": (["-now completed quietly"], "idle")},
    ),
    "a start after a summary": (
        event("SessionStart", source="compact"),
        {"idle": (NOTHING, "idle"), "resting": (NOTHING, "now rests"), "*": (NOTHING, "now works")},
    ),
    "the next prompt": (
        event("UserPromptSubmit", "next", prompt="More"),
        {"idle": (["+next"], "next works"), "*": (["-now completed quietly", "+next"], "next works")},
    ),
    "the same prompt": (
        event("UserPromptSubmit", "now", prompt="Go"),
        {"idle": (["+now"], "now works"), "*": (NOTHING, "now works")},
    ),
    "a prompt from the program": (
        event("UserPromptSubmit", "next", prompt="<task-notification>", continues=True),
        {"idle": (["+next"], "next works"), "*": (NOTHING, "now works")},
    ),
    "a late prompt": (
        event("UserPromptSubmit", "past", prompt="Once"),
        {"idle": (NOTHING, "idle"), "resting": (NOTHING, "now rests"), "*": (NOTHING, "now works")},
    ),
    "a prompt for a subagent": (
        event("UserPromptSubmit", "now", prompt="Read it", agent_id="s1"),
        {"idle": (NOTHING, "idle"), "resting": (NOTHING, "now rests"), "*": (NOTHING, "now works")},
    ),
    "a call": (event("PreToolUse", "now"), {"idle": (["+now"], "now works"), "*": (NOTHING, "now works")}),
    "a call of the next turn": (
        event("PreToolUse", "next"),
        {"idle": (["+next"], "next works"), "*": (["-now completed quietly", "+next"], "next works")},
    ),
    "a call of a past turn": (
        event("PreToolUse", "past"),
        {"idle": (["+another"], "another works"), "resting": (NOTHING, "now rests"), "*": (NOTHING, "now works")},
    ),
    "a call without a turn": (
        event("PreToolUse"),
        {"idle": (["+another"], "another works"), "*": (NOTHING, "now works")},
    ),
    "the end of a call without a turn": (
        event("PostToolUse"),
        {"idle": (NOTHING, "idle"), "*": (NOTHING, "now works")},
    ),
    "a call of a subagent": (
        event("PreToolUse", "now", agent_id="s1"),
        {"idle": (NOTHING, "idle"), "resting": (NOTHING, "now rests"), "*": (NOTHING, "now works")},
    ),
    "a question": (
        event("PermissionRequest", "now"),
        {"idle": (["+now"], "now works"), "*": (NOTHING, "now works")},
    ),
    "the end of a call": (
        event("PostToolUse", "now"),
        {"idle": (["+now"], "now works"), "*": (NOTHING, "now works")},
    ),
    "the end of a failed call": (
        event("PostToolUseFailure", "now"),
        {"idle": (["+now"], "now works"), "*": (NOTHING, "now works")},
    ),
    "a notification": (
        event("Notification", "now", asks_in_terminal=True),
        {"idle": (NOTHING, "idle"), "resting": (NOTHING, "now rests"), "*": (NOTHING, "now works")},
    ),
    "the start of a subagent": (
        event("SubagentStart", "now", agent_id="s1"),
        {"idle": (NOTHING, "idle"), "resting": (NOTHING, "now rests"), "*": (NOTHING, "now works")},
    ),
    "the end of a subagent": (
        event("SubagentStop", "now", agent_id="s1"),
        {"idle": (NOTHING, "idle"), "resting": (NOTHING, "now rests"), "*": (NOTHING, "now works")},
    ),
    "the end": (
        event("Stop", "now", tasks={}),
        {"idle": (NOTHING, "idle"), "*": (["-now completed"], "idle")},
    ),
    "the end, with tasks": (
        event("Stop", "now", tasks={"b1": BUILD}),
        {"idle": (NOTHING, "idle"), "*": (NOTHING, "now rests")},
    ),
    "an end that reports no tasks": (
        event("Stop", "now"),
        {"idle": (NOTHING, "idle"), "resting": (NOTHING, "now rests"), "*": (["-now completed"], "idle")},
    ),
    "the late end of a past turn": (
        event("Stop", "past", tasks={}),
        {"idle": (NOTHING, "idle"), "resting": (NOTHING, "now rests"), "*": (NOTHING, "now works")},
    ),
    "a failure": (
        event("StopFailure", "now", last_message="API Error", code="AGENT_RATE_LIMITED"),
        {"idle": (NOTHING, "idle"), "*": (["-now failed"], "idle")},
    ),
    "the late failure of a past turn": (
        event("StopFailure", "past"),
        {"idle": (NOTHING, "idle"), "resting": (NOTHING, "now rests"), "*": (NOTHING, "now works")},
    ),
    "an interruption": (
        event("Interrupt", "now"),
        {"idle": (NOTHING, "idle"), "*": (["-now interrupted"], "idle")},
    ),
    "the late interruption of a past turn": (
        event("Interrupt", "past"),
        {"idle": (NOTHING, "idle"), "resting": (NOTHING, "now rests"), "*": (NOTHING, "now works")},
    ),
    "an unknown event": (
        event("PreCompact", "now"),
        {"idle": (NOTHING, "idle"), "resting": (NOTHING, "now rests"), "*": (NOTHING, "now works")},
    ),
}
"""Hooks' events, each with the runs that begin and end, and the phase afterwards, by state. "*" is any other state. A run
behaves after a restart as it did before."""


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("name", EVENTS)
def test_every_event_in_every_state_has_the_listed_effect(name: str, state: str, clock: FakeClock) -> None:
    reported, expected = EVENTS[name]
    turns = in_state(state, clock)
    changes = turns.hook(reported, PID, prompt=reported.prompt)
    assert (runs(changes), phase(turns)) == expected.get(state.removeprefix("continued, "), expected["*"])


def test_the_table_contains_every_event_that_concerns_turns() -> None:
    names = {reported.name for reported, _ in EVENTS.values()}
    assert names >= {name for name in (HookEvent.__doc__ or "").split('"')[1::2] if name != "SessionEnd"}


# other consequences than runs


def test_the_end_of_a_run_closes_its_questions_first(clock: FakeClock) -> None:
    changes = in_state("working", clock).hook(event("Stop", "now", tasks={}), PID)
    assert changes == [OnlyRunning(PID, ()), MainAgentStopped(PID), RunFinished("now", "completed")]


def test_a_run_that_rests_keeps_its_subagents_questions(clock: FakeClock) -> None:
    changes = in_state("working", clock).hook(event("Stop", "now", tasks={"s1": SUBAGENT}), PID)
    assert changes == [OnlyRunning(PID, ("s1",)), MainAgentStopped(PID)]


def test_a_run_reports_its_duration(clock: FakeClock) -> None:
    turns = in_state("working", clock)
    clock.seconds += 7
    assert turns.hook(event("Interrupt", "now"), PID)[-1] == RunFinished("now", "interrupted", 7.0)
    turns = in_state("continued", clock)
    clock.seconds += 7
    assert turns.hook(event("Interrupt", "now"), PID)[-1] == RunFinished("now", "interrupted", 67.0)


def test_a_failure_has_an_error_and_a_code(clock: FakeClock) -> None:
    failed = event("StopFailure", "now", last_message="API Error", code="AGENT_RATE_LIMITED")
    finished = in_state("working", clock).hook(failed, PID)[-1]
    assert finished == RunFinished("now", "failed", error="API Error", code="AGENT_RATE_LIMITED")


def test_a_prompt_begins_before_its_run(clock: FakeClock) -> None:
    changes = in_state("idle", clock).hook(event("UserPromptSubmit", "now", prompt="Go\n"), PID, prompt="Go")
    assert changes == [PromptBegun("now", "Go\n"), MainAgentStopped(PID), RunBegun("now")]


def test_a_subagent_that_stops_is_reported(clock: FakeClock) -> None:
    turns = in_state("resting", clock)
    assert turns.hook(event("SubagentStop", agent_id="s1"), PID) == [SubagentStopped(PID, "s1")]
    assert turns.running == 0


@pytest.mark.parametrize("state", STATES)
def test_the_end_of_all_processes_ends_everything(state: str, clock: FakeClock) -> None:
    turns = in_state(state, clock)
    changes = turns.end("interrupted", PID)
    assert changes[0] == EverythingEnded()
    assert (runs(changes), phase(turns), turns.running) == (
        NOTHING if state == "idle" else ["-now interrupted"],
        "idle",
        0,
    )


@pytest.mark.parametrize(("pid", "ended"), [(PID, ["-now interrupted"]), (6, NOTHING)])
def test_a_process_that_leaves_ends_only_its_own_run(pid: int, ended: list[str], clock: FakeClock) -> None:
    assert runs(in_state("resting", clock).leave(pid, "interrupted")) == ended


# what no hook reports


def test_a_run_waits_for_a_subagent_but_not_forever_for_a_build(clock: FakeClock) -> None:
    turns = in_state("working", clock)
    turns.hook(event("Stop", "now", tasks={"s1": SUBAGENT, "b1": BUILD}), PID)
    clock.seconds += 10 * turn_module.TASK_SECONDS
    assert turns.check(None) == []
    turns.hook(event("SubagentStop", agent_id="s1"), PID)
    clock.seconds += turn_module.LAST_SECONDS + 1
    assert turns.check(None) == []
    clock.seconds += turn_module.TASK_SECONDS
    assert runs(turns.check(None)) == ["-now completed"]
    assert (turns.running, turns.check(None)) == (0, [])


def test_tasks_are_forgotten_between_runs(clock: FakeClock) -> None:
    turns = in_state("idle", clock)
    turns.hook(event("Stop", "now", tasks={"b1": BUILD}), PID)
    clock.seconds += turn_module.TASK_SECONDS + 1
    assert turns.check(None) == [OnlyRunning(PID, ())]
    assert turns.running == 0


@pytest.mark.parametrize(
    ("age", "idle", "ended"),
    [
        (60, IDLE_SECONDS + 1, ["-now interrupted"]),
        (60, IDLE_SECONDS - 1, NOTHING),
        (60, 61, NOTHING),  # it has been waiting since before the prompt
        (60, None, NOTHING),
    ],
)
def test_a_withdrawn_prompt_ends_its_run(age: float, idle: float | None, ended: list[str], clock: FakeClock) -> None:
    turns = in_state("working", clock)
    clock.seconds += age
    assert runs(turns.check(idle)) == ended


# the transcript


def test_a_prompt_that_no_hook_reports_begins_a_run(clock: FakeClock) -> None:
    turns, found = in_state("working", clock), Prompt("u2", "next", "More")
    changes = turns.entry(found, PID, prompt="More")
    assert [change for change in changes if not isinstance(change, MainAgentStopped)] == [
        RunFinished("now", "completed", quiet=True),
        PromptFound(found, "next"),
        RunBegun("next"),
    ]


def test_a_prompt_during_a_run_belongs_to_it(clock: FakeClock) -> None:
    found = Prompt("u2", "", "And this")
    assert in_state("working", clock).entry(found, PID) == [PromptFound(found, "now")]


@pytest.mark.parametrize("turn", ["past", ""])
def test_a_prompt_of_an_earlier_run_is_a_separate_run(turn: str, clock: FakeClock) -> None:
    found = Prompt("u2", turn, "Once")
    turns = in_state("idle", clock)
    assert turns.entry(found, PID) == [EarlierPromptFound(found, "u2")]
    assert turns.stored.past == ("past", "u2")


def test_the_last_message_ends_a_run_that_no_hook_reports(clock: FakeClock) -> None:
    last = Message("u2", b"{}", text="Done.", ends_turn=True)
    assert runs(in_state("working", clock).entry(last, PID, late=True)) == NOTHING
    assert runs(in_state("continued", clock).entry(last, PID)) == ["-now completed"]
    failed = Message("u2", b"{}", text="API Error", ends_turn=True, failed=True, code="AGENT_RATE_LIMITED")
    finished = in_state("continued", clock).entry(failed, PID)[-1]
    assert finished == RunFinished("now", "failed", 60.0, error="API Error", code="AGENT_RATE_LIMITED")


def test_an_interruption_ends_only_a_run_whose_prompt_was_found(clock: FakeClock) -> None:
    """A copy of a conversation also contains the interruptions of its earlier runs."""
    interrupted = Message("u2", b"{}", interrupted=True)
    assert runs(in_state("working", clock).entry(interrupted, PID)) == ["-now interrupted"]
    copy = Turns(AGENT, clock)
    copy.hook(event("SessionStart", source="fork"), PID)
    copy.hook(event("UserPromptSubmit", "now", prompt="Go"), PID, prompt="Go")
    assert runs(copy.entry(interrupted, PID)) == NOTHING
    own = Prompt("u3", "now", "Go")
    copy.expect_prompt([Prompt("u1", "now", "Go"), own])
    assert copy.entry(Prompt("u1", "now", "Go"), PID) == [EarlierPromptFound(Prompt("u1", "now", "Go"), "u1")]
    assert copy.entry(own, PID, prompt="Go") == [PromptFound(own, "now")]
    assert runs(copy.entry(interrupted, PID)) == ["-now interrupted"]


@pytest.mark.parametrize("outcome", ["completed", "failed", "interrupted"])
def test_the_transcript_may_report_the_end_of_a_turn(outcome: Any, clock: FakeClock) -> None:
    turns = in_state("working", clock)
    assert runs(turns.entry(TurnOver("another", outcome), PID)) == NOTHING
    assert runs(turns.entry(TurnOver("now", outcome), PID)) == [f"-now {outcome}"]


def test_the_end_of_an_unnamed_turn_ends_the_current_one(clock: FakeClock) -> None:
    over = TurnOver("", "interrupted")
    assert runs(in_state("working", clock).entry(over, PID)) == ["-now interrupted"]
    assert runs(in_state("idle", clock).entry(over, PID)) == NOTHING
    begun = Turns(AGENT, clock)
    begun.hook(event("UserPromptSubmit", "now", prompt="Go"), PID, prompt="Go")
    assert runs(begun.entry(over, PID)) == NOTHING, "its prompt has not been read: the line is older"


# any order


ROUNDS = pytest.mark.parametrize(
    "rounds", [1_000, pytest.param(100_000, marks=[pytest.mark.slow, pytest.mark.timeout(900)])]
)


class Play:
    """Turns to which random reports are applied. Contains what has followed, in order."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.turns = Turns(AGENT, clock)
        self.found: list[tuple[str, str]] = []
        self.outside: list[Line] = []
        """The agent's messages that were read outside their run."""

    def hook(self, hook: Hook) -> None:
        payload = {"hook_event_name": hook[0], "session_id": "s", "cwd": "/ws", **hook[1]}
        reported = AGENT.event(Raw(json.dumps(payload).encode()))
        self._note(self.turns.hook(reported, PID, prompt=reported.prompt))

    def line(self, line: Line, number: int, *, late: bool = False) -> None:
        entries = AGENT.entries(json.dumps({"uuid": f"u{number}", **line}).encode(), "s")
        current = self.turns.current.id if self.turns.current is not None else None
        for entry in entries:
            if isinstance(entry, Message) and current != line["promptId"]:
                self.outside.append(line)
            text = entry.text if isinstance(entry, Prompt) else ""
            self.turns.expect_prompt([entry])
            self._note(self.turns.entry(entry, PID, prompt=text, late=late))

    def restart(self) -> None:
        stored, current = self.turns.stored, self.turns.current
        self.turns = Turns(AGENT, self.clock, stored.past)
        if current is not None:
            self.turns.restore(current.id, current.age, stored, stored.works)

    def end(self) -> None:
        self._note(self.turns.end("interrupted", PID))

    def _note(self, changes: list[Change]) -> None:
        for change in changes:
            match change:
                case RunBegun(run):
                    self.found.append(("begun", run))
                case RunFinished(run):
                    self.found.append(("finished", run))
                case PromptFound(_, run):
                    self.found.append(("prompt", run))
                case EarlierPromptFound(_, run):
                    self.found += [("prompt", run), ("finished", run)]

    def check(self, *where: object) -> None:
        """Checks that each run begins at most once and ends exactly once, after everything else about it."""
        ends = [run for what, run in self.found if what == "finished"]
        assert all(count == 1 for count in Counter(self.found).values()), (*where, self.found)
        assert {run for _, run in self.found} == set(ends), (*where, self.found)
        for run in ends:
            last = max(at for at, (_, one) in enumerate(self.found) if one == run)
            assert self.found[last] == ("finished", run), (*where, self.found)


@ROUNDS
def test_each_run_ends_once_in_any_order(rounds: int, clock: FakeClock) -> None:
    seed = seeds.seed()
    random = Random(seed)
    for number in range(rounds):
        play = Play(clock)
        turns = [turn_of(random, f"turn {at}") for at in range(random.randrange(1, 5))]
        hooks = [hook for of_turn, _ in turns for hook in of_turn]
        lines = list(enumerate(line for _, of_turn in turns for line in of_turn))
        order = ["hook"] * len(hooks) + ["line"] * len(lines) + ["time"] * 3
        random.shuffle(order)
        for what in order:
            if what == "hook":
                play.hook(hooks.pop(0))
            elif what == "line":
                at, line = lines.pop(0)
                play.line(line, at)
            else:
                clock.seconds += random.choice([0.1, 20.0, 1_000.0])
                play.turns.check(None)
        play.end()
        play.check(seed, number)


@ROUNDS
def test_each_run_ends_once_in_any_order_across_restarts(rounds: int, clock: FakeClock) -> None:
    """Hooks' events are lost while no server runs. A hook of an earlier turn may be late."""
    seed = seeds.seed()
    random = Random(seed)
    for number in range(rounds):
        play = Play(clock)
        steps = steps_of(random, [turn_of(random, f"turn {at}") for at in range(random.randrange(1, 5))])
        is_down = False
        for at, step in enumerate(steps):
            if at and random.random() < 0.2:
                play.restart()
                is_down = random.random() < 0.5
            if isinstance(step, dict):
                play.line(step, at, late=is_down)
            elif not is_down:
                play.hook(step)
        play.end()
        play.check(seed, number, steps)


@ROUNDS
def test_messages_are_inside_their_run_in_any_order(rounds: int, clock: FakeClock) -> None:
    """A hook that reports the end of a turn is processed once the turn's last text was read, as ``ReportQueue`` does."""
    seed = seeds.seed()
    random = Random(seed)
    for number in range(rounds):
        play = Play(clock)
        for at in range(random.randrange(1, 5)):
            hooks, lines = turn_of(random, f"turn {at}")
            numbered = list(enumerate(lines, 100 * at))
            ends = [hooks.pop()] if hooks[-1][0] in ("Stop", "StopFailure") else []
            last_call = max((place for place, line in enumerate(lines) if "tool_use" in str(line)), default=-1)
            late = random.randrange(last_call + 1, len(lines) + 1) if ends else len(lines)
            order = ["hook"] * len(hooks) + ["line"] * late
            random.shuffle(order)
            for what in order:
                if what == "hook":
                    play.hook(hooks.pop(0))
                else:
                    place, line = numbered.pop(0)
                    play.line(line, place)
            for event, more in ends:
                while play.turns.last_text != more["last_assistant_message"]:
                    place, line = numbered.pop(0)
                    play.line(line, place)
                play.hook((event, more))
            assert not numbered
        play.end()
        play.check(seed, number)
        assert play.outside == [], (seed, number, play.found)
