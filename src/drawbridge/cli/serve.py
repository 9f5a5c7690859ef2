"""``drawbridge serve``: the agent server."""

from __future__ import annotations

import argparse
from typing import Final

from drawbridge import settings
from drawbridge.settings.serve import ServeSettings

SUMMARY: Final = "run coding agents on this machine and control them from anywhere"

EXAMPLES: Final = """\
examples:
  drawbridge serve                                      on this machine only
  drawbridge serve --host 0.0.0.0 --allow ~/src         for the network, projects in ~/src only
  drawbridge serve --acp-agent "goose=goose acp"        with another agent

Then `drawbridge pair` connects a browser or a phone, and `drawbridge attach` a terminal."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "drawbridge serve [OPTION ...]"
    parser.epilog = EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--config", metavar="FILE", default=argparse.SUPPRESS, help="the settings file to read")
    settings.add_flags(parser, settings.of(ServeSettings))


def run(chosen: argparse.Namespace) -> int:
    from drawbridge.info.editors import unsaved
    from drawbridge.server import plan, serve

    return serve.run(settings.load("serve", ServeSettings, vars(chosen), check=plan.problems), unsaved)
