"""What the model receives from the editor: the open files, the cursor and the selection."""

from __future__ import annotations

from typing import Any

import pytest

from tests.rigs.gemini_stub import text

from .workstation import Workstation

POEM = "one\ntwo\nthree\nfour\n"


@pytest.mark.thorough
def test_open_files_cursor_and_selection_are_in_the_next_request(rig: Workstation) -> None:
    poem = rig.file("poem.txt", POEM)
    notes = rig.file("notes.txt", "a note\n")
    neovim = rig.neovim(notes, poem)
    proxy = rig.proxy("context", "Lines selected, a prompt; another file opened, a prompt.")
    gemini = rig.gemini_through(proxy)
    rig.model.will_say(text("I see."), text("I see that too."))

    neovim.command("buffer poem.txt")
    neovim.pane.type("2GVj")
    proxy.wait_for_event(lambda message: selected(message) == "two\nthree")
    gemini.prompt("Look at this.")
    gemini.pane.wait_for("I see")

    assert rig.model.requests[0].editor == {
        "activeFile": {"path": str(poem), "cursor": {"line": 3, "character": 6}, "selectedText": "two\nthree"},
        "otherOpenFiles": [str(notes)],
    }

    song = rig.file("song.txt", "la\n")
    neovim.command(f"edit {song}")
    gemini.pane.wait_for("3 open files")
    gemini.prompt("And at this.")
    gemini.pane.wait_for("I see that too")
    assert rig.model.requests[1].editor == {
        "changes": {
            "filesOpened": [str(song)],
            "activeFileChanged": {"path": str(song), "cursor": {"line": 1, "character": 1}},
        }
    }


def selected(message: dict[str, Any]) -> str | None:
    """Returns the text selected in the first open file of a message, or None if nothing is selected."""
    files = message["params"].get("workspaceState", {}).get("openFiles", [])
    return files[0].get("selectedText") if files else None


@pytest.mark.thorough
def test_an_ignored_file_is_not_reported(rig: Workstation) -> None:
    secrets = rig.file(".env", "PASSWORD=swordfish\n")
    neovim = rig.neovim(rig.file("poem.txt", POEM))
    gemini = rig.gemini()
    neovim.command(f"edit {secrets}")
    neovim.pane.wait_for("swordfish")
    rig.model.will_say(text("I see."))

    gemini.prompt("Look at this.")

    gemini.pane.wait_for("I see")
    assert "swordfish" not in rig.model.requests[0].new_text
    assert str(secrets) not in rig.model.requests[0].new_text
