"""Writes the tables of flags in docs/cli.md from the commands themselves; a test compares the two.

A table stands between ``<!-- flags of COMMAND -->`` and ``<!-- /flags -->``. A flag that is a setting comes with its name
in the settings file and its environment variable; one that only some targets of ``setup`` have, with their names.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from drawbridge import cli, settings
from drawbridge.settings import Setting

PAGE = Path(__file__).resolve().parent.parent / "docs" / "cli.md"
PLACE = re.compile(r"(<!-- flags of (\w+) -->\n).*?(<!-- /flags -->\n)", re.DOTALL)


def page() -> str:
    """The page with its tables as they should be."""
    return PLACE.sub(lambda place: place[1] + "".join(table(place[2])) + place[3], PAGE.read_text())


def table(command: str) -> Iterator[str]:
    parser = commands(cli.parser())[command]
    targets = commands(parser)
    known: tuple[Setting, ...] = getattr(settings, command.upper(), ())
    if known:
        yield "| flag | file, environment | what |\n|---|---|---|\n"
        yield from (setting_row(command, setting) for setting in known)
        yield from (f"| {shown(flag)} | | {flag.help} |\n" for flag in flags(parser, known))
    elif targets:
        yield "| flag | of | what |\n|---|---|---|\n"
        yield from target_rows(targets)
    else:
        yield "| flag | what |\n|---|---|\n"
        yield from (f"| {shown(flag)} | {flag.help} |\n" for flag in flags(parser, ()))


def commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Its commands by name; empty where it has none."""
    found = (action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return dict(next(found, {}))


def flags(parser: argparse.ArgumentParser, besides: tuple[Setting, ...]) -> list[argparse.Action]:
    passed_over = {"help", *(setting.name for setting in besides)}
    return [action for action in parser._actions if action.option_strings and action.dest not in passed_over]


def setting_row(command: str, setting: Setting) -> str:
    flag = setting.flag or f"--{setting.name.replace('_', '-')}"
    value = "\\|".join(setting.choices) or setting.metavar or {"number": "N"}.get(setting.kind, "")
    often = "; repeatable" if setting.kind == "list" else ""
    default = f"; default {setting.default}" if isinstance(setting.default, str) else ""
    variable = f"{settings._prefix(command)}{setting.name.upper()}"
    return f"| `{f'{flag} {value}'.strip()}` | `{setting.name}`, `{variable}` | {setting.help}{often}{default} |\n"


def target_rows(targets: dict[str, argparse.ArgumentParser]) -> Iterator[str]:
    """Flags that all targets have come first; those of the hook are in its own table."""
    seen = {flag.dest: flag for parser in targets.values() for flag in flags(parser, settings.HOOK)}
    of = {dest: [name for name, parser in targets.items() if dest in map(_dest, flags(parser, ()))] for dest in seen}
    for dest in sorted(seen, key=lambda dest: -len(of[dest])):
        which = "all" if len(of[dest]) == len(targets) else ", ".join(f"`{name}`" for name in of[dest])
        yield f"| {shown(seen[dest])} | {which} | {seen[dest].help} |\n"


def shown(flag: argparse.Action) -> str:
    value = "|".join(map(str, flag.choices or ())) or str(flag.metavar or "")
    value = (f"[{value}]" if flag.nargs == "?" else value).replace("|", "\\|")
    return ", ".join(f"`{f'{name} {value}'.strip()}`" for name in flag.option_strings)


def _dest(flag: argparse.Action) -> str:
    return flag.dest


if __name__ == "__main__":
    PAGE.write_text(page())
