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
from drawbridge.tui.connection import RequestError
from drawbridge.tui.requests import do

KINDS: Final = {
    "prompt": "Message",
    "answer": "Answer",
    "tool": "Tool call",
    "result": "Output",
    "decision": "Decision",
    "error": "Error",
}
PAGE: Final = 50
"""The number of results in one page."""

MORE: Final = "Show more"
HINT: Final = "Enter search, or go to the selected result · Esc close"


class SearchDialog(ModalScreen[int | None]):
    """Searches the project's history. Returns the ``seq`` of the record that the user chose; None if the dialog is
    canceled."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "back")]

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client = client
        self._found: list[Mapping[str, Any]] = []
        self._query = ""
        self._next: str | None = None
        """What to send for the next page of results; None if there are no more."""

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
        self._query = query
        answer = (await self._client.command("search", {"query": query, "limit": PAGE}))["data"]
        if query != self._query:
            return
        self._found = []
        options = self.query_one(OptionList)
        options.clear_options()
        self._add(answer)
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

    def _add(self, answer: Mapping[str, Any]) -> None:
        """Adds a page of results to the list and, if there are more, an option that loads the next page."""
        options = self.query_one(OptionList)
        self._found += answer["results"]
        options.add_options([Option(_line(one)) for one in answer["results"]])
        self._next = answer.get("next")
        if self._next is not None:
            options.add_option(Option(MORE))

    async def _load_more(self) -> None:
        query, before = self._query, self._next
        if before is None:
            return
        self._next = None
        try:
            answer = (await self._client.command("search", {"query": query, "before": before, "limit": PAGE}))["data"]
        except RequestError:
            self._next = before
            raise
        if query == self._query:
            options, first = self.query_one(OptionList), len(self._found)
            options.remove_option_at_index(first)
            self._add(answer)
            if options.option_count:
                options.highlighted = min(first, options.option_count - 1)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        if event.option_index < len(self._found):
            self.dismiss(int(self._found[event.option_index]["seq"]))
        else:
            do(self, self._load_more())


def _line(found: Mapping[str, Any]) -> Content:
    """A result: its time, its kind, and its text with the matches in bold."""
    head = f"{wording.day(found['created_at'])} {KINDS.get(found['kind'], '')} "
    pieces = [(wording.one_line(text), "bold" if at % 2 else "") for at, text in enumerate(found["snippet"])]
    return Content.assemble((head, "$soft"), *pieces)
