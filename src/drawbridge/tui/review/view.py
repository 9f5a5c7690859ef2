"""The files and hunks of a review as one list of lines. Only the lines on the screen are drawn."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from itertools import accumulate, groupby
from typing import ClassVar, Final, NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.timer import Timer

from drawbridge.core.terminal_text import harmless
from drawbridge.text import review_words
from drawbridge.text.review_words import File
from drawbridge.tui.code import DiffLines
from drawbridge.tui.diff_view import CHECK_SECONDS, Notices, on_screen
from drawbridge.tui.drawing import Painter
from drawbridge.tui.review import cards as review_cards
from drawbridge.tui.review import comments as review_comments
from drawbridge.tui.review import parts as review_parts
from drawbridge.tui.review.comments import Choice, Remarks, Row
from drawbridge.tui.review.parts import Part
from drawbridge.tui.wording import base_name

GUTTER: Final = 2
"""The number of columns before each line. They mark the change that the keys act on."""


class _Lines:
    """The lines of a hunk, with comments below them. Which words differ is not determined until a line is drawn.

    ``remarks``: the comments on the part. ``rest``: the drawn comments on lines that are not shown here.
    """

    def __init__(
        self,
        part: Part,
        around: review_parts.Context,
        painter: Painter,
        width: int,
        highest: int,
        remarks: Sequence[review_comments.Remark],
    ) -> None:
        assert part.hunk is not None
        self._part = part
        self._around = around
        self._painter = painter
        self._width = width
        self._highest = highest
        found = review_parts.hunk_lines(part.hunk, part.file, around, marked=False)
        plain = self._as_lines(found)
        self.plain_count = len(plain)
        """The number of lines without the comments."""
        self._plain = plain
        lead, end = len(around.before), len(found.lines) - len(around.after)
        self.body = plain.start(lead), plain.start(end)
        """The range of the hunk's own lines, without the context lines: the first line, and the line after the last."""
        self.end = found.end
        self.rest: list[Strip] = []
        self._cards: list[tuple[int, list[Strip]]] = []
        """The lines of each comment, in order, with the line of the diff that they precede."""
        self._put(remarks)
        self.count = self.plain_count + sum(len(strips) for _, strips in self._cards)

    @cached_property
    def rows(self) -> list[Row]:
        """The row of the file that each line of the hunk shows, before wrapping."""
        assert self._part.hunk is not None
        return review_comments.rows(self._part.hunk, self._around)

    def _put(self, remarks: Sequence[review_comments.Remark]) -> None:
        ends = {(row.side, row.number): at for at, row in enumerate(self.rows)} if remarks else {}
        for remark in remarks:
            place = remark.place
            at = ends.get((place.side, place.last)) if place is not None else None
            is_there = place is not None and at is not None and (place.side, place.first) in ends
            card = review_cards.strips(remark.card if is_there else remark.apart, self._painter, self._width)
            if is_there and at is not None:
                self._cards.append((self._plain.start(at + 1), card))
            else:
                self.rest += card
        self._cards.sort(key=lambda one: one[0])

    def own(self, at: int) -> int | None:
        """The line of the diff that is shown at this position; None if that is a line of a comment."""
        return self._find(at)[0]

    def shown(self, line: int) -> int:
        """The position at which a line of the diff is shown."""
        return line + sum(len(strips) for place, strips in self._cards if place <= line)

    def row(self, line: int) -> Row:
        """The row that a line of the diff belongs to. A wrapped row has several lines."""
        return self.rows[self._plain.row(line)]

    def lines_of(self, row: Row) -> range:
        """The lines of the diff that show a row."""
        at = self.rows.index(row)
        return range(self._plain.start(at), self._plain.start(at + 1))

    def strip(self, at: int) -> Strip:
        line, strip = self._find(at)
        return self.drawn[line] if line is not None else strip

    def _find(self, at: int) -> tuple[int | None, Strip]:
        before = 0
        for place, strips in self._cards:
            first = place + before
            if at < first:
                break
            if at < first + len(strips):
                return None, strips[at - first]
            before += len(strips)
        return at - before, Strip([])

    def _as_lines(self, found: review_parts.HunkLines) -> DiffLines:
        return DiffLines(
            review_parts.difference(found),
            (self._part.path, *found.texts),
            self._painter.palette,
            self._width,
            above=found.above,
            highest=self._highest,
        )

    @cached_property
    def drawn(self) -> DiffLines:
        assert self._part.hunk is not None
        return self._as_lines(review_parts.hunk_lines(self._part.hunk, self._part.file, self._around))


