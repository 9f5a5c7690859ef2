"""Small windows over the conversation: which mode, and which keys there are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static

from drawbridge.attach.wording import MODES, mode, one_line

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

    def __init__(self, current: str, project: Mapping[str, Any]) -> None:
        super().__init__()
        self._current = current or "default"
        self._project = project
        self._modes = [str(mode) for mode in project.get("modes") or MODES]

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content("What it asks about"), classes="title")
            words = [one_line(mode(self._project, name)) for name in self._modes]
            yield OptionList(*map(Content, words))

    def on_mount(self) -> None:
        at = self._modes.index(self._current) if self._current in self._modes else 0
        self.query_one(OptionList).highlighted = at

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._modes[event.option_index])


class HelpDialog(ModalScreen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,question_mark,enter", "dismiss(None)", "back")]

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content("Keys, outside of text fields"), classes="title")
            for key, words in KEYS:
                yield Static(Content.assemble((f"{key:<7}", "$accent bold"), f" {words}"))
