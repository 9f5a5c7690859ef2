"""The questions of AskUserQuestion, one at a time, each with its options and a line for a free answer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import partial
from typing import Any, ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content, ContentText
from textual.geometry import Size
from textual.message import Message
from textual.screen import Screen
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Checkbox, Input, RadioButton, RadioSet, Static
from textual.widgets._toggle_button import ToggleButton

from drawbridge.tui.call_parts import Part
from drawbridge.tui.diff_view import CHECK_SECONDS, Notices, on_screen
from drawbridge.tui.wording import block, one_line

OF_QUESTION: Final[Mapping[str, type]] = {"question": str, "header": str, "multiSelect": bool, "options": list}
"""Maps the fields of a question that the form can show to their types."""


class QuestionForm(VerticalScroll):
    """The form for the questions of one call, which shows one question at a time. ``asked``: the questions, each
    ``{question, header, multiSelect, options: [{label, description}]}``."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(str(number), f"choose({number})", show=False) for number in range(1, 10)
    ]

    class Seen(Message):
        """The number of unseen lines has changed."""

    def __init__(
        self, asked: Sequence[Mapping[str, Any]], given: Mapping[str, Any], above: Sequence[Part] = ()
    ) -> None:
        """``given``: the whole input of the call. ``above``: the text and fields shown above the questions."""
        super().__init__(classes="questions", can_focus=False)
        texts = [f"{part.name}: {part.text}" if part.name else part.text for part in above]
        texts += [f"{name}: {value}" for name, value in _unknown(given, {"questions", "answers"})]
        self._above = [_words(text) for text in texts]
        self._groups = [_Group(one, number, len(asked)) for number, one in enumerate(asked, 1)]
        self._step = 0
        self._rows: dict[Widget, _Rows] = {}
        self._unseen = 0
        self._again: Timer | None = None

    def compose(self) -> ComposeResult:
        yield from self._above
        yield from self._groups

    def on_mount(self) -> None:
        self._again = self.set_interval(
            CHECK_SECONDS, partial(self.call_after_refresh, self.record_visible), pause=True
        )
        self.screen.screen_layout_refresh_signal.subscribe(self, self._laid_out)
        self._show()

    @property
    def question(self) -> str:
        """The question that is shown."""
        return self._groups[self._step].question

    @property
    def has_options(self) -> bool:
        """Whether the question that is shown has options."""
        return bool(self._groups[self._step].buttons)

    @property
    def is_answered(self) -> bool:
        """Whether the question that is shown has an answer."""
        return bool(self._groups[self._step].chosen())

    @property
    def is_first(self) -> bool:
        return self._step == 0

    @property
    def is_last(self) -> bool:
        return self._step == len(self._groups) - 1

    @property
    def unseen(self) -> int:
        """The number of lines of the question that is shown, of the text above it and of the answer that have not been
        on the screen yet."""
        return sum(self._left(widget) for widget in self._needed())

    def _needed(self) -> list[Widget]:
        """The widgets that must have been on the screen before the question that is shown can be answered."""
        group = self._groups[self._step]
        return [*self._above, *group.texts, *group.pressed(), *group.typed()]

    def _left(self, widget: Widget) -> int:
        rows = self._rows_of(widget)
        return max(1, widget.outer_size.height) if rows is None else rows.left

    def _rows_of(self, widget: Widget) -> _Rows | None:
        """The lines of a widget that count as seen; None if it was not seen with its current text."""
        rows = self._rows.get(widget)
        return None if rows is None or rows.typed != _typed(widget) else rows

    def record_visible(self) -> None:
        """Records which lines are on the screen now."""
        if self.app.animator.is_being_animated(self, "scroll_y"):  # lines that scroll past do not count as seen
            is_incomplete = True
        else:
            notices = Notices(self.screen)
            covered = [
                self._record_visible_lines(widget, notices)
                for widget in (*self._needed(), *self._groups[self._step].buttons)
            ]
            is_incomplete = any(covered)
        if self._again is not None:  # an animation will end, or a notice that covers lines will disappear
            (self._again.resume if is_incomplete else self._again.pause)()
        if self.unseen != self._unseen:
            self._unseen = self.unseen
            self.post_message(self.Seen())

    def _record_visible_lines(self, widget: Widget, notices: Notices) -> bool:
        """Records which lines of a widget are on the screen; returns whether a notice covers any."""
        region = widget.region
        shown = on_screen(widget, region)
        if shown is None or not region.height or shown.width < region.width:
            return False
        rows = self._rows_of(widget)
        if rows is None or rows.size != region.size:
            # At another width, the lines are wrapped differently, so they count as unseen unless all of them were seen.
            rows = self._rows[widget] = _Rows(
                region.size, _typed(widget), set(range(region.height)) if rows and not rows.left else set()
            )
        top = shown.y - region.y
        free = {top + row for row in range(shown.height) if not notices.cover(shown, row)}
        rows.see(free)
        return len(free) < shown.height

    def _laid_out(self, _: Screen[Any]) -> None:
        self.record_visible()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self.call_after_refresh(self.record_visible)

    def on_radio_set_changed(self) -> None:
        self.record_visible()

    def on_checkbox_changed(self) -> None:
        self.record_visible()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.input.scroll_visible(animate=False)  # the user sees what they type
        self.call_after_refresh(self.record_visible)

    def page(self, by: int) -> None:
        """Scrolls by a page, down (1) or up (-1). While lines are unseen, 1 scrolls to the first of them instead."""
        first = next((place for widget in self._needed() for place in self._places(widget)), None)
        if by > 0 and first is not None:
            self.scroll_to(y=self.scroll_offset.y + first - self.content_region.y, animate=False)
        else:
            (self.scroll_page_down if by > 0 else self.scroll_page_up)(animate=False)

    def _places(self, widget: Widget) -> Iterator[int]:
        """The rows of a widget's unseen lines, in the coordinates of the screen. They may be outside it."""
        rows = self._rows_of(widget)
        for row in range(widget.region.height):
            if rows is None or row not in rows.seen:
                yield widget.region.y + row

    def action_page_down(self) -> None:
        self.page(1)

    def action_page_up(self) -> None:
        self.page(-1)

    def go(self, by: int) -> None:
        """Shows the next question (1) or the previous one (-1)."""
        self._step += by
        self._show()
        self.scroll_home(animate=False)
        self.call_after_refresh(self._groups[self._step].focus_first)

    def _show(self) -> None:
        for number, group in enumerate(self._groups):
            group.display = number == self._step

    def action_choose(self, number: int) -> None:
        self._groups[self._step].choose(number)

    def answers(self) -> list[tuple[str, str]]:
        """Each question with its answer, which is empty if nothing was chosen or typed."""
        return [(group.question, group.chosen()) for group in self._groups]


