"""``drawbridge setup``: shows what it would do, asks, does it, and says so."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, TextIO, TypeAlias

from drawbridge import settings
from drawbridge.errors import BadSetting
from drawbridge.setup import files, guard, notes
from drawbridge.setup.agents import AGENTS
from drawbridge.setup.plan import Plan
from drawbridge.terminal import Terminal, harmless

Chosen: TypeAlias = argparse.Namespace

STYLES = {"-": "removed", "+": "added", "@": "path"}


def run(chosen: Chosen) -> int:
    """The exit code. What is wrong is raised before anything was changed."""
    plan = _plan(chosen)
    said = {
        "target": chosen.target,
        "action": "remove" if chosen.remove else "setup",
        "changed": bool(plan.steps),
        "applied": False,
        "files": [_facts(step) for step in plan.steps],
        "command": plan.command,
        "notes": plan.notes,
    }
    if not chosen.json:
        _show(plan)
    if plan.steps and not chosen.dry_run and (chosen.json or _agreed(chosen)):
        for step, facts in zip(plan.steps, said["files"], strict=True):
            kept = step.apply()
            facts["backup"] = str(kept) if kept else None
        plan.finish()
        said["applied"] = True
    _report(chosen, plan, said)
    return 0


def _plan(chosen: Chosen) -> Plan:
    if chosen.target in AGENTS:
        try:
            here = Path.cwd()
        except FileNotFoundError:
            raise BadSetting("The current directory was removed. Nothing was changed; go to another one.") from None
        project = here if chosen.scope == "project" else None
        if chosen.remove:
            return guard.plan_removal(chosen.target, project)
        values = settings.load("hook", settings.HOOK, {**vars(chosen), "agent": chosen.target})
        return guard.plan_setup(chosen.target, project, values, _ask_mode(chosen, project))
    if chosen.target == "nvim":
        from drawbridge.setup import nvim

        return nvim.plan_removal() if chosen.remove else nvim.plan_setup()
    if chosen.target == "serve":
        from drawbridge.setup import serve

        return serve.plan_removal() if chosen.remove else serve.plan_setup()
    from drawbridge.setup import vscode

    return vscode.plan(chosen.program, remove=chosen.remove)


def _ask_mode(chosen: Chosen, project: Path | None) -> bool | None:
    """Whether Claude Code shall ask before it writes: as the flag says, else as the person does."""
    wanted: bool | None = getattr(chosen, "ask_mode", None)
    if chosen.target != "claude" or wanted is not None or not _asking(chosen) or notes.asks(project):
        return wanted
    _say(notes.NO_MODE)
    return _yes("Set it?") or None


def _agreed(chosen: Chosen) -> bool:
    return not _asking(chosen) or _yes("Do this?")


def _asking(chosen: Chosen) -> bool:
    interactive = sys.stdin.isatty() and sys.stdout.isatty()
    return interactive and not (chosen.yes or chosen.json or chosen.dry_run)


def _yes(question: str) -> bool:
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        _say("")
        return False


def _show(plan: Plan) -> None:
    terminal = Terminal(sys.stdout)
    for step in plan.steps:
        for line in step.lines():
            style = "context" if line.startswith(("---", "+++")) else STYLES.get(line[:1], "context")
            terminal.write(terminal.plain(line.replace("\t", "    "), style) + "\n")


def _report(chosen: Chosen, plan: Plan, said: dict[str, Any]) -> None:
    if chosen.json:
        _say(json.dumps(said))
        return
    if not plan.steps:
        _say(plan.nothing)
    elif said["applied"]:
        for facts in said["files"]:
            if facts["backup"]:
                _say(f"As it was before, {facts['path']} is kept in {facts['backup']}.")
        _say(plan.done)
    else:
        _say("Nothing was changed.")
    for note in plan.notes:
        _say(f"Note: {note}", sys.stderr)


def _say(line: str, stream: TextIO | None = None) -> None:
    Terminal(stream or sys.stdout).write(harmless(line) + "\n")


def _facts(step: files.Step) -> dict[str, Any]:
    return {"path": str(step.path), "change": step.kind, "diff": "\n".join(step.lines()), "backup": None}
