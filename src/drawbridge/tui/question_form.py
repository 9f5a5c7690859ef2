"""The questions of AskUserQuestion, one at a time, each with its options and a line for a free answer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content, ContentText
from textual.geometry import Size
from textual.widgets import Checkbox, Input, RadioButton, RadioSet, Static
from textual.widgets._toggle_button import ToggleButton

from drawbridge.tui.call_parts import Part
from drawbridge.tui.wording import block, one_line

OF_QUESTION: Final[Mapping[str, type]] = {"question": str, "header": str, "multiSelect": bool, "options": list}
"""The fields of a question that the form can show → their types."""


class QuestionForm(VerticalScroll):
    """``asked``: the questions, each ``{question, header, multiSelect, options: [{label, description}]}``."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(str(number), f"choose({number})", show=False) for number in range(1, 10)
    ]

    def __init__(
        self, asked: Sequence[Mapping[str, Any]], given: Mapping[str, Any], above: Sequence[Part] = ()
    ) -> None:
        """``given``: the whole input of the call. ``above``: the text and fields shown above the questions."""
        super().__init__(classes="questions", can_focus=False)
        self._above = [f"{part.name}: {part.text}" if part.name else part.text for part in above]
        self._more = [*_unknown(given, {"questions", "answers"})]
        self._groups = [_Group(one, number, len(asked)) for number, one in enumerate(asked, 1)]
        self._step = 0

    def compose(self) -> ComposeResult:
        for text in self._above:
            yield Static(Content(block(text)), classes="more-words")
        for name, value in self._more:
            yield Static(Content(block(f"{name}: {value}")), classes="more-words")
        yield from self._groups

    def on_mount(self) -> None:
        self._show()

    @property
    def question(self) -> str:
        """The question that is shown."""
        return self._groups[self._step].question

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

    def go(self, by: int) -> None:
        """Shows the next question (1) or the previous one (-1)."""
        self._step += by
        self._show()
        self.call_after_refresh(self._groups[self._step].look)

    def _show(self) -> None:
        for number, group in enumerate(self._groups):
            group.display = number == self._step

    def action_choose(self, number: int) -> None:
        self._groups[self._step].choose(number)

    def answers(self) -> list[tuple[str, str]]:
        """Each question with the chosen text, which is empty if nothing was chosen."""
        return [(group.question, group.chosen()) for group in self._groups]


def _unknown(given: Mapping[str, Any], known: Set[str]) -> Iterator[tuple[str, str]]:
    """The fields that Drawbridge does not know, except empty ones, with their values as text: they are shown, too."""
    for name, value in given.items():
        if name not in known and value not in (None, ""):
            yield name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


class _Option(ToggleButton):
    """A button with a label of several lines. They are indented, so that a label can't look like another option."""

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
        """Scrolls to the option; to its start if it does not fit."""
        form = next((one for one in self.ancestors if isinstance(one, QuestionForm)), None)
        if form is not None:
            form.scroll_to_widget(self, animate=False, top=self.outer_size.height > form.size.height)


class _Radio(RadioButton, _Option):  # Textual's selectors only know the first base of a class
    pass


class _Check(Checkbox, _Option):
    pass


class _Radios(RadioSet):
    def _scroll_to_selected(self) -> None:
        """RadioSet itself would scroll only within the set, which is as tall as its buttons. Without the focus, the first
        button has just been selected by itself, and the question is read from its top."""
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
        # Fields whose values have an unexpected type are shown like unknown fields.
        strange = {
            name: asked[name] for name, kind in OF_QUESTION.items() if not isinstance(asked.get(name, kind()), kind)
        }
        if isinstance(options, list) and len(self._options) < len(options):
            strange["options"] = [one for one in options if not isinstance(one, dict)]
        self._more = [*_unknown({**asked, **strange}, OF_QUESTION.keys() - strange.keys())]
        self._own = Input(placeholder="Other…", compact=True, classes="own")
        kind = _Check if self._many else _Radio
        self._buttons = [kind(content, compact=True) for content in self._labels()]

    def compose(self) -> ComposeResult:
        header = f"{one_line(self._header)}  " if self._header else ""
        yield Static(Content.assemble((self._place, "$soft"), (header, "$accent bold"), (block(self.question), "bold")))
        for name, value in self._more:
            yield Static(Content(block(f"{name}: {value}")), classes="more-words")
        for option in self._options:
            for name, value in _unknown(option, {"label", "description"}):
                yield Static(Content(block(f"{option.get('label', '')}, {name}: {value}")), classes="more-words")
        if self._many:
            yield from self._buttons
        elif self._buttons:
            yield _Radios(*(button for button in self._buttons if isinstance(button, _Radio)), compact=True)
        yield self._own

    def look(self) -> None:
        """Takes the focus."""
        # A question is read from its top, which the focus of a tall list of options would scroll away.
        next(iter(self.query("RadioSet, Checkbox, .own"))).focus(scroll_visible=False)

    def choose(self, number: int) -> None:
        """Selects the option with this number, from 1. If several options can be selected, toggles it."""
        if number <= len(self._buttons):
            button = self._buttons[number - 1]
            button.value = not button.value if self._many else True
            button.bring()

    def chosen(self) -> str:
        labels = [
            str(option.get("label", ""))
            for option, button in zip(self._options, self._buttons, strict=True)
            if button.value
        ]
        own = self._own.value.strip()
        return ", ".join(filter(None, [*labels, own])) if self._many else own or "".join(labels[:1])

    def _labels(self) -> Iterator[Content]:
        for number, option in enumerate(self._options, 1):
            described = option.get("description")
            words = f"  {one_line(described)}" if described else ""
            key = f"{number} " if number < 10 else ""
            yield Content.assemble((key, "$soft"), one_line(option.get("label", "")), (words, "$soft"))
