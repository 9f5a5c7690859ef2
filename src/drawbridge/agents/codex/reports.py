"""Reads what Codex's transcript (0.169.0) contains about the model and the size of its context. Pure."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

from drawbridge.agents.base import AgentState
from drawbridge.agents.reported import count_of, decoded, name_of


class _Line(Struct, frozen=True):
    type: Any = None
    payload: Raw = Raw(b"{}")


class _Turn(Struct, frozen=True):
    """The fields that are read from a ``turn_context``."""

    model: Any = None
    effort: Any = None


class _Usage(Struct, frozen=True):
    total_tokens: Any = None


class _Info(Struct, frozen=True):
    last_token_usage: _Usage = _Usage()
    model_context_window: Any = None


class _Count(Struct, frozen=True):
    """The fields that are read from a ``token_count`` event."""

    type: Any = None
    info: _Info | None = None


class Reports:
    """The state of one conversation. ``state``: what is already known about it."""

    def __init__(self, state: AgentState) -> None:
        self._state = state

    @property
    def state(self) -> AgentState:
        return self._state

    def recorded(self, data: bytes) -> None:
        """Reads a line of the transcript."""
        line = decoded(data, _Line)
        if line is None:
            return
        if line.type == "turn_context" and (turn := decoded(line.payload, _Turn)) is not None:
            self._state = msgspec.structs.replace(self._state, model=name_of(turn.model), effort=name_of(turn.effort))
        if line.type == "event_msg" and (count := decoded(line.payload, _Count)) is not None and count.info:
            self._state = msgspec.structs.replace(
                self._state,
                context_tokens=count_of(count.info.last_token_usage.total_tokens),
                context_window=count_of(count.info.model_context_window),
            )
