"""In whatever order events happen, each proposal gets exactly one answer, unless its agent has disconnected.

A state machine drives ``Reviews`` with the in-memory editor. The event loop runs only when a rule lets it, so that any
event can overtake any step of a review (reading, preparing, showing, closing).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar
from unittest.mock import patch

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from drawbridge.core.errors import EditorHung
from drawbridge.editors.port import Accepted, Decided, Decision, EditorEvent, Proposal, Rejected, Withdrawn
from drawbridge.ide.review import IN_ITS_DIALOG, Reviews
from tests.editors.memory import MemoryEditor

T = TypeVar("T")
OWNERS = st.sampled_from(["ada", "bob"])
TITLES = st.sampled_from(["one", "two"])
CANCELLED = "cancelled"
FAILED = "failed"


class SlowMemory(MemoryEditor):
    """An editor that handles one call at a time and takes at least one turn of the event loop for each. The next
    ``failing`` calls of ``show`` fail, although the view opens.
    """

    def __init__(self) -> None:
        super().__init__()
        self.failing = 0
        self._channel = asyncio.Lock()

    async def unsaved_text(self, path: str) -> str | None:
        async with self._channel:
            await asyncio.sleep(0)
            return await super().unsaved_text(path)

    async def show(self, proposal: Proposal) -> None:
        async with self._channel:
            await asyncio.sleep(0)
            await super().show(proposal)
            await asyncio.sleep(0)
            if self.failing:
                self.failing -= 1
                raise EditorHung("no answer, yet the view is there")

    async def withdraw(self, proposal_id: str) -> None:
        async with self._channel:
            await asyncio.sleep(0)
            await super().withdraw(proposal_id)


class Question:
    """One proposal. ``expected`` is the outcome that it must have, or None while it is open."""

    def __init__(self, owner: str, title: str, text: str, task: asyncio.Task[Decision]) -> None:
        self.owner, self.title, self.text, self.task = owner, title, text, task
        self.expected: Accepted | Rejected | type[Withdrawn] | str | None = None

    def expect(self, outcome: Accepted | Rejected | type[Withdrawn] | str) -> None:
        """Records the expected outcome after an event. The first event counts, but an agent that leaves before its
        answer gets none.
        """
        if outcome == CANCELLED and not self.task.done():
            self.expected = CANCELLED
        elif self.expected is None:
            self.expected = outcome

    def outcome(self) -> object:
        if self.task.cancelled():
            return CANCELLED
        if self.task.exception() is not None:
            assert isinstance(self.task.exception(), EditorHung)
            return FAILED
        decision = self.task.result()
        return Withdrawn if isinstance(decision, Withdrawn) else decision


class AnyOrder(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.directory = TemporaryDirectory()
        self.patches = contextlib.ExitStack()
        self.patches.enter_context(patch("asyncio.to_thread", inline))
        # The next proposal for a file does not wait for a write that never happens.
        self.patches.enter_context(patch("drawbridge.ide.review.WRITE_SECONDS", 0))
        self.questions: list[Question] = []
        self.ever_shown: list[str] = []
        self.run(self.begin)

    def run(self, function: Callable[[], T]) -> T:
        """Calls ``function`` in the event loop. Other tasks may run before it, so it must check the state itself."""

        async def call() -> T:
            return function()

        return self.runner.run(call())

    def begin(self) -> None:
        self.editor = SlowMemory()
        self.reviews = Reviews(self.editor)
        self.editor._listener = self.listen

    def listen(self, event: EditorEvent) -> None:
        assert isinstance(event, Decided)
        self.reviews.decided(event)

    def turn_loop(self, times: int) -> None:
        async def turn() -> None:
            for _ in range(times):
                await asyncio.sleep(0)

        self.runner.run(turn())

    def open_ones(self, owner: str, title: str | None = None) -> list[Question]:
        return [
            each
            for each in self.questions
            if each.owner == owner and title in (None, each.title) and each.expected is None
        ]

    # what can happen

    @rule(owner=OWNERS, title=TITLES)
    def ask(self, owner: str, title: str) -> None:
        text = f"proposal {len(self.questions)}\n"
        path = str(Path(self.directory.name) / f"{owner} {title}.txt")

        def start() -> None:
            task = asyncio.get_running_loop().create_task(self.reviews.review(owner, owner, path, text, title))
            self.questions.append(Question(owner, title, text, task))

        self.run(start)
        asked = self.questions[-1]
        # By the next turn, the new proposal has begun and has replaced any open one with the same title.
        for replaced in self.open_ones(owner, title):
            if replaced is not asked:
                replaced.expect(Withdrawn)
        self.turn_loop(1)

    @rule(times=st.integers(1, 6))
    def turn(self, times: int) -> None:
        self.turn_loop(times)

    @precondition(lambda self: self.editor.shown)
    @rule(data=st.data(), yes=st.booleans())
    def decide(self, data: st.DataObject, yes: bool) -> None:
        """The user decides on one of the proposals shown, possibly one whose view is being closed."""
        id = data.draw(st.sampled_from(sorted(self.editor.shown)))

        def act() -> None:
            proposal = self.editor.shown.get(id)
            if proposal is not None:
                decision = Accepted(f"{proposal.new_text}and mine\n") if yes else Rejected()
                self.question_of(proposal).expect(decision)
                self.editor.decide(id, decision)

        self.run(act)

    @precondition(lambda self: self.ever_shown)
    @rule(data=st.data())
    def decide_late(self, data: st.DataObject) -> None:
        """A decision in a view that is gone changes nothing."""
        gone = sorted(set(self.ever_shown) - set(self.editor.shown))
        if gone:
            late = Decided(data.draw(st.sampled_from(gone)), Accepted("late"))
            self.run(lambda: self.reviews.decided(late))

    @rule(owner=OWNERS, title=TITLES)
    def close(self, owner: str, title: str) -> None:
        async def act() -> None:
            for question in self.open_ones(owner, title):
                question.expect(Withdrawn)
            self.reviews.withdraw(owner, title, IN_ITS_DIALOG)

        self.runner.run(act())

    @rule(owner=OWNERS)
    def close_all(self, owner: str) -> None:
        async def act() -> None:
            for question in self.open_ones(owner):
                question.expect(Withdrawn)
            self.reviews.withdraw_all(owner)

        self.runner.run(act())

    @precondition(lambda self: self.questions)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        """The agent no longer wants the answer."""
        self.drop([data.draw(st.sampled_from(self.questions))])

    @rule(owner=OWNERS)
    def vanish(self, owner: str) -> None:
        self.drop([question for question in self.questions if question.owner == owner])

    def drop(self, questions: list[Question]) -> None:
        def act() -> None:
            for question in questions:
                question.expect(CANCELLED)
                question.task.cancel()

        self.run(act)

    @rule()
    def hang(self) -> None:
        self.editor.failing = 1

    # what must hold

    def question_of(self, proposal: Proposal) -> Question:
        [question] = [each for each in self.questions if each.text == proposal.new_text]
        return question

    @invariant()
    def no_agent_receives_an_outcome_without_a_decision(self) -> None:
        self.ever_shown += [id for id in self.editor.shown if id not in self.ever_shown]
        for question in self.questions:
            if question.task.done():
                outcome = question.outcome()
                if outcome == FAILED:
                    question.expected = FAILED  # whatever else happened, this is the only answer
                assert outcome == question.expected

    def teardown(self) -> None:
        try:
            self.editor.failing = 0
            self.settle()
            self.no_agent_receives_an_outcome_without_a_decision()
            still_open = [each for each in self.questions if not each.task.done()]
            assert all(each.expected is None for each in still_open), "decided, but not answered"
            assert sorted(each.new_text for each in self.editor.shown.values()) == sorted(
                each.text for each in still_open
            )
            for owner in ("ada", "bob"):
                self.close_all(owner)
            self.settle()
            self.no_agent_receives_an_outcome_without_a_decision()
            assert all(each.task.done() for each in self.questions)
            assert self.editor.shown == {}
            assert not self.reviews._open
            assert not self.reviews._by_id
        finally:
            self.runner.run(self.reviews.stop())
            self.runner.close()
            self.patches.close()
            self.directory.cleanup()

    def settle(self) -> None:
        self.turn_loop(20 + 10 * len(self.questions))


async def inline(function: Callable[..., T], *arguments: Any) -> T:
    """Replaces ``asyncio.to_thread``, since threads would make the order random."""
    for _ in range(3):
        await asyncio.sleep(0)
    return function(*arguments)


AnyOrder.TestCase.settings = settings(
    max_examples=settings().max_examples * 3 // 2, stateful_step_count=40, deadline=None
)
TestAnyOrder = AnyOrder.TestCase
