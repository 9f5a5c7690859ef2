"""Marks the parts of a tool call that deserve a second look, such as ``sudo`` or a write outside the project. Pure.

The marks are a reading aid, not a check, because even a command without marks may do anything. Text in quotes is marked
as well, since a shell may run it (``sh -c "sudo …"``).
"""

from __future__ import annotations

import posixpath
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from drawbridge.agents import catalog
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
    "background": "Runs in the background",
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
"""Programs that write to the last file in their arguments, unless an option in ``_TARGETS`` names their target."""
_INTO: Final = frozenset({"t", "--target-directory"})
_TARGETS: Final[Mapping[str, frozenset[str]]] = {
    "curl": frozenset({"o", "D", "c", "--output", "--output-dir", "--dump-header", "--cookie-jar"}),
    "wget": frozenset(
        {"O", "P", "o", "a", "--output-document", "--directory-prefix", "--output-file", "--append-output"}
    ),
    **dict.fromkeys(("cp", "mv", "ln", "install"), _INTO),
}
"""Maps a program to those of its options whose value is a file or a directory that the program writes to."""
_TAR_INTO: Final = frozenset({"C", "--directory"})
_TAR_ARCHIVE: Final = frozenset({"f", "--file"})
_SED_SCRIPT: Final = frozenset({"e", "f", "--expression", "--file"})
_VALUED: Final[Mapping[str, str]] = {
    "curl": "AbcCdDeEFhHKmoPQrtTuUwxXyYz",
    "wget": "aABDeGiIloOPQRtTUwX",
    "tar": "bCfFgHIKLNTVX",
    "sed": "efil",
    "cp": "St",
    "mv": "St",
    "ln": "St",
    "install": "gmoSt",
}
"""Maps a program to the letters of its options that have a value."""
_ATTACHED: Final[Mapping[str, str]] = {"sed": "i"}
"""Maps a program to those of these letters whose value is never the next word."""
_HARMLESS_TARGETS: Final = frozenset({"-", "/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"})
_RUNS_OTHERS: Final = _SUDO | {"xargs", "env", "-c"}
"""Words that may be followed by options and the name of a program, wherever they are in a command."""
_BEFORE_OTHERS: Final = frozenset(
    {"nohup", "time", "command", "exec", "nice", "timeout", "then", "do", "else", "!", "{"}
)
"""Words that may be followed by options and the name of a program, at the beginning of a command."""
_SETTINGS: Final = frozenset({".git", ".vscode", ".husky"} | {row.settings for row in catalog.ROWS if row.settings})
_SETTINGS_FILES: Final = frozenset({".mcp.json", ".envrc"})

_TOKEN: Final = re.compile(r"\n|&&|\|\||>>|<<<|[;&|()<>`]|[^\s;&|()<>`\"']+")
_ENDS: Final = frozenset({"\n", "&&", "||", ";", "&", "|", "(", ")", "`"})
_ASSIGNED: Final = re.compile(r"\w+=")
_SINGLE, _DOUBLE = r"'[^']*+'", r'"(?:[^"\\]|\\.)*+"'
_QUOTED: Final = re.compile(rf"(?<!\S)#[^\n]*+|\\.|{_SINGLE}|{_DOUBLE}", re.DOTALL)
"""Matches a quoted text, and what may contain quotes that do not begin one: a comment, or an escaped character."""
_WORD: Final = rf"(?:[^\s;&|()<>`\"'\\]++|\\.|{_SINGLE}|{_DOUBLE})++"
_ARGUMENT: Final = re.compile(rf"\d*+[<>]++[&|]?[ \t]*+(?:{_WORD})?|(?P<word>{_WORD})|(?P<end>[\n;&|()`])", re.DOTALL)
"""Matches a redirection, a word, or the end of a command."""
_QUOTES: Final = re.compile(r"\\\n|\\?[\"']")
_FORCES_PUSH: Final = re.compile(r"--force|\+|-[^\Wf]*f\w*\Z")
_FORCES_CLEAN: Final = re.compile(r"--force\Z|-[^\Wf]*f\w*\Z")
_OPENS_TO_ALL: Final = re.compile(r"0?[0-7]?777\Z|(a|o|ugo)?\+[rxX]*w[rwxX]*\Z")

_WRITES: Final = _WRITES_ALL | _WRITES_LAST | _TARGETS.keys() | {"dd", "sed", "tar"}
_READINGS: Final = 3
"""How often each word of a command may be read as an argument, on average. Beyond that, the rest of the command is not
checked."""
_LETTERS: Final = 100
"""The maximum number of letters in a word of options that are read."""

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
        """The word as the name of a program, without its directory, and without the ``\\`` with which a shell ignores an
        alias."""
        return self.text.rpartition("/")[2].lstrip("\\")


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
    marks = [*_programs(tokens), *_writes(scanned, tokens, root, resolve, directory or root), *_hidden(scanned)]
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


