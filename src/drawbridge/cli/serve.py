"""``drawbridge serve``: the agent server."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Final

from drawbridge import settings
from drawbridge.core.errors import BadSetting
from drawbridge.settings.serve import LAUNCHD_LABEL, ServeSettings

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

    try:
        loaded = settings.load("serve", ServeSettings, vars(chosen), check=plan.problems)
    except BadSetting as error:
        if not _is_launchd_agent():
            raise
        # launchd can't be told not to restart a program after a certain exit code, except for 0. The settings must be
        # corrected first. systemd has RestartPreventExitStatus.
        print(f"drawbridge serve: {error}", file=sys.stderr)
        return 0
    return serve.run(loaded, unsaved)


def _is_launchd_agent() -> bool:
    """Whether launchd has started this process as the service that `drawbridge setup serve` installs."""
    return os.getppid() == 1 and os.environ.get("XPC_SERVICE_NAME") == LAUNCHD_LABEL
