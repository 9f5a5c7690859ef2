"""What the editor tells the model: the open files, the cursor, the selection."""

from __future__ import annotations

from typing import Any

import pytest

from tests.rigs.gemini_stub import text

from .desk import Desk

POEM = "one\ntwo\nthree\nfour\n"


@pytest.mark.thorough
def test_open_files_cursor_and_selection_are_in_the_next_request(desk: Desk) -> None:
    poem = desk.file("poem.txt", POEM)
    notes = desk.file("notes.txt", "a note\n")
    neovim = desk.neovim(notes, poem)
    middleman = desk.middleman("context", "Lines selected, a prompt; another file opened, a prompt.")
    gemini = desk.gemini_through(middleman)
    desk.model.will_say(text("I see."), text("I see that too."))

    neovim.command("buffer poem.txt")
    neovim.pane.type("2GVj")
    middleman.wait_for_event(lambda message: selected(message) == "two\nthree")
    gemini.prompt("Look at this.")
    gemini.pane.wait_for("I see")

    assert desk.model.requests[0].editor == {
        "activeFile": {"path": str(poem), "cursor": {"line": 3, "character": 6}, "selectedText": "two\nthree"},
        "otherOpenFiles": [str(notes)],
    }

    song = desk.file("song.txt", "la\n")
    neovim.command(f"edit {song}")
    gemini.pane.wait_for("3 open files")
    gemini.prompt("And at this.")
    gemini.pane.wait_for("I see that too")
    assert desk.model.requests[1].editor == {
        "changes": {
            "filesOpened": [str(song)],
            "activeFileChanged": {"path": str(song), "cursor": {"line": 1, "character": 1}},
        }
    }


def selected(message: dict[str, Any]) -> str | None:
    """The selection of which a message tells."""
    files = message["params"].get("workspaceState", {}).get("openFiles", [])
    return files[0].get("selectedText") if files else None


@pytest.mark.thorough
def test_an_ignored_file_is_not_told(desk: Desk) -> None:
    secrets = desk.file(".env", "PASSWORD=swordfish\n")
    neovim = desk.neovim(desk.file("poem.txt", POEM))
    gemini = desk.gemini()
    neovim.command(f"edit {secrets}")
    neovim.pane.wait_for("swordfish")
    desk.model.will_say(text("I see."))

    gemini.prompt("Look at this.")

    gemini.pane.wait_for("I see")
    assert "swordfish" not in desk.model.requests[0].told
    assert str(secrets) not in desk.model.requests[0].told
