"""How the questions of an agent in a terminal wait and end, without a server, hooks or time."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final

import pytest
from msgspec import Raw

from drawbridge.agents.base import AskedBy, Decision, Question
from drawbridge.agents.claude.terminal import agent
from drawbridge.agents.terminal import Call, Fate, HookEvent, Result
from drawbridge.core.approval import State
from drawbridge.core.errors import UnusableFile
from drawbridge.server.approvals.pending import Asker, ExpectedAsker, PendingApproval
from drawbridge.server.terminal_sessions.dialog import EndedCall, Overruled
from drawbridge.server.terminal_sessions.questions import (
    ELSEWHERE,
    ENDED,
    GONE,
    HOLD_AGAIN_SECONDS,
    HOLD_SECONDS,
    NO_LONGER_WAITED,
    NOT_DELIVERED,
    SETTLING_SECONDS,
    HandOver,
    HandOverLater,
    OpenQuestion,
    Questions,
    Step,
    Withdraw,
)
from tests import seeds

PID: Final = 5
OTHER: Final = 6
SUBAGENT: Final = AskedBy("s1", "general-purpose")
ALLOWED, DENIED = Decision(allow=True), Decision(allow=False)


class FakeClock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


class FakeHook:
    """A hook that waits for an answer."""

    in_editor = False

    def __init__(self, pid: int | None = PID, known_as: str = "") -> None:
        self.pid = pid
        self.known_as = known_as

    def decided(self, approval: PendingApproval, decision: Decision, by: str) -> None: ...

    def closed(self) -> None: ...


def no_file(path: str) -> str:
    raise UnusableFile(path)


class Asking:
    """The questions of a session, and the approval requests that are open. Does what ``Questions`` returns, like a
    session, but immediately and without an event loop."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.questions = Questions(agent(), "/ws", no_file, self.clock, is_unattended=False)
        self.open: list[OpenQuestion] = []
        self.steps: list[Step] = []

    def ask(
        self,
        command: str = "make",
        *,
        asked_by: AskedBy | None = None,
        asker: Asker | None = None,
        is_answerable: bool = True,
        created_at: datetime | None = None,
    ) -> PendingApproval:
        asker = asker or FakeHook()
        created_at = created_at or datetime.now(UTC)
        given = Raw(json.dumps({"command": command}).encode())
        question = Question("q", "Bash", given, Raw(b"[]"), asked_by=asked_by)
        approval = PendingApproval.new(question, "run", created_at.isoformat(), asker.known_as)
        self.open.append(OpenQuestion(approval, asker))
        if isinstance(asker, ExpectedAsker):
            self.do(self.questions.restored(approval))
        else:
            self.questions.asked(approval, asker.pid)
            self.do(self.questions.hold(approval, asker.pid, is_answerable=is_answerable))
        return approval

    def decide(self, approval: PendingApproval, decision: Decision) -> None:
        [asked] = [one for one in self.open if one.approval is approval]
        self.open.remove(asked)
        approval.decide("phone", decision)
        self.questions.closed(approval, asked.asker)

    def do(self, steps: list[Step]) -> None:
        self.steps += steps
        for step in steps:
            if isinstance(step, Withdraw | HandOver) and step.approval.withdraw("why"):
                self.open = [one for one in self.open if one.approval is not step.approval]
                self.questions.closed(step.approval, None)

    def ended(self, command: str = "make", fate: Fate = "ran", *, id: str = "", agent_id: str | None = None) -> None:
        call = EndedCall(id, "Bash", {"command": command}, fate, agent_id, as_run=fate == "ran")
        self.do(self.questions.call_ended(call, self.open))

    def main_stopped(self, pid: int | None = PID, others: tuple[int, ...] = ()) -> None:
        self.do(self.questions.main_stopped(pid, self.open, others, is_only=not others))


@pytest.fixture
def asking() -> Asking:
    return Asking()


# waiting


def test_a_visible_dialog_waits_without_a_limit(asking: Asking) -> None:
    asking.ask(is_answerable=False)
    assert asking.steps == []


