"""Every event reaches the receivers that are declared for it."""

from __future__ import annotations

import ast
import inspect
from types import ModuleType
from typing import get_args

import pytest

from drawbridge.server.approvals import editors
from drawbridge.server.bus import RECEIVERS, TOPICS, Bus, Receiver
from drawbridge.server.events import Announced, ApprovalResolved, Audited, Event
from drawbridge.server.notifications import notices, send
from drawbridge.server.sessions.runs import metrics
from tests.server.test_events import ANNOUNCED, PATH, RECORDED, name


def test_every_event_has_declared_receivers() -> None:
    assert set(RECEIVERS) == set(get_args(Event))
    assert set(TOPICS) <= set(RECEIVERS)
    assert {receiver for receivers in RECEIVERS.values() for receiver in receivers} == set(get_args(Receiver))


HANDLERS: dict[Receiver, list[ModuleType]] = {
    "editors": [editors],
    "notices": [send, notices],
    "metrics": [metrics],
}
"""The modules that handle the events of a receiver, by the events' types."""


def handled(module: ModuleType) -> set[str]:
    """The types that a module tells apart, by ``case`` or ``isinstance``."""
    tree = list(ast.walk(ast.parse(inspect.getsource(module))))
    cases = [node.cls for node in tree if isinstance(node, ast.MatchClass)]
    checks = [node.args[1] for node in tree if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance"]
    return {name.id for found in (*cases, *checks) for name in ast.walk(found) if isinstance(name, ast.Name)}


@pytest.mark.parametrize("receiver", HANDLERS)
def test_a_receiver_gets_all_events_that_it_handles(receiver: Receiver) -> None:
    events = {event.__name__ for event in get_args(Event)}
    found = {name for module in HANDLERS[receiver] for name in handled(module)} & events
    assert found == {event.__name__ for event, receivers in RECEIVERS.items() if receiver in receivers}


def test_the_histories_and_the_audit_log_are_complete() -> None:
    for event in get_args(Event):
        assert ("audit" in RECEIVERS[event]) == (event in get_args(Audited))
        assert ("clients" in RECEIVERS[event]) == (event not in get_args(Audited))


def test_a_bus_needs_all_of_its_receivers() -> None:
    receivers = {receiver: (lambda announced: None) for receiver in get_args(Receiver)}
    Bus(**receivers)
    for forgotten in receivers:
        with pytest.raises(TypeError, match=forgotten):
            Bus(**{receiver: handle for receiver, handle in receivers.items() if receiver != forgotten})


@pytest.mark.parametrize("event", [*RECORDED, *ANNOUNCED], ids=name)
def test_an_event_reaches_its_receivers_in_their_order(event: Event) -> None:
    reached: list[str] = []
    bus = Bus(**{one: (lambda announced, one=one: reached.append(one)) for one in get_args(Receiver)})
    bus.publish(Announced("p1", PATH, event))
    assert tuple(reached) == RECEIVERS[type(event)]


def test_a_failing_receiver_does_not_affect_the_others(caplog: pytest.LogCaptureFixture) -> None:
    """The publisher gets no error either, since a recorded decision must still reach the agent."""

    def fails(announced: Announced) -> None:
        raise RuntimeError("a defect")

    reached: list[str] = []
    receivers = {one: (lambda announced, one=one: reached.append(one)) for one in get_args(Receiver)}
    bus = Bus(**(receivers | {"clients": fails}))
    bus.publish(Announced("p1", PATH, ApprovalResolved("appr_1", "phone", "allow")))
    assert reached == ["notices"]
    assert "p1: clients failed to handle an event of type ApprovalResolved" in caplog.text
