"""``drawbridge ide --folder``: the proposal is decided in the bridge's own terminal, or as ``--decide`` specifies."""

from __future__ import annotations

import pytest

from tests.rigs.messages_stub import edit, read, text

from .workstation import Workstation

POEM = "one\ntwo\nthree\n"


@pytest.mark.slow_for("reject")
@pytest.mark.parametrize(
    ("decision", "screen", "content"),
    [
        ("accept", "It is done", "one\nTWO\nthree\n"),
        pytest.param("reject", "Rejected update to poem.txt", POEM),
    ],
    ids=["accept", "reject"],
)
@pytest.mark.thorough
def test_an_unattended_bridge_decides_automatically(rig: Workstation, decision: str, screen: str, content: str) -> None:
    poem = rig.file("poem.txt", POEM)
    rig.folder("--decide", decision)
    claude = rig.claude()
    rig.model.will_say(read(poem), edit(poem, "two", "TWO"), text("It is done."))

    claude.prompt("Shout the second line.")

    claude.pane.wait_for(screen)
    assert poem.read_text() == content


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "screen", "content"),
    [
        pytest.param("y", "It is done", "one\nTWO\nthree\n"),
        ("n", "Rejected update to poem.txt", POEM),
    ],
    ids=["yes", "no"],
)
def test_the_user_answers_in_the_bridges_terminal(rig: Workstation, key: str, screen: str, content: str) -> None:
    poem = rig.file("poem.txt", POEM)
    bridge = rig.folder()
    claude = rig.claude()
    rig.model.will_say(read(poem), edit(poem, "two", "TWO"), text("It is done."))
    claude.prompt("Shout the second line.")
    bridge.wait_for("- two", r"\+ TWO", "Accept it?")
    assert poem.read_text() == POEM

    bridge.press(key, "Enter")

    claude.pane.wait_for(screen)
    assert poem.read_text() == content


@pytest.mark.thorough
def test_the_text_edited_in_the_users_editor_is_written(rig: Workstation) -> None:
    poem = rig.file("poem.txt", POEM)
    bridge = rig.folder(environment={"EDITOR": "sed -i s/TWO/zwei/"})
    claude = rig.claude()
    rig.model.will_say(read(poem), edit(poem, "two", "TWO"), text("It is done."))
    claude.prompt("Shout the second line.")
    bridge.wait_for("Accept it?")

    bridge.press("e", "Enter")
    bridge.wait_for(r"\+ zwei", r"(?s)Accept it?.*Accept it?")
    assert poem.read_text() == POEM
    bridge.press("y", "Enter")

    claude.pane.wait_for("It is done")
    assert poem.read_text() == "one\nzwei\nthree\n"
    assert "user modified your proposed changes" in rig.model.requests[-1].new_text
