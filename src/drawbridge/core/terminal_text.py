"""Writes to a terminal. Text from any source is shown as harmless text, in color if the terminal has colors."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from typing import Final, TextIO

COLORS: Final = {
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

_ANY_MARK: Final = "\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20e2\u20e4-\u20ff\ufe20-\ufe2f"
_MARK: Final = _ANY_MARK + "\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0e31\u0e34-\u0e3a\u0e47-\u0e4e"

# Characters that are invisible, or that would control a terminal or reorder the text. Whether some of them are escaped
# depends on their neighbors, because emoji, French punctuation, accents and several scripts need them. Joiners,
# variation selectors and marks are kept at the beginning of the text. The web UI has the same rules
# (web/src/text/harmless.ts). A test checks that both agree. These are escaped everywhere: controls, direction marks,
# invisible format characters, overlays, most kinds of blanks, lone surrogates and tags. Joiners and variation selectors
# after them are escaped too, since they have nothing to act on.
_HIDDEN: Final = (
    "\x00-\x1f\x7f-\x9f\xad\u034f\u0334-\u0338\u061c\u115f\u1160\u1680\u17b4\u17b5\u180e\u2000-\u200b\u200e\u200f"
    "\u2028-\u202e\u205f-\u206f\u2800\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\ufffc\ufffe\uffff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# Blanks that are escaped only in some places count as hidden for the character that follows.
_HIDDEN_OR_BLANK: Final = _HIDDEN + "\u202f\u3000"
_JOINERS: Final = "\u180b-\u180d\u180f\u200c\u200d"
_SELECTORS: Final = "\ufe00-\ufe0f"
_NOT_VARIED: Final = f"\x00-\xa8\xaa-\xad\xaf-\u058f{_SELECTORS}{_JOINERS}{_HIDDEN_OR_BLANK}"

_STRANGE: Final = re.compile(
    "|".join(
        (
            f"[{_HIDDEN}]",
            # No-break spaces, except in numbers and in French punctuation; the wide space after a narrow letter.
            "[\xa0\u202f](?![!?:;\xbb%\u20ac])(?<!\xab.)(?!(?<=[0-9].)[0-9])",
            "(?<=[!-\u058f])\u3000",
            # Joiners and variation selectors that have nothing to join or to vary.
            f"(?<=[\x00-\u058f{_JOINERS}{_HIDDEN_OR_BLANK}])[{_JOINERS}]",
            f"(?<=[{_NOT_VARIED}][{_SELECTORS}])[{_JOINERS}]",
            f"(?<=[{_NOT_VARIED}])(?!\ufe0f\u20e3)[{_SELECTORS}]",
            # Marks on characters that can't have one, and every mark after the fourth on a letter.
            f"(?<=[\x00-/:-@\\[-`{{-\x7f])[{_ANY_MARK}]",
            f"(?<=[{_MARK}]{{4}})[{_MARK}]",
        )
    ),
    re.DOTALL,
)


class Terminal:
    """A text stream, in color on a terminal. Output to a broken stream is dropped."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        try:
            self.is_terminal = stream.isatty()
        except ValueError:  # the stream is closed
            self.is_terminal = False
        self.color = self.is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._encoding = getattr(stream, "encoding", None) or "utf-8"
        self.draws = self._encoding.lower().startswith("utf")
        """Whether the stream's encoding can represent every character (UTF-8 or another UTF)."""
        self.rule, self.bar = "─│" if self.draws else "-|"

    def write(self, text: str) -> None:
        try:
            self._stream.write(text.encode(self._encoding, "backslashreplace").decode(self._encoding))
            self._stream.flush()
        except (OSError, ValueError):
            return

    def keep_order(self, keeps: bool) -> None:
        """Makes a terminal that reorders right-to-left text draw each line from left to right instead, character by
        character, so that a command is read in the order in which it will be run (ECMA-48, 7.2.1: BDSM); False
        lets the terminal reorder text again. Other terminals ignore the control sequence."""
        if self.is_terminal and os.environ.get("TERM") != "dumb":
            self.write("\x1b[8l" if keeps else "\x1b[8h")

    def line_start(self) -> str:
        """The text to write before a line while a question is open. On a terminal, the line replaces the question.
        Elsewhere, it starts on a new line."""
        return "\r\x1b[K" if self.is_terminal else "\n"

    def width(self) -> int:
        return min(shutil.get_terminal_size().columns, 100)

    def paint(self, text: str, style: str) -> str:
        code = COLORS[style]
        return f"\x1b[{code}m{text}\x1b[0m" if self.color and code and text else text

    def plain(self, text: str, style: str = "context") -> str:
        """Returns untrusted ``text`` on one line, with strange characters escaped as in a Python string."""
        found = []
        at = 0
        for place in strange_places(text):
            found.append(self.paint(text[at:place], style))
            found.append(self.paint(_escaped(text[place]), "strange"))
            at = place + 1
        found.append(self.paint(text[at:], style))
        return "".join(found)


def harmless(text: str) -> str:
    """Returns untrusted ``text`` as ``Terminal.plain`` shows it, but without color, so that it can be truncated or
    measured.
    """
    return _STRANGE.sub(lambda found: _escaped(found[0]), text)


def harmless_pieces(text: str) -> list[str]:
    """A list with one entry for each character of ``text``: how ``harmless(text)`` shows it."""
    pieces = list(text)
    for place in strange_places(text):
        pieces[place] = _escaped(text[place])
    return pieces


def strange_places(text: str) -> Iterator[int]:
    """The positions of the characters that ``harmless`` escapes, from left to right. Each match is one character."""
    return (found.start() for found in _STRANGE.finditer(text))


def _escaped(character: str) -> str:
    number = ord(character)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
