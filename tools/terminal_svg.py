"""Draws a terminal's screen as an SVG image. It converts the output of ``tmux capture-pane -e`` to markup, without I/O.

Letters are text (system monospace fonts, stretched to the grid). Lines and blocks (U+2500-U+259F) are drawn as shapes,
so that frames have no gaps in any font.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from xml.sax.saxutils import escape

CELL_WIDTH = 8.4
CELL_HEIGHT = 19.0
FONT_SIZE = 14
BASELINE = 14.0
MARGIN = 18.0
BAR_HEIGHT = 38.0

FONTS = "ui-monospace,'SF Mono',Menlo,'Cascadia Mono',Consolas,'DejaVu Sans Mono','Liberation Mono',monospace"
FOREGROUND, BACKGROUND, FRAME, RULE = "#d5d9e3", "#14161b", "#23262e", "#3b3f4a"
SIXTEEN = (
    *("#14161b", "#e5737f", "#8fc77f", "#e3c178", "#7fa8e8", "#c39ae0", "#6fc3c8", "#c9cdd8"),
    *("#5b606e", "#f08c96", "#a9dc9a", "#f0d291", "#9bbdf4", "#d6b3ef", "#8fd8dc", "#f2f4f8"),
)
"""The colors 0 to 15: black, red, green, yellow, blue, magenta, cyan and white, then their bright variants."""

SGR = re.compile(r"\x1b\[([\d;:]*)m|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][A-Z0-9]|[\x0e\x0f]")


FLAGS = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "reverse", 9: "strike"}
"""The style that each number of an SGR sequence turns on. The number plus 20 turns it off, and 22 turns off bold and
dim."""


@dataclass(frozen=True)
class Style:
    foreground: str | None = None
    background: str | None = None
    flags: frozenset[str] = frozenset()

    @property
    def colors(self) -> tuple[str, str | None]:
        """The colors of the letters and of their background. None is the terminal's own background."""
        if "reverse" in self.flags:
            return self.background or BACKGROUND, self.foreground or FOREGROUND
        return self.foreground or FOREGROUND, self.background


@dataclass(frozen=True)
class Cell:
    """One cell of the grid. A cell with an empty ``character`` follows a wide character."""

    character: str = " "
    style: Style = Style()


Grid = list[list[Cell]]


def parse(captured: str, columns: int, rows: int) -> Grid:
    """The grid of a captured screen, cut or padded to ``columns`` and ``rows``."""
    style = Style()
    grid: Grid = []
    for line in captured.split("\n")[:rows]:
        cells: list[Cell] = []
        position = 0
        for match in SGR.finditer(line):
            cells += _cells(line[position : match.start()], style)
            if match[1] is not None:
                style = _styled(style, match[1])
            position = match.end()
        cells += _cells(line[position:], style)
        grid.append((cells + [Cell()] * columns)[:columns])
    return grid + [[Cell()] * columns for _ in range(rows - len(grid))]


def beside(left: Grid, right: Grid) -> Grid:
    """Two screens of the same height with a line between them."""
    line = [Cell(), Cell("│", Style(foreground=RULE)), Cell()]
    return [[*one, *line, *other] for one, other in zip(left, right, strict=True)]


def _cells(text: str, style: Style) -> Iterator[Cell]:
    for character in text:
        yield Cell(character, style)
        if unicodedata.east_asian_width(character) in "WF":
            yield Cell("", style)


def _styled(style: Style, parameters: str) -> Style:
    numbers = [int(number or 0) for number in re.split("[;:]", parameters)]
    while numbers:
        number = numbers.pop(0)
        match number:
            case 0:
                style = Style()
            case _ if number in FLAGS:
                style = replace(style, flags=style.flags | {FLAGS[number]})
            case 22:
                style = replace(style, flags=style.flags - {"bold", "dim"})
            case _ if number - 20 in FLAGS:
                style = replace(style, flags=style.flags - {FLAGS[number - 20]})
            case 38 | 39:
                style = replace(style, foreground=_color(numbers) if number == 38 else None)
            case 48 | 49:
                style = replace(style, background=_color(numbers) if number == 48 else None)
            case 58:
                _color(numbers)
            case _ if number in range(30, 38) or number in range(90, 98):
                style = replace(style, foreground=SIXTEEN[number - 30 if number < 90 else number - 82])
            case _ if number in range(40, 48) or number in range(100, 108):
                style = replace(style, background=SIXTEEN[number - 40 if number < 100 else number - 92])
    return style


