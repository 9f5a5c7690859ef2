"""``drawbridge info``: what is running, and whether the guard is active."""

from __future__ import annotations

import argparse
import sys
from typing import Final

SUMMARY: Final = "show running editors, agent servers and bridges, and the status of the guard"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "directory", nargs="?", metavar="DIR", help="the directory to report on, instead of the current one"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object; docs/cli.md describes its keys")
    parser.add_argument(
        "--sweep", action="store_true", help="remove files left behind by editors and bridges that have ended"
    )


def run(chosen: argparse.Namespace) -> int:
    """Prints the report. Returns the exit code: 0, or 3 if the user should fix something."""
    from drawbridge.info.report import report

    found = report(chosen.directory, sweep=chosen.sweep)
    if chosen.json:
        import json
        from dataclasses import asdict

        sys.stdout.write(json.dumps(asdict(found), indent=2) + "\n")
    else:
        from drawbridge.core.terminal_text import Terminal
        from drawbridge.info import screen

        terminal = Terminal(sys.stdout)
        terminal.write(screen.draw(found, terminal))
    return 3 if found.problems else 0