def test_a_hidden_dialog_waits_for_a_limited_time(asking: Asking) -> None:
    approval = asking.ask(asked_by=SUBAGENT)
    assert asking.steps == [HandOverLater(approval, HOLD_SECONDS)]


def test_a_hidden_dialog_without_a_client_is_handed_over(asking: Asking) -> None:
    approval = asking.ask(asked_by=SUBAGENT, is_answerable=False)
    assert asking.steps == [HandOver(approval)]
    assert asking.questions.asks_in_terminal
    asking.ended(agent_id="s1")
    assert not asking.questions.asks_in_terminal


def test_after_an_unanswered_question_the_next_waits_briefly(asking: Asking) -> None:
    first = asking.ask("one", asked_by=SUBAGENT)
    asking.questions.not_answered(first, PID)
    second = asking.ask("two", asked_by=SUBAGENT)
    assert asking.steps[1:] == [HandOverLater(second, HOLD_AGAIN_SECONDS)]
    assert asking.questions.asks_in_terminal
    asking.decide(second, ALLOWED)
    third = asking.ask("three", asked_by=SUBAGENT)
    assert asking.steps[2:] == [HandOverLater(third, HOLD_SECONDS)]


def test_a_question_from_before_a_restart_has_waited_already(asking: Asking) -> None:
    created_at = datetime.now(UTC) - timedelta(seconds=HOLD_SECONDS - 10)
    asker = ExpectedAsker(PID, is_certain=True)
    asking.ask(asked_by=SUBAGENT, asker=asker, created_at=created_at)
    [step] = asking.steps
    assert isinstance(step, HandOverLater)
    assert 5 < step.seconds <= 10


def test_editors_show_what_can_be_answered(asking: Asking) -> None:
    hidden, visible = asking.ask(asked_by=SUBAGENT), asking.ask()
    hook, editor = FakeHook(), FakeHook()
    editor.in_editor = True
    is_offered = asking.questions.is_offered
    assert is_offered(visible, hook, is_answerable=False)
    assert not is_offered(visible, editor, is_answerable=True)
    assert not is_offered(hidden, hook, is_answerable=False)
    assert is_offered(hidden, hook, is_answerable=True)


# the same question again


def test_a_known_question_is_recognized(asking: Asking) -> None:
    approval = asking.ask("make", asker=FakeHook(known_as="k"))

    def event(command: str) -> HookEvent:
        given = Raw(json.dumps({"command": command}).encode())
        return HookEvent("PermissionRequest", "s", "/ws", tool_name="Bash", tool_input=given)

    questions = asking.questions
    assert (questions.known("k"), questions.known("another"), questions.known("")) == (approval, None, None)
    assert not questions.is_another(event("make"), "k")
    assert questions.is_another(event("make test"), "k")
    assert not questions.is_another(event("make test"), "another")


def test_a_decision_that_is_sent_again_is_awaited_again(asking: Asking) -> None:
    approval = asking.ask(asker=ExpectedAsker(PID, is_certain=True))
    asking.decide(approval, DENIED)
    asking.questions.reconnected(approval, PID)
    assert asking.questions.decided == [approval]
    asking.do(asking.questions.stop_waiting(asking.open))
    assert (asking.steps, approval.state) == ([], State.DECIDED)


def test_questions_whose_hook_does_not_reconnect_end(asking: Asking) -> None:
    undelivered = asking.ask("one", asker=ExpectedAsker(PID, is_certain=True))
    asking.decide(undelivered, ALLOWED)
    missed = asking.ask("two", asker=ExpectedAsker(PID, is_certain=True))
    hidden = asking.ask("three", asked_by=SUBAGENT, asker=ExpectedAsker(PID, is_certain=True))
    asking.ask("four")
    asking.steps.clear()
    asking.do(asking.questions.stop_waiting(asking.open))
    assert asking.steps == [Overruled(undelivered, NO_LONGER_WAITED), Withdraw(missed, GONE), HandOver(hidden)]


# how questions end


