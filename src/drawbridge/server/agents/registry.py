"""The agents of a server, by name."""

from __future__ import annotations

from collections.abc import Mapping

from drawbridge.errors import BadSetting
from drawbridge.server.agents.demo import Demo
from drawbridge.server.agents.port import Agent
from drawbridge.server.agents.program import Claude


def agents(paths: Mapping[str, str]) -> dict[str, Agent]:
    """All there are, the usual one first. ``paths``: the programs of some, as ``--agent-path`` has them."""
    unknown = sorted(set(paths) - {"claude"})
    if unknown:
        raise BadSetting(f"--agent-path: there is no program to name for {', '.join(unknown)}; only claude has one.")
    found: tuple[Agent, ...] = (Claude(paths.get("claude")), Demo())
    return {agent.name: agent for agent in found}
