"""The report of ``drawbridge info``, composed of the other modules' results. Nothing is changed unless ``sweep`` is
set."""

from __future__ import annotations

import os
from dataclasses import dataclass

from drawbridge import settings
from drawbridge.agents.catalog import title
from drawbridge.core import launcher
from drawbridge.core.errors import BadSetting
from drawbridge.core.own_command import own_command
from drawbridge.info import bridges, editors, failures, guards
from drawbridge.info.bridges import Bridge
from drawbridge.info.editors import Editor, Socket
from drawbridge.info.guards import Guard, Permissions
from drawbridge.settings.hook import HookSettings
from drawbridge.text.counts import counted
from drawbridge.transport import running
from drawbridge.transport.running import Server


@dataclass(frozen=True)
class Report:
    """The whole report. docs/cli.md describes its keys. ``problems``: what the user should fix."""

    directory: str
    expected: dict[str, str]
    editors: list[Editor]
    sockets: list[Socket]
    bridges: list[Bridge]
    servers: list[Server]
    guard: list[Guard]
    permissions: Permissions
    problems: list[str]
    swept: list[str]


def report(directory: str | None, *, sweep: bool) -> Report:
    """The report on ``directory``, or on the current one. ``sweep``: whether to remove the sockets and discovery files
    that ended processes have left behind.

    Raises ``BadSetting`` if ``directory`` is not a directory or the guard's settings cannot be used.
    """
    here = os.path.realpath(directory or os.curdir)
    if not os.path.isdir(here):
        raise BadSetting(f"{directory} is not a directory. Name one that exists.")
    guard_settings = settings.load("hook", HookSettings, {})
    places = guard_settings.socket_dir
    unseen = editors.unseen(places)
    sockets, there = editors.inspect(here, places, guard_settings.deadline)
    found = bridges.inspect()
    swept = [*editors.sweep(sockets), *bridges.sweep()] if sweep else []
    installed = guards.inspect(here)
    prefix = launcher.socket_prefix(here)
    return Report(
        directory=here,
        expected={"neovim": f"{prefix}<pid>.sock", "vscode": f"{prefix}vscode-<pid>.sock"},
        editors=there,
        sockets=[entry for entry in sockets if entry.path not in swept],
        bridges=[bridge for bridge in found if not set(bridge.files.values()) <= set(swept)],
        servers=running.servers(),
        guard=installed,
        permissions=guards.permissions("claude", here),
        problems=[
            *_guard_problems(installed, here),
            *failures.problems(guard_settings.log_file),
            *_unseen_problems(unseen, places),
        ],
        swept=swept,
    )


def _guard_problems(installed: list[Guard], directory: str) -> list[str]:
    problems = []
    for guard in installed:
        name = title(guard.agent)
        reinstall = f"{guards.how_to_reinstall(guard, directory)}."
        if guard.state == "broken":
            problems.append(f"The guard for {name} does not work: {guard.problem}. {reinstall}")
        elif guard.state == "off":
            problems.append(f"The guard for {name} is off: {guard.problem}.")
        elif guard.state == "unreadable":
            problem = f"{guard.file} can't be read: {guard.problem}. {name} may ignore the whole file."
            problems.append(f"{problem} Correct the file, or change its permissions.")
        elif guard.state == "works" and guard.problem:
            problems.append(f"The hooks of {name} are incomplete: {guard.problem}. {reinstall}")
    return problems


def _unseen_problems(unseen: list[str], places: tuple[str, ...] | None) -> list[str]:
    if not unseen:
        return []
    place = os.path.dirname(unseen[0])
    return [
        f"The guard does not look in {place}, where it would find {counted(len(unseen), 'more editor')}. "
        f"{editors.how_to_see(place, places)}, then run `{own_command()} setup` again for each agent."
    ]
