"""A diff or a tool call in its own scrolling view, which draws only the lines that are on the screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, Final, TypeAlias

from textual import events
from textual.binding import Binding, BindingType
from textual.dom import NoScreen
from textual.errors import NoWidget
from textual.geometry import Region, Size
from textual.message import Message
from textual.screen import Screen
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.timer import Timer
from textual.widget import Widget

from drawbridge.tui.code import DiffLines

CHECK_SECONDS: Final = 0.3
"""The interval, in seconds, at which a view is checked again while an animation scrolls it or a notice covers some of
its lines. Textual does not report that a notice has closed."""


def on_screen(widget: Widget, region: Region) -> Region | None:
    """The part of ``region``, an area of ``widget``, that is not cut off by a container or the edge of the terminal.
    None if the widget is not drawn, or if another screen is in front."""
    try:
        place = widget.screen.find_widget(widget)
    except (NoScreen, NoWidget):
        return None
    return region.intersection(place.clip) if widget.screen.is_active else None


class Notices:
    """The areas of a screen that notices are in front of. Finding them takes longer than comparing rows with them, so
    they are found once for all rows."""

    def __init__(self, screen: Screen[Any]) -> None:
        self._regions = [toast.region for toast in screen.query("Toast")]

    def cover(self, shown: Region, row: int) -> bool:
        """Whether a notice is in front of a row of ``shown``, an area of the screen."""
        line = Region(shown.x, shown.y + row, shown.width, 1)
        return any(region.overlaps(line) for region in self._regions)


class Joined:
    """Lines from several sources, one below the other."""

    def __init__(self, *parts: Sequence[Strip] | DiffLines) -> None:
        self._parts = parts

    def __len__(self) -> int:
        return sum(len(part) for part in self._parts)

    def __getitem__(self, at: int) -> Strip:
        for part in self._parts:
            if at < len(part):
                return part[at]
            at -= len(part)
        raise IndexError


Lines: TypeAlias = Sequence[Strip] | DiffLines | Joined


class LinesView(ScrollView, can_focus=True):
    """A scrolling view that records which of its lines have been on the screen. ``draw``: returns the lines for a width
    in columns."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll_down", show=False),
        Binding("k", "scroll_up", show=False),
    ]

    class Seen(Message):
        """The number of unseen lines has changed."""

    def __init__(self, draw: Callable[[int], Lines]) -> None:
        super().__init__(classes="asked")
        self._draw = draw
        self._lines: Lines = ()
        self._width = 0
        self._seen = 0
        self._again: Timer | None = None

    def on_mount(self) -> None:
        self._again = self.set_interval(
            CHECK_SECONDS, partial(self.call_after_refresh, self.record_visible), pause=True
        )

    @property
    def unseen(self) -> int:
        """The number of lines after the last one that counts as seen. Lines that a jump skips, and all lines after
        them, count as unseen."""
        return len(self._lines) - self._seen

    def record_visible(self) -> None:
        """Records which lines are on the screen now: none while another screen is in front, and only those above the
        first line that a notice covers."""
        shown = on_screen(self, self.content_region)
        is_moving = self.app.animator.is_being_animated(self, "scroll_y")
        self._check_again(is_moving)  # lines that an animation scrolls past do not count as seen
        if shown is None or is_moving:
            return
        top = self.scroll_offset.y + shown.y - self.content_region.y
        # A resize may change the lines a moment before the view has its new position.
        if not shown.width or shown.width < self._width or top > self._seen:
            return
        end = min(len(self._lines), top + shown.height)
        notices = Notices(self.screen)
        free = next((at for at in range(self._seen, end) if notices.cover(shown, at - top)), end)
        self._check_again(free < end)
        if free > self._seen:
            self._seen = free
            self.post_message(self.Seen())

    def _check_again(self, is_needed: bool) -> None:
        """Sets whether to check again soon, because an animation will end, or a notice that covers lines will
        disappear."""
        if self._again is not None:
            (self._again.resume if is_needed else self._again.pause)()

    def page(self, by: int) -> None:
        """Scrolls by a page, down (1) or up (-1). If unseen lines are above, 1 scrolls to the first of them instead."""
        if by > 0 and self._seen < self.scroll_offset.y:
            self.scroll_to(y=self._seen, animate=False)
        else:
            (self.scroll_page_down if by > 0 else self.scroll_page_up)(animate=False)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self.call_after_refresh(self.record_visible)

    def on_resize(self, event: events.Resize) -> None:
        self._lay_out()
        self.call_after_refresh(self.record_visible)

    def redraw(self, draw: Callable[[int], Lines]) -> None:
        """Replaces ``draw``, and shows the lines that it returns. All of them count as unseen."""
        self._draw, self._width, self._seen = draw, 0, 0
        self._lay_out()
        self.call_after_refresh(self.record_visible)

    def grow(self) -> None:
        """Calls ``draw`` again, which must return the same lines with others below them."""
        if self._width:
            self._lines = self._draw(self._width)
            self._lay_out()
            self.post_message(self.Seen())
            self.call_after_refresh(self.record_visible)

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
            whole = self._width > 0 and not self.unseen
            self._width = width
            self._lines = self._draw(width)
            self._seen = len(self._lines) if whole else 0
