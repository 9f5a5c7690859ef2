"""``drawbridge hook``: the guard as a command. ``drawbridge setup`` installs it in a form that starts faster."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NoReturn, cast

from drawbridge import settings
from drawbridge.cli import sentence
from drawbridge.core.errors import BadSetting
from drawbridge.settings.hook import HookSettings

if TYPE_CHECKING:
    from drawbridge.guard.settings import Settings

SUMMARY: Final = "answer an agent's hook: protect unsaved changes in your editors"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = f"{sentence(SUMMARY)} Reads JSON from stdin and writes JSON to stdout."
    settings.add_flags(parser, settings.of(HookSettings))
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument(
        "--print-command",
        action="store_true",
        help="print the command line that `drawbridge setup` installs, which starts faster than this one",
    )
    modes.add_argument(
        "--restore",
        nargs="?",
        const="",
        metavar="N|FILE",
        help="list the saved copies of replaced text, or restore one: number N in the list, or the newest copy of FILE",
    )


def run(chosen: argparse.Namespace) -> int:
    if chosen.restore is not None:
        from drawbridge.guard import restore

        return restore.run(chosen.restore, for_guard(settings.load("hook", HookSettings, vars(chosen))))
    if not chosen.print_command and sys.stdin is not None and sys.stdin.isatty():
        from drawbridge.core.own_command import own_command

        raise BadSetting(
            "stdin is a terminal. An agent runs this hook, with JSON on stdin. To install it, run "
            f"`{own_command()} setup AGENT`."
        )
    if chosen.print_command:
        from drawbridge.setup.installed import print_command

        return print_command(settings.load("hook", HookSettings, vars(chosen)))
    from drawbridge.guard import hook

    try:
        loaded = settings.load("hook", HookSettings, vars(chosen))
    except BadSetting as error:
        given = {name: value for name, value in vars(chosen).items() if name in ("agent", "fail", "log_file")}
        return hook.refuse_settings(str(error), for_guard(HookSettings(**given)))
    return hook.run(for_guard(loaded))


def refuse_arguments(given: Sequence[str]) -> NoReturn:
    """Answers the agent if the arguments can't be parsed, and ends the process with exit code 0."""
    from drawbridge.guard import hook

    hook.refuse_settings(f"wrong arguments: {' '.join(given)}", for_guard(HookSettings()))


def for_guard(loaded: HookSettings) -> Settings:
    """The settings in the guard's own form, as ``drawbridge setup`` writes them into the installed guard."""
    return cast("Settings", loaded._asdict())
