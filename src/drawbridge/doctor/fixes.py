"""The fixes of ``drawbridge doctor --fix``, for files that ended bridges have left behind, and for hooks with a missing
program."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from drawbridge import settings
from drawbridge.agents.hook_settings import AgentHooks
from drawbridge.core.errors import DrawbridgeError
from drawbridge.info import bridges, guards
from drawbridge.settings.hook import HookSettings
from drawbridge.setup import guard, installed
from drawbridge.setup.agents import AGENTS
from drawbridge.setup.plan import Plan


class Fix(NamedTuple):
    """A fix. ``title``: what it does. ``lines``: one for each change, such as "delete" and the path of the file."""

    title: str
    lines: list[str]
    apply: Callable[[], object]


def fixes() -> list[Fix]:
    """The possible fixes for the current directory. Nothing is changed yet."""
    directory = os.path.realpath(os.curdir)
    found = [fix for agent in AGENTS.values() for fix in _hooks(agent, directory)]
    if left := bridges.left_behind():
        found.insert(
            0, Fix("Delete the files of bridges that have ended", [f"delete {path}" for path in left], bridges.sweep)
        )
    return found


def _hooks(agent: AgentHooks, directory: str) -> Iterator[Fix]:
    """A fix that runs setup again, for each settings file that setup writes if its hook command needs a file that is
    missing or can't be used."""
    for found in guards.of_agent(agent, directory, call=False):
        project = Path(directory) if found.scope == "project" else None
        if found.state == "broken" and guards.is_in_setups_file(found, directory):
            try:
                plan = guard.plan_setup(agent.name, project, _settings(agent.name, project), None)
            except DrawbridgeError:
                continue  # the finding names the setup command, which reports this error
            scope = " --scope project" if project else ""
            lines = [f"{step.kind} {step.path}" for step in plan.steps]
            yield Fix(f"Run `drawbridge setup {agent.name}{scope}` again", lines, partial(_apply, plan))


def _settings(agent: str, project: Path | None) -> HookSettings:
    """The settings with which the guard was set up if its stub still contains them, otherwise those that setup would
    use now."""
    kept = installed.settings_in(installed.stub_path(agent, project))
    return kept or settings.load("hook", HookSettings, {"agent": agent})


def _apply(plan: Plan) -> None:
    for step in plan.steps:
        step.apply()
    plan.finish()