class _Block(NamedTuple):
    """A part, the heading of a file, or the text below the last part. ``body``: the lines that must have been on the
    screen before the part can be decided on. They are counted without comments, so that a new comment does not make
    them unseen."""

    part: Part | None
    path: str
    head: Sequence[Strip]
    lines: _Lines | None
    foot: Sequence[Strip]
    body: range

    @property
    def height(self) -> int:
        return len(self.head) + (self.lines.count if self.lines else 0) + len(self.foot)

    def strip(self, at: int) -> Strip:
        if at < len(self.head):
            return self.head[at]
        at -= len(self.head)
        if self.lines is not None:
            if at < self.lines.count:
                return self.lines.strip(at)
            at -= self.lines.count
        return self.foot[at]

    def own(self, at: int) -> int | None:
        """A line's number without the comments before it; None if it is a line of a comment in the diff."""
        if self.lines is None or at < len(self.head):
            return at
        behind = at - len(self.head) - self.lines.count
        if behind >= 0:
            return len(self.head) + self.lines.plain_count + behind
        line = self.lines.own(at - len(self.head))
        return None if line is None else len(self.head) + line

    def row(self, at: int) -> Row | None:
        """The row of the file that is shown at this line; None if the line shows something else."""
        if self.lines is None or not len(self.head) <= at < len(self.head) + self.lines.count:
            return None
        line = self.lines.own(at - len(self.head))
        return None if line is None else self.lines.row(line)


class _Seen(NamedTuple):
    """The lines of a part that have been on the screen. ``layout``: whether the part was gone, the width, and the line
    number that the column of line numbers had room for, when the part was laid out. ``lines`` refers to that layout."""

    layout: tuple[bool, int, int]
    lines: set[int]
    total: int

    @property
    def is_whole(self) -> bool:
        return len(self.lines) >= self.total


