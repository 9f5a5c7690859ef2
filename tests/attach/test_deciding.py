"""A person decides in the terminal about what the demo agent proposes."""

from __future__ import annotations

from pathlib import Path

from tests.server.processes import Server

from .rig import attached


async def test_a_person_accepts_a_change(server: Server, directory: Path) -> None:
    async with attached(server) as person:
        await person.prompts("Say that it rains")
        await person.is_asked("The demo agent wants to change notes.md")
        assert "+ > You said: Say that it rains" in person.screen
        assert "rains" not in (directory / "notes.md").read_text()
        await person.presses("a")
        await person.hears("Done: notes.md has the new line.", "✓ Accepted by Ada  notes.md", "Finished")
        assert person.card is None
    assert (directory / "notes.md").read_text().endswith("> You said: Say that it rains\n")
