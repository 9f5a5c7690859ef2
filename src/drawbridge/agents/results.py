"""The result and the cost of a turn, in the same terms for every agent. Pure."""

from __future__ import annotations

import math
from typing import Final

from msgspec import Struct

from drawbridge.agents.output import sentence

FAILED, NOT_LOGGED_IN, NO_SESSION = "EXECUTION_FAILED", "AGENT_NOT_LOGGED_IN", "SESSION_NOT_FOUND"
RATE_LIMITED: Final = "AGENT_RATE_LIMITED"
UNAVAILABLE, TOO_LONG, EXITED = "MODEL_UNAVAILABLE", "CONTEXT_TOO_LONG", "AGENT_EXITED"
"""Error codes of the client protocol."""

INTERRUPTED: Final = "The run was interrupted."

MOST_USD: Final = 1_000_000.0
"""The largest plausible cost of a turn, in US dollars. A history's records can't contain more."""


class Failure(Struct, frozen=True):
    """The failure of a turn. ``text``: a message for the user; ``retry_at``: the time to try again, in seconds since
    1970, if that is known."""

    code: str
    text: str
    retry_at: float | None = None


def exit_words(code: int) -> str:
    """The end of a process, in words that follow its name. ``code``: as in ``Popen.returncode``, so negative for a
    signal."""
    return f"was killed by signal {-code}" if code < 0 else f"exited with code {code}"


def not_logged_in(name: str, reason: str) -> Failure:
    """``reason``: the agent's text about the failure; empty if it gave none."""
    text = with_reason(f"{name} has no valid login on the server's machine", reason)
    remedy = "Log in from a terminal on that machine, or start the server with a valid API key for the agent."
    return Failure(NOT_LOGGED_IN, f"{text} {remedy}")


def with_reason(text: str, reason: str) -> str:
    """``text`` and the reason as one sentence. ``text`` has no period at its end, and the reason may be empty."""
    return f"{text}: {sentence(reason)}" if reason else f"{text}."


class Costs:
    """The cost of each turn in US dollars, computed from the totals for the whole conversation.

    ``known``: the total so far; None if it is not known.
    """

    def __init__(self, known: float | None) -> None:
        self._total = known
        self._turn: list[float | None] = []

    def add(self, total: float | None, since: float | None = None) -> None:
        """Adds a new total. ``since``: the cost since the previous total, if the agent reports it."""
        self._turn.append(self._difference(total, since))
        if total is not None:
            self._total = total

    def since_last_call(self) -> float | None:
        """The cost since the last call; None if it is unknown or not plausible."""
        costs, self._turn = self._turn, []
        known = [cost for cost in costs if cost is not None]
        cost = round(sum(known), 9) if known and len(known) == len(costs) else None
        return cost if cost is not None and cost <= MOST_USD else None

    def _difference(self, total: float | None, since: float | None) -> float | None:
        if total is None or self._total is None:
            return since
        if total >= self._total:
            return total - self._total
        return total if since is None else since  # a new conversation has begun, with a total of zero


def amount(value: object) -> float | None:
    """``value`` as a float if it is a number that is finite and not negative; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and number >= 0 else None