def _color(numbers: list[int]) -> str:
    """Removes ``5;n`` or ``2;r;g;b`` from the front of ``numbers``, and returns that color as ``#rrggbb``."""
    if numbers.pop(0) == 2:
        red, green, blue = (numbers.pop(0) for _ in range(3))
        return f"#{red:02x}{green:02x}{blue:02x}"
    number = numbers.pop(0)
    if number < 16:
        return SIXTEEN[number]
    if number >= 232:
        return f"#{8 + 10 * (number - 232):02x}" + f"{8 + 10 * (number - 232):02x}" * 2
    steps = (0, 95, 135, 175, 215, 255)
    number -= 16
    return "#" + "".join(f"{steps[number // size % 6]:02x}" for size in (36, 6, 1))


# Lines: the directions in which arms extend from the middle of the cell: left, right, up, down.
ARMS = {
    **dict.fromkeys("─━╌┄", "lr"),
    **dict.fromkeys("│┃╎┆", "ud"),
    **dict.fromkeys("┌╭┏", "rd"),
    **dict.fromkeys("┐╮┓", "ld"),
    **dict.fromkeys("└╰┗", "ru"),
    **dict.fromkeys("┘╯┛", "lu"),
    **dict.fromkeys("├┣", "rud"),
    **dict.fromkeys("┤┫", "lud"),
    **dict.fromkeys("┬┳", "lrd"),
    **dict.fromkeys("┴┻", "lru"),
    **dict.fromkeys("┼╋", "lrud"),
}
DASHED = "╌┄╎┆"

# Blocks: rectangles as (x, y, width, height) in parts of a cell; _UL is the upper left quarter.
_UL, _UR, _LL, _LR = (0, 0, 0.5, 0.5), (0.5, 0, 0.5, 0.5), (0, 0.5, 0.5, 0.5), (0.5, 0.5, 0.5, 0.5)
BLOCKS: dict[str, Sequence[tuple[float, float, float, float]]] = {
    "█": [(0, 0, 1, 1)],
    "▀": [(0, 0, 1, 0.5)],
    "▐": [(0.5, 0, 0.5, 1)],
    **{chr(0x2580 + part): [(0, 1 - part / 8, 1, part / 8)] for part in range(1, 8)},
    **{chr(0x2590 - part): [(0, 0, part / 8, 1)] for part in range(1, 8)},
    "▔": [(0, 0, 1, 0.125)],
    "▕": [(0.875, 0, 0.125, 1)],
    "▖": [_LL],
    "▗": [_LR],
    "▘": [_UL],
    "▝": [_UR],
    "▙": [_UL, _LL, _LR],
    "▚": [_UL, _LR],
    "▛": [_UL, _UR, _LL],
    "▜": [_UL, _UR, _LR],
    "▞": [_UR, _LL],
    "▟": [_UR, _LL, _LR],
}


SQUARES = "⧉"
"""Claude Code's symbol for "in the editor", two joined squares, which few monospace fonts have."""


def picture(grid: Grid, title: str, description: str) -> str:
    """The SVG document, with the grid in a window titled ``title``. ``description`` is for people who can't see it."""
    width = len(grid[0]) * CELL_WIDTH + 2 * MARGIN
    height = len(grid) * CELL_HEIGHT + BAR_HEIGHT + 2 * MARGIN - 6
    body = [line for row, cells in enumerate(grid) for line in _row(cells, BAR_HEIGHT + MARGIN - 6 + row * CELL_HEIGHT)]
    dots = "".join(
        f'<circle cx="{22 + 20 * number}" cy="{BAR_HEIGHT / 2:g}" r="6" fill="{fill}"/>'
        for number, fill in enumerate(("#ec6a5e", "#f4bf4f", "#61c554"))
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
            f'height="{height:g}" role="img" font-family="{FONTS}" font-size="{FONT_SIZE}">',
            f"<title>{escape(description)}</title>",
            f'<rect width="{width:g}" height="{height:g}" rx="10" fill="{BACKGROUND}"/>',
            f'<path d="M0 {BAR_HEIGHT:g}V10a10 10 0 0 1 10-10h{width - 20:g}a10 10 0 0 1 10 10v{BAR_HEIGHT - 10:g}z" '
            f'fill="{FRAME}"/>',
            dots,
            f'<text x="{width / 2:g}" y="{BAR_HEIGHT / 2 + 5:g}" text-anchor="middle" fill="#8b90a0">{escape(title)}</text>',
            *body,
            "</svg>\n",
        ]
    )


