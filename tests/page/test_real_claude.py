"""The real ``claude`` works, with a stub on this machine as its model, and a person decides in the web UI."""

from __future__ import annotations

import contextlib
import re
from base64 import b64decode
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests import programs
from tests.rigs import claude_rig
from tests.rigs.messages_stub import Block, MessagesStub, ModelRequest, edit, read, text, tool_use, write
from tests.server.processes import serving

from .conftest import page_of
from .rig import Browser, Person

POEM = "one\ntwo birds in a tree\nthree\n"
QUESTION = {
    "question": "Which one?",
    "header": "Choice",
    "multiSelect": False,
    "options": [{"label": "Left", "description": "l"}, {"label": "Right", "description": "r"}],
}

PASTES_A_PICTURE = """new Promise((done) => document.createElement('canvas').toBlob((blob) => {
  const data = new DataTransfer();
  data.items.add(new File([blob], 'drawing.png', { type: 'image/png' }));
  const pasted = new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true });
  document.querySelector('#prompt').dispatchEvent(pasted);
  done(true);
}))"""


def picture_in(request: ModelRequest) -> str:
    """Returns the image that was sent with the prompt, in base64."""
    blocks = [block for message in request.body["messages"] for block in message["content"] if isinstance(block, dict)]
    [source] = [block["source"] for block in blocks if block["type"] == "image"]
    assert source["media_type"] == "image/png"
    return str(source["data"])


def goes_back_to_the_first_session(person: Person, model: MessagesStub) -> None:
    """Starts a new session, then resumes the first one from the list, then forks it."""
    for number, (act, remembers) in enumerate((("New session", False), ("Resume", True), ("Fork", True)), start=2):
        person.clicks("button[aria-label='Session menu']")
        person.clicks("[role=menuitem]:has-text('sessions in this folder')")
        person.sees("dialog .sessions strong", "Change the poem")
        row = "dialog .sessions li:has-text('Change the poem') " if remembers else ""
        person.clicks(f"{row or 'dialog footer '}button:has-text('{act}')")
        person.loses("dialog")
        model.will_say(text(f"Answer {number}."))
        person.prompts(f"Prompt {number}")
        person.sees(".said", f"Answer {number}.")
        person.until("[...document.querySelectorAll('.items > .item')].at(-1)?.dataset.kind === 'finished'")
        received = str(model.requests[-1].body["messages"])
        assert f"Prompt {number}" in received
        assert ("Change the poem" in received) is remembers
        shown = "[...document.querySelectorAll('.items .prompt .words')].map((one) => one.innerText.trim())"
        person.runs("document.querySelector('.scroller').scrollTo(0, 0)")
        person.until(f"{shown}.includes('Prompt {number}')")
        person.until(f"{shown}.includes('Change the poem') === {str(remembers).lower()}")


@contextlib.asynccontextmanager
async def working(
    browser: Browser, data: Path, directory: Path, *turns: Block | list[Block]
) -> AsyncIterator[tuple[Person, MessagesStub]]:
    """Yields a person whose web UI shows a project with the real ``claude``, and the stub of its model, which answers
    with ``turns``."""
    with MessagesStub() as model:
        model.will_say(*turns)
        claude_rig.prepare_home(directory)
        options = ("--no-tls", "--allow", directory.parent, "--agent-path", f"claude={programs.claude()}")
        async with serving(data, *options, **claude_rig.environment(model)) as server:
            async with server.client() as client:
                made = await client.ask("project_create", {"path": str(directory), "agent": "claude"})
            with browser.person(f"{page_of(server)}#token={server.token}&project={made['project_id']}") as person:
                person.sees(".composer button[aria-label='Attach files']")
                yield person, model


@pytest.mark.thorough
async def test_claude_asks_in_the_web_ui_and_follows_the_decision(
    browser: Browser, tmp_path: Path, directory: Path
) -> None:
    poem = directory / "poem.txt"
    poem.write_text(POEM)
    turns = [
        read(poem),
        edit(poem, "two", "2"),
        tool_use("Bash", command="touch made", description="Make a file"),
        tool_use("AskUserQuestion", questions=[QUESTION]),
        text("**All** done."),
    ]
    async with working(browser, tmp_path / "data", directory, *turns) as (person, model):
        person.clicks(".chip.agent > button")
        person.sees(".chip-menu", "Version ")
        assert person.reads(".chip.agent > button") == ["Claude"], "the button shows the name without the version"
        person.presses("Escape")
        person.loses(".chip-menu")
        person.runs(PASTES_A_PICTURE)
        person.sees(".pictures img")
        person.prompts("Change the poem")
        person.sees(".prompt .picture[title='drawing.png'] img")
        person.sees(".approval h3", "Claude wants to edit poem.txt")
        person.sees(".approval .removed mark", "two")
        person.sees(".approval .added mark", "2")
        person.clicks(".approval button:has-text('Edit')")
        person.edits("one\nzwei\nthree\nfour\n")
        person.accepts_edited()
        person.sees(".approval h3", "Claude wants to run a command")
        assert poem.read_text() == "one\nzwei\nthree\nfour\n"
        person.sees(".approval pre", "touch made")
        person.clicks(".approval button:has-text('Reject')")
        person.fills(".approval textarea", "no files please")
        person.presses("Enter")
        person.sees(".approval legend", "Which one?")
        person.sees(".tool > summary:has-text('Asking Which one?')", "Waiting for an answer")
        assert not (directory / "made").exists()
        person.clicks("label:has-text('Right')")
        person.clicks("button:has-text('Submit')")
        person.sees(".said strong", "All")
        person.sees(".finished", "Finished")
        goes_back_to_the_first_session(person, model)
    assert b64decode(picture_in(model.requests[0])).startswith(b"\x89PNG")
    assert "no files please" in "\n".join(model.requests[3].tool_results)
    assert "Right" in "\n".join(model.requests[4].tool_results)


