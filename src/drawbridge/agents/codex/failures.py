"""Interprets Codex's messages about failures (0.169.0). Pure."""

from __future__ import annotations

from typing import Final

from drawbridge.agents.results import NO_SESSION, RATE_LIMITED, TOO_LONG, UNAVAILABLE, Failure, not_logged_in

_UNAVAILABLE: Final = ("Selected model is at capacity", "exceeded retry limit, last status: 5")


def failure(name: str, reason: str) -> Failure | None:
    """The failure that Codex describes with ``reason``, if the client protocol has a code for it. ``name``: the agent's
    name."""
    if "no rollout found" in reason:
        return Failure(
            NO_SESSION, f"{name} can't find this conversation. It may have been deleted. Start a new session."
        )
    if "401 Unauthorized" in reason:
        return not_logged_in(name, reason)
    if "usage limit" in reason:
        return Failure(RATE_LIMITED, reason)
    if "ran out of room in the model's context window" in reason:
        return Failure(TOO_LONG, reason)
    if any(words in reason for words in _UNAVAILABLE):
        return Failure(UNAVAILABLE, reason)
    return None
