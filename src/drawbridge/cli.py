"""The ``drawbridge`` command. A job is imported only when it is chosen."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from drawbridge import settings
from drawbridge.errors import BadSetting, DrawbridgeError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code: 0 done, 1 a fault of ours, 2 asked wrongly or no editor, 3 the world failed."""
    parser = _parser()
    chosen = parser.parse_args(arguments)
    try:
        return _run(chosen)
    except DrawbridgeError as error:
        print(f"drawbridge {chosen.command}: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130


def _run(chosen: argparse.Namespace) -> int:
    values = settings.load("ide", settings.IDE, vars(chosen))
    if (values["nvim"] is None) == (values["folder"] is None):
        raise BadSetting("Give either --nvim ADDRESS or --folder DIR.")
    if values["decide"] and values["folder"] is None:
        raise BadSetting("--decide goes with --folder.")
    from drawbridge.ide.launch import launch

    return launch(values)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="drawbridge", description="Coding agents propose changes; you decide, wherever you are."
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and end")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    ide = commands.add_parser(
        "ide",
        help="make a running editor an IDE that coding agents see and propose changes to",
        description="Make a running editor an IDE that coding agents see and propose changes to.",
    )
    settings.add_flags(ide, settings.IDE)
    return parser


class _Version(argparse.Action):
    """Reading the installed version costs 20 ms; only who asks for it pays."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"drawbridge {version('drawbridge')}")
        parser.exit()
