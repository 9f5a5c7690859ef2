"""``drawbridge completion``: prints a script, generated from the parser, that completes commands and flags in bash, zsh
or fish."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from drawbridge import cli

SUMMARY: Final = "print the shell completion script"

SHELLS: Final = ("bash", "zsh", "fish")

BASH: Final = """\
_drawbridge() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} path= words= at
    for ((at = 1; at < COMP_CWORD; at++)); do
        case "$path ${COMP_WORDS[at]}" in
            {paths}) path="$path ${COMP_WORDS[at]}" ;;
        esac
    done
    case "$path $previous" in
{values}
        *)
            case "$path" in
{words}
            esac ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _drawbridge drawbridge
"""
"""The script for bash. If no word matches (for a flag's file or number, or the arguments of ``nvim``), the shell
completes file names."""

ZSH: Final = """\
autoload -Uz bashcompinit && bashcompinit
"""


class Word(NamedTuple):
    """A command, a flag or an argument's value. ``values``: a flag's possible values; () for any value, None if the
    flag takes no value."""

    text: str
    help: str
    values: tuple[str, ...] | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="the shell that will read the script")


def run(chosen: argparse.Namespace) -> int:
    print(script(chosen.shell, cli.parser()), end="")
    return 0


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    commands = dict(_commands(parser))
    return _fish(commands) if shell == "fish" else (ZSH if shell == "zsh" else "") + _bash(commands)


def _commands(
    parser: argparse.ArgumentParser, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], list[Word]]]:
    """The path of each command, such as ("setup", "claude"), and the words that may follow it. The first path, of
    ``drawbridge`` itself, is empty."""
    words: list[Word] = []
    below = []
    for action in parser._actions:  # argparse has no public way to list them
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            words += [Word(name, helps.get(name, "")) for name in action.choices]
            below = [(name, inner) for name, inner in action.choices.items()]
        elif action.option_strings:
            words += [Word(flag, action.help or "", _values(action)) for flag in action.option_strings]
        else:
            words += [Word(str(choice), "") for choice in action.choices or ()]
    yield path, words
    for name, inner in below:
        yield from _commands(inner, (*path, name))


def _values(action: argparse.Action) -> tuple[str, ...] | None:
    if action.nargs == 0:
        return None
    shown = action.metavar if isinstance(action.metavar, str) else ""
    return tuple(shown[1:-1].split(",")) if shown.startswith("{") else tuple(map(str, action.choices or ()))


def _bash(commands: Mapping[tuple[str, ...], list[Word]]) -> str:
    spoken = {"".join(f" {name}" for name in path): said for path, said in commands.items()}
    words = {path: " ".join(word.text for word in said) for path, said in spoken.items()}
    values = {f"{path} {word.text}": word.values for path, said in spoken.items() for word in said}
    free = "|".join(f'"{flag}"' for flag, choices in values.items() if choices == ())
    lines = {
        "paths": "|".join(f'"{path}"' for path in words if path),
        "values": "\n".join(
            [f"        {free}) ;;"]
            + [f'        "{flag}") words="{" ".join(choices)}" ;;' for flag, choices in values.items() if choices]
        ),
        "words": "\n".join(f'                "{path}") words="{said}" ;;' for path, said in words.items()),
    }
    text = BASH
    for name, filling in lines.items():
        text = text.replace(f"{{{name}}}", filling)
    return text


def _fish(commands: Mapping[tuple[str, ...], list[Word]]) -> str:
    lines = []
    for path, said in commands.items():
        seen = "; and ".join(f"__fish_seen_subcommand_from {name}" for name in path)
        below = [inner[-1] for inner in commands if inner[:-1] == path and inner]
        free = f"not __fish_seen_subcommand_from {' '.join(below)}" if below else ""
        condition = shlex.quote("; and ".join(filter(None, [seen, free])))
        for word in said:
            name = word.text.lstrip("-")
            kind = "-a" if name == word.text else "-l" if word.text.startswith("--") else "-s"
            takes = (
                "" if word.values is None else f" -x -a {shlex.quote(' '.join(word.values))}" if word.values else " -r"
            )
            files = " -f" if kind == "-a" else ""
            about = f" -d {shlex.quote(word.help.replace('%%', '%'))}" if word.help else ""
            lines.append(f"complete -c drawbridge -n {condition}{files} {kind} {name}{takes}{about}")
    return "\n".join(lines) + "\n"
