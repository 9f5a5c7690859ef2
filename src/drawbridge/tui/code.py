"""Code and diffs as lines of a terminal: colored by Pygments, wrapped to a width, with changed words marked."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, Final

from pygments.lexers import find_lexer_class_for_filename  # type: ignore[import-untyped]
from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.strip import Strip

from drawbridge.core.terminal_text import harmless_pieces
from drawbridge.text import split
from drawbridge.tui.colors import CodeColors, Palette
from drawbridge.tui.difference import Difference, Line, Mark
from drawbridge.tui.wording import TAB

COLORED: Final = 200_000
"""The maximum length of text that is colored, in characters. Longer text would take too long."""

LONGEST_COLORED: Final = 2_000
"""The maximum length of a line in text that is colored, in characters. A lexer takes minutes for some longer lines."""

SIGNS: Final = {"added": "+", "removed": "−", "context": " "}


def colors(text: str, path: str, palette: Palette) -> list[list[tuple[int, int, Style]]]:
    """The colored ranges of each line of ``text``; empty if the kind of file is unknown, or if the text or one of its
    lines is too long."""
    lines = split(text)[0]
    if len(text) > COLORED or any(len(line) > LONGEST_COLORED for line in lines):
        return []
    lexer: Any = find_lexer_class_for_filename(path.rpartition("/")[2])
    if lexer is None:
        return []
    theme = CodeColors(palette)
    found: list[list[tuple[int, int, Style]]] = [[] for _ in lines]
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    for at, kind, value in lexer().get_tokens_unprocessed("\n".join(lines)):
        style = theme.get_style_for_token(kind)
        if not style:
            continue
        row = bisect_right(starts, at) - 1
        for piece in value.split("\n"):
            if row < len(found) and piece:
                found[row].append((at - starts[row], at - starts[row] + len(piece), style))
            at, row = at + len(piece) + 1, row + 1
    return found


def line_text(raw: str, styles: Sequence[tuple[int, int, Style]]) -> Text:
    """A line as harmless text with ``styles``. Their positions refer to ``raw``. The line is drawn after a space."""
    places, shown = [0], ""
    if raw.isascii() and raw.isprintable():
        text = Text(raw, no_wrap=True, end="")
        for start, end, style in styles:
            text.stylize(style, start, end)
        return text
    # An accent that begins the line would be drawn on the space.
    for character, piece in zip(raw, harmless_pieces(f" {raw}")[1:], strict=True):
        shown += " " * (TAB - cell_len(shown) % TAB) if character == "\t" else piece
        places.append(len(shown))
    text = Text(shown, no_wrap=True, end="")
    for start, end, style in styles:
        text.stylize(style, places[start], places[min(end, len(raw))])
    return text


def _folded(text: str, width: int) -> list[str]:
    """The lines of ``text`` when it is wrapped to ``width``, at least one. ``chop_cells`` returns no lines for text
    without width, such as an emoji's skin tone on its own."""
    return chop_cells(text, width) or [text]


class DiffLines:
    """A diff, wrapped to one width, as a sequence of strips. A strip is drawn only when it is needed.

    ``proposal``: the path, the old text and the new text. ``width``: in columns. ``above``: the numbers of lines of the
    whole old file and of the whole new file that precede the two texts. ``highest``: the highest line number that has
    to fit, so that several diffs are aligned.
    """

    def __init__(
        self,
        found: Difference,
        proposal: tuple[str, str, str],
        palette: Palette,
        width: int,
        *,
        above: tuple[int, int] = (0, 0),
        highest: int = 1,
    ) -> None:
        self._proposal = proposal
        self._palette = palette
        self._width = width
        self._lines = found.lines
        self._above = above
        self._digits = len(str(max(highest, max(map(self._number, found.lines), default=1))))
        self._room = max(8, width - self._digits - 4)
        self._starts = [0, *accumulate(map(self._height, found.lines))]

    @cached_property
    def _colors(self) -> dict[str, list[list[tuple[int, int, Style]]]]:
        path, old_text, new_text = self._proposal
        return {"removed": colors(old_text, path, self._palette), "added": colors(new_text, path, self._palette)}

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, at: int) -> Strip:
        row = bisect_right(self._starts, at) - 1
        return self._strip(self._lines[row], at - self._starts[row])

    def start(self, row: int) -> int:
        """The index of the first strip of a line of the diff; if ``row`` is the number of lines, the number of
        strips."""
        return self._starts[row]

    def row(self, at: int) -> int:
        """The line of the diff to which a strip belongs."""
        return bisect_right(self._starts, at) - 1

    def strips(self, most: int) -> Iterator[Strip]:
        for at in range(min(most, len(self))):
            yield self[at]

    def _number(self, line: Line) -> int:
        """The line's number in the whole file."""
        return line.number + self._above[line.kind != "removed"]

    def _height(self, line: Line) -> int:
        raw = line.text
        if raw.isascii() and raw.isprintable():
            return max(1, -(-len(raw) // self._room))
        return len(_folded(line_text(raw, ()).plain, self._room))

    def _strip(self, line: Line, piece: int) -> Strip:
        palette = self._palette
        if line.kind == "skipped":
            words = f"{line.number} line{'' if line.number == 1 else 's'} unchanged"
            style = Style(color=palette.soft, bgcolor=palette.sunken)
            return Strip([Segment(f"{'⋯':>{self._digits + 1}}   {words}", style)]).extend_cell_length(
                self._width, style
            )
        wash, mark, sign = self._shades(line.kind)
        text = line_text(line.text, self._styles(line, mark))
        pieces = _folded(text.plain, self._room)
        start = sum(map(len, pieces[:piece]))
        part = text[start : start + len(pieces[piece])] if pieces[piece] else Text("")
        number = f"{self._number(line) if piece == 0 else '':>{self._digits + 1}} "
        segments = [
            Segment(number, wash + Style(color=palette.soft)),
            Segment(f"{SIGNS[line.kind] if piece == 0 else ' '} ", wash + sign),
            *(Segment(found.text, wash + (found.style or Style())) for found in _segments(part)),
        ]
        return Strip(segments).extend_cell_length(self._width, wash)

    def _styles(self, line: Line, mark: Style) -> list[tuple[int, int, Style]]:
        colors = self._colors["removed" if line.kind == "removed" else "added"]
        found = list(colors[line.number - 1]) if line.number <= len(colors) else []
        marks: Sequence[Mark] = line.marks
        return found + [(start, end, mark) for start, end in marks]

    def _shades(self, kind: str) -> tuple[Style, Style, Style]:
        """The background of the line, the background of its marked words, and the color of its sign."""
        palette = self._palette
        match kind:
            case "added":
                return Style(bgcolor=palette.yes_wash), Style(bgcolor=palette.yes_mark), Style(color=palette.yes)
            case "removed":
                return Style(bgcolor=palette.no_wash), Style(bgcolor=palette.no_mark), Style(color=palette.no)
        return Style(bgcolor=palette.sheet), Style(), Style()


def _segments(text: Text) -> Iterator[Segment]:
    """The segments of ``text``, with styles that are objects, not names."""
    cuts = sorted({0, len(text), *(place for span in text.spans for place in (span.start, span.end))})
    for start, end in pairwise(cuts):
        styles = [span.style for span in text.spans if span.start <= start and end <= span.end]
        found = (style for style in styles if isinstance(style, Style))
        yield Segment(text.plain[start:end], sum(found, Style()))
