"""The table of a run's states, and what its owner has to do in them."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as some

from drawbridge.agents.base import Tokens
from drawbridge.server.sessions.runs import run as module
from drawbridge.server.sessions.runs.run import BEGUN, STEPS, Do, Ending, Event, Order, Run, State
from drawbridge.server.sessions.runs.runs import Runs, Slot


def in_state(state: State) -> Run:
    run = Run(Order("run_1", "go", "phone"))
    run.state = state
    return run


def documented() -> dict[tuple[State, Event], tuple[State, Do]]:
    """The steps in the table of the module's docstring."""
    lines = (inspect.getdoc(module) or "").splitlines()
    rules = [number for number, line in enumerate(lines) if line.startswith("====")]
    ends = [match.end() for match in re.finditer("=+", lines[rules[3]])]
    rows: list[list[str]] = []
    for line in lines[rules[4] + 1 : rules[5]]:
        cells = [line[: ends[0]], line[ends[0] : ends[1]], line[ends[1] :]]
        if cells[0].strip():
            rows.append([cell.strip() for cell in cells])
        else:
            rows[-1] = [f"{before} {more.strip()}".strip() for before, more in zip(rows[-1], cells, strict=True)]
    return {step: found for row in rows for step, found in steps_of(*row)}


def steps_of(event: str, states: str, result: str) -> list[tuple[tuple[State, Event], tuple[State, Do]]]:
    following, _, what = result.partition(": ")
    [do] = [one for one in Do if re.match(rf"{one.value}\b", what)]
    named = [one for one in State if one.name != "FINISHED"] if "all but" in states else list(State)
    found = [one for one in named if "all but" in states or one.name in re.findall(r"\w+", states)]
    return [((one, Event[event]), (one if following == "the same" else State[following], do)) for one in found]


def test_the_table_in_the_docstring_matches_the_code() -> None:
    assert documented() == STEPS


@pytest.mark.parametrize(("state", "event"), list(product(State, Event)), ids=lambda one: one.name)
def test_each_event_in_each_state_follows_the_table(state: State, event: Event) -> None:
    run = in_state(state)
    expected = STEPS.get((state, event))
    do = run.step(event, Ending("interrupted"))
    assert (run.state, do) == (expected or (state, None))
    if expected is None:
        assert run.ending is None, "an event that changes nothing ends nothing"


@pytest.mark.parametrize("event", Event, ids=lambda one: one.name)
def test_nothing_changes_the_outcome_of_a_finished_run(event: Event) -> None:
    run = in_state(State.RUNNING)
    run.step(Event.TURN_ENDED, Ending("completed"))
    assert run.step(event, Ending("killed")) in (None, Do.LEAVE)
    assert (run.state, run.ending) == (State.FINISHED, Ending("completed"))


def test_a_run_can_be_ended_in_every_state() -> None:
    """A user can kill any run that is not in the queue. The prompt of a queued run can be removed."""
    for state in set(State) - {State.FINISHED}:
        assert (state, Event.DROP) in STEPS
    for state in set(State) - {State.FINISHED, State.QUEUED}:
        assert (state, Event.KILL) in STEPS


def test_a_run_that_is_ending_always_ends() -> None:
    """The process of such a run is being ended, and its exit, its turn's end or the end of waiting ends the run."""
    for event in (Event.TURN_ENDED, Event.EXITED, Event.PROCESS_ENDED, Event.UNUSABLE):
        assert STEPS[State.ENDING, event] == (State.FINISHED, Do.FINISH)


LIMIT = {"code": "EXECUTION_TIMEOUT", "message": "too long"}
FULL = {"code": "RESOURCE_LIMIT", "message": "full"}


def test_the_first_reason_for_a_stop_counts() -> None:
    run = in_state(State.RUNNING)
    run.step(Event.GIVE_UP, Ending("timeout", error=LIMIT))
    run.step(Event.STOP, Ending("failed", error=FULL))
    run.step(Event.KILL, Ending("killed"))
    run.step(Event.EXITED, Ending("failed", error={"code": "EXECUTION_FAILED", "message": "it exited"}))
    assert run.ending == Ending("timeout", error=LIMIT)


def test_a_kill_overrides_an_interrupt() -> None:
    run = in_state(State.RUNNING)
    run.step(Event.INTERRUPT, Ending("interrupted"))
    assert run.step(Event.KILL, Ending("killed")) is Do.END_PROCESS
    run.step(Event.PROCESS_ENDED, Ending("killed"))
    assert run.ending == Ending("killed")


def test_an_interrupted_run_stays_interrupted_at_a_limit() -> None:
    run = in_state(State.RUNNING)
    run.step(Event.INTERRUPT, Ending("interrupted"))
    assert run.step(Event.STOP, Ending("failed", error=FULL)) is None, "the agent is ending its turn"
    assert run.step(Event.GIVE_UP, Ending("timeout", error=LIMIT)) is Do.END_PROCESS
    run.step(Event.PROCESS_ENDED, Ending("killed"))
    assert run.ending is not None
    assert run.ending.outcome == "interrupted"


