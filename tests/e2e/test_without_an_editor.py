"""``drawbridge ide --folder``: the proposal is shown in the bridge's own terminal."""

from __future__ import annotations

import pytest

from .desk import Desk
from .messages_stub import edit, read, text

POEM = "one\ntwo\nthree\n"


@pytest.mark.parametrize(
    ("decision", "screen", "content"),
    [("accept", "It is done", "one\nTWO\nthree\n"), ("reject", "Rejected update to poem.txt", POEM)],
)
def test_unattended_it_decides_by_itself(desk: Desk, decision: str, screen: str, content: str) -> None:
    poem = desk.file("poem.txt", POEM)
    desk.folder("--decide", decision)
    claude = desk.claude()
    desk.model.will_say(read(poem), edit(poem, "two", "TWO"), text("It is done."))

    claude.prompt("Shout the second line.")

    claude.pane.wait_for(screen)
    assert poem.read_text() == content


@pytest.mark.parametrize(
    ("key", "screen", "content"),
    [
        ("y", "It is done", "one\nTWO\nthree\n"),
        ("n", "Rejected update to poem.txt", POEM),
        ("e", "It is done", "one\nzwei\nthree\n"),
    ],
)
def test_the_person_answers_in_its_terminal(desk: Desk, key: str, screen: str, content: str) -> None:
    poem = desk.file("poem.txt", POEM)
    bridge = desk.folder(environment={"EDITOR": "sed -i s/TWO/zwei/"})
    claude = desk.claude()
    desk.model.will_say(read(poem), edit(poem, "two", "TWO"), text("It is done."))
    claude.prompt("Shout the second line.")
    bridge.wait_for(r"-\s*two", r"\+\s*TWO")
    assert poem.read_text() == POEM

    bridge.press(key)

    claude.pane.wait_for(screen)
    assert poem.read_text() == content