class _Rows:
    """The lines of a widget that count as seen, as long as the widget has this ``size`` and contains what the user had
    ``typed`` then."""

    def __init__(self, size: Size, typed: str, seen: set[int]) -> None:
        self.size = size
        self.typed = typed
        self.seen = seen

    @property
    def left(self) -> int:
        return self.size.height - len(self.seen)

    def see(self, rows: set[int]) -> None:
        """Counts these lines as seen."""
        self.seen |= rows


def _typed(widget: Widget) -> str:
    return widget.value if isinstance(widget, Input) else ""


def _words(text: str) -> Static:
    return Static(Content(block(text)), classes="more-words")


def _unknown(given: Mapping[str, Any], known: Set[str]) -> Iterator[tuple[str, str]]:
    """The fields that Drawbridge does not know, with their values as text, so that they are shown, too. Empty fields
    are left out."""
    for name, value in given.items():
        if name not in known and value not in (None, ""):
            yield name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


class _Option(ToggleButton):
    """A button with a label of several lines. All lines but the first are indented, so that none looks like another
    option."""

    INDENT: ClassVar[int] = 4

    def _make_label(self, label: ContentText) -> Content:
        return Content.from_text(label)

    def _wrapped(self, width: int) -> list[Content]:
        return self._label.wrap(max(1, width - self.INDENT))

    def get_content_width(self, container: Size, viewport: Size) -> int:
        return container.width

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._wrapped(width))

    def render(self) -> Content:
        style = self.get_visual_style("toggle--label")
        rows = [row.pad_left(1).stylize_before(style) for row in self._wrapped(self.size.width)]
        return Content("\n" + " " * (self.INDENT - 1)).join([Content.assemble(self._button, rows[0]), *rows[1:]])

    def bring(self) -> None:
        """Scrolls to the option, or to its start if it does not fit."""
        form = next((one for one in self.ancestors if isinstance(one, QuestionForm)), None)
        if form is not None:
            form.scroll_to_widget(self, animate=False, top=self.outer_size.height > form.size.height)


