"""The ``drawbridge`` command: finds the chosen subcommand, and imports only its module.

Each command is a module in this package, with these members:

- ``SUMMARY``: what it does, in a few words, without a capital letter or a period;
- ``add_arguments(parser)``: adds its arguments, and anything else that its help contains;
- ``run(chosen) -> int``: turns the parsed arguments into typed settings, does the work, and returns the exit code.

A module imports the code that does the work only in ``run``, because help, completion and documentation import all
modules.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any, Final

from drawbridge.core.errors import CallerError, DrawbridgeError

COMMANDS: Final = (
    "ide",
    "nvim",
    "info",
    "doctor",
    "serve",
    "token",
    "pair",
    "attach",
    "review",
    "demo",
    "hook",
    "setup",
    "completion",
    "help",
)
"""All commands, in the order of the help."""

ALIASES: Final = {"neovim": "nvim"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command. Returns the exit code: unless the command defines it differently, 0 for success, 1 for an
    internal error, 2 for wrong usage or no editor, 3 for a problem outside Drawbridge, 130 after Ctrl-C, 141 if the
    reader of the output has ended. Raises ``SystemExit`` after ``--help`` or ``--version``, and for arguments that
    can't be parsed."""
    try:
        try:
            return _main(list(sys.argv[1:] if arguments is None else arguments))
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # `drawbridge … | head`: the reader closed its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE


def _main(given: list[str]) -> int:
    name = ALIASES.get(given[0], given[0]) if given else ""
    if name not in COMMANDS:
        everything = parser()
        everything.parse_args(given)  # argparse exits here after --help, --version or an error
        everything.print_help(sys.stderr)
        return 2
    command = module(name)
    if name == "nvim":  # everything after it is for Neovim, including --help
        chosen = argparse.Namespace(arguments=given[1:])
    else:
        try:
            chosen = command_parser(name).parse_args(given[1:])
        except SystemExit as stop:
            if name != "hook" or not stop.code:
                raise
            # The agent would treat exit code 2 as a denial, and stop all work because of a misspelled flag.
            return int(command.refuse_arguments(given[1:]))
    try:
        return int(command.run(chosen))
    except DrawbridgeError as error:
        # A wrong argument does not need to be looked up in the documentation, so no code is printed.
        code = "" if isinstance(error, CallerError) else f" [{error.code}]"
        print(f"drawbridge {given[0]}: {error}{code}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C would change the exit code
        return 130


def module(name: str) -> ModuleType:
    """Imports and returns the module of a command."""
    import importlib

    return importlib.import_module(f"drawbridge.cli.{name}")


def command_parser(name: str) -> argparse.ArgumentParser:
    """The parser of one command, the same as its subparser in ``parser``."""
    command = module(name)
    parser = _Parser(prog=f"drawbridge {name}", description=sentence(command.SUMMARY))
    command.add_arguments(parser)
    return parser


def parser() -> argparse.ArgumentParser:
    """The parser for all commands: for the help, the completion and the documentation."""
    everything = _Parser(
        prog="drawbridge",
        description="Coding agents propose changes; you decide, wherever you are.",
        epilog="`drawbridge help COMMAND` describes a command.",
    )
    everything.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    commands = everything.add_subparsers(title="commands", dest="command", metavar="COMMAND")
    aliases = {name: [alias for alias, meant in ALIASES.items() if meant == name] for name in COMMANDS}
    for name in COMMANDS:
        command = module(name)
        command.add_arguments(
            commands.add_parser(
                name,
                aliases=aliases[name],
                help=command.SUMMARY,
                description=sentence(command.SUMMARY),
                add_help=name != "nvim",
            )
        )
    return everything


def sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


class _Parser(argparse.ArgumentParser):
    """Reports unknown arguments and values together with the subcommand's own usage and the closest known name."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}{_meant(rest[0], self._option_string_actions)}")
        return found, rest

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            choices = [str(choice) for choice in action.choices]
            name = (action.metavar if isinstance(action.metavar, str) else action.dest).lower()
            hint = _meant(str(value), choices) or f" (one of {', '.join(choices)})"
            raise argparse.ArgumentError(None, f"unknown {name}: {value}{hint}")


def _meant(word: str, known: Iterable[str]) -> str:
    import difflib

    near = difflib.get_close_matches(word.partition("=")[0], known, 1)
    return f". Did you mean {near[0]}?" if near else ""


class _Version(argparse.Action):
    """Prints the installed version, which is read only when it is needed, because that takes 20 ms."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"drawbridge {version('drawbridge')}")
        parser.exit()
