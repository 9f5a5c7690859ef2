"""The queue of a session: its order, and when clients are sent it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from drawbridge.agents.base import Options
from drawbridge.server.events import QueueChanged
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.sessions.prompts.queue import PromptQueue
from drawbridge.server.sessions.runs.run import Order, Run

IDS = some.sampled_from(["a", "b", "c", "d"])


class Shown:
    """A queue with the prompts ``ids``, and what its clients were sent."""

    def __init__(self, *ids: str) -> None:
        self.sent: list[list[tuple[str, int]]] = []
        self.queue = PromptQueue(self._sent)
        for id in ids:
            self.queue.add(Run(Order(id, id, "phone")))

    def _sent(self, event: QueueChanged) -> None:
        self.sent.append([(run.run_id, run.position) for run in event.queue])


@given(some.lists(some.tuples(IDS, IDS | some.none())))
def test_moving_prompts_does_not_lose_any(moves: list[tuple[str, str | None]]) -> None:
    queue = Shown("a", "b", "c", "d").queue
    for moved, before in moves:
        queue.move(queue.find(moved), None if before is None else queue.find(before))
        order = [run.id for run in queue]
        assert sorted(order) == ["a", "b", "c", "d"]
        if before is None:
            assert order[-1] == moved
        elif before != moved:
            assert order.index(moved) + 1 == order.index(before)


def test_clients_are_sent_the_queue_only_if_it_has_changed() -> None:
    shown = Shown("a", "b")
    shown.queue.publish(behind_a_run=True)
    shown.queue.publish(behind_a_run=True)
    assert shown.sent == [[("a", 1), ("b", 2)]]
    shown.queue.publish(behind_a_run=False)
    assert shown.sent[1:] == [[("a", 0), ("b", 1)]], "without an active run, the next prompt is the first"
    shown.queue.remove(shown.queue.find("a"))
    shown.queue.publish(behind_a_run=False)
    assert shown.sent[2:] == [[("b", 0)]]


def test_an_empty_queue_is_not_sent_at_first() -> None:
    shown = Shown()
    shown.queue.publish(behind_a_run=True)
    assert shown.sent == []


def test_a_prompt_that_returns_to_the_queue_is_the_next_one() -> None:
    queue = Shown("a", "b").queue
    taken = queue.pop()
    assert (taken.id, queue.position("a", behind_a_run=True), queue.position("b", behind_a_run=True)) == ("a", 0, 1)
    queue.add(taken, first=True)
    assert [run.id for run in queue] == ["a", "b"]
    assert [run.id for run in queue.clear()] == ["a", "b"]
    assert len(queue) == 0


def test_a_prompt_that_is_not_in_the_queue_is_an_error() -> None:
    with pytest.raises(ClientError) as refused:
        Shown("a").queue.find("b")
    assert (refused.value.code, refused.value.field) == ("PROMPT_NOT_QUEUED", "data.run_id")


def test_an_edited_prompt_keeps_its_position_and_options() -> None:
    queue = Shown().queue
    queue.add(Run(Order("a", "one", "phone", options=Options(model="opus")), seq=1))
    queue.add(Run(Order("b", "two", "phone")))
    queue.edit(queue.find("a"), "three", seq=7)
    edited = next(iter(queue))
    assert (edited.order.prompt, edited.order.options, edited.seq) == ("three", Options(model="opus"), 7)


def test_a_choice_applies_to_prompts_without_their_own_choice() -> None:
    queue = Shown().queue
    usual = Options(model="opus", permission_mode="plan")
    queue.add(Run(Order("usual", "", "phone", options=usual)))
    queue.add(Run(Order("own", "", "phone", options=usual, wishes=frozenset({"model"}))))
    queue.add(Run(Order("other agent", "", "phone", agent="codex", options=usual)))
    queue.choose("claude", {"model": "haiku", "permission_mode": "default"})
    chosen = {run.id: run.order.options for run in queue}
    assert chosen == {
        "usual": Options(model="haiku", permission_mode="default"),
        "own": Options(model="opus", permission_mode="default"),
        "other agent": usual,
    }