def _row(cells: list[Cell], top: float) -> Iterator[str]:
    """The markup of a row: first backgrounds, then lines and blocks, then letters, in runs of one style each."""
    x = 0
    for background, run in groupby(cells, key=lambda cell: cell.style.colors[1]):
        length = len(list(run))
        if background is not None:
            yield _rectangle(x, 0, length, 1, top, background)
        x += length
    for x, cell in enumerate(cells):
        color = _letter_color(cell.style)
        if cell.character in ARMS:
            yield _lines(cell.character, x, top, color)
        if cell.character == SQUARES:
            yield _squares(x, top, color)
        for left, upper, across, down in BLOCKS.get(cell.character, ()):
            yield _rectangle(x + left, upper, across, down, top, color)
    x = 0
    for style, run_ in groupby(cells, key=_text_style):
        run_cells = list(run_)
        if style is not None:
            yield from _text(run_cells, style, x, top)
        x += len(run_cells)


def _text_style(cell: Cell) -> Style | None:
    """The style of a cell's text, or None if it is not text but a shape."""
    if cell.character in ARMS or cell.character in BLOCKS or cell.character == SQUARES:
        return None
    return cell.style


def _text(cells: list[Cell], style: Style, x: int, top: float) -> Iterator[str]:
    """The pieces of a run between two or more spaces, each at its own position, so that a font of another width shifts
    letters only within a piece."""
    position = 0
    for word in re.split(r"( {2,})", "".join(cell.character or "\u200b" for cell in cells)):
        shown = word.replace("\u200b", "")
        if shown.strip():
            lead = len(word) - len(word.lstrip())
            length = len(word.strip()) * CELL_WIDTH
            yield (
                f'<text x="{_x(x + position + lead):g}" y="{top + BASELINE:g}" textLength="{length:g}" '
                f'lengthAdjust="spacingAndGlyphs" fill="{_letter_color(style)}"{_emphasis(style)}>'
                f"{escape(shown.strip())}</text>"
            )
        position += len(word)


def _emphasis(style: Style) -> str:
    decorations = [
        shown for flag, shown in (("underline", "underline"), ("strike", "line-through")) if flag in style.flags
    ]
    attributes = {
        "font-weight": "bold" if "bold" in style.flags else "",
        "font-style": "italic" if "italic" in style.flags else "",
        "text-decoration": " ".join(decorations),
    }
    return "".join(f' {name}="{value}"' for name, value in attributes.items() if value)


def _letter_color(style: Style) -> str:
    color, behind = style.colors
    if "dim" not in style.flags:
        return color
    mixed = (
        round(int(color[place : place + 2], 16) * 0.6 + int((behind or BACKGROUND)[place : place + 2], 16) * 0.4)
        for place in (1, 3, 5)
    )
    return "#" + "".join(f"{part:02x}" for part in mixed)


def _lines(character: str, x: int, top: float, color: str) -> str:
    left, right = _x(x), _x(x + 1)
    middle, center = (left + right) / 2, top + CELL_HEIGHT / 2
    arms = {
        "l": f"M{left:g} {center:g}H{middle:g}",
        "r": f"M{middle:g} {center:g}H{right:g}",
        "u": f"M{middle:g} {top:g}V{center:g}",
        "d": f"M{middle:g} {center:g}V{top + CELL_HEIGHT:g}",
    }
    path = "".join(arms[arm] for arm in ARMS[character])
    dashes = ' stroke-dasharray="2.4 1.8"' if character in DASHED else ""
    return f'<path d="{path}" stroke="{color}" fill="none" shape-rendering="crispEdges"{dashes}/>'


def _squares(x: int, top: float, color: str) -> str:
    left, upper = _x(x) + 0.7, top + 5
    path = f"M{left:g} {upper + 2.5:g}h5v5.5h-5zM{left + 2:g} {upper + 2.5:g}v-2.5h5v5.5h-2"
    return f'<path d="{path}" stroke="{color}" fill="none"/>'


def _rectangle(x: float, y: float, width: float, height: float, top: float, fill: str) -> str:
    """A filled rectangle: ``x`` and ``width`` in cells, ``y`` and ``height`` in parts of the row that begins at
    ``top``."""
    return (
        f'<rect x="{_x(x):g}" y="{top + y * CELL_HEIGHT:g}" width="{width * CELL_WIDTH:g}" '
        f'height="{height * CELL_HEIGHT:g}" fill="{fill}" shape-rendering="crispEdges"/>'
    )


def _x(cell: float) -> float:
    return round(MARGIN + cell * CELL_WIDTH, 2)
