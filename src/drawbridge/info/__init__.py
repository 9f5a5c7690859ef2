"""``drawbridge info``: the running editors and bridges, their open files, and whether the guard works.

Prints the report for a person (``screen``) or, with stable keys, for a script. Changes nothing unless it is asked to sweep.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from drawbridge.info import report


def run(directory: str | None, *, as_json: bool, sweep: bool) -> int:
    """Returns the exit code: 0, or 3 if the report names a problem."""
    found = report.look(directory, sweep=sweep)
    if as_json:
        sys.stdout.write(json.dumps(asdict(found), indent=2) + "\n")
    else:
        from drawbridge.core.terminal_text import Terminal
        from drawbridge.info import screen

        terminal = Terminal(sys.stdout)
        terminal.write(screen.draw(found, terminal))
    return 3 if found.problems else 0
