"""The agents of a server, by name."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Sequence
from typing import Final

from drawbridge.server.agents.acp_agent import Acp
from drawbridge.server.agents.demo import Demo
from drawbridge.server.agents.gemini import Gemini
from drawbridge.server.agents.port import Agent
from drawbridge.server.agents.program import Claude

WITH_A_PROGRAM: Final = ("claude", "gemini")
"""Built-in agents whose program can be named."""

BUILT_IN: Final = (*WITH_A_PROGRAM, "demo")


def agents(paths: Sequence[str], acp: Sequence[str]) -> dict[str, Agent]:
    """All there are, the usual one first; of what ``problems`` has found nothing in."""
    programs = dict(_named(given) for given in paths)
    found: list[Agent] = [Claude(programs.get("claude")), Gemini(programs.get("gemini"))]
    found += [Acp(name, shlex.split(command)) for name, command in map(_named, acp)]
    found.append(Demo())
    return {agent.name: agent for agent in found}


def problems(paths: Sequence[str], acp: Sequence[str]) -> list[str]:
    """What is wrong with ``--agent-path`` and ``--acp-agent`` (both ``NAME=…``), as settings tell it."""
    found = []
    for name, path in map(_named, paths):
        if name not in WITH_A_PROGRAM:
            found.append(f"--agent-path: no program can be named for {name}, only for {', '.join(WITH_A_PROGRAM)}")
        elif shutil.which(path) is None:
            found.append(f"--agent-path: {path} is no program")
    taken = set(BUILT_IN)
    for name, command in map(_named, acp):
        if name in taken:
            found.append(f"--acp-agent: there is an agent {name} already")
        taken.add(name)
        found += _command_problems("--acp-agent", command)
    return found


def _command_problems(flag: str, command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError:
        return [f"{flag}: {command} has a quotation mark without its other half"]
    return [] if words and shutil.which(words[0]) else [f"{flag}: {words[0] if words else command} is no program"]


def _named(given: str) -> tuple[str, str]:
    name, _, value = given.partition("=")
    return name, value
