"""Marks the parts of a tool call that deserve a second look, such as ``sudo`` or a write outside the project. Pure.

The marks are a reading aid, not a check, because even a command without marks may do anything. Text in quotes is marked
as well, since a shell may run it (``sh -c "sudo …"``).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from drawbridge.core.terminal_text import strange_places
from drawbridge.server.events import Risk

Resolve: TypeAlias = Callable[[str], str]
"""Returns the target of an absolute path, with all symbolic links followed. A part that does not exist stays as it
is."""

TEXTS: Final = {
    "sudo": "Runs as another user",
    "delete": "Deletes files",
    "pipe_to_shell": "Runs what it downloads or reads from a pipe",
    "outside_project": "Changes files outside the project",
    "discards_work": "Discards uncommitted changes",
    "force_push": "Overwrites the remote branch",
    "permissions": "Gives everyone access",
    "disk": "Writes to a disk directly",
    "shutdown": "Stops the machine or its services",
    "no_sandbox": "Runs outside the sandbox",
    "settings": "Changes settings that can run commands",
    "hidden_characters": "Contains hidden or misleading characters",
    "unchecked": "Too long to be checked: read all of it",
}
"""Maps the code of each risk to the text that clients show."""

SCANNED: Final = 50_000
"""The maximum number of characters of a command or a text that are searched. A longer search would delay the replies to
other clients.
"""

EACH: Final = 5
"""The maximum number of marks with the same code in one text."""

RESOLVED: Final = 50
"""The maximum number of paths in one command in which links are followed. If there are more, the part from the first to
the last of the others is marked as unchecked."""

_SUDO: Final = frozenset({"sudo", "doas", "pkexec"})
_SHELLS: Final = frozenset({"sh", "bash", "zsh", "dash", "ksh", "fish", "pwsh"})
_INTERPRETERS: Final = frozenset({"python", "python3", "perl", "ruby", "node", "php"})
_DOWNLOADS: Final = frozenset({"curl", "wget"})
_SHUTDOWNS: Final = frozenset({"shutdown", "reboot", "halt", "poweroff"})
_DISKS: Final = frozenset({"fdisk", "parted", "wipefs", "mkswap"})
_WRITES_ALL: Final = frozenset({"tee", "touch", "mkdir", "rmdir", "rm", "truncate", "chmod", "chown", "unlink"})
"""Programs that change every file in their arguments."""
_WRITES_LAST: Final = frozenset({"cp", "mv", "ln", "install", "rsync", "scp"})
"""Programs that write to the last file in their arguments."""
_HARMLESS_TARGETS: Final = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"})
_SETTINGS: Final = frozenset({".git", ".claude", ".gemini", ".codex", ".vscode", ".husky"})
_SETTINGS_FILES: Final = frozenset({".mcp.json", ".envrc"})

_TOKEN: Final = re.compile(r"\n|&&|\|\||>>|<<<|[;&|()<>`]|[^\s;&|()<>`\"']+")
_ENDS: Final = frozenset({"\n", "&&", "||", ";", "&", "|", "(", ")", "`"})
_REDIRECTS: Final = frozenset({"<", ">", ">>", "<<<"})
_ASSIGNED: Final = re.compile(r"\w+=")
_FORCES_PUSH: Final = re.compile(r"--force|\+|-[^\Wf]*f\w*\Z")
_FORCES_CLEAN: Final = re.compile(r"--force\Z|-[^\Wf]*f\w*\Z")
_OPENS_TO_ALL: Final = re.compile(r"0?[0-7]?777\Z|(a|o|ugo)?\+[rxX]*w[rwxX]*\Z")

_LONGEST_PATH: Final = 4096
"""The maximum length of a path, in characters (Linux's ``PATH_MAX``). A ``cd`` that leads to a longer path is
ignored."""


class Token(NamedTuple):
    """A word or an operator of a command, with its place in the text."""

    text: str
    start: int
    end: int

    @property
    def program(self) -> str:
        """The word as the name of a program, without its directory."""
        return self.text.rpartition("/")[2]


class Mark(NamedTuple):
    """A risk, with its place in the text, in characters as Python counts them."""

    code: str
    start: int
    end: int


def in_command(command: str, root: str, resolve: Resolve, field: str, directory: str = "") -> list[Risk]:
    """The risks in a shell command. ``root``: the project's directory. ``field``: the field of the tool's input that
    contains the command. ``directory``: the absolute path of the directory in which the command starts; empty for
    ``root``."""
    scanned = command[:SCANNED]
    tokens = [Token(found[0], found.start(), found.end()) for found in _TOKEN.finditer(scanned)]
    marks = [*_programs(tokens), *_writes(tokens, root, resolve, directory or root), *_hidden(scanned)]
    if len(command) > SCANNED:
        marks.append(Mark("unchecked", SCANNED, len(command)))
    return _risks(command, marks, field)


def in_path(path: str, root: str, resolve: Resolve, field: str) -> list[Risk]:
    """The risks of writing, moving or deleting the file with the absolute path ``path``."""
    marks = [Mark("outside_project", 0, len(path))] if not _is_inside(path, root, resolve) else []
    parts = path.split("/")
    if _SETTINGS & set(parts) or parts[-1] in _SETTINGS_FILES:
        marks.append(Mark("settings", 0, len(path)))
    return _risks(path, [*marks, *_hidden(path)], field)


def in_text(text: str, field: str) -> list[Risk]:
    """The risks of a text that is not run, such as a URL."""
    return _risks(text, _hidden(text[:SCANNED]), field)


def _risks(text: str, marks: Iterable[Mark], field: str) -> list[Risk]:
    """Converts the marks to risks, in the order of the text; at most ``EACH`` with the same code."""
    found: list[Risk] = []
    counts: dict[str, int] = {}
    for code, start, end in sorted(marks, key=lambda mark: (mark.start, mark.end)):
        counts[code] = counts.get(code, 0) + 1
        if counts[code] <= EACH:
            found.append(Risk(code, TEXTS[code], field, _utf16(text, start), _utf16(text, end)))
    return found


def _utf16(text: str, index: int) -> int:
    """The index in UTF-16 code units, as JavaScript counts."""
    return index if text.isascii() else len(text[:index].encode("utf-16-le", "surrogatepass")) // 2


def _hidden(text: str) -> Iterator[Mark]:
    for at in strange_places(text):
        if text[at] not in "\n\t":
            yield Mark("hidden_characters", at, at + 1)


def _programs(tokens: Sequence[Token]) -> Iterator[Mark]:
    for at, token in enumerate(tokens):
        rest = _arguments(tokens, at)
        code, last = _risk_of(token, rest, tokens, at)
        if code:
            yield Mark(code, token.start, (last or token).end)


def _risk_of(token: Token, rest: Sequence[Token], tokens: Sequence[Token], at: int) -> tuple[str | None, Token | None]:
    """The code of a token's risk; None without a risk. The token may be a program with the arguments ``rest``, or a
    ``|``. Also returns the last token that belongs to the risk; None if that is the token itself."""
    first = rest[0] if rest else None
    match token.program:
        case program if program in _SUDO:
            return "sudo", None
        case "su" if first and (first.text.startswith("-") or first.text == "root"):
            return "sudo", first
        case "rm":
            return "delete", _last_option(rest, "rRf", ("--recursive", "--force"))
        case "shred":
            return "delete", None
        case "find":
            deletes = next((one for one in rest if one.text == "-delete"), None)
            return ("delete" if deletes else None), deletes
        case "git" if first:
            return _risk_of_git(rest)
        case "chmod":
            opens = next((one for one in rest if _OPENS_TO_ALL.match(one.text)), None)
            return ("permissions" if opens else None), opens
        case "dd":
            disk = next((one for one in rest if one.text.startswith("of=/dev/")), None)
            return ("disk" if disk and disk.text[3:] not in _HARMLESS_TARGETS else None), disk
        case program if program in _DISKS or program.startswith("mkfs"):
            return "disk", None
        case program if program in _SHUTDOWNS:
            return "shutdown", None
        case "systemctl" if first and first.text in {"stop", "disable", "mask", "poweroff", "reboot", "isolate"}:
            return "shutdown", first
        case "|":
            return _risk_of_pipe(tokens, at)
        case program if program in _SHELLS or program in {"eval", "source"}:
            loads = next((one for one in tokens[at + 1 : at + 6] if one.program in _DOWNLOADS), None)
            return ("pipe_to_shell" if loads else None), loads
    return None, None


def _risk_of_git(rest: Sequence[Token]) -> tuple[str | None, Token | None]:
    """The risk of ``git`` with its arguments. Its own options, such as ``-C DIR``, may come first."""
    words = [one.text for one in rest]
    for at, word in enumerate(words):
        options = words[at + 1 :]
        match word:
            case "push":
                forced = next((one for one in rest[at + 1 :] if _FORCES_PUSH.match(one.text)), None)
                return ("force_push" if forced else None), forced
            case "reset" if "--hard" in options:
                return "discards_work", rest[at + 1 + options.index("--hard")]
            case "clean" if any(_FORCES_CLEAN.match(one) for one in options):
                return "delete", rest[at]
            case "restore" if "--staged" not in options or "--worktree" in options:
                return "discards_work", rest[at]
            case "checkout" if {"--", ".", "-f", "--force"} & set(options):
                return "discards_work", rest[at]
            case "stash" if {"drop", "clear"} & set(options[:1]):
                return "discards_work", rest[at + 1]
    return None, None


def _risk_of_pipe(tokens: Sequence[Token], at: int) -> tuple[str | None, Token | None]:
    """The risk of a ``|``: the program after it, past ``sudo``, ``env``, options and variables, may be a shell, or an
    interpreter that runs its input."""
    for index in range(at + 1, min(at + 8, len(tokens))):
        token = tokens[index]
        if token.program in _SHELLS:
            return "pipe_to_shell", token
        if token.program in _INTERPRETERS:
            has_program = any(
                not one.text.startswith("-") or one.text in {"-m", "-c", "-e"} for one in _arguments(tokens, index)
            )
            return (None, None) if has_program else ("pipe_to_shell", token)
        if token.program not in {*_SUDO, "env", "xargs", "nohup"} and not (
            token.text.startswith("-") or _ASSIGNED.match(token.text)
        ):
            break
    return None, None


def _last_option(rest: Sequence[Token], letters: str, words: tuple[str, ...]) -> Token | None:
    """The last option that contains one of these letters, or is one of these words; None without such an option."""
    found = None
    for one in rest:
        text = one.text
        if text in words or (text.startswith("-") and not text.startswith("--") and set(text) & set(letters)):
            found = one
    return found


def _arguments(tokens: Sequence[Token], at: int) -> list[Token]:
    """The words and redirection operators after the program at ``at``, up to the end of its command, but at most
    100."""
    found: list[Token] = []
    for token in tokens[at + 1 : at + 101]:
        if token.text in _ENDS:
            break
        found.append(token)
    return found


def _writes(tokens: Sequence[Token], root: str, resolve: Resolve, directory: str) -> Iterator[Mark]:
    """Marks the files outside the project that a command writes: the targets of redirections, the arguments of the
    programs in ``_WRITES_ALL``, and the last argument of those in ``_WRITES_LAST``. Only the first ``RESOLVED`` paths
    are checked. The part that contains the others is marked as unchecked."""
    inside: dict[str, bool] = {}
    unchecked: list[Token] = []

    def is_outside(token: Token, path: str) -> bool:
        if path in _HARMLESS_TARGETS or not path or path.startswith("&"):
            return False
        absolute = _absolute(path, directory)
        if absolute not in inside:
            if len(inside) == RESOLVED:
                unchecked.append(token)
                return False
            inside[absolute] = _is_inside(absolute, root, resolve)
        return not inside[absolute]

    for at, token in enumerate(tokens):
        if token.text in {">", ">>"}:
            target = next((one for one in tokens[at + 1 : at + 3] if one.text not in {"|", "&"}), None)
            is_copied = at + 1 < len(tokens) and tokens[at + 1].text == "&"  # as in 2>&1
            if target and not is_copied and target.text not in _ENDS and is_outside(target, target.text):
                yield Mark("outside_project", token.start, target.end)
            continue
        if at and tokens[at - 1].text not in _ENDS and tokens[at - 1].program not in {*_SUDO, "xargs", "env", "-c"}:
            continue
        rest = _arguments(tokens, at)
        named = [one for before, one in pairwise([token, *rest]) if before.text not in _REDIRECTS]
        paths = [one for one in named if one.text not in _REDIRECTS and not one.text.startswith("-")]
        if token.text in {"cd", "pushd"} and paths:
            entered = _absolute(paths[0].text, directory)
            directory = entered if len(entered) <= _LONGEST_PATH else directory
        elif token.program in _WRITES_ALL:
            yield from (Mark("outside_project", one.start, one.end) for one in paths if is_outside(one, one.text))
        elif token.program in _WRITES_LAST and len(paths) > 1 and is_outside(paths[-1], paths[-1].text):
            yield Mark("outside_project", paths[-1].start, paths[-1].end)
    if unchecked:
        yield Mark("unchecked", unchecked[0].start, unchecked[-1].end)


def _absolute(path: str, directory: str) -> str:
    """The absolute path that a shell in ``directory`` would use for ``path``, except that the home directory is written
    as ``~``."""
    for home in ("$HOME", "${HOME}"):
        path = path.replace(home, "~")
    return path if path.startswith("~") else posixpath.normpath(posixpath.join(directory, path))


def _is_inside(path: str, root: str, resolve: Resolve) -> bool:
    """Whether the file is in the project once all links are followed. A path that begins with ``~`` counts as outside.
    Variables are not expanded."""
    if path.startswith("~"):
        return False
    real, real_root = resolve(path), resolve(root)
    return real == real_root or real.startswith(real_root.rstrip("/") + "/")
