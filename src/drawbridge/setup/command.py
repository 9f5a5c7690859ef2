"""``drawbridge setup``: shows the changes, asks, makes them, and reports them."""

from __future__ import annotations

import dataclasses
import json
import sys
import textwrap
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from drawbridge.core.errors import BadSetting
from drawbridge.core.terminal_text import Terminal, harmless
from drawbridge.settings.hook import HookSettings
from drawbridge.setup import files, guard, notes
from drawbridge.setup.agents import AGENTS
from drawbridge.setup.plan import Plan

SHORT = 12
"""The maximum number of lines of a change that is shown in full at first, unless the plan describes it in words
(``about``)."""

UNCONFIRMED = "The changes were not confirmed, so none were made. Run this again with --yes."

VERBS = {"create": "Create", "modify": "Change", "delete": "Delete"}
STYLES = {"-": "removed", "+": "added", "@": "path"}


class SetupSettings(NamedTuple):
    """The options of one ``drawbridge setup``. ``project``: whether to set up the current directory instead of the
    user's account. ``guard``: the settings to install, None for removal and for targets other than agents.
    ``ask_mode``: whether Claude Code should ask before it writes, None to leave that as it is. ``program``: VS Code's
    command, None for the first of ``vscode.PROGRAMS`` that is on PATH."""

    target: str
    remove: bool
    dry_run: bool
    yes: bool
    json: bool
    project: bool = False
    guard: HookSettings | None = None
    ask_mode: bool | None = None
    program: str | None = None


def run(chosen: SetupSettings) -> int:
    """Runs ``drawbridge setup``, and returns the exit code: 0, or 2 if the changes were not confirmed because no
    terminal was available, or because of ``json`` without ``yes``. Problems that can be found in advance are raised as
    errors before any change."""
    plan = _plan(chosen)
    asked = bool(plan.steps) and _asking(chosen)
    agreed = chosen.yes
    if asked:
        plan, agreed = _ask(chosen, plan)
    elif not chosen.json:
        if chosen.dry_run:
            _show(plan)
        else:
            _summarize(plan)
    report: dict[str, Any] = {
        "target": chosen.target,
        "action": "remove" if chosen.remove else "setup",
        "changed": bool(plan.steps),
        "applied": False,
        "files": [_facts(step) for step in plan.steps],
        "command": plan.command,
        "notes": plan.notes,
    }
    if plan.steps and agreed and not chosen.dry_run:
        for step, facts in zip(plan.steps, report["files"], strict=True):
            kept = step.apply()
            facts["backup"] = str(kept) if kept else None
        plan.finish()
        report["applied"] = True
    unasked = bool(plan.steps) and not (asked or agreed or chosen.dry_run)
    _report(chosen, plan, report, unasked=unasked)
    return 2 if unasked else 0


def _plan(chosen: SetupSettings) -> Plan:
    if chosen.target in AGENTS:
        try:
            here = Path.cwd()
        except FileNotFoundError:
            raise BadSetting("The current directory was deleted. Change to another directory.") from None
        project = here if chosen.project else None
        if chosen.guard is None:
            return guard.plan_removal(chosen.target, project)
        return guard.plan_setup(chosen.target, project, chosen.guard, chosen.ask_mode)
    if chosen.target == "nvim":
        from drawbridge.setup import nvim

        return nvim.plan_removal() if chosen.remove else nvim.plan_setup()
    if chosen.target == "serve":
        from drawbridge.setup import serve

        return serve.plan_removal() if chosen.remove else serve.plan_setup()
    from drawbridge.setup import vscode

    return vscode.plan(chosen.program, remove=chosen.remove)


def _ask(chosen: SetupSettings, plan: Plan) -> tuple[Plan, bool]:
    """The plan that the user chose, and whether to apply it."""
    more = ["d"] if _summarize(plan) else []
    project = Path.cwd() if chosen.project else None
    agent = AGENTS.get(chosen.target)
    mode = agent.ask_mode if agent and not chosen.remove else None
    if agent and mode and chosen.ask_mode is None and not notes.asks(agent, project):
        _print("")
        _print_wrapped(mode.unasked)
        _print(
            f'  a  do this, and make {agent.title} ask ({".".join(map(str, mode.mode))} = "{mode.asking}", no auto mode)'
        )
        more.insert(0, "a")
    hint = "  (d shows every line)" if "d" in more else ""
    while (answer := _answer(f"Do this? [{'/'.join(['y', *more, 'N'])}]{hint} ")) == "d":
        _show(plan)
    if answer == "a" and "a" in more:
        return _plan(chosen._replace(ask_mode=True)), True
    shown = dataclasses.replace(
        plan, notes=[note for note in plan.notes if not (mode and note.startswith(mode.unasked))]
    )
    return shown, answer in ("y", "yes")


def _asking(chosen: SetupSettings) -> bool:
    interactive = sys.stdin.isatty() and sys.stdout.isatty()
    return interactive and not (chosen.yes or chosen.json or chosen.dry_run)


def _answer(question: str) -> str:
    try:
        return input(question).strip().lower()
    except EOFError:
        _print("")
        return ""


def _summarize(plan: Plan) -> bool:
    """Shows the plan, with one line for each change that is long or that the plan describes in words. Returns whether
    it shortened a change in this way."""
    long = False
    for step in plan.steps:
        lines = step.lines()
        about = plan.about.get(step.path)
        if about is None and len(lines) <= SHORT:
            _show_lines(lines)
        else:
            long = True
            _print_wrapped(f"{VERBS.get(step.kind, step.kind)} {step.path}{f': {about}' if about else ''}", "  ")
    return long


def _show(plan: Plan) -> None:
    for step in plan.steps:
        _show_lines(step.lines())


def _show_lines(lines: list[str]) -> None:
    terminal = Terminal(sys.stdout)
    for line in lines:
        style = "context" if line.startswith(("---", "+++")) else STYLES.get(line[:1], "context")
        terminal.write(terminal.plain(line.replace("\t", "    "), style) + "\n")


def _report(chosen: SetupSettings, plan: Plan, report: dict[str, Any], *, unasked: bool) -> None:
    if unasked:
        _print(UNCONFIRMED, sys.stderr)
    if chosen.json:
        _print(json.dumps(report))
        return
    if not plan.steps:
        _print(plan.nothing)
    elif report["applied"]:
        for facts in report["files"]:
            if facts["backup"]:
                _print(f"The previous {facts['path']} was saved as {facts['backup']}.")
        _print(plan.done)
    elif not unasked:
        _print("No changes were made.")
    for note in plan.notes:
        _print(f"Note: {note}", sys.stderr)


def _print_wrapped(text: str, indent: str = "") -> None:
    """Prints text, wrapped at words on a terminal, otherwise on one line."""
    terminal = Terminal(sys.stdout)
    width = terminal.width() if terminal.is_terminal else sys.maxsize
    lines = textwrap.wrap(
        harmless(text),
        width,
        initial_indent=indent,
        subsequent_indent=indent + "  " if indent else "",
        break_long_words=False,
        break_on_hyphens=False,
    )
    terminal.write("\n".join(lines) + "\n")


def _print(line: str, stream: TextIO | None = None) -> None:
    Terminal(stream or sys.stdout).write(harmless(line) + "\n")


def _facts(step: files.Step) -> dict[str, Any]:
    return {"path": str(step.path), "change": step.kind, "diff": "\n".join(step.lines()), "backup": None}
