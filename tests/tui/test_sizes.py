"""A terminal of any size shows an approval request and each way to answer it, in light or dark colors."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.color import Color

from drawbridge.tui.colors import LIGHT
from drawbridge.tui.fields import PlainTextArea
from tests.server.processes import Server

from .rig import attached


@pytest.mark.slow_for("80x24")
@pytest.mark.thorough
@pytest.mark.parametrize("size", [(80, 24), (40, 16)], ids=lambda size: "x".join(map(str, size)))
async def test_an_approval_request_fits_the_screen(server: Server, directory: Path, size: tuple[int, int]) -> None:
    (directory / "notes.md").write_text("".join(f"Line {number} of what is there.\n" for number in range(200)))
    async with attached(server, directory, size=size) as person:
        await person.app.client.execute("A word " * 8)
        card = await person.is_asked("wants to edit")
        await person.sees("a Accept", "e Edit", "r Reject", "w Accept all edits for this")
        await person.sees("lines unchanged", "Needs you")
        assert all(len(line) <= size[0] for line in person.screen.splitlines())
        await person.presses("e")
        await person.sees("Accept edited version", "Esc Back", "You said: A word")
        assert card.query_one(PlainTextArea).size.height >= 3
        await person.presses("escape", "r")
        await person.sees("Enter Reject", "Tell the demo agent")
        await person.presses("escape")
        for _ in range(10):
            if "more line" in person.screen:
                await person.presses("space")
        await person.loses("more line")
        await person.presses("a")
        await person.reads("Accepted by", "Finished")


@pytest.mark.thorough
async def test_resizing_the_window_keeps_the_reader_at_the_end(server: Server, directory: Path) -> None:
    async with attached(server, directory, size=(100, 40)) as person:
        await person.prompts("/lines 50")
        await person.sees("Line 50", "Ready")
        for width, height in ((40, 12), (120, 30), (80, 24)):
            await person.pilot.resize_terminal(width, height)
            await person.sees("Line 50", "Finished")
            assert "G: latest" not in person.screen


@pytest.mark.thorough
async def test_a_light_terminal_has_a_light_screen(server: Server, directory: Path) -> None:
    async with attached(server, directory, palette=LIGHT) as person:
        assert person.app.screen.styles.background == Color.parse(LIGHT.paper)
        assert not person.app.current_theme.dark