def test_the_cost_of_an_interrupted_turn_is_known() -> None:
    run = in_state(State.RUNNING)
    run.step(Event.INTERRUPT, Ending("interrupted"))
    run.step(Event.TURN_ENDED, Ending("completed", 0.25, None, Tokens(10, 20)))
    assert run.ending == Ending("interrupted", 0.25, None, Tokens(10, 20))


class Session:
    """Owns runs as ``RunController`` does, without a process or an event loop."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        self.queue: list[Run] = []
        self.run: Run | None = None
        self.slot: Slot | None = None
        self.preparing: list[Run] = []
        """The runs for which a process is being prepared, the oldest first."""
        self.accepted = 0
        self.finished: Counter[str] = Counter()
        self.left = 0

    def accept(self) -> None:
        self.accepted += 1
        self.queue.append(Run(Order(f"run_{self.accepted}", "go", "phone")))
        self.next()

    def next(self) -> None:
        if self.run is None and self.queue:
            run = self.run = self.queue.pop(0)
            self.apply(run, Event.NEXT)

    def turn_begun(self) -> None:
        if self.run is not None:
            self.apply(self.run, Event.PUT_BACK)
        if self.run is None:
            self.accepted += 1
            self.run = Run(Order(f"run_{self.accepted}", "", "claude", unprompted=True))
            self.apply(self.run, Event.TURN_BEGUN)

    def ready(self) -> None:
        if self.preparing:
            self.apply(self.preparing.pop(0), Event.READY)

    def apply(self, run: Run, event: Event) -> None:
        match run.step(event, Ending("failed")):
            case Do.REQUEST_SLOT:
                self.slot = Slot(self.runs, lambda: self.apply(run, Event.SLOT))
                self.runs.request(self.slot)
            case Do.GIVE_UP_SLOT:
                self.run = None
                self.release()
                self.queue.insert(0, run)
            case Do.PREPARE:
                self.preparing.append(run)
            case Do.LEAVE:
                self.left += 1
            case Do.FINISH:
                self.finished[run.id] += 1
                if run is self.run:
                    self.run = None
                    self.release()
                    self.next()

    def release(self) -> None:
        slot, self.slot = self.slot, None
        if slot is not None:
            slot.release()

    def check(self) -> None:
        assert max(self.finished.values(), default=0) <= 1, "a run ends once"
        assert (self.run is None) <= (self.slot is None), "a slot without a run"
        if self.run is not None:
            assert self.run.state not in (State.QUEUED, State.FINISHED)
            assert (self.slot is None) == self.run.order.unprompted
        assert all(run.state is State.QUEUED for run in self.queue)


ABOUT_A_RUN = [one for one in Event if one not in (Event.NEXT, Event.SLOT, Event.TURN_BEGUN, Event.READY)]
STEP = some.sampled_from(["accept", "turn begun", "ready", *ABOUT_A_RUN])


@given(some.lists(some.tuples(some.integers(0, 2), STEP), max_size=80))
def test_in_any_order_each_run_ends_once_and_no_slot_is_lost(steps: list[tuple[int, str | Event]]) -> None:
    runs = Runs(2)
    sessions = [Session(runs) for _ in range(3)]
    for number, what in steps:
        session = sessions[number]
        if isinstance(what, Event):
            if session.run is not None:
                session.apply(session.run, what)
                session.next()
        else:
            {"accept": session.accept, "turn begun": session.turn_begun, "ready": session.ready}[what]()
        for one in sessions:
            one.check()
        assert sum(one.run is not None and one.run.state in BEGUN and one.slot is not None for one in sessions) <= 2
    for session in sessions:
        while session.run is not None:
            session.apply(session.run, Event.DROP)
        while session.preparing:
            session.ready()
    for session in sessions:
        assert session.finished == Counter({f"run_{one + 1}": 1 for one in range(session.accepted)})
    granted: list[int] = []
    for number in range(3):
        runs.request(Slot(runs, lambda number=number: granted.append(number)))  # type: ignore[misc]
    assert granted == [0, 1], "all slots are free again"


@given(some.lists(some.sampled_from(ABOUT_A_RUN), max_size=12))
def test_a_process_that_is_ready_is_used_kept_or_left(events: list[Event]) -> None:
    """Whatever happens while a process is being prepared, either its run uses it, or it is kept for the next run, or it
    is left because nobody needs it."""
    session = Session(Runs(1))
    session.accept()
    [run] = session.preparing
    for event in events:
        session.apply(run, event)
    before = run.state
    session.ready()
    if before in (State.ENDING, State.FINISHED):
        assert (session.left, run.state) == (1, before)
    else:
        assert (session.left, run.state) == (0, State.RUNNING if before is State.STARTING else State.FINISHED)


def test_a_slot_that_is_released_twice_is_freed_once() -> None:
    runs, granted = Runs(1), list[str]()
    first = Slot(runs, lambda: granted.append("first"))
    second = Slot(runs, lambda: granted.append("second"))
    third = Slot(runs, lambda: granted.append("third"))
    for slot in (first, second, third):
        runs.request(slot)
    second.release()
    second.release()
    assert granted == ["first"], "a request was withdrawn"
    first.release()
    first.release()
    assert granted == ["first", "third"]
