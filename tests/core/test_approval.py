"""An approval request accepts exactly one decision, no matter how many surfaces show it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbridge.core.approval import TABLE, TRANSITIONS, Approval, State, Step, picture

STEPS = {
    Step.DECIDE: lambda approval: approval.decide("somebody", "yes"),
    Step.WITHDRAW: lambda approval: approval.withdraw("the agent has disconnected"),
    Step.CONFIRM: lambda approval: approval.confirm(),
    Step.OVERRULE: lambda approval: approval.overrule(),
}


@pytest.fixture
def approval() -> Approval[str]:
    return Approval("1")


def test_the_first_decision_wins_and_a_later_one_is_refused(approval: Approval[str]) -> None:
    assert approval.decide("Neovim", "yes")
    assert not approval.decide("phone", "no")
    assert (approval.state, approval.decided_by, approval.decision) == (State.DECIDED, "Neovim", "yes")


def test_a_withdrawn_request_cannot_be_decided(approval: Approval[str]) -> None:
    assert approval.withdraw("the agent has disconnected")
    assert not approval.decide("Neovim", "yes")
    assert (approval.state, approval.reason) == (State.WITHDRAWN, "the agent has disconnected")
    assert approval.decided_by is None
    assert approval.decision is None


def test_a_decided_request_cannot_be_withdrawn(approval: Approval[str]) -> None:
    approval.decide("Neovim", "yes")
    assert not approval.withdraw("the agent has disconnected")
    assert approval.reason is None


@pytest.mark.parametrize(("step", "end"), [("confirm", State.CONFIRMED), ("overrule", State.OVERRULED)])
def test_the_agent_confirms_or_overrules_a_decision_once(approval: Approval[str], step: str, end: State) -> None:
    assert not getattr(approval, step)()
    approval.decide("Neovim", "yes")
    assert getattr(approval, step)()
    assert not approval.confirm()
    assert not approval.overrule()
    assert approval.state is end


@given(st.lists(st.sampled_from(list(Step)), max_size=12))
def test_in_any_order_only_the_steps_in_the_table_take_effect(steps: list[Step]) -> None:
    approval: Approval[str] = Approval("1")
    effective = []
    for step in steps:
        before = approval.state
        if STEPS[step](approval):
            effective.append(step)
            assert approval.state is TRANSITIONS[before, step]
        else:
            assert approval.state is before
            assert (before, step) not in TRANSITIONS
    assert effective.count(Step.DECIDE) + effective.count(Step.WITHDRAW) <= 1
    assert len(effective) <= 2


def test_the_diagram_in_the_documentation_matches_the_table() -> None:
    page = Path(__file__).parents[2].joinpath("docs", "protocols", "client.md").read_text()
    [drawn] = re.findall(r"```mermaid\n(stateDiagram.*?)\n```", page, re.DOTALL)
    assert drawn == picture()


def test_the_table_has_one_row_for_each_step() -> None:
    assert len(TRANSITIONS) == len(TABLE)
    assert {state for row in TABLE for state in (row.before, row.after)} == set(State)
    assert {row.step for row in TABLE} == set(Step)
