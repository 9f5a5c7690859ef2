"""What an agent reports about itself in the Agent Client Protocol, live and in a history."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from drawbridge.agents.acp.opening import Opened
from drawbridge.agents.acp.reports import Reports, last_state
from drawbridge.agents.base import (
    AgentLine,
    AgentOffers,
    AgentState,
    ModelOffer,
    Offer,
    OffersReported,
    StateReported,
    Todo,
)
from tests.agents.rig import session

from .peers import official

MODELS = {"currentModelId": "big", "availableModels": [{"modelId": "big", "name": "Big"}, {"modelId": "small"}, {}]}
OPTIONS = [
    {
        "id": "m",
        "category": "model",
        "currentValue": "big",
        "options": [{"value": "big", "name": "Big"}, {"value": "small"}],
    }
]


async def test_plan_context_and_commands_are_reported(project: Path) -> None:
    async with session(official(), project) as warm:
        for prompt in ("plan Read|Write", "spend 0.5", "offer review|a path"):
            assert (await warm.turn(prompt)).ok
        todos = (Todo("Read", "pending"), Todo("Write", "pending"))
        assert warm.received.all(StateReported)[-1].state == AgentState(context_tokens=1, context_window=2, todos=todos)
        assert warm.received.all(OffersReported)[-1].offers == AgentOffers(
            commands=(Offer("review", "What review does", "a path"),)
        )
        lines = [line.raw for line in warm.received.all(AgentLine) if line.durable]
        (id,) = {line.session_id for line in warm.received.all(AgentLine)} - {""}
        assert last_state(lines, id) == AgentState(todos=todos)
        assert last_state(lines, "another") == AgentState()


@pytest.mark.parametrize("opened", [{"models": MODELS}, {"configOptions": OPTIONS}])
def test_the_models_of_a_session_are_reported(opened: dict[str, Any]) -> None:
    reports, session = Reports(), Opened(**opened)
    state, offers = reports.opened(session)
    assert state == StateReported(AgentState(model="big"))
    assert offers == OffersReported(AgentOffers(models=(ModelOffer("big", "Big"), ModelOffer("small"))))
    assert reports.opened(session) == []
    session.with_model("small")
    assert reports.opened(session) == [StateReported(AgentState(model="small"))]


@pytest.mark.parametrize(
    "update",
    [
        {},
        {"sessionUpdate": "plan"},
        {"sessionUpdate": "plan", "entries": [1, {"content": 5}, {"content": "x", "status": "odd"}]},
        {"sessionUpdate": "usage_update", "used": -1, "size": "big"},
        {"sessionUpdate": "available_commands_update", "availableCommands": [None, {"name": 1}]},
    ],
)
def test_updates_in_an_unknown_format_report_nothing(update: object) -> None:
    assert Reports().update(Raw(json.dumps(update).encode())) == []


def test_reports_are_bounded() -> None:
    entries = [{"content": "x" * 5_000, "status": "pending"}] * 5_000
    (reported,) = Reports().update(Raw(json.dumps({"sessionUpdate": "plan", "entries": entries}).encode()))
    assert isinstance(reported, StateReported)
    assert len(reported.state.todos) == 200
    assert max(len(todo.text) for todo in reported.state.todos) == 500
