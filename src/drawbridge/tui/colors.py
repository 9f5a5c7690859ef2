"""The web UI's colors for a terminal, dark and light, and the choice between the two."""

from __future__ import annotations

import contextlib
import os
import re
import select
import sys
import time
from typing import Final, NamedTuple

from pygments.token import Comment, Keyword, Number, Operator, String, Token  # type: ignore[import-untyped]
from rich.style import Style
from rich.syntax import SyntaxTheme, TokenType
from textual.theme import Theme

ANSWER_SECONDS: Final = 0.2
"""Seconds that a terminal has to report its background. Every terminal answers the second query, usually
immediately."""

ASK: Final = b"\x1b]11;?\x1b\\\x1b[c"
"""The queries for the background color and then for the kind of terminal, which every terminal answers."""


class Palette(NamedTuple):
    """Colors by their meaning, the same as in the web UI (``web/src/styles/base.css``)."""

    paper: str
    sheet: str
    sunken: str
    ink: str
    soft: str
    line: str
    accent: str
    accent_wash: str
    wait: str
    wait_wash: str
    yes: str
    yes_wash: str
    yes_mark: str
    no: str
    no_wash: str
    no_mark: str
    code_word: str
    code_string: str
    code_number: str
    code_comment: str


DARK: Final = Palette(
    paper="#14181b",
    sheet="#1b2125",
    sunken="#22292e",
    ink="#e6e8e6",
    soft="#a0abb0",
    line="#313a40",
    accent="#7fcad1",
    accent_wash="#1d3237",
    wait="#f0c06a",
    wait_wash="#2d2617",
    yes="#86d39c",
    yes_wash="#17301f",
    yes_mark="#235034",
    no="#f5a49e",
    no_wash="#391d1e",
    no_mark="#703234",
    code_word="#d7a3e6",
    code_string="#e5bd86",
    code_number="#94bff5",
    code_comment="#aeb9b3",
)
LIGHT: Final = Palette(
    paper="#f7f6f3",
    sheet="#ffffff",
    sunken="#efede8",
    ink="#1d2326",
    soft="#566067",
    line="#dcd9d2",
    accent="#1c5a63",
    accent_wash="#e3eff0",
    wait="#8a5300",
    wait_wash="#fdf3df",
    yes="#1f6b3a",
    yes_wash="#e4f4e7",
    yes_mark="#b4e2bf",
    no="#a3262a",
    no_wash="#fbe9e8",
    no_mark="#f5c1be",
    code_word="#7a2e8e",
    code_string="#7d4a00",
    code_number="#1a54a0",
    code_comment="#4d5852",
)


def theme(palette: Palette) -> Theme:
    """The theme for Textual. The palette's names are variables in style sheets, with hyphens."""
    dark = palette is DARK
    return Theme(
        name=f"drawbridge-{'dark' if dark else 'light'}",
        primary=palette.accent,
        secondary=palette.soft,
        accent=palette.accent,
        warning=palette.wait,
        error=palette.no,
        success=palette.yes,
        foreground=palette.ink,
        background=palette.paper,
        surface=palette.sheet,
        panel=palette.sunken,
        dark=dark,
        variables={name.replace("_", "-"): color for name, color in palette._asdict().items()},
    )


class CodeColors(SyntaxTheme):
    """Colors comments, strings, numbers, keywords, and added and removed lines of diffs. The rest is plain."""

    def __init__(self, palette: Palette) -> None:
        self._styles = {
            Comment: Style(color=palette.code_comment, italic=True),
            String: Style(color=palette.code_string),
            Number: Style(color=palette.code_number),
            Keyword: Style(color=palette.code_word),
            Operator.Word: Style(color=palette.code_word),
            Token.Generic.Inserted: Style(color=palette.yes),
            Token.Generic.Deleted: Style(color=palette.no),
        }

    def get_style_for_token(self, token_type: TokenType) -> Style:
        return next((style for kind, style in self._styles.items() if token_type in kind), Style.null())

    def get_background_style(self) -> Style:
        return Style.null()


def of_terminal() -> Palette:
    """The palette for the background that the terminal reports or, if it reports none, that ``COLORFGBG`` names. The
    default is dark."""
    background = os.environ.get("COLORFGBG", "").rpartition(";")[2]
    if os.environ.get("TERM") not in (None, "", "dumb", "linux"):
        with contextlib.suppress(OSError, ImportError, ValueError):
            brightness = background_brightness(_ask_terminal())
            if brightness is not None:
                return LIGHT if brightness > 0.5 else DARK
    return LIGHT if background in ("7", "15") else DARK


def background_brightness(answer: bytes) -> float | None:
    """The brightness, from 0 (black) to 1 (white), of the color in a terminal's answer such as
    ``11;rgb:ffff/ffff/ffff``; None if the answer contains no color."""
    found = re.search(rb"\x1b\]11;rgba?:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})", answer)
    if found is None:
        return None
    red, green, blue = (int(part, 16) / (16.0 ** len(part) - 1) for part in found.groups())
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _ask_terminal() -> bytes:
    """Asks stdin's terminal and returns its answer, or the part that has arrived within ``ANSWER_SECONDS``. The
    terminal's settings are restored."""
    import termios
    import tty

    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    answer = b""
    end = time.monotonic() + ANSWER_SECONDS
    try:
        tty.setcbreak(terminal, termios.TCSADRAIN)
        os.write(sys.__stdout__.fileno() if sys.__stdout__ else terminal, ASK)
        while not re.search(rb"\x1b\[\?[0-9;]*c", answer):
            ready, _, _ = select.select([terminal], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                break
            answer += os.read(terminal, 1024)
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
    return answer
