"""Reads what an agent reports about itself in the Agent Client Protocol: model, plan, context, and what it offers.
Pure.

The protocol has no messages about retries, compaction or background tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from drawbridge.agents.acp import messages as wire
from drawbridge.agents.acp.opening import Opened
from drawbridge.agents.base import AgentOffers, AgentState, ModelOffer, Offer, OffersReported, Output, StateReported
from drawbridge.agents.reported import LONGEST_DESCRIPTION, count_of, each, name_of, text_of, todo_of

KINDS: Final = ("plan", "usage_update", "available_commands_update")
"""The updates that ``Reports.update`` reads."""


class _Update(Struct):
    sessionUpdate: Any = None  # noqa: N815 - the protocol's own names
    entries: Any = None
    used: Any = None
    size: Any = None
    availableCommands: Any = None  # noqa: N815


class Reports:
    """The current state of one session of an agent, and what it offers."""

    def __init__(self, state: AgentState | None = None) -> None:
        """``state``: as in ``Launch``."""
        self.state = state or AgentState()
        self._offers = AgentOffers()

    def update(self, data: Raw) -> list[Output]:
        """Reads an update of one of ``KINDS``. Returns the events for what has changed."""
        update = wire.read_as(_Update, data) or _Update()
        match update.sessionUpdate:
            case "plan":
                return self._change(todos=each(update.entries, todo_of))
            case "usage_update":
                return self._change(context_tokens=count_of(update.used), context_window=count_of(update.size) or None)
            case "available_commands_update":
                return self._offer(commands=each(update.availableCommands, _command))
        return []

    def opened(self, opened: Opened) -> list[Output]:
        """Handles the opening of the session, or a change to its model or options."""
        choices = opened.choices("model")
        if choices is None:
            return []
        models = each(opened.listed("model"), _model)
        return [*self._change(model=name_of(choices.current)), *self._offer(models=models)]

    def _change(self, **fields: Any) -> list[Output]:
        before, self.state = self.state, msgspec.structs.replace(self.state, **fields)
        return [StateReported(self.state)] if self.state != before else []

    def _offer(self, **fields: Any) -> list[Output]:
        before, self._offers = self._offers, msgspec.structs.replace(self._offers, **fields)
        return [OffersReported(self._offers)] if self._offers != before else []


def last_state(lines: Sequence[bytes], session_id: str) -> AgentState:
    """See ``Reconstructs.last_state``. A history contains plans, and the answer that opened the session, but not the
    size of the context."""
    reports = Reports()
    for data in lines:
        read = wire.parsed(data)
        if read is None:
            continue
        params = wire.read_as(wire.Params, read[0].params)
        if read[0].method == "session/update" and params is not None and params.sessionId == session_id:
            reports.update(params.update)
        opened = wire.read_as(Opened, read[0].result)
        if opened is not None and opened.sessionId == session_id:
            reports.opened(opened)
    return reports.state


def _command(given: Any) -> Offer | None:
    name = name_of(given.get("name")) if isinstance(given, dict) else None
    if name is None:
        return None
    asked = given.get("input")
    hint = name_of(asked.get("hint")) if isinstance(asked, dict) else None
    return Offer(name, text_of(given.get("description"), LONGEST_DESCRIPTION), hint)


def _model(given: Any) -> ModelOffer | None:
    """A model as the session lists it (``modelId``) or as a value of one of its options (``value``); None if it has no
    valid name."""
    name = name_of(given.get("modelId") or given.get("value")) if isinstance(given, dict) else None
    if name is None:
        return None
    return ModelOffer(name, name_of(given.get("name")), text_of(given.get("description"), LONGEST_DESCRIPTION))