def test_the_end_of_a_turn_closes_the_main_agents_questions(asking: Asking) -> None:
    main, subagents, elsewhere = asking.ask(), asking.ask(asked_by=SUBAGENT), asking.ask(asker=FakeHook(OTHER))
    asking.steps.clear()
    asking.main_stopped(PID, (OTHER,))
    assert asking.steps == [Withdraw(main, ELSEWHERE)]
    assert [one.approval for one in asking.open] == [subagents, elsewhere]


@pytest.mark.parametrize(("others", "is_closed"), [((), True), ((OTHER,), False)])
def test_an_expected_question_may_belong_to_another_process(
    asking: Asking, others: tuple[int, ...], is_closed: bool
) -> None:
    asking.ask(asker=ExpectedAsker(PID, is_certain=not others))
    asking.main_stopped(PID, others)
    assert bool(asking.steps) == is_closed


def test_a_process_that_leaves_closes_its_own_questions(asking: Asking) -> None:
    own, certain = asking.ask(), asking.ask(asker=ExpectedAsker(PID, is_certain=True))
    asking.ask(asker=FakeHook(OTHER))
    asking.ask(asker=ExpectedAsker(PID, is_certain=False))
    asking.do(asking.questions.left(PID, asking.open))
    assert asking.steps == [Withdraw(own, ENDED), Withdraw(certain, ENDED)]


@pytest.mark.parametrize(
    ("asked_by", "is_alive", "reason"),
    [(None, True, ELSEWHERE), (SUBAGENT, True, GONE), (None, False, ENDED), (SUBAGENT, False, ENDED)],
)
def test_a_withdrawal_has_a_reason(asking: Asking, asked_by: AskedBy | None, is_alive: bool, reason: str) -> None:
    assert asking.questions.why_withdrawn(asking.ask(asked_by=asked_by), is_alive=is_alive) == reason


# what the agent did


def test_a_call_that_has_ended_closes_its_question(asking: Asking) -> None:
    asking.ask("make test")
    approval = asking.ask("make")
    asking.ended("make")
    assert asking.steps == [Withdraw(approval, ELSEWHERE)]


@pytest.mark.parametrize(
    ("decision", "fate", "words"),
    [
        (ALLOWED, "ran", None),
        (ALLOWED, "rejected", "overruled: it was rejected in the terminal at the same moment"),
        (ALLOWED, "denied", None),
        (DENIED, "ran", "overruled: it was allowed in the terminal at the same moment"),
        (DENIED, "rejected", None),
    ],
)
def test_a_decision_is_compared_with_the_agents_call(
    asking: Asking, decision: Decision, fate: Fate, words: str | None
) -> None:
    approval = asking.ask()
    asking.decide(approval, decision)
    asking.ended(fate=fate)
    assert asking.steps == ([] if words is None else [Overruled(approval, words)])
    assert approval.state is (State.CONFIRMED if words is None else State.OVERRULED)
    assert asking.questions.decided == []


def test_a_call_settles_one_question_even_if_both_report_it(asking: Asking) -> None:
    first, second = asking.ask(), asking.ask()
    asking.ended(id="t1")
    asking.questions.called([Call("t1", "Bash", Raw(b'{"command": "make"}'))])
    asking.do(asking.questions.result(Result("t1", "ran"), asking.open))
    assert asking.steps == [Withdraw(first, ELSEWHERE)]
    asking.questions.called([Call("t2", "Bash", Raw(b'{"command": "make"}'))])
    asking.do(asking.questions.result(Result("t2", "ran"), asking.open))
    assert asking.steps[1:] == [Withdraw(second, ELSEWHERE)]


def test_a_call_that_ran_before_a_question_does_not_close_it(asking: Asking) -> None:
    """The agent makes the same call again. The transcript contains the result of the first call only now."""
    asking.ended(id="t1")
    asking.ask()
    asking.questions.called([Call("t1", "Bash", Raw(b'{"command": "make"}'))])
    asking.do(asking.questions.result(Result("t1", "ran"), asking.open))
    assert asking.steps == []