def _writes(command: str, tokens: Sequence[Token], root: str, resolve: Resolve, directory: str) -> Iterator[Mark]:
    """Marks the files outside the project that a command writes: the targets of redirections, and what ``_written``
    returns for its programs. Only the first ``RESOLVED`` paths are checked. The part that contains the others is marked
    as unchecked, and so is the rest of a command in which most words may be arguments of many programs."""
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

    quoted = [found.span() for found in _QUOTED.finditer(command) if found[0][0] in "\"'"]
    room = 100 + _READINGS * len(tokens)
    for at in _starts(tokens):
        token = tokens[at]
        if token.text in {">", ">>"}:
            target = next((one for one in tokens[at + 1 : at + 3] if one.text not in {"|", "&"}), None)
            is_copied = at + 1 < len(tokens) and tokens[at + 1].text == "&"  # as in 2>&1
            if target and not is_copied and target.text not in _ENDS and is_outside(target, target.text):
                yield Mark("outside_project", token.start, target.end)
            continue
        if token.program not in _WRITES and token.program not in {"cd", "pushd"}:
            continue
        words = _words(command, token, quoted)
        room -= len(words)
        if room < 0:
            yield Mark("unchecked", token.start, len(command))
            break
        if token.program in {"cd", "pushd"}:
            entered = next((one for one in words if not one.text.startswith("-")), None)
            path = _absolute(entered.text, directory) if entered else directory
            directory = path if len(path) <= _LONGEST_PATH else directory
        else:
            written = _written(token.program, words)
            yield from (Mark("outside_project", one.start, one.end) for one in written if is_outside(one, one.text))
    if unchecked:
        yield Mark("unchecked", unchecked[0].start, unchecked[-1].end)


def _starts(tokens: Sequence[Token]) -> Iterator[int]:
    """The indexes of redirections, and of the words that may be the name of a program: the first one of each command,
    and the first ones after a program that runs another one."""
    may_start, runs_other, is_option = True, False, False
    for at, token in enumerate(tokens):
        text, program = token.text, token.program
        if text in {">", ">>"} or may_start:
            yield at
        if text in _ENDS:
            may_start, runs_other, is_option = True, False, False
        elif program in _RUNS_OTHERS or (may_start and program in _BEFORE_OTHERS):
            may_start, runs_other, is_option = True, True, False
        elif may_start:
            may_start = bool(_ASSIGNED.match(text)) or (
                runs_other and (is_option or text.startswith("-") or text[0].isdigit())
            )
            is_option = text.startswith("-")


def _words(command: str, program: Token, quoted: Sequence[tuple[int, int]]) -> list[Token]:
    """The arguments of a program, without their quotes and without redirections; at most 100 arguments. ``quoted``: the
    quoted parts of the command. The arguments of a program in such a part end with it."""
    begin, end = program.end, len(command)
    around = bisect_right(quoted, (program.start, 0)) - 1
    if around >= 0 and program.end < quoted[around][1]:
        is_whole = quoted[around] == (program.start - 1, program.end + 1)
        begin, end = (program.end + 1, end) if is_whole else (begin, quoted[around][1] - 1)
    found: list[Token] = []
    for argument in islice(_ARGUMENT.finditer(command, begin, end), 100):
        if argument["end"]:
            break
        raw = argument["word"] or ""
        text = _QUOTES.sub("", raw)
        if text or "'" in raw or '"' in raw:
            start = argument.start() + len(raw) - len(raw.lstrip("\"'"))
            found.append(Token(text, start, start + len(raw.strip("\"'"))))
    return found


def _written(program: str, words: Sequence[Token]) -> list[Token]:
    """The files that a program writes, as its arguments name them."""
    options = [*_options(program, words)]
    names = {name for name, _ in options}
    others = [value for name, value in options if not name and value and value.text]

    def values(wanted: frozenset[str]) -> list[Token]:
        return [value for name, value in options if name in wanted and value]

    match program:
        case "dd":
            outputs = [one for one in others if one.text.startswith("of=") and not one.text.startswith("of=/dev/")]
            return [one._replace(text=one.text[3:]) for one in outputs]
        case "sed":
            return others[0 if names & _SED_SCRIPT else 1 :] if names & {"i", "--in-place"} else []
        case "tar" if names & {"c", "r", "u", "--create", "--append", "--update"}:
            return values(_TAR_ARCHIVE)
        case "tar":
            return values(_TAR_INTO) if names & {"x", "--extract", "--get"} else []
        case _ if program in _WRITES_ALL:
            return others
    targets = values(_TARGETS.get(program, frozenset()))
    return others[-1:] if program in _WRITES_LAST and not targets and len(others) > 1 else targets


def _options(program: str, words: Sequence[Token]) -> Iterator[tuple[str, Token | None]]:
    """A program's options with their values: a letter without its ``-``, or a word with its ``--``. An argument that is
    not an option has the name ""."""
    valued, attached = _VALUED.get(program, ""), _ATTACHED.get(program, "")
    long = {name for name in (*_TARGETS.get(program, ()), *_TAR_INTO, *_TAR_ARCHIVE, *_SED_SCRIPT) if len(name) > 1}
    rest = iter(words)
    for at, word in enumerate(rest):
        text = word.text
        if text == "--":
            yield from (("", one) for one in rest)
        elif text.startswith("--"):
            name, given, value = text.partition("=")
            yield name, word._replace(text=value) if given else next(rest, None) if name in long else None
        elif program == "tar" and at == 0 and not text.startswith("-"):
            for letter in text[:_LETTERS]:  # the form without a "-", in which the values follow the letters
                yield letter, next(rest, None) if letter in valued else None
        elif text.startswith("-") and len(text) > 1:
            for index, letter in enumerate(text[1 : _LETTERS + 1], 2):
                if letter in valued:
                    value = text[index:]
                    is_next = not value and letter not in attached
                    yield letter, next(rest, None) if is_next else word._replace(text=value)
                    break
                yield letter, None
        else:
            yield "", word


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
