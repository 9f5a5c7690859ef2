"""Where the CLI is started, and whether it finds the editor."""

from __future__ import annotations

import pytest

from tests import programs
from tests.rigs.gemini_stub import replace, text

from .desk import Desk

POEM = "one\ntwo\nthree\n"


@pytest.mark.thorough
def test_from_any_terminal_in_the_workspace(desk: Desk) -> None:
    neovim = desk.neovim(desk.file("poem.txt", POEM))
    below = desk.project / "verses"
    below.mkdir()

    gemini = desk.lonely_gemini(cwd=below)

    gemini.wait_for_editor()
    gemini.prompt("/ide status")
    gemini.pane.wait_for("Connected to Neovim")
    neovim.wait_for_agents(1)


@pytest.mark.thorough
def test_not_from_a_terminal_elsewhere(desk: Desk) -> None:
    neovim = desk.neovim(desk.file("poem.txt", POEM))
    elsewhere = desk.project.with_name("elsewhere")
    elsewhere.mkdir()

    gemini = desk.lonely_gemini(cwd=elsewhere)

    gemini.prompt("/ide status")
    gemini.pane.wait_for(r"Directory mismatch|Nothing more was scripted")
    if "Directory mismatch" not in gemini.pane.screen:  # it was still starting, and queued the command as a prompt
        gemini.prompt("/ide status")
        gemini.pane.wait_for("Directory mismatch")
    neovim.wait_for_agents(0)


@pytest.mark.thorough
def test_the_cli_runs_in_a_terminal_of_neovim(desk: Desk) -> None:
    poem = desk.file("poem.txt", POEM)
    neovim = desk.neovim(poem, options=f"{{ gemini = {{ command = '{programs.gemini()}' }} }}")
    neovim.command("DrawbridgeGemini")
    neovim.pane.wait_for("Gemini CLI v", "Type your message")
    neovim.wait_for_agents(1)
    desk.model.will_say(replace(poem, "two", "TWO"), text("It is done."))

    neovim.pane.type("Shout the second line.")
    neovim.pane.wait_for("Shout the second line")
    neovim.pane.press("Enter")
    neovim.wait_for_proposal()
    neovim.command("w")

    neovim.pane.wait_for("It is done")
    assert poem.read_text() == "one\nTWO\nthree\n"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("decision", "screen", "content"),
    [
        ("accept", "It is done", "one\nTWO\nthree\n"),
        pytest.param("reject", "Request cancelled", POEM),
    ],
)
def test_a_bridge_without_an_editor_decides_by_itself(desk: Desk, decision: str, screen: str, content: str) -> None:
    poem = desk.file("poem.txt", POEM)
    desk.folder("--decide", decision)
    gemini = desk.gemini()
    desk.model.will_say(replace(poem, "two", "TWO"), text("It is done."))

    gemini.prompt("Shout the second line.")

    gemini.pane.wait_for(screen)
    assert poem.read_text() == content


@pytest.mark.thorough
def test_the_person_answers_in_the_bridges_terminal(desk: Desk) -> None:
    poem = desk.file("poem.txt", POEM)
    bridge = desk.folder(environment={"EDITOR": "sed -i s/TWO/zwei/"})
    gemini = desk.gemini()
    desk.model.will_say(replace(poem, "two", "TWO"), text("It is done."))
    gemini.prompt("Shout the second line.")
    bridge.wait_for(r"-\s*two", r"\+\s*TWO")
    assert poem.read_text() == POEM

    bridge.press("e", "Enter")
    bridge.wait_for(r"\+ zwei", r"(?s)Accept it?.*Accept it?")
    assert poem.read_text() == POEM
    bridge.press("y", "Enter")

    gemini.pane.wait_for("It is done")
    assert poem.read_text() == "one\nzwei\nthree\n"
