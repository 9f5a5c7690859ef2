"""The agents of a server, by name."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from drawbridge.agents import catalog, process
from drawbridge.agents.acp import tools as acp_tools
from drawbridge.agents.acp.driver import Acp
from drawbridge.agents.base import Agent
from drawbridge.agents.command.driver import Command
from drawbridge.agents.terminal import TerminalAgent
from drawbridge.agents.tool_calls import Tools, UnknownTools
from drawbridge.core.json_text import UNDECODABLE

VERSION: Final = re.compile(r"\d{1,6}\.\d{1,6}\.\d{1,6}([-+.][0-9A-Za-z.+-]{1,40})?")

PACKAGE_DEPTH: Final = 4
"""The number of directories that are searched for a program's package.json, beginning with the one that contains the
program."""

PACKAGE_BYTES: Final = 1_000_000


_TOOLS: Final[Mapping[str, Tools]] = {
    row.name: importlib.import_module(f"drawbridge.agents.{row.name}.tools").TOOLS
    for row in catalog.ROWS
    if row.asks or row.terminal or row.proposes
}
"""Maps each agent to its tools, for the agents with a row that ask for decisions."""

_UNKNOWN: Final = UnknownTools()


class AgentPrograms(Struct, frozen=True):
    """Values of the form ``NAME=…``: programs of built-in agents, and commands of additional agents."""

    paths: Sequence[str] = ()
    acp: Sequence[str] = ()
    commands: Sequence[str] = ()


def agents(named: AgentPrograms) -> dict[str, Agent]:
    """All agents, by name. The default agent is the first. ``named`` must have passed
    ``problems``."""
    paths = dict(_parts(given) for given in named.paths)
    found: list[Agent] = [built_in(row.name, paths.get(row.name)) for row in catalog.ROWS if row.program]
    found += [Acp(name, shlex.split(command)) for name, command in map(_parts, named.acp)]
    found += [Command(name, shlex.split(command)) for name, command in map(_parts, named.commands)]
    found += [built_in(row.name, None) for row in catalog.ROWS if not row.program]
    return {agent.name: agent for agent in found}


def built_in(name: str, path: str | None) -> Agent:
    """The agent with this ``name`` in ``catalog``. ``path``: its program; None for the usual one."""
    driver = importlib.import_module(f"drawbridge.agents.{name}.driver")
    agent: Agent = driver.agent(path)
    return agent


def terminal_agents() -> dict[str, TerminalAgent]:
    """The agents with hooks that report their sessions in terminals, by name."""
    names = [row.name for row in catalog.ROWS if row.terminal]
    return {name: importlib.import_module(f"drawbridge.agents.{name}.terminal").agent() for name in names}


def tools(name: str) -> Tools:
    """The tools of the agent with this name. An agent without a row is an ACP agent, or never asks for decisions."""
    return _TOOLS.get(name, _UNKNOWN if name in catalog.AGENTS else acp_tools.TOOLS)


def with_image_input(known: Mapping[str, Agent]) -> list[str]:
    """The names of the agents that are known to accept images in a prompt before they are started."""
    return [name for name, agent in known.items() if agent.sees]


def with_forks(known: Mapping[str, Agent]) -> list[str]:
    """The names of the agents that are known to fork conversations before they are started."""
    return [name for name, agent in known.items() if agent.forks]


def missing(named: AgentPrograms) -> dict[str, str]:
    """The agents whose programs are not installed, by name, each with the name or path of its program. The result may
    change while the server runs, since programs can be installed at any time."""
    return {name: program for name, program in _programs(named).items() if _place(name, program) is None}


class Program(Struct, frozen=True):
    """An agent's program. ``path``: its path, None if it is not installed. ``version``: None if it is not known."""

    path: str | None
    version: str | None = None


def programs(named: AgentPrograms) -> dict[str, Program]:
    """The programs of all agents that have one, by the agent's name. Blocking, but starts none of the programs."""
    found = {}
    for name, program in _programs(named).items():
        path = _place(name, program)
        found[name] = Program(path, version_of(path) if path is not None and name in catalog.AGENTS else None)
    return found


def version_of(path: str) -> str | None:
    """The version of a program, from its file's name or from the npm package that contains it; None if neither contains
    a version."""
    real = Path(os.path.realpath(path))
    if VERSION.fullmatch(real.name):
        return real.name
    for folder in list(real.parents)[:PACKAGE_DEPTH]:
        try:
            with (folder / "package.json").open("rb") as file:
                version = msgspec.json.decode(file.read(PACKAGE_BYTES), type=_Package).version
        except (OSError, *UNDECODABLE):
            continue
        return version if VERSION.fullmatch(version) else None
    return None


class _Package(Struct):
    version: str


def _programs(named: AgentPrograms) -> dict[str, str]:
    """The name or path of each agent's program, by the agent's name."""
    paths = dict(_parts(given) for given in named.paths)
    found = {row.name: paths.get(row.name, row.program) for row in catalog.ROWS if row.program}
    return found | {name: shlex.split(command)[0] for name, command in map(_parts, (*named.acp, *named.commands))}


def _place(name: str, program: str) -> str | None:
    """The path of an agent's program, searched for on PATH and, unless ``--agent-path`` names another program, in
    ``Row.places``; None if it is not installed."""
    row = catalog.AGENTS.get(name)
    places = row.places if row is not None and program == row.program else ()
    installed = (place for place in map(os.path.expanduser, places) if os.path.isfile(place))
    return shutil.which(program) or next(installed, None)


def problems(named: AgentPrograms) -> list[str]:
    """The problems with the settings, as messages for the user, without a period at the end."""
    found = []
    with_a_program = [row.name for row in catalog.ROWS if row.program]
    for name, path in map(_parts, named.paths):
        if name not in with_a_program:
            found.append(
                f"--agent-path: the program of {name} can't be set; it can be set for {', '.join(with_a_program)}"
            )
        elif shutil.which(path) is None:
            problem = process.problem_with(path) if os.sep in path else "was not found on PATH"
            found.append(f"--agent-path: {path} {problem}")
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
        # A command that ends with a backslash can be split once another character follows.
        with contextlib.suppress(ValueError):
            shlex.split(f"{command}\\")
            return [f"{flag}: {command} ends with a backslash"]
        return [f"{flag}: {command} has an unclosed quotation mark"]
    return [] if words else [f"{flag}: the command is empty"]


def _parts(given: str) -> tuple[str, str]:
    name, _, value = given.partition("=")
    return name, value
