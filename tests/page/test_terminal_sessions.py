"""A ``claude`` in a terminal appears in the web UI automatically. Requests are answered there or in the terminal."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests import programs
from tests.e2e.gemini import workstation as gemini_workstation
from tests.e2e.guard.workstation import wait_for_text
from tests.rigs import claude_rig
from tests.rigs.claude_rig import EDIT_DIALOG, NO, TOOL_DIALOG, YES, Claude
from tests.rigs.gemini_stub import GeminiStub, replace
from tests.rigs.gemini_stub import text as gemini_text
from tests.rigs.messages_stub import Block, MessagesStub, edit, read, text, tool_use, write
from tests.rigs.tmux import Tmux
from tests.server.processes import Server, serving
from tests.server.terminal_sessions.rig import ServedWorkstation

from .conftest import page_of
from .rig import Browser, Person

POEM = "one\ntwo\nthree\n"
QUESTION = {
    "question": "Which one?",
    "header": "Choice",
    "multiSelect": False,
    "options": [{"label": "Left", "description": "l"}, {"label": "Right", "description": "r"}],
}


def touch(name: str) -> Block:
    return tool_use("Bash", command=f"touch {name}", description="Make a file")


@pytest.fixture
def rig(browser: Browser, home: Path) -> Iterator[ServedWorkstation]:
    programs.tmux()
    with MessagesStub() as model, Tmux.server() as tmux, ServedWorkstation(home / "project", model, tmux) as rig:
        yield rig


@pytest.fixture
async def rig_server(rig: ServedWorkstation, home: Path) -> AsyncIterator[Server]:
    options = ("--no-tls", "--agent-path", f"claude={programs.claude()}")
    async with serving(home / "data", *options, **claude_rig.environment(rig.model)) as server:
        yield server


@pytest.fixture
def geminis(browser: Browser, home: Path) -> Iterator[gemini_workstation.Workstation]:
    programs.tmux()
    with (
        GeminiStub() as model,
        Tmux.server() as tmux,
        gemini_workstation.Workstation(home / "project", model, tmux) as rig,
    ):
        yield rig


@contextlib.contextmanager
def watched(browser: Browser, rig: ServedWorkstation, server: Server, *turns: Block) -> Iterator[tuple[Claude, Person]]:
    """Yields a terminal session whose first prompt was typed, and a user whose web UI shows it."""
    rig.model.will_say(*turns)
    with browser.person(f"{page_of(server)}#token={server.token}") as person:
        person.sees(".side .empty", "No projects yet")
        claude = rig.plain_claude()
        person.clicks(".project:has(.at-desk)")
        person.sees(".path", f"Claude in a terminal · {rig.project}")
        # Finding S3-25 in docs/internals/page.md: the view was blank until the first prompt.
        person.sees(".conversation .empty", "What happens in the terminal is shown here.")
        claude.prompt("Do it")
        person.sees(".prompt .who", "You, in the terminal")
        person.sees(".project strong", "Do it")  # its name is its first prompt, below the name of its folder
        person.sees(".group h3", rig.project.name)
        yield claude, person


@pytest.mark.thorough
async def test_a_terminal_sessions_requests_are_answered_in_the_web_ui(
    browser: Browser, rig: ServedWorkstation, rig_server: Server
) -> None:
    new = rig.project / "new.txt"
    turns = [
        touch("made"),
        touch("unwanted"),
        tool_use("AskUserQuestion", questions=[QUESTION]),
        write(new, "theirs\n"),
    ]
    with watched(browser, rig, rig_server, *turns, text("All **done**.")) as (claude, person):
        person.sees(".approval h3", "Claude wants to run a command")
        claude.pane.wait_for(TOOL_DIALOG)
        assert not person("visible", css="#prompt")
        assert not person("visible", css=".stop")
        person.sees(".run .used", "claude-")
        person.sees(".rights", "Send messages from the terminal")
        person.sees(".project .state", "Needs you")
        person.readies_keys()
        person.presses("Control+Enter")
        person.sees(".approval pre", "touch unwanted")
        person.readies_keys()
        person.presses("r")
        person("type", text="not that one")
        person.presses("Enter")
        person.clicks("label:has-text('Right')")
        person.clicks("button:has-text('Submit')")
        person.sees(".approval h3", "new.txt")
        person.readies_keys()
        person.presses("e")
        person.edits("mine\n")
        person.accepts_edited()
        person.sees(".said strong", "done")
        person.sees(".project .state", "2 files to review")
        claude.pane.wait_for("All done.")
    results = ["\n".join(request.tool_results) for request in rig.model.requests]
    assert (rig.project / "made").exists()
    assert not (rig.project / "unwanted").exists()
    assert "not that one" in results[2]
    assert "Right" in results[3]
    assert new.read_text() == "mine\n"


@pytest.mark.slow
async def test_requests_answered_in_the_terminal_leave_the_web_ui(
    browser: Browser, rig: ServedWorkstation, rig_server: Server
) -> None:
    """Afterwards, a copy of the session continues in the web UI and knows the conversation."""
    new, unwanted = rig.project / "new.txt", rig.project / "unwanted.txt"
    turns = [
        touch("made"),
        tool_use("AskUserQuestion", questions=[QUESTION]),
        write(new, "theirs\n"),
        text("In the terminal."),
        write(unwanted, "theirs\n"),
    ]
    with watched(browser, rig, rig_server, *turns, text("From the sofa.")) as (claude, person):
        for card, dialog, key in [
            ("run a command", TOOL_DIALOG, YES),
            ("has a question", r"1\. Left", "2"),
            ("new.txt", EDIT_DIALOG, YES),
        ]:
            person.sees(".approval h3", card)
            claude.answer_dialog(dialog, key)
            person.loses(".approval h3", card)
        person.sees(".settled-line", "Answered elsewhere")
        person.sees(".answers dd", "Right")
        person.sees(".said", "In the terminal.")
        claude.prompt("And another")
        person.sees(".approval h3", "unwanted.txt")
        claude.answer_dialog(EDIT_DIALOG, NO)
        person.sees(".tool-row.rejected", "Answered elsewhere")
        person.clicks("button:has-text('Continue here')")
        person.sees(".toast", "continues in the copy")
        person.until("!location.hash.includes('desk_')")
        person.loses("button:has-text('Continue here')")
        person.sees(".prompt .words", "Do it")
        person.sees(".said", "In the terminal.")
        person.prompts("And now?")
        person.sees(".said", "From the sofa.")
        person.sees(".finished", "Finished")
        assert len(person.reads(".project")) == 2
    assert new.read_text() == "theirs\n"
    assert "Do it" in str(rig.model.requests[-1].body["messages"]), "it knows what was said before"


# With Neovim as the editor, the diff there and the card in the web UI belong to the same approval request.


@pytest.mark.thorough
async def test_claudes_proposals_are_decided_in_neovim_or_the_web_ui(
    browser: Browser, rig: ServedWorkstation, rig_server: Server
) -> None:
    """The first one is accepted with edits in the web UI, the second in Neovim. A decision closes both views."""
    poem = rig.file("poem.txt", POEM)
    rig.set_up()
    neovim = rig.neovim(poem)
    rig.model.will_say(read(poem), edit(poem, "two", "TWO"), edit(poem, "zwei", "deux"), text("All **done**."))
    with browser.person(f"{page_of(rig_server)}#token={rig_server.token}") as person:
        person.sees(".side .empty", "No projects yet")
        claude = rig.claude()
        person.clicks(".project:has(.at-desk)")
        claude.prompt("Shout")
        person.sees(".approval .line.added", "TWO")
        neovim.wait_for_proposal(1)
        claude.pane.wait_for(EDIT_DIALOG)
        accepts(person, "one\nzwei\nthree\n")
        neovim.wait_until_closed(1)
        wait_for_text(poem, "one\nzwei\nthree\n")
        person.sees(".approval .line.added", "deux")
        neovim.wait_for_proposal(2)
        neovim.command("w")
        person.sees(".settled-line", "Accepted by Neovim")
        person.loses(".approval")
        person.sees(".said strong", "done")
        assert len(person.reads(".settled-line")) == 2, "one question is one card"
        assert len(person.reads(".project")) == 1
    assert poem.read_text() == "one\ndeux\nthree\n"


@pytest.mark.thorough
async def test_geminis_proposals_are_decided_in_neovim_or_the_web_ui(
    browser: Browser, geminis: gemini_workstation.Workstation, home: Path
) -> None:
    """The first one is accepted with edits in the web UI, the second in Neovim. A decision closes both views."""
    poem = geminis.file("poem.txt", POEM)
    async with serving(home / "data", "--no-tls") as server:
        with browser.person(f"{page_of(server)}#token={server.token}") as person:
            neovim = geminis.neovim(poem)
            gemini = geminis.gemini()
            turns = [replace(poem, "two", "TWO"), replace(poem, "zwei", "deux")]
            geminis.model.will_say(*turns, gemini_text("It is done."))
            gemini.prompt("Shout")
            person.clicks(".project:has(.at-desk)")
            person.sees(".approval h3", "Gemini wants to overwrite poem.txt")
            person.sees(".approval .line.added", "TWO")
            neovim.wait_for_proposal(1)
            accepts(person, "one\nzwei\nthree\n")
            neovim.wait_until_closed(1)
            wait_for_text(poem, "one\nzwei\nthree\n")
            person.sees(".approval .line.added", "deux")
            neovim.wait_for_proposal(2)
            neovim.command("w")
            person.sees(".settled-line", "Accepted by Neovim")
            person.loses(".approval")
            gemini.pane.wait_for("It is done")
            person.sees(".rights", "Send messages from the terminal.")
            assert not person.reads("button:has-text('Continue here')"), "Gemini CLI can't fork a conversation"
    assert poem.read_text() == "one\ndeux\nthree\n"


def accepts(person: Person, edited: str) -> None:
    person.clicks(".approval button:has-text('Edit')")
    person.edits(edited)
    person.accepts_edited()