def picks_mode(person: Person, mode: str, words: str) -> None:
    person.picks("mode", mode)
    person.sees(".toast", f"Mode: {words}")


@pytest.mark.slow_for("acceptEdits-Approve, ask before edits-default")
@pytest.mark.parametrize(
    ("before", "button", "after"),
    [("", "Approve and accept edits", "acceptEdits"), ("acceptEdits", "Approve, ask before edits", "default")],
)
@pytest.mark.thorough
async def test_claudes_plan_is_approved(
    browser: Browser, tmp_path: Path, directory: Path, before: str, button: str, after: str
) -> None:
    """Claude Code switches from plan mode to the mode that was approved, whatever its mode was before."""
    poem = directory / "poem.txt"
    poem.write_text(POEM)
    async with working(browser, tmp_path / "data", directory) as (person, model):
        if before:
            picks_mode(person, before, "Auto-accept edits")
            model.will_say(text("I edit without asking."))
            person.prompts("Wait")
            person.sees(".finished")
        picks_mode(person, "plan", "Plan")
        model.will_say(text("What shall I plan?"))
        person.prompts("Hello")
        person.sees(".said", "What shall I plan?")
        person.until("[...document.querySelectorAll('.items > .item')].at(-1)?.dataset.kind === 'finished'")
        found = re.search(r"/[^\s\"`]+/plans/[\w-]+\.md", str(model.requests[-1].body))
        assert found, "the CLI names the file of the plan"
        model.will_say(
            write(Path(found[0]), "# Close on time\n\n1. Test it\n"),
            tool_use("ToolSearch", query="select:ExitPlanMode", max_results=5),
            tool_use("ExitPlanMode"),
            read(poem),
            edit(poem, "two", "2"),
            text("Then I begin."),
        )
        person.prompts("Plan it")
        person.sees(".approval h3", "Claude’s plan")
        person.sees(".approval .markdown li", "Test it")
        person.clicks(f"text={button}")
        if after == "default":
            person.sees(".approval h3", "Claude wants to edit poem.txt")
            assert poem.read_text() == POEM
            person.clicks(".approval .yes")
        person.sees(".said", "Then I begin.")
        person.sees(f".chip.mode > button[data-value={after}]")
    assert "approved your plan" in "\n".join(result for one in model.requests for result in one.tool_results)
    assert "2 birds" in poem.read_text()


@pytest.mark.slow
async def test_a_card_names_the_subagent_and_the_path(browser: Browser, tmp_path: Path, directory: Path) -> None:
    task = "Touch the file"
    agent = tool_use("Agent", description="a file", prompt=task, subagent_type="general-purpose")
    async with working(browser, tmp_path / "data", directory, agent, text("It is at work."), text("Done.")) as at_work:
        person, model = at_work
        model.will_say_to(task, tool_use("Bash", command="touch made", description="Make a file"), text("Made."))
        person.prompts("Have a file made")
        person.sees(".said", "It is at work.")
        person.sees(".approval .why", "Asked by general-purpose")
        person.sees(".approval .why", str(directory / "made"))
        person.clicks(".approval .yes")
        person.sees(".said", "Done.")
        assert (directory / "made").exists()


@pytest.mark.thorough
async def test_two_simultaneous_subagents_are_answered_in_turn(
    browser: Browser, tmp_path: Path, directory: Path
) -> None:
    """Each card shows its subagent and its position among the open requests. After an answer, the next is current."""
    poems = {f"Write poem {name}": directory / f"{name}.txt" for name in ("one", "two")}
    agents = [tool_use("Agent", description=task, prompt=task, subagent_type="general-purpose") for task in poems]
    async with working(browser, tmp_path / "data", directory, agents, text("Both are at work.")) as (person, model):
        for task, poem in poems.items():
            model.will_say_to(task, write(poem, "words\n"), text(f"{poem.stem} is written."))
        person.prompts("Two poems")
        person.until("document.querySelectorAll('.approval').length === 2")
        assert person.reads(".approval .why") == ["Asked by general-purpose"] * 2
        assert person.reads(".approval .place") == ["1 of 2", "2 of 2"]
        first, second = (title.split()[-1] for title in person.reads(".approval h3"))
        assert {first, second} == {"one.txt", "two.txt"}
        person.clicks(f".approval:has-text('{first}') .yes")
        person.sees(".approval.current h3", second)
        person.until("document.querySelectorAll('.approval').length === 1")
        assert person.reads(".approval .place") == []
        assert not (directory / second).exists()
        person.clicks(".approval.current .yes")
        person.sees(".finished", "Finished")
        person.until("document.querySelectorAll('.finished').length === 1")
    assert [poem.read_text() for poem in poems.values()] == ["words\n"] * 2
