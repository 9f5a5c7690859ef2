"""Parses unified diffs from git. Does no I/O."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from drawbridge.tui.difference import Line, marked_words

UNSHOWN: Final = "Its content is not shown: git does not compare it as text, or it is too large."

_HUNK: Final = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)")

_ESCAPE: Final = re.compile(r"\\([0-7]{3}|.)")
_ESCAPED: Final = {"a": "\a", "b": "\b", "t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r"}


class PatchHunk(NamedTuple):
    """A hunk. ``old``, ``new``: its lines on each side. ``lines``: the same lines, numbered from 1 on each side.
    ``above``: for each side, how many lines of the file precede the hunk. ``skipped``: the number of unchanged lines
    that are left out before the hunk."""

    lines: list[Line]
    old: str
    new: str
    above: tuple[int, int]
    skipped: int


class FilePatch(NamedTuple):
    """The changes to one file. ``notes``: changes without lines, in sentences."""

    path: str
    hunks: list[PatchHunk]
    notes: list[str]


def files_in(text: str) -> list[FilePatch]:
    """The files of a git diff without renames, which may be cut after any line; none if the text is not a diff."""
    files: list[FilePatch] = []
    lines = text.removesuffix("\n").split("\n")
    at = 0
    while at < len(lines):
        line, at = lines[at], at + 1
        if line.startswith("diff --git "):
            files.append(FilePatch(_path(line), [], []))
        elif not files:
            continue
        elif line.startswith("+++ b/"):
            files[-1] = files[-1]._replace(path=line.removeprefix("+++ b/").removesuffix("\t"))
        elif line.startswith("Binary files "):
            files[-1].notes.append(UNSHOWN)
        elif line.startswith("new mode "):
            files[-1].notes.append("File mode changed.")
        elif found := _HUNK.match(line):
            start = at
            while at < len(lines) and lines[at][:1] in (" ", "+", "-", "\\"):
                at += 1
            hunks = files[-1].hunks
            passed = hunks[-1].above[0] + len(hunks[-1].old.split("\n")) if hunks else 0
            above = max(0, int(found[1]) - 1), max(0, int(found[2]) - 1)
            hunks.append(_hunk(lines[start:at], above, max(0, above[0] - passed)))
    return files


def _path(line: str) -> str:
    """The path in ``diff --git a/x b/x``. Both halves are the same, because the diff has no renames. git quotes both if
    the path contains quotes, backslashes or control characters."""
    rest = line.removeprefix("diff --git ")
    half = rest[: (len(rest) - 1) // 2]
    if half.startswith('"'):
        half = _ESCAPE.sub(_unescaped, half[1:].removesuffix('"'))
    return half.removeprefix("a/")


def _unescaped(found: re.Match[str]) -> str:
    escaped = found[1]
    return chr(int(escaped, 8)) if len(escaped) == 3 else _ESCAPED.get(escaped, escaped)


def _hunk(written: Sequence[str], above: tuple[int, int], skipped: int) -> PatchHunk:
    """``written``: the lines of the hunk with their signs."""
    old = [line[1:] for line in written if line[0] in " -"]
    new = [line[1:] for line in written if line[0] in " +"]
    return PatchHunk([*_lines(written)], "\n".join(old), "\n".join(new), above, skipped)


def _lines(written: Sequence[str]) -> Iterator[Line]:
    removed: list[Line] = []
    added: list[Line] = []
    numbers = {"-": 0, "+": 0}
    for line in written:
        sign, text = line[0], line[1:]
        if sign == " ":
            yield from _marked(removed, added)
            removed, added = [], []
            numbers = {side: number + 1 for side, number in numbers.items()}
            yield Line("context", text, numbers["+"])
        elif sign in numbers:
            numbers[sign] += 1
            side = removed if sign == "-" else added
            side.append(Line("removed" if sign == "-" else "added", text, numbers[sign]))
    yield from _marked(removed, added)


def _marked(removed: list[Line], added: list[Line]) -> Iterator[Line]:
    """Removed lines and those that replace them, with the words that differ."""
    for at in range(min(len(removed), len(added))):
        old, new = marked_words(removed[at].text, added[at].text)
        removed[at], added[at] = removed[at]._replace(marks=old), added[at]._replace(marks=new)
    yield from removed
    yield from added
