"""``drawbridge attach``: the terminal client."""

from __future__ import annotations

import argparse
from typing import Final

from drawbridge import settings
from drawbridge.settings.attach import AttachSettings

SUMMARY: Final = "follow a server's agents in this terminal, and answer their requests"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "project", nargs="?", metavar="PROJECT", help="a project's name, path or ID (default: choose from a list)"
    )
    settings.add_flags(parser, settings.of(AttachSettings))


def run(chosen: argparse.Namespace) -> int:
    from drawbridge.tui import command

    return command.run(chosen.project, settings.load("attach", AttachSettings, vars(chosen)))
