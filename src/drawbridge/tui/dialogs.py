"""Small dialogs over a screen: the permission mode, a new project, a confirmation, and the keys."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from drawbridge.tui.client import Client
from drawbridge.tui.connection import RequestError
from drawbridge.tui.wording import mode, one_line

KEYS: Final = (
    ("a", "accept"),
    ("e", "edit it, then accept what you see"),
    ("r", "reject it, with a reason if you like; skip the agent's questions"),
    ("w", "always: accept, and apply what the agent suggests"),
    ("Ctrl-S", "accept with your edits; go to the next question, or submit your answers"),
    ("/", "go to the prompt box; Enter sends, Ctrl-R adds to the active run, Ctrl-J starts a new line"),
    ("Esc", "leave a field; go back"),
    ("j  k", "to the next item; to the previous one"),
    ("Enter", "expand an item; show truncated text in full"),
    ("Space", "the next page (also PgDn; PgUp goes back)"),
    ("g  G", "to the beginning; to the end"),
    ("v", "review: keep, undo or edit what the runs have changed"),
    ("f", "search this project's history"),
    ("s  S", "stop the run, or cancel what would start later; stop the run and remove queued prompts"),
    ("t", "the queue: edit, move or remove a prompt, or send it now"),
    ("m", "permission mode: what the agent asks about"),
    ("p", "all projects (n adds one)"),
    ("?", "these keys"),
)

REVIEW_KEYS: Final = (
    ("j  k", "to the next change; to the previous one (also the arrows)"),
    ("Space", "the next page (also PgDn; PgUp goes back)"),
    ("a", "keep the change"),
    ("u", "undo it: exactly this change is removed"),
    ("e", "replace it with your own lines"),
    ("Ctrl-S", "keep your edited version"),
    ("c", "comment on the change's lines, or on lines selected with j k J K; Enter opens the text field"),
    ("n", "only the changes since your last visit, or all changes again"),
    ("d", "discard your edit, or the comment that you have not added"),
    ("A  U", "keep or undo all changes to the file"),
    ("K  X", "keep or undo all changes"),
    ("S", "send the agent all comments that have not been sent yet"),
    ("y", "copy comments that could not be sent, as a prompt"),
    ("C", "all comments: edit, remove, resolve or reopen one"),
    ("M", "commit what was kept, if the server allows it"),
    ("P", "push the branch, if the server allows it"),
    ("g  G", "to the first change, and to the last"),
    ("Esc", "leave a field; go back"),
    ("?", "these keys"),
)


class ModeDialog(ModalScreen[str | None]):
    """Asks for a permission mode. Returns the chosen mode; None if the dialog is canceled."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "back")]

    def __init__(
        self,
        current: str,
        project: Mapping[str, Any],
        allowed: frozenset[str] | None,
        offers: Sequence[Mapping[str, Any]],
    ) -> None:
        """``allowed``: the modes that the server accepts; None if it has not reported them. ``offers``: the modes that
        the server describes. If the agent has its own modes, ``project`` lists them, and they are offered instead."""
        super().__init__()
        self._current = current or "default"
        self._project = project
        self._offers = offers
        described = [one["name"] for one in offers if allowed is None or one["name"] in allowed]
        self._modes = [str(one) for one in project.get("modes") or described or [self._current]]

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content("Permission mode"), classes="title")
            words = [one_line(mode(self._project, name, self._offers)) for name in self._modes]
            yield OptionList(*map(Content, words))

    def on_mount(self) -> None:
        at = self._modes.index(self._current) if self._current in self._modes else 0
        self.query_one(OptionList).highlighted = at

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._modes[event.option_index])


NO_AGENT: Final = "No project can be added: no agent is installed on the server. Install one there, then try again."


class NewProject(NamedTuple):
    path: str
    agent: str


