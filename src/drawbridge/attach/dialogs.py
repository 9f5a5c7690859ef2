"""Small windows over a screen: which mode, a new project, and which keys there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from drawbridge.attach.wording import MODES, one_line

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
    ("Space", "the next page of what is asked"),
    ("g  G", "up, and to the end"),
    ("s", "stop the run"),
    ("m", "what the agent asks about"),
    ("p", "all projects; n adds one there"),
    ("?", "these keys"),
    ("q", "leave, as Ctrl-Q; the agent continues to work"),
)


class ModeDialog(ModalScreen[str | None]):
    """The mode that was chosen; None: none."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "back")]

    def __init__(self, current: str, allowed: frozenset[str] | None) -> None:
        """``allowed``: what the server takes, as far as it has said so."""
        super().__init__()
        self._current = current or "default"
        self._modes = {mode: words for mode, words in MODES.items() if allowed is None or mode in allowed}

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content("What it asks about"), classes="title")
            yield OptionList(*(Option(Content(words), id=mode) for mode, words in self._modes.items()))

    def on_mount(self) -> None:
        modes = [*self._modes]
        self.query_one(OptionList).highlighted = modes.index(self._current) if self._current in modes else 0

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option.id)


class NewProject(NamedTuple):
    path: str
    agent: str


class ProjectDialog(ModalScreen[NewProject | None]):
    """A directory on the server's machine, and the agent that works there."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "back")]

    def __init__(self, path: str, agents: Sequence[str], why: str = "") -> None:
        super().__init__()
        self._path = path
        self._agents = agents
        self._why = why

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog wide"):
            yield Static(Content("Add a project"), classes="title")
            if self._why:
                yield Static(Content(one_line(self._why)))
            yield Static(Content("Directory on the server's machine:"))
            yield Input(self._path, compact=True, classes="path", select_on_focus=False)
            yield Static(Content("Agent:"))
            yield OptionList(*(Option(Content(one_line(agent)), id=agent) for agent in self._agents))
            yield Static(Content("Enter adds it · Tab goes to the agents · Esc goes back"), classes="hint")

    def on_mount(self) -> None:
        self.query_one(OptionList).highlighted = 0 if self._agents else None

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._add()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self._add()

    def _add(self) -> None:
        path, place = self.query_one(Input).value.strip(), self.query_one(OptionList).highlighted
        if path and place is not None:
            self.dismiss(NewProject(path, self._agents[place]))


class HelpDialog(ModalScreen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,enter", "dismiss(None)", "back"),
        Binding("q", "app.quit", show=False),
    ]

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content("Keys, outside of text fields"), classes="title")
            for key, words in KEYS:
                yield Static(Content.assemble((f"{key:<7}", "$accent bold"), f" {words}"))