def test_a_call_is_attributed_to_the_allowed_question(asking: Asking) -> None:
    denied, allowed, _ = asking.ask(), asking.ask(), asking.ask()
    asking.decide(denied, DENIED)
    asking.decide(allowed, ALLOWED)
    asking.ended()
    assert (asking.steps, allowed.state, denied.state) == ([], State.CONFIRMED, State.DECIDED)


# dialogs that no hook reports


def test_a_dialog_shows_that_a_decision_was_not_delivered(asking: Asking) -> None:
    approval = asking.ask()
    asking.decide(approval, ALLOWED)
    asking.do(asking.questions.noticed(PID, asking.open))
    assert (asking.steps, asking.questions.asks_in_terminal) == ([], False), "about the dialog that was just closed"
    asking.clock.seconds += SETTLING_SECONDS
    asking.do(asking.questions.noticed(PID, asking.open))
    assert asking.steps == [Overruled(approval, NOT_DELIVERED)]
    assert asking.questions.asks_in_terminal


def test_a_dialog_of_an_open_question_changes_nothing(asking: Asking) -> None:
    asking.ask()
    asking.do(asking.questions.noticed(PID, asking.open))
    assert (asking.steps, asking.questions.asks_in_terminal) == ([], False)


@pytest.mark.parametrize("how", ["a call", "the end of the turn", "the end of the process", "the end of all processes"])
def test_a_dialog_without_a_question_ends(asking: Asking, how: str) -> None:
    asking.questions.noticed(PID, [])
    assert asking.questions.asks_in_terminal
    match how:
        case "a call":
            asking.ended()
        case "the end of the turn":
            asking.main_stopped()
        case "the end of the process":
            asking.questions.forget(PID)
        case _:
            asking.questions.forget_all()
    assert not asking.questions.asks_in_terminal


# any order


@pytest.mark.parametrize("rounds", [1_000, pytest.param(100_000, marks=[pytest.mark.slow, pytest.mark.timeout(900)])])
def test_each_question_ends_once_in_any_order(rounds: int) -> None:
    """Each is decided on or withdrawn, and only a decision is overruled."""
    seed = seeds.seed()
    random = Random(seed)
    for number in range(rounds):
        asking, asked = Asking(), list[PendingApproval]()
        for _ in range(random.randrange(1, 15)):
            command, by, pid = random.choice("ab"), random.choice([None, SUBAGENT]), random.choice([PID, OTHER])
            opened = [one.approval for one in asking.open]
            match random.randrange(8):
                case 0 | 1:
                    asker: Asker = FakeHook(pid)
                    if random.random() < 0.5:
                        asker = ExpectedAsker(pid, is_certain=random.random() < 0.5)
                    asked.append(asking.ask(command, asked_by=by, asker=asker, is_answerable=random.random() < 0.8))
                case 2 if opened:
                    asking.decide(random.choice(opened), random.choice([ALLOWED, DENIED]))
                case 3:
                    fate: Any = random.choice(["ran", "rejected", "denied"])
                    asking.ended(
                        command, fate, agent_id=by.agent_id if by else None, id=random.choice(["", "t1", "t2"])
                    )
                case 4:
                    asking.main_stopped(pid, random.choice([(), (PID + OTHER - pid,)]))
                case 5:
                    asking.do(asking.questions.stop_waiting(asking.open))
                case 6:
                    asking.clock.seconds += random.choice([0.1, SETTLING_SECONDS])
                    asking.do(asking.questions.noticed(pid, asking.open))
                case _:
                    asking.do(asking.questions.left(pid, asking.open))
        ends = [step.approval for step in asking.steps if isinstance(step, Withdraw | HandOver)]
        overruled = [step.approval for step in asking.steps if isinstance(step, Overruled)]
        where = seed, number, asking.steps
        for approval in asked:
            is_open = any(one.approval is approval for one in asking.open)
            assert is_open + (approval.decision is not None) + ends.count(approval) == 1, where
            assert overruled.count(approval) == (approval.state is State.OVERRULED), where
