"""Tests the text fields by themselves."""

from __future__ import annotations

from textual.app import App, ComposeResult

from drawbridge.tui.fields import PlainTextArea


class Field(App[None]):
    """An app that contains only a text field."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.field = PlainTextArea(text)

    def compose(self) -> ComposeResult:
        yield self.field


async def test_a_long_text_is_inserted_undone_and_redone() -> None:
    """When the scroll bar disappeared during the undo, Textual looked for the cursor below the end of the text."""
    app = Field("one line")
    async with app.run_test(size=(40, 10)) as pilot:
        app.field.insert("\n" * 60, (0, 0))
        await pilot.pause()
        for _ in range(2):
            await pilot.press("ctrl+z")
            assert app.field.text == "one line"
            await pilot.press("ctrl+y")
            assert app.field.text == "\n" * 60 + "one line"
            assert app.field.cursor_location == (60, 0)
