"""The agents of a server, by name."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from drawbridge.server.agents.acp_agent import Acp
from drawbridge.server.agents.codex import Codex
from drawbridge.server.agents.command_agent import Command
from drawbridge.server.agents.demo import Demo
from drawbridge.server.agents.gemini import Gemini
from drawbridge.server.agents.port import Agent
from drawbridge.server.agents.program import Claude

WITH_A_PROGRAM: Final = ("claude", "gemini", "codex")
"""Built-in agents whose program can be named."""

BUILT_IN: Final = (*WITH_A_PROGRAM, "demo")

TEXT_ALONE: Final = (Codex, Command)


class Named(Struct, frozen=True):
    """Settings, each value as ``NAME=…``: programs of built-in agents, and the commands of more agents."""

    paths: Sequence[str] = ()
    acp: Sequence[str] = ()
    commands: Sequence[str] = ()


def agents(named: Named) -> dict[str, Agent]:
    """All there are, the usual one first; of what ``problems`` has found nothing in."""
    paths = dict(_parts(given) for given in named.paths)
    found: list[Agent] = [Claude(paths.get("claude")), Gemini(paths.get("gemini")), Codex(paths.get("codex"))]
    found += [Acp(name, shlex.split(command)) for name, command in map(_parts, named.acp)]
    found += [Command(name, shlex.split(command)) for name, command in map(_parts, named.commands)]
    found.append(Demo())
    return {agent.name: agent for agent in found}


def that_see(known: Mapping[str, Agent]) -> list[str]:
    """Those that can be given a picture with a prompt, as far as that is known before they are started."""
    return [name for name, agent in known.items() if not isinstance(agent, TEXT_ALONE)]


def missing(named: Named) -> dict[str, str]:
    """Agents that can't run now → their program, which is not on PATH. They can be installed while the server runs."""
    paths = dict(_parts(given) for given in named.paths)
    programs = {name: paths.get(name, name) for name in WITH_A_PROGRAM}
    programs |= {name: shlex.split(command)[0] for name, command in map(_parts, (*named.acp, *named.commands))}
    return {name: program for name, program in programs.items() if shutil.which(program) is None}


def problems(named: Named) -> list[str]:
    """What is wrong with them, as settings tell it."""
    found = []
    for name, path in map(_parts, named.paths):
        if name not in WITH_A_PROGRAM:
            found.append(f"--agent-path: no program can be named for {name}, only for {', '.join(WITH_A_PROGRAM)}")
        elif shutil.which(path) is None:
            found.append(f"--agent-path: there is no program {path}")
    taken = set(BUILT_IN)
    for flag, given in (("--acp-agent", named.acp), ("--command-agent", named.commands)):
        for name, command in map(_parts, given):
            if name in taken:
                found.append(f"{flag}: there is an agent {name} already")
            taken.add(name)
            found += _command_problems(flag, command)
    return found


def _command_problems(flag: str, command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError:
        return [f"{flag}: {command} has a quotation mark without its other half"]
    return [] if words else [f"{flag}: the command is empty"]


def _parts(given: str) -> tuple[str, str]:
    name, _, value = given.partition("=")
    return name, value
