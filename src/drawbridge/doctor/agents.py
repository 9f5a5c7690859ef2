"""Checks of the agents: whether they are installed, have a version that is known to work, and ask before they write."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import partial
from typing import Final

from drawbridge.agents import catalog, registry
from drawbridge.agents.catalog import Row
from drawbridge.core.subprocesses import run_blocking
from drawbridge.doctor.finding import Check, Finding, finding
from drawbridge.info import guards
from drawbridge.setup.agents import AGENTS

SECONDS: Final = 6.0
"""The maximum number of seconds to wait for a version. Gemini CLI takes 2 s."""

VERSION: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)")


def checks(directory: str) -> list[Check]:
    """A check for each installed agent, one for all agents that are not installed, and one for the agents' modes."""
    found = {name: program.path for name, program in registry.programs(registry.AgentPrograms()).items()}
    installed = {name: path for name, path in found.items() if path is not None}
    missing = [name for name in found if name not in installed]
    versions = [
        Check(f"{catalog.title(name)}'s program", partial(version, catalog.AGENTS[name], path))
        for name, path in installed.items()
    ]
    return [
        *versions,
        Check("agents that are not installed", lambda: absent(missing, directory, anything=bool(installed))),
        Check("the agents' modes", lambda: modes(list(installed), directory)),
    ]


def version(row: Row, path: str) -> list[Finding]:
    problem, numbers = _version(path)
    if problem:
        why = f"Drawbridge may not be able to start {row.title}."
        todo = f"Run `{shlex.quote(path)} --version` to see why, then install {row.title} again."
        return [finding("agent-fails", f"{row.title}'s program does not work: {problem}.", why, todo)]
    shown = ".".join(map(str, numbers))
    if numbers < row.oldest:
        oldest = ".".join(map(str, row.oldest))
        title = f"{row.title} {shown} is too old: Drawbridge needs {oldest} or newer."
        why = "It lacks features that Drawbridge needs to start it or show its changes."
        return [finding("agent-too-old", title, why, f"Update {row.title}. Its program is {path}.")]
    found = [finding("agent-works", f"{row.title} {shown} runs ({path}).")]
    if row.tested and numbers > row.tested:
        tested = ".".join(map(str, row.tested))
        title = f"{row.title} {shown} is newer than {tested}, the newest version that Drawbridge was tested with."
        why = "It usually works. A new version may have changed what Drawbridge relies on."
        found.append(finding("agent-newer", title, why, "If something fails, update Drawbridge."))
    return found


def absent(names: list[str], directory: str, *, anything: bool) -> list[Finding]:
    """Findings about agents that are not installed. ``anything``: whether any agent is installed."""
    found = []
    for name in names:
        found_guards = guards.of_agent(AGENTS[name], directory, call=False) if name in AGENTS else []
        if set_up := [guard for guard in found_guards if guard.command]:
            title = f"{catalog.title(name)} is set up, but `{catalog.AGENTS[name].program}` was not found."
            why = "It is neither on PATH nor in its usual place, so a server can't start it."
            removal = guards.how_to_remove(set_up[0], directory)
            todo = f"Install it, or add its directory to PATH. To undo the setup instead, {removal}."
            found.append(finding("agent-missing", title, why, todo))
    if not anything and not found:
        programs = ", ".join(catalog.AGENTS[name].program for name in names)
        why = "Drawbridge shows what an agent proposes, so it needs an agent."
        todo = "Install an agent, or add its directory to PATH."
        found.append(finding("agent-none", f"No agent was found ({programs}).", why, todo))
    return found


def modes(names: list[str], directory: str) -> list[Finding]:
    return list(_modes(names, directory))


def _modes(names: list[str], directory: str) -> Iterator[Finding]:
    for name in (name for name in guards.ASK_MODE if name in names):
        permissions = guards.permissions(name, directory)
        if not permissions.asks:
            set_there = f" (mode {permissions.mode} in {permissions.file})" if permissions.mode else ""
            title = f"{catalog.title(name)} is not set to ask before it writes{set_there}."
            todo = guards.how_to_make_it_ask(name, permissions, directory)
            yield finding("agent-does-not-ask", title, "A change may be written before you have seen it.", todo)


def _version(path: str) -> tuple[str, tuple[int, ...]]:
    """The problem and the version. One of them is always empty."""
    try:
        ended = run_blocking([path, "--version"], seconds=SECONDS)
    except OSError as error:
        return (error.strerror or "it can't be started").lower(), ()
    if ended.status is None:
        return f"it did not print its version within {SECONDS:g} seconds", ()
    if ended.status != 0:
        return f"`--version` exited with code {ended.status}", ()
    numbers = VERSION.search(ended.output.decode(errors="replace"))
    return ("", tuple(map(int, numbers.groups()))) if numbers else ("`--version` did not print a version", ())
