"""``drawbridge help``: describes a command."""

from __future__ import annotations

import argparse
from typing import Final

from drawbridge import cli
from drawbridge.cli import nvim

SUMMARY: Final = "describe a command"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    names = (*cli.COMMANDS, *cli.ALIASES)
    parser.add_argument("about", nargs="?", metavar="COMMAND", choices=names, help="the command to describe")


def run(chosen: argparse.Namespace) -> int:
    about = cli.ALIASES.get(chosen.about, chosen.about)
    if about == "nvim":
        print(nvim.HELP)
    else:
        (cli.command_parser(about) if about else cli.parser()).print_help()
    return 0
