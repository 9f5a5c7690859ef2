"""``drawbridge doctor``: tests each connection by using it, and reports what to do."""

from __future__ import annotations

import argparse
import sys
from typing import Final

from drawbridge.cli import sentence

SUMMARY: Final = "find out why something does not connect or work, and fix the simple causes"

MORE: Final = (
    " It starts agents to find out their versions, runs their hooks with a sample call, and connects to bridges,"
    " editors and servers. The exit code is 0 if there are no warnings or problems, 3 if there are some, and 2 if the "
    "arguments are wrong or --fix could not ask. docs/cli.md lists what it can find."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = sentence(SUMMARY) + MORE
    parser.add_argument("--json", action="store_true", help="print one JSON object; docs/cli.md describes its keys")
    text = "after asking, remove files of bridges that have ended, and reinstall missing hook programs"
    parser.add_argument("--fix", action="store_true", help=text)
    parser.add_argument("--yes", action="store_true", help="with --fix: make the changes without asking")


def run(chosen: argparse.Namespace) -> int:
    """Prints the findings, and fixes what the user agrees to. Returns the exit code: 2 if --fix could not ask, 3 after
    a warning or a problem, otherwise 0."""
    from drawbridge.core.errors import BadSetting
    from drawbridge.core.terminal_text import Terminal
    from drawbridge.doctor import screen
    from drawbridge.doctor.fixes import fixes
    from drawbridge.doctor.report import report
    from drawbridge.setup.command import UNCONFIRMED

    if chosen.yes and not chosen.fix:
        raise BadSetting("--yes requires --fix.")
    terminal, errors = Terminal(sys.stdout), Terminal(sys.stderr)
    found = report()
    planned = fixes() if chosen.fix else []
    can_ask = sys.stdin.isatty() and sys.stdout.isatty() and not chosen.json
    done = False
    if not chosen.json:
        terminal.write(screen.draw(found, terminal))
        if chosen.fix and not planned:
            terminal.write("\nThere is nothing that --fix can do.\n")
        elif planned:
            terminal.write("\nTo fix:\n" + screen.draw_fixes(planned, terminal))
    if planned and (chosen.yes or (can_ask and _agreed())):
        for fix in planned:
            fix.apply()
        done = True
        found = report()
        if not chosen.json:
            terminal.write("\nDone. Now:\n\n" + screen.draw(found, terminal))
    elif planned and not can_ask:
        errors.write(f"{UNCONFIRMED}\n")
    elif planned:
        terminal.write("No changes were made.\n")
    if chosen.json:
        import json
        from dataclasses import asdict

        listed = [{"title": fix.title, "changes": fix.lines, "done": done} for fix in planned]
        terminal.write(json.dumps({"findings": list(map(asdict, found)), "fixes": listed}, indent=2) + "\n")
    if planned and not done and not can_ask:
        return 2
    return 3 if any(one.severity in ("warning", "problem") for one in found) else 0


def _agreed() -> bool:
    try:
        return input("Do this? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        sys.stdout.write("\n")
        return False
