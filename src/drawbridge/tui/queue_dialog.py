"""The dialog for the prompts that wait for their run. Each of them can be edited, moved, removed or sent now."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from drawbridge.tui.approval_view import READING_SECONDS
from drawbridge.tui.client import Client
from drawbridge.tui.fields import PlainTextArea
from drawbridge.tui.requests import do
from drawbridge.tui.wording import one_line

HINT = "Enter edit · d remove · K J up, down · n send now · Esc close"
EDITING = "Ctrl-S save · Esc go back"
MOVED = "The selected prompt is no longer in the queue. Press the key again for the one that is selected now."


class QueueDialog(ModalScreen[None]):
    """Shows the queue as the server reports it. Closes when no prompt is waiting, unless one is being edited."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", show=False),
        Binding("d,delete", "remove", show=False),
        Binding("K", "move(-1)", show=False),
        Binding("J", "move(1)", show=False),
        Binding("n", "send_now", show=False),
        Binding("ctrl+s", "save", show=False),
    ]

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client = client
        self._shown: list[Mapping[str, Any]] = []
        self._moved_at = float("-inf")
        """The time (``time.monotonic``) at which the selection last moved because the selected prompt had gone."""
        self._edited: str | None = None
        """The id of the run, if its prompt is being edited."""

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog wide"):
            yield Static(Content("Queue"), classes="title")
            yield OptionList()
            yield PlainTextArea(classes="draft", compact=True)
            yield Static(Content(HINT), classes="hint")

    def on_mount(self) -> None:
        self.query_one(PlainTextArea).display = False
        self.show()

    def on_screen_resume(self) -> None:
        self.show()

    @property
    def _queue(self) -> list[Mapping[str, Any]]:
        conversation = self._client.conversation
        return list(conversation.queue) if conversation is not None else []

    @property
    def _current(self) -> Mapping[str, Any] | None:
        at = self.query_one(OptionList).highlighted
        return self._shown[at] if at is not None and at < len(self._shown) else None

    def show(self) -> None:
        """Shows the queue as it is now; the same prompt stays selected. Called when the client's state has changed."""
        queue = self._queue
        if not self.query(OptionList):
            return  # the dialog is being built or closed
        if self._edited is not None:
            if all(one["run_id"] != self._edited for one in queue):
                self.query_one(".hint", Static).update(Content("The prompt is no longer in the queue. Esc goes back."))
            return
        if not queue:
            if self.is_current:
                self.dismiss()
        elif queue != self._shown:
            before, options = self._current, self.query_one(OptionList)
            self._shown = queue
            options.clear_options()
            options.add_options([Option(_line(number, one)) for number, one in enumerate(queue, 1)])
            same = [at for at, one in enumerate(queue) if before is not None and one["run_id"] == before["run_id"]]
            options.highlighted = same[0] if same else min(options.highlighted or 0, len(queue) - 1)
            if before is not None and not same:
                self._moved_at = time.monotonic()

    def _does(self, type: str, **data: Any) -> None:
        """Sends a command about the selected prompt. A key that is pressed within ``READING_SECONDS`` after the
        selection has moved may be meant for the previous prompt, and only shows that it has gone."""
        if self._current is None or self._edited is not None:
            return
        if time.monotonic() - self._moved_at < READING_SECONDS:
            self.notify(MOVED, markup=False)
        else:
            do(self, self._client.command(type, {"run_id": self._current["run_id"], **data}))

    def action_remove(self) -> None:
        self._does("queue_remove")

    def action_send_now(self) -> None:
        self._does("queue_send_now")

    def action_move(self, by: int) -> None:
        at = self.query_one(OptionList).highlighted
        if at is None or not 0 <= at + by < len(self._shown):
            return
        following = at + by if by < 0 else at + by + 1
        before = self._shown[following]["run_id"] if following < len(self._shown) else None
        self._does("queue_move", before=before)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        if self._current is not None:
            do(self, self._edit(self._current))

    async def _edit(self, queued: Mapping[str, Any]) -> None:
        prompt = await self._client.prompt_of(queued)
        area = self.query_one(PlainTextArea)
        area.load_text(prompt)
        self._begin(str(queued["run_id"]))
        area.focus()

    def _begin(self, run_id: str | None) -> None:
        """Begins to edit the prompt of the run, or ends editing (None)."""
        self._edited = run_id
        self.query_one(PlainTextArea).display = run_id is not None
        self.query_one(OptionList).display = run_id is None
        self.query_one(".hint", Static).update(Content(HINT if run_id is None else EDITING))
        if run_id is None:
            self.query_one(OptionList).focus()

    def action_save(self) -> None:
        text = self.query_one(PlainTextArea).text
        if self._edited is not None and text.strip():
            do(self, self._save(self._edited, text))

    async def _save(self, run_id: str, text: str) -> None:
        await self._client.command("queue_edit", {"run_id": run_id, "prompt": text})
        self._begin(None)
        self.show()

    def action_back(self) -> None:
        if self._edited is not None:
            self._begin(None)
            self.show()  # the prompt may have left the queue meanwhile
        else:
            self.dismiss()


def _line(number: int, queued: Mapping[str, Any]) -> Content:
    attached = queued.get("attachments") or 0
    files = f"  {attached} file{'' if attached == 1 else 's'}" if attached else ""
    return Content.assemble(
        (f"{number}  ", "$soft"), one_line(queued["prompt"]), (f"  {one_line(queued.get('by') or '')}{files}", "$soft")
    )