class ProjectDialog(ModalScreen[NewProject | None]):
    """Asks for a directory on the server's machine and for the agent that works there. Agents that are not installed
    come last and can't be chosen. Returns None if the dialog is canceled."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "back")]

    def __init__(self, path: str, client: Client, why: str = "") -> None:
        super().__init__()
        self._path = path
        self._client = client
        self._why = why
        self._is_loaded = False
        # Until the server has answered, it is not known which agents are installed.
        self._agents: Sequence[Mapping[str, Any]] = [
            {"name": name, "title": client.agent_label(name)} for name in client.agents
        ]

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog wide"):
            yield Static(Content("Add a project"), classes="title")
            if self._why:
                yield Static(Content(one_line(self._why)))
            yield Static(Content("Directory on the server:"))
            yield Input(self._path, compact=True, classes="path", select_on_focus=False)
            yield Static(Content("Agent:"))
            yield OptionList(*map(_agent_option, self._agents))
            yield Static(Content("Enter add · Tab choose the agent · Esc close"), classes="hint")

    def on_mount(self) -> None:
        self.query_one(OptionList).highlighted = 0 if self._agents else None
        self._is_loaded = not self._client.may("agent_list")
        if not self._is_loaded:
            self.run_worker(self._load())

    async def _load(self) -> None:
        """Shows which agents are installed. The highlighted agent stays the same if it is installed."""
        with contextlib.suppress(RequestError):  # without the list, every agent can be chosen
            self._agents = sorted(await self._client.agent_list(), key=lambda one: not one["installed"])
            options = self.query_one(OptionList)
            before = options.highlighted_option
            options.clear_options()
            options.add_options(map(_agent_option, self._agents))
            names = [one["name"] for one in self._agents if one["installed"]]
            chosen = before.id if before is not None and before.id in names else None
            options.highlighted = names.index(chosen) if chosen else 0 if names else None
        self._is_loaded = True

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._add()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self._add()

    def _add(self) -> None:
        if not self._is_loaded:
            return  # another agent may be highlighted at the next moment
        path, place = self.query_one(Input).value.strip(), self.query_one(OptionList).highlighted
        if path and place is None:
            self.notify(NO_AGENT, severity="warning", markup=False)
        elif path and place is not None:
            self.dismiss(NewProject(path, self._agents[place]["name"]))


def _agent_option(agent: Mapping[str, Any]) -> Option:
    """An agent in the list. Without the field ``installed``, it is not known whether it is installed."""
    installed = agent.get("installed")
    if installed is None:
        words = ""
    elif not installed:
        words = agent.get("hint") or "Not installed on the server."
    else:
        words = f"Installed · {agent['version']}" if agent.get("version") else "Installed"
        words += "" if agent.get("asks", True) else " · doesn’t ask before it changes files"
    shown = Content.assemble(one_line(agent["title"]), (f"  {one_line(words)}" if words else "", "$soft"))
    return Option(shown, id=agent["name"], disabled=installed is False)


class ConfirmDialog(ModalScreen[bool]):
    """Asks the user to confirm an action. ``yes``: the label of the ``y`` key. Returns whether the user agreed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", show=False),
        Binding("n,escape", "dismiss(False)", show=False),
    ]

    def __init__(self, question: str, text: str, yes: str) -> None:
        super().__init__()
        self._question = question
        self._text = text
        self._yes = yes

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog wide"):
            yield Static(Content(one_line(self._question)), classes="title")
            if self._text:
                yield Static(Content(one_line(self._text)))
            yield Static(Content(f"y {self._yes} · Esc Cancel"), classes="hint")


class HelpDialog(ModalScreen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,enter", "dismiss(None)", "back"),
        Binding("q", "app.quit", show=False),
        Binding("j,down", "scroll(1)", show=False),
        Binding("k,up", "scroll(-1)", show=False),
    ]

    def __init__(self, keys: Sequence[tuple[str, str]], *, ends_server: bool) -> None:
        """``ends_server``: whether the server ends with the application."""
        super().__init__()
        then = "the server also stops" if ends_server else "agents keep working while the server runs"
        self._listed = (*keys, ("q", f"quit (also Ctrl-Q); {then}"))

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog wide help", can_focus=False):
            yield Static(Content("Keys (letters work outside text fields)"), classes="title")
            for key, words in self._listed:
                with Horizontal():
                    yield Static(Content(key), classes="key")
                    yield Static(Content(words))

    def action_scroll(self, by: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=by, animate=False)
