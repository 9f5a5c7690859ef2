"""Reads what the file of a conversation of Gemini CLI (0.61.0) contains about the model and the size of its context.
Pure."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from drawbridge.agents.base import AgentState
from drawbridge.agents.reported import count_of, decoded, name_of


class _Tokens(Struct, frozen=True):
    total: Any = None


class _Line(Struct, frozen=True):
    """A message of the model. ``tokens``: what its request has used."""

    type: Any = None
    model: Any = None
    tokens: _Tokens | None = None


class Reports:
    """The state of one conversation. ``state``: what is already known about it."""

    def __init__(self, state: AgentState) -> None:
        self._state = state

    @property
    def state(self) -> AgentState:
        return self._state

    def recorded(self, data: bytes) -> None:
        """Reads a line of the file."""
        line = decoded(data, _Line)
        if line is None or line.type != "gemini":
            return
        model = name_of(line.model) or self._state.model
        tokens = None if line.tokens is None else count_of(line.tokens.total)
        self._state = msgspec.structs.replace(
            self._state, model=model, context_tokens=self._state.context_tokens if tokens is None else tokens
        )
