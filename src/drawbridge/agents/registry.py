"""The agents of a server, by name."""

from __future__ import annotations

import importlib
import shlex
import shutil
from collections.abc import Mapping, Sequence

from msgspec import Struct

from drawbridge.agents import catalog
from drawbridge.agents.acp.driver import Acp
from drawbridge.agents.base import Agent
from drawbridge.agents.command.driver import Command


class Named(Struct, frozen=True):
    """Values of the form ``NAME=…``: programs of built-in agents, and commands of additional agents."""

    paths: Sequence[str] = ()
    acp: Sequence[str] = ()
    commands: Sequence[str] = ()


def agents(named: Named) -> dict[str, Agent]:
    """All agents, the default one first. The settings must have passed ``problems``."""
    paths = dict(_parts(given) for given in named.paths)
    found: list[Agent] = [built_in(row.name, paths.get(row.name)) for row in catalog.ROWS if row.program]
    found += [Acp(name, shlex.split(command)) for name, command in map(_parts, named.acp)]
    found += [Command(name, shlex.split(command)) for name, command in map(_parts, named.commands)]
    found += [built_in(row.name, None) for row in catalog.ROWS if not row.program]
    return {agent.name: agent for agent in found}


def built_in(name: str, path: str | None) -> Agent:
    """The driver of an agent that has a row. ``path``: its program, None for the usual one."""
    driver = importlib.import_module(f"drawbridge.agents.{name}.driver")
    agent: Agent = driver.agent(path)
    return agent


def with_image_input(known: Mapping[str, Agent]) -> list[str]:
    """The agents that accept pictures in a prompt, as far as known before they are started."""
    return [name for name, agent in known.items() if agent.sees]


def missing(named: Named) -> dict[str, str]:
    """Agent → its program, for those whose program is not on PATH. They can be installed while the server runs."""
    paths = dict(_parts(given) for given in named.paths)
    programs = {row.name: paths.get(row.name, row.program) for row in catalog.ROWS if row.program}
    programs |= {name: shlex.split(command)[0] for name, command in map(_parts, (*named.acp, *named.commands))}
    return {name: program for name, program in programs.items() if shutil.which(program) is None}


def problems(named: Named) -> list[str]:
    """The problems with the settings, as sentences for people."""
    found = []
    with_a_program = [row.name for row in catalog.ROWS if row.program]
    for name, path in map(_parts, named.paths):
        if name not in with_a_program:
            found.append(f"--agent-path: the program of {name} can't be set, only those of {', '.join(with_a_program)}")
        elif shutil.which(path) is None:
            found.append(f"--agent-path: {path} is not a program")
    taken = set(catalog.AGENTS)
    for flag, given in (("--acp-agent", named.acp), ("--command-agent", named.commands)):
        for name, command in map(_parts, given):
            if name in taken:
                found.append(f"{flag}: an agent named {name} already exists")
            taken.add(name)
            found += _command_problems(flag, command)
    return found


def _command_problems(flag: str, command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError:
        return [f"{flag}: {command} has an unclosed quotation mark"]
    return [] if words else [f"{flag}: the command is empty"]


def _parts(given: str) -> tuple[str, str]:
    name, _, value = given.partition("=")
    return name, value
