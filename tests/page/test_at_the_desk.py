"""A plain ``claude`` in somebody's terminal is in the page by itself: its questions are answered there, or at the desk."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests import programs
from tests.desk.rig import ServedDesk
from tests.e2e import claude_rig
from tests.e2e.claude_rig import EDIT_DIALOG, TOOL_DIALOG, YES, Claude
from tests.e2e.messages_stub import Block, MessagesStub, text, tool_use, write
from tests.e2e.tmux import Tmux
from tests.server.processes import Server, serving

from .conftest import page_of
from .rig import Browser, Person

QUESTION = {
    "question": "Which one?",
    "header": "Choice",
    "multiSelect": False,
    "options": [{"label": "Left", "description": "l"}, {"label": "Right", "description": "r"}],
}


def touch(name: str) -> Block:
    return tool_use("Bash", command=f"touch {name}", description="Make a file")


@pytest.fixture
def desk(browser: Browser, home: Path) -> Iterator[ServedDesk]:
    programs.tmux()
    with MessagesStub() as model, Tmux.server() as tmux, ServedDesk(home / "project", model, tmux) as desk:
        yield desk


@pytest.fixture
async def desk_server(desk: ServedDesk, home: Path) -> AsyncIterator[Server]:
    options = ("--no-tls", "--agent-path", f"claude={programs.claude()}")
    async with serving(home / "data", *options, **claude_rig.environment(desk.model)) as server:
        yield server


@contextlib.contextmanager
def watched(browser: Browser, desk: ServedDesk, server: Server, *turns: Block) -> Iterator[tuple[Claude, Person]]:
    """A session whose first prompt was typed, and a page that shows it."""
    desk.model.will_say(*turns)
    with browser.person(f"{page_of(server)}#token={server.token}") as person:
        person.sees(".side .empty", "No project yet")
        claude = desk.plain_claude()
        person.clicks(".project:has(.at-desk)")
        person.sees(".path", f"claude in a terminal · {desk.project}")
        claude.prompt("Do it")
        person.sees(".prompt .who", "At the desk")
        yield claude, person


async def test_its_questions_are_answered_in_the_page(browser: Browser, desk: ServedDesk, desk_server: Server) -> None:
    new = desk.project / "new.txt"
    turns = [
        touch("made"),
        touch("unwanted"),
        tool_use("AskUserQuestion", questions=[QUESTION]),
        write(new, "theirs\n"),
    ]
    with watched(browser, desk, desk_server, *turns, text("All **done**.")) as (claude, person):
        person.sees(".approval h3", "Claude wants to run a command")
        claude.pane.wait_for(TOOL_DIALOG)
        assert not person("visible", css="#prompt")
        assert not person("visible", css=".stop")
        person.sees(".rights", "Prompts are typed at the desk")
        person.sees(".project .state", "Waits for you")
        person.presses("a")
        person.sees(".approval pre", "touch unwanted")
        person.presses("r")
        person("type", text="not that one")
        person.presses("Enter")
        person.clicks("label:has-text('Right')")
        person.clicks("button:has-text('Answer')")
        person.sees(".approval h3", "new.txt")
        person.presses("e")
        person.fills(".approval textarea", "mine\n")
        person.clicks("text=Accept with my edits")
        person.sees(".said strong", "done")
        person.sees(".project .state", "Ready at the desk")
        claude.pane.wait_for("All done.")
    results = ["\n".join(request.tool_results) for request in desk.model.requests]
    assert (desk.project / "made").exists()
    assert not (desk.project / "unwanted").exists()
    assert "not that one" in results[2]
    assert "Right" in results[3]
    assert new.read_text() == "mine\n"


async def test_what_is_answered_at_the_desk_goes_from_the_page_and_the_session_goes_on_there(
    browser: Browser, desk: ServedDesk, desk_server: Server
) -> None:
    new = desk.project / "new.txt"
    turns = [
        touch("made"),
        tool_use("AskUserQuestion", questions=[QUESTION]),
        write(new, "theirs\n"),
        text("At the desk."),
    ]
    with watched(browser, desk, desk_server, *turns, text("From the sofa.")) as (claude, person):
        for card, dialog, key in [
            ("run a command", TOOL_DIALOG, YES),
            ("asks you", r"1\. Left", "2"),
            ("new.txt", EDIT_DIALOG, YES),
        ]:
            person.sees(".approval h3", card)
            claude.answer_dialog(dialog, key)
            person.loses(".approval h3", card)
        person.sees(".settled-line", "Answered elsewhere")
        person.sees(".said", "At the desk.")
        person.clicks("text=Go on from here")
        person.sees(".toast", "goes on with a copy of that session")
        person.until("!location.hash.includes('desk_')")
        person.prompts("And now?")
        person.sees(".said", "From the sofa.")
        person.sees(".finished", "Finished")
        assert len(person.reads(".project")) == 2
    assert new.read_text() == "theirs\n"
    assert "Do it" in str(desk.model.requests[-1].body["messages"]), "it knows what was said before"
