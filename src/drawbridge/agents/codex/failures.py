"""Interprets Codex's messages about failures (0.169.0). Pure."""

from __future__ import annotations

from drawbridge.agents.results import NO_SESSION, RATE_LIMITED, Failure, not_logged_in


def failure(name: str, reason: str) -> Failure | None:
    """The failure that Codex describes with ``reason``, if the client protocol has a code for it. ``name``: the agent's
    name."""
    if "no rollout found" in reason:
        return Failure(NO_SESSION, f"{name} does not have this conversation, or no longer has it. Start a new session.")
    if "401 Unauthorized" in reason:
        return not_logged_in(name, reason)
    if "usage limit" in reason:
        return Failure(RATE_LIMITED, reason)
    return None
