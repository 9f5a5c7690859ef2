"""Whether the CLI finds the editor, depending on where the CLI is started, and how it uses a bridge without one."""

from __future__ import annotations

import pytest

from tests import programs
from tests.rigs.gemini_stub import replace, text

from .workstation import Workstation

POEM = "one\ntwo\nthree\n"


@pytest.mark.slow
def test_a_cli_below_the_workspace_is_connected(rig: Workstation) -> None:
    neovim = rig.neovim(rig.file("poem.txt", POEM))
    below = rig.project / "verses"
    below.mkdir()

    gemini = rig.unconnected_gemini(cwd=below)

    gemini.wait_for_editor()
    gemini.prompt("/ide status")
    gemini.pane.wait_for("Connected to Neovim")
    neovim.wait_for_agents(1)


@pytest.mark.thorough
def test_a_cli_in_another_directory_is_not_connected(rig: Workstation) -> None:
    neovim = rig.neovim(rig.file("poem.txt", POEM))
    elsewhere = rig.project.with_name("elsewhere")
    elsewhere.mkdir()

    gemini = rig.unconnected_gemini(cwd=elsewhere)

    gemini.prompt("/ide status")
    gemini.pane.wait_for(r"Directory mismatch|Nothing more was scripted")
    if (
        "Directory mismatch" not in gemini.pane.screen
    ):  # the CLI was still starting, and has sent the command as a prompt
        gemini.prompt("/ide status")
        gemini.pane.wait_for("Directory mismatch")
    neovim.wait_for_agents(0)


@pytest.mark.slow
def test_the_cli_runs_in_a_terminal_of_neovim(rig: Workstation) -> None:
    poem = rig.file("poem.txt", POEM)
    neovim = rig.neovim(poem, options=f"{{ gemini = {{ command = '{programs.gemini()}' }} }}")
    neovim.command("DrawbridgeGemini")
    neovim.pane.wait_for("Gemini CLI v", "Type your message")
    neovim.wait_for_agents(1)
    rig.model.will_say(replace(poem, "two", "TWO"), text("It is done."))

    neovim.pane.type("Shout the second line.")
    neovim.pane.wait_for("Shout the second line")
    neovim.pane.press("Enter")
    neovim.wait_for_proposal()
    neovim.command("w")

    neovim.pane.wait_for("It is done")
    assert poem.read_text() == "one\nTWO\nthree\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("decision", "screen", "content"),
    [
        ("accept", "It is done", "one\nTWO\nthree\n"),
        pytest.param("reject", "Request cancelled", POEM),
    ],
)
def test_a_bridge_without_an_editor_decides_automatically(
    rig: Workstation, decision: str, screen: str, content: str
) -> None:
    poem = rig.file("poem.txt", POEM)
    rig.folder("--decide", decision)
    gemini = rig.gemini()
    rig.model.will_say(replace(poem, "two", "TWO"), text("It is done."))

    gemini.prompt("Shout the second line.")

    gemini.pane.wait_for(screen)
    assert poem.read_text() == content


@pytest.mark.slow
def test_the_user_answers_in_the_bridges_terminal(rig: Workstation) -> None:
    poem = rig.file("poem.txt", POEM)
    bridge = rig.folder(environment={"EDITOR": "sed -i s/TWO/zwei/"})
    gemini = rig.gemini()
    rig.model.will_say(replace(poem, "two", "TWO"), text("It is done."))
    gemini.prompt("Shout the second line.")
    bridge.wait_for(r"-\s*two", r"\+\s*TWO", "Accept it?")
    assert poem.read_text() == POEM

    bridge.press("e", "Enter")
    bridge.wait_for(r"\+ zwei", r"(?s)Accept it?.*Accept it?")
    assert poem.read_text() == POEM
    bridge.press("y", "Enter")

    gemini.pane.wait_for("It is done")
    assert poem.read_text() == "one\nzwei\nthree\n"
