"""A difference, or a call, in a field of its own that scrolls; only what is on the screen is drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from drawbridge.attach.code import DiffLines


class LinesView(ScrollView, can_focus=True):
    """``draw`` gives the lines for a width."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll_down", show=False),
        Binding("k", "scroll_up", show=False),
        Binding("space", "page_down", show=False),
    ]

    def __init__(self, draw: Callable[[int], Sequence[Strip] | DiffLines]) -> None:
        super().__init__(classes="asked")
        self._draw = draw
        self._lines: Sequence[Strip] | DiffLines = ()
        self._width = 0

    def on_resize(self, event: events.Resize) -> None:
        self._lay_out()

    def redraw(self, draw: Callable[[int], Sequence[Strip] | DiffLines]) -> None:
        """Something else."""
        self._draw, self._width = draw, 0
        self._lay_out()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        self._fit(width - self.styles.scrollbar_size_vertical)
        return max(1, len(self._lines))

    def text(self) -> str:
        return "\n".join(self._lines[at].text.rstrip() for at in range(len(self._lines)))

    def render_line(self, y: int) -> Strip:
        line, width, ground = self.scroll_offset.y + y, self.size.width, self.rich_style
        if line >= len(self._lines):
            return Strip.blank(width, ground)
        return self._lines[line].crop_extend(0, width, None).apply_style(ground).apply_offsets(0, line)

    def _lay_out(self) -> None:
        width = self.scrollable_content_region.width
        if width > 0:
            self._fit(width)
            self.virtual_size = Size(width, len(self._lines))
            self.refresh(layout=True)

    def _fit(self, width: int) -> None:
        if width != self._width:
            self._width = width
            self._lines = self._draw(width)
