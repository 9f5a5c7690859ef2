"""Draws the comments of a review as lines of a terminal. Everything drawn here is harmless text."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from drawbridge.tui.drawing import Painter
from drawbridge.tui.review.comments import Card
from drawbridge.tui.wording import one_line

EDGE = "▎ "


def strips(card: Card, painter: Painter, width: int) -> list[Strip]:
    """The lines of a comment, each as wide as ``width``."""
    palette = painter.palette
    edges = {
        "draft": palette.wait,
        "writing": palette.wait,
        "waiting": palette.wait,
        "sent": palette.accent,
        "resolved": palette.line,
    }
    ground = Style(bgcolor=palette.sunken)
    edge, room = Segment(EDGE, Style(color=edges[card.state])), width - len(EDGE)
    lines = _head(card, painter, room)
    for kind, text in card.body:
        if kind == "code":
            lines += painter.code(text.removesuffix("\n").removesuffix("\r"), "", room)
        else:
            lines += painter.plain(text, room, palette.ink if kind == "text" else palette.soft)
    return [Strip([edge, *line]).extend_cell_length(width).apply_style(ground) for line in lines]


def _head(card: Card, painter: Painter, width: int) -> list[Strip]:
    """The name and the tags on one line or, if they do not fit, on several lines in one style."""
    palette, who, tags = painter.palette, one_line(card.who), one_line(card.tags)
    words = f"{who}  {tags}" if who else tags
    folded = painter.plain(words, width, palette.soft)
    if len(folded) > 1 or not who:
        return folded
    return [Strip([Segment(who, Style(color=palette.ink, bold=True)), Segment(f"  {tags}", Style(color=palette.soft))])]
