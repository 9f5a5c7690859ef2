"""The dialog that searches the history of the shown project and lets the user choose a result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from drawbridge.tui import wording
from drawbridge.tui.client import Client
from drawbridge.tui.requests import do

KINDS: Final = {
    "prompt": "Message",
    "answer": "Answer",
    "tool": "Tool call",
    "result": "Output",
    "decision": "Decision",
    "error": "Error",
}
HINT: Final = "Enter search, or go to the selected result · Esc close"


class SearchDialog(ModalScreen[int | None]):
    """Searches the project's history. Returns the ``seq`` of the record that the user chose; None if the dialog is
    canceled."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "back")]

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client = client
        self._found: list[Mapping[str, Any]] = []

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog wide"):
            yield Static(Content("Search this project"), classes="title")
            yield Input(placeholder="Words that a message contains", compact=True, classes="path")
            yield OptionList()
            yield Static(Content(HINT), classes="hint")

    def on_mount(self) -> None:
        self.query_one(OptionList).display = False

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if event.value.strip():
            do(self, self._search(event.value))

    async def _search(self, query: str) -> None:
        answer = (await self._client.command("search", {"query": query}))["data"]
        self._found = list(answer["results"])
        options = self.query_one(OptionList)
        options.clear_options()
        options.add_options([Option(_line(one)) for one in self._found])
        options.display = bool(self._found)
        if answer.get("building"):
            more = "There may be more results: the index is still being built."
            hint = more if self._found else "No results yet: the index is still being built."
        else:
            hint = HINT if self._found else "No results."
        self.query_one(".hint", Static).update(Content(hint))
        if self._found:
            options.highlighted = 0
            options.focus()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.dismiss(int(self._found[event.option_index]["seq"]))


def _line(found: Mapping[str, Any]) -> Content:
    """A result: its time, its kind, and its text with the matches in bold."""
    head = f"{wording.day(found['created_at'])} {KINDS.get(found['kind'], '')} "
    pieces = [(wording.one_line(text), "bold" if at % 2 else "") for at, text in enumerate(found["snippet"])]
    return Content.assemble((head, "$soft"), *pieces)
