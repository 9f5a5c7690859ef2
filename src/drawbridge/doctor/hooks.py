"""Hooks: runs the guard's command in each agent's settings with a sample call, as ``drawbridge info`` does, and checks
the guard's log."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from functools import partial
from typing import Final

from drawbridge import settings
from drawbridge.agents import registry
from drawbridge.agents.hook_settings import AgentHooks
from drawbridge.core.own_command import own_command
from drawbridge.doctor.finding import Check, Finding, finding
from drawbridge.info import failures, guards
from drawbridge.info.guards import Guard
from drawbridge.settings.hook import HookSettings
from drawbridge.setup.agents import AGENTS

SLOW_MILLISECONDS: Final = 1000
"""The number of milliseconds above which a hook is slow. Usually it takes less than 100 ms. An agent waits for it
before each edit."""

UNPROTECTED: Final = (
    "Your unsaved changes are not protected, and the server does not show the agent's terminal sessions."
)


def checks(directory: str) -> list[Check]:
    one_each = [Check(f"the hooks of {agent.title}", partial(check, agent, directory)) for agent in AGENTS.values()]
    return [*one_each, Check("the guard's log", failed)]


def check(agent: AgentHooks, directory: str) -> list[Finding]:
    return list(_check(agent, directory))


def failed() -> list[Finding]:
    named = settings.load("hook", HookSettings, {}).log_file
    why = "A call was let through or denied without a check."
    todo = f"Check the log: `tail {shlex.quote(named or failures.log_file())}`"
    return [finding("guard-failed", problem, why, todo) for problem in failures.problems(named)]


def _check(agent: AgentHooks, directory: str) -> Iterator[Finding]:
    switches = guards.switches(agent, directory)
    found = guards.of_agent(agent, directory)
    is_set_up = any(guard.command for guard in found)
    for switch in switches:
        name = "hooks-off" if is_set_up else "hooks-forbidden"
        title = f"{switch.name} in {switch.path} turns off hooks in {agent.title}."
        why = UNPROTECTED if is_set_up else "Drawbridge's hooks would not run."
        yield finding(name, title, why, switch.note)
    for guard in found:
        yield from _of_guard(agent, guard, directory)


def _of_guard(agent: AgentHooks, guard: Guard, directory: str) -> Iterator[Finding]:
    again = guards.how_to_reinstall(guard, directory)
    written_by_setup = guards.is_in_setups_file(guard, directory)
    if guard.state == "absent":
        if registry.programs(registry.AgentPrograms())[agent.name].path is not None:
            yield finding("hook-absent", f"{agent.title} does not call the guard.", UNPROTECTED, f"{again}.")
    elif guard.state == "unreadable":
        title = f"{guard.file} can't be read: {guard.problem}."
        why = f"{agent.title} may ignore the whole file."
        yield finding("hook-settings-unreadable", title, why, "Correct the file, or change its permissions.")
    elif guard.state == "broken" and guards.missing(guard.command):
        title = f"{agent.title}'s hooks do not run: {guard.problem}."
        fix = f" or `{own_command()} doctor --fix`" if written_by_setup else ""
        yield finding("hook-gone", title, UNPROTECTED, f"{again}{fix}.")
    elif guard.state == "broken":
        title = f"{agent.title}'s hooks do not work: {guard.problem}."
        place = f" The hooks are in {guard.file}." if written_by_setup else ""
        yield finding("hook-broken", title, UNPROTECTED, f"{again}.{place}")
    elif guard.state == "works" and guard.problem:
        title = f"{agent.title}'s hooks are incomplete: {guard.problem}."
        yield finding("hook-outdated", title, "Some features are missing.", f"{again}.")
    elif guard.state == "works" and guard.milliseconds > SLOW_MILLISECONDS:
        title = f"{agent.title}'s hooks answer slowly: a sample call took {guard.milliseconds / 1000:.1f} s."
        yield finding(
            "hook-slow",
            title,
            "The agent waits for the hook before each edit.",
            f"{again}, or reduce the load on this machine.",
        )
    elif guard.state == "works" and guard.milliseconds:
        yield finding("hook-works", f"{agent.title}'s hooks answer in {guard.milliseconds:.0f} ms ({guard.file}).")
    elif guard.state == "works":
        title = f"{agent.title}'s hooks in {guard.file} were not tested."
        why = "Their command is in a project's settings and is not the one that setup installs, so it was not run."
        todo = f"If you don't recognize that command, {again[0].lower()}{again[1:]}."
        yield finding("hook-untested", title, why, todo)
