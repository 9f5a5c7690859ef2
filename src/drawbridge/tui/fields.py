"""Text fields that show everything they contain: the prompt box, and the field in which other texts are edited."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar, Final

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Offset
from textual.message import Message
from textual.widgets import TextArea

from drawbridge.core.terminal_text import strange_places

NEW_LINE_KEYS: Final = ("shift+enter", "alt+enter", "ctrl+j")


def pasted(text: str) -> str:
    """The text without the characters that a terminal would execute or hide. Each line break becomes "\\n"."""
    return "\n".join(map(_without_strange, re.split(r"\r\n|\r|\n", text)))


def _without_strange(line: str) -> str:
    while strange := {place for place in strange_places(line) if line[place] != "\t"}:
        line = "".join(
            one for place, one in enumerate(line) if place not in strange
        )  # removing one may make its neighbors unsafe
    return line


class PlainTextArea(TextArea):
    """A text field that shows everything it contains."""

    async def _on_paste(self, event: events.Paste) -> None:
        event.prevent_default()
        event.stop()
        await super()._on_paste(events.Paste(pasted(event.text)))

    async def _on_key(self, event: events.Key) -> None:
        if event.key == "escape":
            event.prevent_default()  # the screen handles this key

    def scroll_cursor_visible(self, center: bool = False, animate: bool = False) -> Offset:
        # In the middle of an undo or redo, Textual 8 calls this while the cursor is still below the new end of the
        # text, and then raises ValueError. It calls it again when it has moved the cursor.
        if self.cursor_location[0] >= self.document.line_count:
            return Offset(0, 0)
        return super().scroll_cursor_visible(center, animate)


class PromptBox(PlainTextArea):
    """The field in which prompts are written. Enter sends. Up on the first line recalls the previous prompt, and Down
    on the last line the next one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "send", "send"),
        Binding("ctrl+r,ctrl+enter", "steer", "add to the run"),
        Binding("ctrl+j", "new_line", "new line"),
        Binding("shift+enter,alt+enter", "new_line", "new line", show=False),
    ]

    class Sent(Message):
        """``steer``: whether to add the prompt to the active run."""

        def __init__(self, text: str, *, steer: bool) -> None:
            super().__init__()
            self.text = text
            self.steer = steer

    def __init__(self) -> None:
        super().__init__(
            id="prompt", compact=True, highlight_cursor_line=False, placeholder=Content("Tell the agent what to do")
        )
        self._earlier: list[str] = []
        self._place = 0
        self._unfinished = ""
        self._steers = False

    def may_steer(self, steers: bool) -> None:
        """Sets whether a prompt can be added to the active run."""
        self._steers = steers

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self._steers if action == "steer" else super().check_action(action, parameters)

    def remember(self, prompts: Sequence[str]) -> None:
        """Sets the project's earlier prompts, latest last, unless the user is recalling one. Repeated prompts are
        listed once."""
        found = list(dict.fromkeys(reversed(prompts)))[::-1]
        if found != self._earlier and self._place == len(self._earlier):
            self._earlier, self._place = found, len(found)

    def put(self, text: str) -> None:
        self.text = pasted(text)
        self.move_cursor(self.document.end)

    async def _on_key(self, event: events.Key) -> None:
        if event.key == "enter" or event.key in NEW_LINE_KEYS:
            event.prevent_default()  # these keys have bindings here
            return
        row, _ = self.cursor_location
        if event.key == "up" and row == 0 and self._place > 0:
            self._recall(-1, event)
        elif event.key == "down" and row == self.document.line_count - 1 and self._place < len(self._earlier):
            self._recall(1, event)

    def _recall(self, step: int, event: events.Key) -> None:
        event.prevent_default()
        event.stop()
        if self._place == len(self._earlier):
            self._unfinished = self.text
        self._place += step
        self.put([*self._earlier, self._unfinished][self._place])

    def action_send(self) -> None:
        self._send(steer=False)

    def action_steer(self) -> None:
        self._send(steer=True)

    def _send(self, *, steer: bool) -> None:
        text = self.text.strip()
        if text:
            self.text = ""
            self._place = len(self._earlier)
            self.post_message(self.Sent(text, steer=steer))

    def action_new_line(self) -> None:
        self.insert("\n")
