"""Every event reaches the receivers that are declared for it."""

from __future__ import annotations

from typing import get_args

import pytest

from drawbridge.server.bus import RECEIVERS, TOPICS, Bus, Receiver
from drawbridge.server.events import Announced, ApprovalResolved, Event
from tests.server.test_events import ANNOUNCED, PATH, RECORDED, name


def test_every_event_has_declared_receivers() -> None:
    assert set(RECEIVERS) == set(get_args(Event))
    assert set(TOPICS) <= set(RECEIVERS)
    assert {receiver for receivers in RECEIVERS.values() for receiver in receivers} == set(get_args(Receiver))


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
