"""``drawbridge ide --folder``: the proposal is shown in the bridge's own terminal."""

from __future__ import annotations

import pytest

from tests.rigs.messages_stub import edit, read, text

from .desk import Desk

POEM = "one\ntwo\nthree\n"


@pytest.mark.parametrize(
    ("decision", "screen", "content"),
    [
        ("accept", "It is done", "one\nTWO\nthree\n"),
        pytest.param("reject", "Rejected update to poem.txt", POEM),
    ],
    ids=["accept", "reject"],
)
@pytest.mark.thorough
def test_unattended_it_decides_by_itself(desk: Desk, decision: str, screen: str, content: str) -> None:
    poem = desk.file("poem.txt", POEM)
    desk.folder("--decide", decision)
    claude = desk.claude()
    desk.model.will_say(read(poem), edit(poem, "two", "TWO"), text("It is done."))

    claude.prompt("Shout the second line.")

    claude.pane.wait_for(screen)
    assert poem.read_text() == content


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("key", "screen", "content"),
    [
        pytest.param("y", "It is done", "one\nTWO\nthree\n"),
        ("n", "Rejected update to poem.txt", POEM),
    ],
    ids=["yes", "no"],
)
def test_the_person_answers_in_the_bridges_terminal(desk: Desk, key: str, screen: str, content: str) -> None:
    poem = desk.file("poem.txt", POEM)
    bridge = desk.folder()
    claude = desk.claude()
    desk.model.will_say(read(poem), edit(poem, "two", "TWO"), text("It is done."))
    claude.prompt("Shout the second line.")
    bridge.wait_for("- two", r"\+ TWO", "Accept it?")
    assert poem.read_text() == POEM

    bridge.press(key, "Enter")

    claude.pane.wait_for(screen)
    assert poem.read_text() == content


@pytest.mark.thorough
def test_what_the_person_made_of_it_in_their_editor_is_written(desk: Desk) -> None:
    poem = desk.file("poem.txt", POEM)
    bridge = desk.folder(environment={"EDITOR": "sed -i s/TWO/zwei/"})
    claude = desk.claude()
    desk.model.will_say(read(poem), edit(poem, "two", "TWO"), text("It is done."))
    claude.prompt("Shout the second line.")
    bridge.wait_for("Accept it?")

    bridge.press("e", "Enter")
    bridge.wait_for(r"\+ zwei", r"(?s)Accept it?.*Accept it?")
    assert poem.read_text() == POEM
    bridge.press("y", "Enter")

    claude.pane.wait_for("It is done")
    assert poem.read_text() == "one\nzwei\nthree\n"
    assert "user modified your proposed changes" in desk.model.requests[-1].told
