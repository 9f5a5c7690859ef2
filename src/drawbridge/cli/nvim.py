"""``drawbridge nvim``: starts Neovim on a socket that the guard finds, with the plugin."""

from __future__ import annotations

import argparse
from typing import Final

SUMMARY: Final = "start Neovim with the plugin and a socket that the guard finds; all arguments are passed to Neovim"

HELP: Final = """\
usage: drawbridge nvim [ARGUMENT ...]

Start Neovim with the plugin and a socket that the guard finds. All arguments are passed to Neovim, including --help."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds no arguments: ``run`` receives everything after the command unparsed, as ``arguments``, and passes it to
    Neovim.
    """


def run(chosen: argparse.Namespace) -> int:
    from drawbridge.core.launcher import launch

    return launch(chosen.arguments)
