"""The conversation as a long list of lines. An item is drawn again only if it or the width has changed, if the user has
folded or unfolded it, or if its complete text has arrived."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import accumulate
from typing import ClassVar, Final, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from drawbridge.tui.conversation import Item, truncation
from drawbridge.tui.drawing import Painter, is_foldable

GUTTER: Final = 2
"""The number of columns before each line. They mark the item that the keys act on."""


class Tail(NamedTuple):
    """Lines after the last item, such as partial text or a waiting prompt. ``key`` identifies their content."""

    key: Hashable
    draw: Callable[[int], Iterable[Strip]]


class _Block(NamedTuple):
    item: Item | None
    strips: Sequence[Strip]


class History(ScrollView, can_focus=True):
    """The list of items. When ``show`` updates it, the reader's position stays the same, and a reader at the end stays
    at the end."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "step(1)", "next", show=False),
        Binding("k", "step(-1)", "previous", show=False),
        Binding("enter", "unfold", "expand"),
        Binding("space", "page_down", "page down", show=False),
    ]

    class MoreRequested(Message):
        """The reader is near an end of the loaded part, so older messages (if ``older``) or newer ones are needed."""

        def __init__(self, *, older: bool) -> None:
            super().__init__()
            self.older = older

    class FullTextRequested(Message):
        """The reader wants the complete record of a preview."""

        def __init__(self, item: Item) -> None:
            super().__init__()
            self.item = item

    def __init__(self, painter: Painter) -> None:
        super().__init__(id="history")
        self.painter = painter
        self.current: int | None = None
        self._items: Sequence[Item] = ()
        self._tail: Sequence[Tail] = ()
        self._unfolded: set[int] = set()
        self._wholes: dict[int, str] = {}
        self._complete: set[int] = set()
        """The keys of unfolded items that are shown with the rest of a long diff or result."""
        self._drawn: dict[Hashable, Sequence[Strip]] = {}
        self._blocks: list[_Block] = []
        self._starts: list[int] = [0]
        self._width = 0
        self._follows = True

    def show(self, items: Sequence[Item], tail: Sequence[Tail]) -> None:
        self._items, self._tail = items, tail
        self._lay_out()

    def put_whole(self, item: Item, text: str) -> None:
        self._wholes[item.key] = text
        self._complete.add(item.key)
        self._lay_out()

    @property
    def follows(self) -> bool:
        """Whether the reader is at the end, so that new lines are scrolled into view."""
        return self._follows

    def reveal(self, seq: int) -> None:
        """Selects the item that shows the record and scrolls to it. If no item shows the record, selects the last item
        before it."""
        self._follows = False
        self._lay_out()
        items = [(at, block.item) for at, block in enumerate(self._blocks) if block.item]
        moved = [at for at, item in items if item.data.get("record") == seq]  # a prompt is shown where its run begins
        at = max(moved or [at for at, item in items if item.seq <= seq], default=None)
        if at is not None:
            self.current = self._key(at)
            self._reveal(at)

    def to_end(self) -> None:
        self.current = None
        self._follows = True
        self.scroll_end(animate=False, immediate=True)
        self.refresh()

    def text(self) -> str:
        """The loaded part of the conversation as shown."""
        return "\n".join(strip.text.rstrip() for block in self._blocks for strip in block.strips)

    def on_resize(self, event: events.Resize) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        width = self.scrollable_content_region.width - GUTTER
        if width < 1:
            return
        if width != self._width:
            self._drawn.clear()
            self._width = width
        follows, (anchor, offset) = self._follows, self._place()
        drawn: dict[Hashable, Sequence[Strip]] = {}
        self._blocks = []
        for item in self._items:
            whole = self._wholes.get(item.key)
            folded = item.key not in self._unfolded
            everything = item.key in self._complete
            key = (item.key, item.version, folded, whole is not None, everything)
            strips = self._drawn.get(key)
            if strips is None:
                strips = self.painter.item(item, width, folded=folded, whole=whole, everything=everything)
            drawn[key] = strips
            if strips:
                self._blocks.append(_Block(item, strips))
        for tail in self._tail:
            strips = self._drawn.get(tail.key)
            drawn[tail.key] = strips = [*tail.draw(width)] if strips is None else strips
            self._blocks.append(_Block(None, strips))
        self._drawn = drawn
        self._starts = [0, *accumulate(self._height(at) for at in range(len(self._blocks)))]
        self.virtual_size = Size(width + GUTTER, self._starts[-1])
        if follows:
            self.scroll_end(animate=False, immediate=True)
        else:
            self._return_to(anchor, offset)
        self._follows = follows
        self.refresh()
        self._want()

    def _height(self, at: int) -> int:
        """The number of lines of a block, including the empty line after it. There is no empty line between two folded
        items."""
        block = self._blocks[at]
        following = self._blocks[at + 1] if at + 1 < len(self._blocks) else None
        close = following is not None and _is_folded_line(block) and _is_folded_line(following)
        return len(block.strips) + (0 if close else 1)

    def _place(self) -> tuple[int | None, int]:
        """The key of the item at the upper edge, and how many of its lines are above the edge; None and 0 if no item is
        there."""
        top = self.scroll_offset.y
        at = self._at(top)
        if at is None or (item := self._blocks[at].item) is None:
            return None, 0
        return item.key, top - self._starts[at]

    def _return_to(self, key: int | None, offset: int) -> None:
        for at, block in enumerate(self._blocks):
            if block.item is not None and block.item.key == key:
                self.scroll_to(y=self._starts[at] + offset, animate=False, immediate=True)
                return

    def _at(self, line: int) -> int | None:
        at = bisect_right(self._starts, line) - 1
        return at if 0 <= at < len(self._blocks) else None

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._follows = new_value >= self.max_scroll_y - 1
        self._want()

    def _want(self) -> None:
        if not self.is_mounted or not self._width:
            return
        if self.scroll_offset.y <= self.size.height:
            self.post_message(self.MoreRequested(older=True))
        if self.follows:
            self.post_message(self.MoreRequested(older=False))

    # Keys and the mouse.

    def action_step(self, by: int) -> None:
        """Selects the next item (1) or the previous one (-1). If no item is selected, selects the last visible one."""
        places = [at for at, block in enumerate(self._blocks) if block.item is not None]
        if not places:
            return
        keys = [self._key(at) for at in places]
        if self.current in keys:
            at = places[max(0, min(len(places) - 1, keys.index(self.current) + by))]
        else:
            bottom = self._at(min(self.scroll_offset.y + self.size.height, self._starts[-1]) - 1)
            seen = [at for at in places if bottom is None or at <= bottom]
            at = (seen or places)[-1]
        self.current = self._key(at)
        self._reveal(at)

    def action_unfold(self) -> None:
        at = next((at for at, block in enumerate(self._blocks) if block.item and block.item.key == self.current), None)
        if at is None:
            self.action_step(-1)
        else:
            self._toggle(at)

    def on_click(self, event: events.Click) -> None:
        at = self._at(self.scroll_offset.y + event.y)
        if at is not None and self._blocks[at].item is not None and self.text_selection is None:
            self.current = self._key(at)
            self._toggle(at)

    def _toggle(self, at: int) -> None:
        item = self._blocks[at].item
        assert item is not None
        key, can_fold = item.key, is_foldable(item)
        if can_fold and key not in self._unfolded:
            self._unfolded.add(key)
        elif truncation(item) and key not in self._wholes:
            self.post_message(self.FullTextRequested(item))
        elif can_fold and key not in self._complete and self._is_cut(item):
            self._complete.add(key)
        elif can_fold:
            self._unfolded.discard(key)
            self._complete.discard(key)
        self._lay_out()

    def _is_cut(self, item: Item) -> bool:
        """Whether an unfolded item is shown without the rest of a long diff or result."""
        short, long = (
            self.painter.item(item, self._width, folded=False, whole=self._wholes.get(item.key), everything=everything)
            for everything in (False, True)
        )
        return [strip.text for strip in short] != [strip.text for strip in long]

    def _key(self, at: int) -> int | None:
        item = self._blocks[at].item
        return None if item is None else item.key

    def _reveal(self, at: int) -> None:
        start, end = self._starts[at], self._starts[at] + len(self._blocks[at].strips)
        top, height = self.scroll_offset.y, self.size.height
        if start < top or end > top + height:
            self.scroll_to(y=start if start < top or end - start >= height else end - height, animate=False)
        self.refresh()

    # Drawing.

    def render_line(self, y: int) -> Strip:
        line, width, ground = self.scroll_offset.y + y, self.size.width, self.rich_style
        at = self._at(line)
        if at is None or line - self._starts[at] >= len(self._blocks[at].strips):
            return Strip.blank(width, ground)
        block = self._blocks[at]
        marked = self.has_focus and block.item is not None and block.item.key == self.current
        marker = Segment("▌ " if marked else "  ", Style(color=self.painter.palette.accent))
        strip = Strip([marker, *block.strips[line - self._starts[at]]])
        strip = self._selected(strip.crop_extend(0, width, None), line)
        return strip.apply_style(ground).apply_offsets(0, line)

    def _selected(self, strip: Strip, line: int) -> Strip:
        span = None if self.text_selection is None else self.text_selection.get_span(line)
        if span is None:
            return strip
        start, end = span[0], strip.cell_length if span[1] < 0 else span[1]
        shade = self.screen.get_component_rich_style("screen--selection")
        return Strip.join([strip.crop(0, start), strip.crop(start, end).apply_style(shade), strip.crop(end)])

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        shown = []
        for at, block in enumerate(self._blocks):
            shown += [f"  {strip.text}".rstrip() for strip in block.strips]
            shown += [""] * (self._height(at) - len(block.strips))
        return selection.extract("\n".join(shown)), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()


def _is_folded_line(block: _Block) -> bool:
    return block.item is not None and is_foldable(block.item) and len(block.strips) == 1