class _Radio(RadioButton, _Option):  # Textual's selectors only know the first base of a class
    pass


class _Check(Checkbox, _Option):
    pass


class _Radios(RadioSet):
    def _scroll_to_selected(self) -> None:
        """Scrolls the form to the selected option, because RadioSet would scroll only within itself, and it is as tall
        as its options. Scrolls only while the options have the focus. Before that, Textual has selected the first
        option, but the user still reads the question from its top."""
        if self._selected is not None and self.has_focus:
            button = self.children[self._selected]
            assert isinstance(button, _Radio)
            self.call_after_refresh(button.bring)


class _Group(Vertical):
    def __init__(self, asked: Mapping[str, Any], number: int, count: int) -> None:
        """``number``: the question's position among ``count`` questions, from 1."""
        super().__init__(classes="question-group")
        self._place = f"{number} of {count}  " if count > 1 else ""
        self.question: str = asked["question"]
        self._header = asked["header"] if isinstance(asked.get("header"), str) else ""
        self._many = bool(asked.get("multiSelect"))
        options = asked.get("options")
        self._options = [one for one in options if isinstance(one, dict)] if isinstance(options, list) else []
        # Fields with values of an unexpected type are shown like unknown fields.
        strange = {
            name: asked[name] for name, kind in OF_QUESTION.items() if not isinstance(asked.get(name, kind()), kind)
        }
        if isinstance(options, list) and len(self._options) < len(options):
            strange["options"] = [one for one in options if not isinstance(one, dict)]
        self._more = [*_unknown({**asked, **strange}, OF_QUESTION.keys() - strange.keys())]
        self._own = Input(placeholder="Other…", compact=True, classes="own")
        kind = _Check if self._many else _Radio
        self.buttons = [kind(content, compact=True) for content in self._labels()]
        self.texts = [*self._texts()]
        """The widgets above the options."""

    def _texts(self) -> Iterator[Static]:
        header = f"{one_line(self._header)}  " if self._header else ""
        yield Static(Content.assemble((self._place, "$soft"), (header, "$accent bold"), (block(self.question), "bold")))
        for name, value in self._more:
            yield _words(f"{name}: {value}")
        for option in self._options:
            for name, value in _unknown(option, {"label", "description"}):
                yield _words(f"{option.get('label', '')}, {name}: {value}")

    def compose(self) -> ComposeResult:
        yield from self.texts
        if self._many:
            yield from self.buttons
        elif self.buttons:
            yield _Radios(*(button for button in self.buttons if isinstance(button, _Radio)), compact=True)
        yield self._own

    def focus_first(self) -> None:
        """Moves the focus to the options or, if there are none, to the line for a free answer."""
        # Scrolling to a tall list of options would hide the beginning of the question.
        next(iter(self.query("RadioSet, Checkbox, .own"))).focus(scroll_visible=False)

    def choose(self, number: int) -> None:
        """Selects the option with this number, from 1. If several options can be selected, toggles it."""
        if number <= len(self.buttons):
            button = self.buttons[number - 1]
            button.value = not button.value if self._many else True
            button.bring()

    def pressed(self) -> list[_Option]:
        """The selected options that are part of the answer. If only one can be selected, a free answer replaces it."""
        return [button for button in self.buttons if button.value and (self._many or not self._free)]

    def typed(self) -> list[Input]:
        """The line for a free answer, if it contains one."""
        return [self._own] if self._free else []

    @property
    def _free(self) -> str:
        return self._own.value.strip()

    def chosen(self) -> str:
        pressed = self.pressed()
        labels = [
            str(option.get("label", ""))
            for option, button in zip(self._options, self.buttons, strict=True)
            if button in pressed
        ]
        return ", ".join(filter(None, [*labels, self._free]))

    def _labels(self) -> Iterator[Content]:
        for number, option in enumerate(self._options, 1):
            described = option.get("description")
            words = f"  {one_line(described)}" if described else ""
            key = f"{number} " if number < 10 else ""
            yield Content.assemble((key, "$soft"), one_line(option.get("label", "")), (words, "$soft"))
