"""``drawbridge info``: what is running, and whether the guard is active."""

from __future__ import annotations

import argparse
from typing import Final

SUMMARY: Final = "show running editors, agent servers and bridges, and the status of the guard"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "directory", nargs="?", metavar="DIR", help="the directory to report on, instead of the current one"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object; docs/cli.md describes its keys")
    parser.add_argument("--sweep", action="store_true", help="remove files left behind by dead editors and bridges")


def run(chosen: argparse.Namespace) -> int:
    from drawbridge import info

    return info.run(chosen.directory, as_json=chosen.json, sweep=chosen.sweep)
