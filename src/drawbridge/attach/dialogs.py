"""Small windows over the conversation: which mode, and which keys there are."""

from __future__ import annotations

from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from drawbridge.attach.wording import MODES

KEYS: Final = (
    ("a", "accept what is asked"),
    ("e", "edit it first: what you see is what is written"),
    ("r", "reject it, and say why"),
    ("w", "always: the agent's own suggestion, in words"),
    ("Ctrl-S", "accept with your edits; answer"),
    ("/", "to the prompt box; Enter sends, Ctrl-J begins a new line"),
    ("Esc", "out of a field; back"),
    ("j  k", "to the next thing, to the one before"),
    ("Enter", "unfold it; all of what was cut"),
    ("g  G", "up, and to the end"),
    ("s", "stop the run"),
    ("m", "what the agent asks about"),
    ("p", "all projects"),
    ("Ctrl-Q", "leave; the agent goes on"),
)


class ModeDialog(ModalScreen[str | None]):
    """The mode that was chosen; None: none."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "back")]

    def __init__(self, current: str) -> None:
        super().__init__()
        self._current = current or "default"

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content("What it asks about"), classes="title")
            yield OptionList(*(Option(Content(words), id=mode) for mode, words in MODES.items()))

    def on_mount(self) -> None:
        modes = [*MODES]
        self.query_one(OptionList).highlighted = modes.index(self._current) if self._current in modes else 0

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option.id)


class HelpDialog(ModalScreen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,question_mark,enter", "dismiss(None)", "back")]

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content("Keys, outside of text fields"), classes="title")
            for key, words in KEYS:
                yield Static(Content.assemble((f"{key:<7}", "$accent bold"), f" {words}"))
