"""What clients receive about a terminal session in addition to what they receive about any session. Pure."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

DeskState = Literal["working", "waiting", "finished", "ended"]

ASKS_NOTHING: Final = ("auto", "bypassPermissions", "dontAsk")
"""Modes in which the agent changes files without asking. In auto mode it still asks about plans, its own questions and what
was blocked three times in a row; hooks can make it ask in any mode."""


IN_TERMINAL: Final = "asked in the terminal: it can only be answered there now"
"""The reason of a withdrawn approval that only the agent's own dialog still asks about."""


class DeskInfo(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """An agent that a person has started in a terminal of the server's machine.

    ``state`` "waiting": for a decision; "finished": for the person's next prompt; "ended": its program has ended.
    ``permission_mode`` is the agent's name of its mode; ``asks`` is false in those that change files without a question.
    ``prompts``: it accepts them by ``execute``, since its terminal belongs to an editor with a bridge. ``in_terminal``:
    an approval waits that only its own dialog can answer. ``background``: the agent's daemon hosts it, without a terminal.
    ``background_tasks``: how many of them run while the agent itself waits for the next prompt. ``continued_in``: the id of
    the session that continues this one, which the person has moved to the background.
    """

    state: DeskState
    permission_mode: str | None = None
    asks: bool = True
    prompts: bool = False
    in_terminal: bool = False
    background: bool = False
    background_tasks: int = 0
    continued_in: str | None = None
