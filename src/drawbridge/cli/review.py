"""``drawbridge review``: the review of a directory, in the terminal."""

from __future__ import annotations

import argparse
from typing import Final

from drawbridge import settings
from drawbridge.cli import sentence
from drawbridge.settings.attach import AttachSettings

SUMMARY: Final = "review what agents have changed in a directory: keep it or undo it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        f"{sentence(SUMMARY)} If no server is running and --url is not set, the command starts one, which ends when "
        "you quit."
    )
    parser.add_argument(
        "directory", nargs="?", metavar="DIR", default=".", help="the directory (default: the current one)"
    )
    settings.add_flags(parser, settings.of(AttachSettings))


def run(chosen: argparse.Namespace) -> int:
    from drawbridge.cli.own_server import own_server
    from drawbridge.core.errors import NoServer
    from drawbridge.tui import command

    given = settings.load("attach", AttachSettings, vars(chosen))
    try:
        return command.review(chosen.directory, given)
    except NoServer:
        if given.url is not None:
            raise
    with own_server("--host", "127.0.0.1", failure="The review can't be shown", quiet=True):
        return command.review(chosen.directory, given, ends_server=True)
