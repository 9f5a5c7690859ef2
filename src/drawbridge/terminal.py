"""A terminal that a person reads: text from anywhere is shown as harmless text, with colour where there is any."""

from __future__ import annotations

import functools
import os
import re
import shutil
import unicodedata
from collections.abc import Iterator
from typing import Final, TextIO

COLOURS: Final = {
    "accepted": "1;32",
    "added": "32",
    "agent": "1",
    "context": "",
    "dim": "2",
    "path": "1;36",
    "question": "1",
    "rejected": "1;31",
    "removed": "31",
    "strange": "7",
    "warn": "33",
    "error": "1;31",
    "info": "",
}

_CONTROLS: Final = re.compile("[\x00-\x1f\x7f]")
"""What is strange in a text that is ASCII."""

# Always written out: what drives a terminal, reorders what is read or can't be seen (controls, bidirectional and invisible
# format characters, separators, lone surrogates, fillers, tags), blanks that look like a space and are not one, and marks
# that strike out or enclose the letter before them.
_STRANGE: Final = (
    "\x00-\x1f\x7f-\xa0\xad\u034f\u0334-\u0338\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200b\u200e\u200f"
    "\u2028-\u202f\u205f-\u206f\u20d2\u20d3\u20d8-\u20da\u20dd-\u20e2\u20e4-\u20eb\u2800\u3164\ufe00-\ufe0d\ufeff\uffa0"
    "\ufff9-\ufffb\ud800-\udfff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_JOINERS: Final = "\u200c\u200d"
"""Emoji and several scripts are written with them, between letters that are not ASCII."""
_SELECTORS: Final = "\ufe0e\ufe0f"
"""Text or emoji: they follow the sign that they are about."""
_WIDE_BLANK: Final = "\u3000"
"""Part of Chinese and Japanese texts, beside their own letters."""
_KEYCAP: Final = "\u20e3"

MARKS: Final = 3
"""Combining marks that a letter may carry: as many as a living language needs, and too few to cover the lines around it."""


class Terminal:
    """A text stream, with colour where a person looks at it. A stream that broke swallows what is drawn."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        try:
            self.is_terminal = stream.isatty()
        except ValueError:  # closed
            self.is_terminal = False
        self.colour = self.is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._encoding = getattr(stream, "encoding", None) or "utf-8"
        self.draws = self._encoding.lower().startswith("utf")
        """Whether it has more signs than ASCII."""
        self.rule, self.bar = "─│" if self.draws else "-|"

    def write(self, text: str) -> None:
        try:
            self._stream.write(text.encode(self._encoding, "backslashreplace").decode(self._encoding))
            self._stream.flush()
        except (OSError, ValueError):
            return

    def line_start(self) -> str:
        """Where a line can be written while a question is open: in its place on a terminal, else below it."""
        return "\r\x1b[K" if self.is_terminal else "\n"

    def width(self) -> int:
        return min(shutil.get_terminal_size().columns, 100)

    def paint(self, text: str, style: str) -> str:
        code = COLOURS[style]
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour and code and text else text

    def plain(self, text: str, style: str = "context") -> str:
        """Text from outside, in one line, with what is strange in it written out as in a string of Python."""
        found = []
        at = 0
        for place in strange_places(text):
            found.append(self.paint(text[at:place], style))
            found.append(self.paint(_escaped(text[place]), "strange"))
            at = place + 1
        found.append(self.paint(text[at:], style))
        return "".join(found)


def harmless(text: str) -> str:
    """Text from outside as ``Terminal.plain`` has it, without colour: what may still be cut or measured."""
    return "".join(harmless_pieces(text)) if any(True for _ in strange_places(text)) else text


def harmless_pieces(text: str) -> list[str]:
    """For each character of ``text`` what stands for it in ``harmless(text)``."""
    pieces = list(text)
    for place in strange_places(text):
        pieces[place] = _escaped(text[place])
    return pieces


def strange_places(text: str) -> Iterator[int]:
    """Where the characters are that ``harmless`` writes out, from left to right."""
    if text.isascii():
        yield from (found.start() for found in _CONTROLS.finditer(text))
        return
    strange, marks, row_end, last = _pattern(), 0, -1, -1
    for found in strange.finditer(text):
        at, one = found.start(), found[0]
        before = text[at - 1] if at > 0 and at - 1 != last else ""
        if one in _JOINERS:
            bad = before < "\x80" or before in _JOINERS
        elif one in _SELECTORS:
            keycap = before.isdigit() and text[at + 1 : at + 2] == _KEYCAP
            bad = not keycap and (before < "\x80" or before in _SELECTORS)
        elif one == _WIDE_BLANK:
            bad = max(before, text[at + 1 : at + 2]) < "\u2e80"
        elif found.lastgroup == "mark":
            marks = marks + 1 if at == row_end else 1
            row_end = at + 1
            bad = marks > MARKS
        else:
            bad = True
        if bad:
            last = at
            yield at


@functools.cache
def _pattern() -> re.Pattern[str]:
    """What may be strange. Unicode's combining marks are collected once, when the first text needs them."""
    marks: list[list[int]] = []
    for number in range(0x300, 0x1F000):
        if unicodedata.category(chr(number)) in ("Mn", "Me"):
            if marks and marks[-1][1] == number - 1:
                marks[-1][1] = number
            else:
                marks.append([number, number])
    ranges = "".join(f"{chr(first)}-{chr(last)}" for first, last in marks)
    return re.compile(f"[{_STRANGE}{_JOINERS}{_SELECTORS}{_WIDE_BLANK}]|(?P<mark>[{ranges}])")


def _escaped(character: str) -> str:
    number = ord(character)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
