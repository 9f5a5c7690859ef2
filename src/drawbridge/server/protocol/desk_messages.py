"""What clients are told of a desk session beyond what they are told of any project. Pure."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

DeskState = Literal["working", "waiting", "finished", "ended"]

ASKS_NOTHING: Final = ("auto", "bypassPermissions", "dontAsk")
"""Modes in which no question reaches a person, so none reaches a client."""


class DeskInfo(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """An agent that a person has started in a terminal of the server's machine.

    ``state`` "waiting": for an answer; "finished": for the person's next prompt, at the desk; "ended": its program has ended.
    ``permission_mode`` is the agent's word; in some nothing is asked (``asks`` false). ``prompts``: it takes them by
    ``execute``, since its terminal is one of an editor of ours.
    """

    state: DeskState
    permission_mode: str | None = None
    asks: bool = True
    prompts: bool = False
