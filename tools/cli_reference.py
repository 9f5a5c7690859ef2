"""Writes the tables of flags in docs/cli.md, and of the guard's settings in docs/guard.md, from the commands.

A test checks that the pages are up to date. The table of what ``drawbridge doctor`` can find, between ``<!-- findings
-->`` and ``<!-- /findings -->`` in docs/cli.md, is written in the same way.

A table is between ``<!-- flags of COMMAND -->`` and ``<!-- /flags -->``. A flag that is a setting is shown with its
name in the settings file and its environment variable. A flag that only some ``setup`` targets have is shown with the
names of those targets. What the settings file may contain is between ``<!-- settings of COMMAND -->`` and
``<!-- /settings -->``.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

from drawbridge import cli, settings
from drawbridge.doctor.finding import CAUSES
from drawbridge.settings import Setting

PAGE = Path(__file__).resolve().parent.parent / "docs" / "cli.md"
PAGES = (PAGE, PAGE.with_name("guard.md"))
FINDINGS = re.compile(r"(<!-- findings -->\n).*?(<!-- /findings -->\n)", re.DOTALL)
PLACE = re.compile(r"(<!-- (flags|settings) of (\w+) -->\n).*?(<!-- /\2 -->\n)", re.DOTALL)


def page(path: Path = PAGE) -> str:
    """The text of the page with its tables up to date."""

    def filled(place: re.Match[str]) -> str:
        rows = table(place[3]) if place[2] == "flags" else file_table(place[3])
        return place[1] + "".join(rows) + place[4]

    text = FINDINGS.sub(lambda place: place[1] + "".join(findings()) + place[2], path.read_text())
    return PLACE.sub(filled, text)


def findings() -> Iterator[str]:
    yield "| id | severity | what was found |\n|---|---|---|\n"
    yield from (f"| `{name}` | {cause.severity} | {cause.text} |\n" for name, cause in CAUSES.items())


def table(command: str) -> Iterator[str]:
    parser = commands(cli.parser())[command]
    targets = commands(parser)
    known = settings_of(command)
    if known:
        yield "| flag | file, environment | what |\n|---|---|---|\n"
        yield from (setting_row(command, setting) for setting in known)
        yield from (f"| {shown(flag)} | | {flag.help} |\n" for flag in flags(parser, known))
    elif targets:
        yield "| flag | for | what |\n|---|---|---|\n"
        yield from target_rows(targets)
    else:
        yield "| flag | what |\n|---|---|\n"
        yield from (f"| {shown(flag)} | {flag.help} |\n" for flag in flags(parser, ()))


def file_table(command: str) -> Iterator[str]:
    yield "| setting | values | what |\n|---|---|---|\n"
    for setting in settings_of(command):
        values = {"number": f"`{setting.default}`", "switch": "`true`", "list": f'`["{setting.spec.metavar}"]`'}.get(
            setting.kind, " ".join(f'`"{choice}"`' for choice in setting.choices) or f'`"{setting.spec.metavar}"`'
        )
        text = f"`false`: {setting.spec.help}" if setting.kind == "switch" else setting.spec.help
        yield f"| `{setting.name}` | {values} | {text} |\n"


def settings_of(command: str) -> tuple[Setting, ...]:
    """The settings in ``drawbridge.settings.COMMAND``. Empty if the command has none."""
    if importlib.util.find_spec(f"drawbridge.settings.{command}") is None:
        return ()
    return settings.of(getattr(importlib.import_module(f"drawbridge.settings.{command}"), f"{command.title()}Settings"))


def commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parser's commands by name. Empty if it has none."""
    found = (action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return dict(next(found, {}))


def flags(parser: argparse.ArgumentParser, besides: tuple[Setting, ...]) -> list[argparse.Action]:
    passed_over = {"help", *(setting.name for setting in besides)}
    return [action for action in parser._actions if action.option_strings and action.dest not in passed_over]


def setting_row(command: str, setting: Setting) -> str:
    value = "\\|".join(setting.choices) or setting.spec.metavar
    often = "; repeatable" if setting.kind == "list" else ""
    default = f"; default {setting.shown_default}" if setting.shown_default else ""
    variable, text = settings.variable_name(command, setting), f"{setting.spec.help}{often}{default}"
    return f"| `{f'{setting.flag} {value}'.strip()}` | `{setting.name}`, `{variable}` | {text} |\n"


def target_rows(targets: dict[str, argparse.ArgumentParser]) -> Iterator[str]:
    """The rows for the targets' flags, beginning with the flags that most targets share. The guard's settings are left out,
    because they have their own table."""
    seen = {flag.dest: flag for parser in targets.values() for flag in flags(parser, settings_of("hook"))}
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
    for path in PAGES:
        path.write_text(page(path))