class ReviewView(ScrollView, can_focus=True):
    """The list of a review's changes. When ``show`` updates it, the current change stays where it is on the screen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "step(1)", show=False),
        Binding("k,up", "step(-1)", show=False),
        Binding("J,shift+down", "stretch(1)", show=False),
        Binding("K,shift+up", "stretch(-1)", show=False),
        Binding("space", "screen.page(1)", show=False),
    ]

    class Changed(Message):
        """The lines on the screen, the current change or the chosen lines may have changed."""

    def __init__(self, painter: Painter) -> None:
        super().__init__(id="review")
        self.painter = painter
        self._again: Timer | None = None
        self.current: str | None = None
        """The key of the part that the user's keys decide on, if any."""
        self.choice: Choice | None = None
        """The lines of the current part that are being chosen for a comment, if any."""
        self._remarks: Mapping[str, Remarks] = {}
        self._new: Collection[str] = frozenset()
        self._parts: Sequence[Part] = ()
        self._words: str = ""
        self._texts: Mapping[str, str] = {}
        self._blocks: list[_Block] = []
        self._starts: list[int] = [0]
        self._known: dict[Hashable, _Block] = {}
        self._seen: dict[str, _Seen] = {}
        self._width = 0

    def on_mount(self) -> None:
        self._again = self.set_interval(
            CHECK_SECONDS, partial(self.call_after_refresh, self.record_visible), pause=True
        )

    # The parts that are shown.

    def show(
        self,
        parts: Sequence[Part],
        words: str = "",
        remarks: Mapping[str, Remarks] | None = None,
        new: Collection[str] = frozenset(),
        hidden: Collection[str] = (),
    ) -> None:
        """Shows these parts. ``words``: the text below the last part. ``remarks``: the parts' comments, by key; None if
        unchanged. ``new``: the keys of parts that are marked as new. ``hidden``: the keys of parts that are in the
        review but not shown. What was seen of them is remembered."""
        before = [part.key for part in self._parts]
        self._parts, self._words, self._new = parts, words, new
        self._remarks = self._remarks if remarks is None else remarks
        quote = self.quote
        now = [part.key for part in parts]
        place = self._place(self.current)
        self.current = review_parts.follow(before, now, self.current)
        self._seen = {key: seen for key, seen in self._seen.items() if key in {*now, *hidden}}
        self._lay_out(place)
        if self.choice is not None and (self.choice.key != self.current or self.quote != quote):
            self.choice = None  # the lines of the part have changed

    def put_texts(self, texts: Mapping[str, str]) -> None:
        """Shows the lines around the hunks of these files. ``texts``: the current texts, by path."""
        self._texts = texts
        self._lay_out(self._place(self.current))

    @property
    def part(self) -> Part | None:
        """The current part, if any."""
        return next((part for part in self._parts if part.key == self.current), None)

    def is_seen(self, key: str) -> bool:
        """Whether all of a part has been on the screen."""
        seen = self._seen.get(key)
        return seen is not None and seen.is_whole

    @property
    def is_in_view(self) -> bool:
        """Whether some of the current part is on the screen."""
        at = self._index(self.current)
        return at is not None and bool(self._in_view(at))

    @property
    def paths(self) -> list[str]:
        """The paths of the files that are at least partly on the screen."""
        top = self.scroll_offset.y
        found = (self._blocks[at].path for at in self._indices(top, top + self.size.height))
        return [*dict.fromkeys(path for path in found if path)]

    def text(self) -> str:
        """The text of the whole review as shown, on the screen or not."""
        return "\n".join(block.strip(at).text.rstrip() for block in self._blocks for at in range(block.height))

    # Lines that are chosen for a comment.

    @property
    def quote(self) -> str | None:
        """The text of the chosen lines; None if nothing is chosen, or if not all of them are shown."""
        return None if self.choice is None else review_comments.quote_of(self._rows, self.choice.place)

    def choose(self) -> bool:
        """Begins to choose lines of the current part: at first the new lines of its hunk or, without new lines, the
        removed ones. Returns False if it has no lines."""
        part = self.part
        self.choice = review_comments.chosen(part) if part is not None and self._rows else None
        self.refresh()
        self._go_to_choice()
        return self.choice is not None

    def end_choice(self) -> None:
        self.choice = None
        self.refresh()

    def _drop_choice(self) -> None:
        """Ends the selection of lines if another part has become the current one."""
        if self.choice is not None and self.choice.key != self.current:
            self.choice = None

    def action_stretch(self, by: int) -> None:
        if self.choice is not None:
            self._choose(review_comments.stretched(self.choice, self._rows, by))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self.choice is not None if action == "stretch" else True

    def _choose(self, choice: Choice) -> None:
        self.choice = choice
        self._go_to_choice()
        self.refresh()
        self.post_message(self.Changed())

    @property
    def _rows(self) -> Sequence[Row]:
        """The rows of the current part."""
        at = self._index(self.current)
        lines = self._blocks[at].lines if at is not None else None
        return lines.rows if lines is not None else ()

    def _go_to_choice(self) -> None:
        """Scrolls to the line that the last key has chosen, or to the first line of the initial choice."""
        choice, at = self.choice, self._index(self.current)
        block = self._blocks[at] if at is not None else None
        if choice is None or at is None or block is None or block.lines is None:
            return
        number = choice.anchor if choice.is_whole else choice.end
        row = next((one for one in block.lines.rows if (one.side, one.number) == (choice.side, number)), None)
        if row is None:
            return
        lines = block.lines.lines_of(row)
        first, last = (self._starts[at] + len(block.head) + block.lines.shown(line) for line in (lines[0], lines[-1]))
        top, height = self.scroll_offset.y, self.size.height
        if first < top or last >= top + height:
            self.scroll_to(y=first if first < top else last - height + 1, animate=False, immediate=True)

    # Layout.

    def on_resize(self, event: events.Resize) -> None:
        self._lay_out(self._place(self.current))

    def _lay_out(self, place: int | None) -> None:
        """Lays out all parts. ``place``: the line of the screen at which the current part was; None if it was not on
        the screen."""
        width = self.scrollable_content_region.width - GUTTER
        if width < 1:
            return
        self._width = width
        known, self._known, self._blocks = self._known, {}, []
        for path, some in groupby(self._parts, key=lambda part: part.path):
            self._lay_out_file(path, list(some), known)
        if self._words:
            words = self.painter.plain(self._words, width, self.painter.palette.wait)
            self._blocks.append(_Block(None, "", words, None, (), range(0)))
        self._starts = [0, *accumulate(block.height for block in self._blocks)]
        self.virtual_size = Size(width + GUTTER, self._starts[-1])
        self._return(place)
        self.refresh()
        self.call_after_refresh(self.record_visible)

    def _lay_out_file(self, path: str, parts: Sequence[Part], known: Mapping[Hashable, _Block]) -> None:
        """Adds the blocks of a file. ``known``: the blocks of the previous layout, which are reused if they are
        unchanged."""
        file, width, text = parts[0].file, self._width, self._texts.get(path)
        highest, around = review_parts.highest(file), {} if text is None else review_parts.contexts(text, file)
        self._add(known, ("file", *_numbers(file), width), partial(self._heading, file))
        for part in parts:
            context = around.get(part.key, review_parts.Context())
            remarks = self._remarks.get(part.key, Remarks())
            key = (part.key, part.draft, _start(part), context, width, highest, remarks, part.key in self._new)
            self._add(known, key, partial(self._part, part, context, highest, remarks))
            self._note_layout(self._blocks[-1], (part.is_gone, width, highest))

    def _add(self, known: Mapping[Hashable, _Block], key: Hashable, make: Callable[[], _Block]) -> None:
        block = known.get(key) or make()
        self._known[key] = block
        self._blocks.append(block)

    def _note_layout(self, block: _Block, layout: tuple[bool, int, int]) -> None:
        """If a part's layout has changed, forgets which of its lines were seen, unless all of them were. A part that was
        gone had none of its lines, so they have not been seen if it is there again."""
        assert block.part is not None
        seen = self._seen.get(block.part.key)
        if seen is None or seen.layout != layout or seen.total != len(block.body):
            was_whole = seen is not None and seen.is_whole and seen.layout[0] == layout[0]
            lines = set(range(len(block.body))) if was_whole else set[int]()
            self._seen[block.part.key] = _Seen(layout, lines, len(block.body))

    def _return(self, place: int | None) -> None:
        """Scrolls the current part to where it was on the screen, or into view if it was not."""
        at = self._index(self.current)
        if at is None:
            return
        top = self._starts[at] - place if place is not None else 0 if at <= 1 else self._starts[at]
        top = max(0, min(top, self._starts[-1] - self.size.height))
        self.scroll_to(y=top, animate=False, immediate=True)

    def _place(self, key: str | None) -> int | None:
        at = self._index(key)
        if at is None or not self._in_view(at):
            return None
        return self._starts[at] - self.scroll_offset.y

    def _index(self, key: str | None) -> int | None:
        found = (at for at, block in enumerate(self._blocks) if block.part is not None and block.part.key == key)
        return next(found, None)

    def _indices(self, top: int, bottom: int) -> range:
        """The indices of the blocks with lines from ``top`` up to, but not including, ``bottom``."""
        first = max(0, bisect_right(self._starts, top) - 1)
        last = bisect_right(self._starts, max(top, bottom - 1))
        return range(min(first, len(self._blocks)), min(last, len(self._blocks)))

    def _in_view(self, at: int) -> range:
        """The lines of a block that are on the screen, counted from its first one."""
        start, top = self._starts[at], self.scroll_offset.y
        return range(max(0, top - start), max(0, min(self._blocks[at].height, top + self.size.height - start)))

    # Lines that have been seen.

    def record_visible(self) -> None:
        """Records which lines are on the screen now, without those that a notice covers. If the current part is off the
        screen, a part that is on it becomes the current one."""
        shown = on_screen(self, self.content_region)
        is_moving = self.app.animator.is_being_animated(self, "scroll_y")
        self._check_again(is_moving)  # lines that an animation scrolls past do not count as seen
        if shown is None or not shown.width or shown.width < self._width or is_moving:
            return
        top = self.scroll_offset.y + shown.y - self.content_region.y
        indices = self._indices(top, top + shown.height)
        notices = Notices(self.screen)
        covered = {top + row for row in range(shown.height) if notices.cover(shown, row)}
        self._check_again(bool(covered))
        for at in indices:
            block = self._blocks[at]
            if block.part is not None:
                start = self._starts[at]
                lines = range(max(0, top - start), min(block.height, top + shown.height - start))
                own = (block.own(line) for line in lines if start + line not in covered)
                seen = (line - block.body.start for line in own if line is not None and line in block.body)
                self._seen[block.part.key].lines.update(seen)
        if not self.is_in_view:
            parts = [(at, block.part.key) for at in indices if (block := self._blocks[at]).part is not None]
            whole = [key for at, key in parts if self._starts[at] >= top]
            self.current = next(iter(whole or [key for _, key in parts]), self.current)
            self._drop_choice()
            self.refresh()
        self.post_message(self.Changed())

    def _check_again(self, is_needed: bool) -> None:
        """Sets whether to check again soon, because an animation or a notice that covers lines will end."""
        if self._again is not None:
            (self._again.resume if is_needed else self._again.pause)()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self.call_after_refresh(self.record_visible)

    # Keys and the mouse.

    def action_step(self, by: int) -> None:
        """Goes to the next change or the previous one or, while lines are being chosen, to the next or previous
        line."""
        if self.choice is not None:
            self._choose(review_comments.stepped(self.choice, self._rows, by))
            return
        keys = [part.key for part in self._parts]
        if self.current in keys:
            self.go(keys[max(0, min(len(keys) - 1, keys.index(self.current) + by))])

    def go_to_end(self, *, last: bool) -> None:
        """Goes to the first change, or to the last."""
        if self._parts:
            self.go(self._parts[-1 if last else 0].key)

    def go(self, key: str) -> None:
        """Makes a part the current one, and scrolls to it."""
        self.current = key
        self._drop_choice()
        at = self._index(key)
        if at is None:
            return
        heading = at - 1 if at and self._blocks[at - 1].part is None else at
        start, end = self._starts[heading], self._starts[at] + self._blocks[at].height - 1
        top, height = self.scroll_offset.y, self.size.height
        if end - start > height:
            start = self._starts[at]
        if start < top or end > top + height:
            to = start if start < top or end - start >= height else end - height
            self.scroll_to(y=to, animate=False, immediate=True)
        self.refresh()
        self.call_after_refresh(self.record_visible)

    def on_click(self, event: events.Click) -> None:
        at = next(iter(self._indices(self.scroll_offset.y + event.y, self.scroll_offset.y + event.y + 1)), None)
        if at is not None and (part := self._blocks[at].part) is not None:
            self.current = part.key
            self._drop_choice()
            self.refresh()
            self.post_message(self.Changed())

    # Drawing.

    def _heading(self, file: File) -> _Block:
        palette = self.painter.palette
        pieces = [(str(file["path"]), Style(color=palette.ink, bold=True))]
        if tags := review_words.file_words(file):
            pieces.append((f"  {tags}", Style(color=palette.wait)))
        if file["added"] or file["removed"]:
            pieces += [
                (f"  +{file['added']}", Style(color=palette.yes)),
                (f" −{file['removed']}", Style(color=palette.no)),
            ]
        strips = self._pieces(pieces, Style(bgcolor=palette.sunken))
        return _Block(None, str(file["path"]), strips, None, (), range(0))

    def _pieces(self, pieces: Iterable[tuple[str, Style]], ground: Style) -> list[Strip]:
        """Draws ``pieces`` on one line in their own styles; if they have to be wrapped, on several lines in one
        style."""
        pieces = [(harmless(text), style) for text, style in pieces]
        if cell_len("".join(text for text, _ in pieces)) <= self._width:
            strips = [Strip([Segment(text, style) for text, style in pieces])]
        else:
            strips = self.painter.plain("".join(text for text, _ in pieces), self._width, self.painter.palette.ink)
        return [strip.extend_cell_length(self._width).apply_style(ground) for strip in strips]

    def _part(self, part: Part, around: review_parts.Context, highest: int, remarks: Remarks) -> _Block:
        painter, palette, width, hunk = self.painter, self.painter.palette, self._width, part.hunk
        gone = "Your edit" if part.draft or not remarks.all else "Your comment"
        name = review_words.title(hunk) if hunk is not None else gone if part.is_gone else "Whole file"
        pieces = [(base_name(part.path), Style(color=palette.accent)), (f"  {name}", Style(color=palette.soft))]
        if part.key in self._new:
            pieces.append((f"  {review_words.NEW}", Style(color=palette.wait)))
        head = self._pieces(pieces, Style())
        if remarks.answers:
            head += painter.plain(remarks.answers, width, palette.accent)
        if part.draft is not None:
            body = painter.plain(part.draft, width, palette.ink) if part.draft else []
            cards = self._cards(remarks)
            return _Block(part, part.path, [*head, *body], None, [*cards, Strip([])], range(len(head) + len(body)))
        if words := review_words.words(part.file, hunk):
            head += painter.plain(words, width, palette.soft)
        if hunk is None or not (hunk["removed"] or hunk["added"]):
            return _Block(part, part.path, head, None, [*self._cards(remarks), Strip([])], range(len(head)))
        lines = _Lines(part, around, painter, width, highest, remarks.all)
        foot = painter.plain(lines.end, width, palette.soft) if lines.end else []
        start, end = (len(head) + edge for edge in lines.body)
        body_end = len(head) + lines.plain_count + len(foot) if foot else end
        return _Block(part, part.path, head, lines, [*foot, *lines.rest, Strip([])], range(start, body_end))

    def _cards(self, remarks: Remarks) -> list[Strip]:
        """The drawn comments on a part that has no lines."""
        shown = (review_cards.strips(one.apart, self.painter, self._width) for one in remarks.all)
        return [strip for card in shown for strip in card]

    def render_line(self, y: int) -> Strip:
        line, width, ground = self.scroll_offset.y + y, self.size.width, self.rich_style
        if line >= self._starts[-1]:
            return Strip.blank(width, ground)
        at = bisect_right(self._starts, line) - 1
        block = self._blocks[at]
        row = line - self._starts[at]
        marked = block.part is not None and block.part.key == self.current and row < block.height - 1
        is_chosen, palette = marked and self._is_chosen(block, row), self.painter.palette
        marker = Segment("▌▸" if is_chosen else "▌ " if marked else "  ", Style(color=palette.accent))
        number, *rest = [*block.strip(row)] or [Segment("")]
        if is_chosen:
            shade = Style(color=palette.accent, bgcolor=palette.accent_wash, bold=True)
            number = Segment(number.text, (number.style or Style()) + shade)
        strip = Strip([marker, number, *rest]).crop_extend(0, width, None)
        return strip.apply_style(ground).apply_offsets(0, line)

    def _is_chosen(self, block: _Block, at: int) -> bool:
        row = block.row(at) if self.choice is not None else None
        return row is not None and self.choice is not None and self.choice.has(row)


def _start(part: Part) -> tuple[int, int]:
    return (int(part.hunk["old_start"]), int(part.hunk["new_start"])) if part.hunk is not None else (0, 0)


def _numbers(file: File) -> tuple[str, int, int, str]:
    return str(file["path"]), int(file["added"]), int(file["removed"]), review_words.file_words(file)
