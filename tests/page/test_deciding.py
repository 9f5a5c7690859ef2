"""In a real browser, a user decides on what the demo agent proposes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.server.processes import Server

from .conftest import page_of, project_in
from .rig import Browser

CARD = ".approval"

SIGN = "getComputedStyle(document.querySelector('.approval .line.added'), '::before').content"
"""The sign before an added line, with its text for screen readers."""


def test_a_first_visit_leads_from_sign_in_to_an_accepted_change(
    browser: Browser, own_server: Server, directory: Path
) -> None:
    """A wrong token is reported, a project is added and the browser sends requests to no other server."""
    with browser.person(page_of(own_server)) as person:
        person.fills("#token", "wrong")
        person.clicks("text=Connect")
        person.sees(".problem", "isn’t valid")
        person.fills("#token", own_server.token)
        person.clicks("text=Connect")
        person.clicks(".side .add")
        person.clicks(f".choices [role=option]:has-text('{directory.parent}')")
        person.clicks(".choices [role=option]:has-text('blog')")
        person.clicks(".agent-choice:has-text('demo')")
        person.clicks(".start button[type=submit]")
        person.sees("h2", "blog")
        person.prompts("Say that it rains")
        person.sees(f"{CARD} h3", "The demo agent wants to edit notes.md")
        person.sees(f"{CARD} .line.added", "> You said: Say that it rains")
        person.sees(".project .state", "Needs you")
        person.until("document.title.startsWith('(1) ')")
        person.sees(f"{CARD} table.split")
        assert "rains" not in (directory / "notes.md").read_text()
        person.clicks(f"{CARD} button:has-text('Accept')")
        person.sees(".said", "Done: notes.md has the new line.")
        person.sees(".finished", "· $0.0012")
        person.sees(".settled-line", "Accepted by")
        person.loses(CARD)
        assert not person("visible", css=".tool .diff"), "a call is folded, with its change"
        person.clicks("details.tool summary")
        person.sees(".tool .line.added", "> You said: Say that it rains")
        assert (directory / "notes.md").read_text().endswith("> You said: Say that it rains\n")
        complaints = [text for text in person.complaints() if "4401" not in text]
        assert complaints == []
        assert {url.split("/")[2] for url in person("requests") if url.startswith("http")} == {
            own_server.url.split("/")[2]
        }


@pytest.mark.slow
async def test_a_code_change_is_highlighted_and_fits_a_narrow_window(
    browser: Browser, server: Server, directory: Path
) -> None:
    """A narrow window shows the diff in one column. What the user edits and accepts there is written."""
    code = directory / "bridge.py"
    code.write_text("def toll(carts):\n    return carts * 2  # coppers\n")
    (directory / "notes.md").unlink()
    project = await project_in(server, directory)
    with browser.person(f"{page_of(server)}#token={server.token}&project={project}") as person:
        person.prompts("Something")
        person.clicks(f"{CARD} .yes")
        person.sees(".finished")
        code.write_text("def toll(carts):\n    return carts * 2  # coppers\n# You said: one\n")
        person.prompts("two")
        person.sees(f"{CARD} .code-comment", "# You said: two")
        person("resize", width=390, height=800)
        person.sees(f"{CARD} table.unified")
        assert person.reads(f"{CARD} table.unified .line.added") == ["# You said: two"]
        assert person.runs(SIGN) == '"+" / "Added: "'
        person.readies_keys()
        person.presses("e")
        person.edits("def toll(carts):\n    return carts * 3  # coppers\n")
        person.accepts_edited()
        person.until("document.querySelectorAll('.finished').length === 2")
    assert code.read_text() == "def toll(carts):\n    return carts * 3  # coppers\n"


ANSWERS_AT = "setTimeout(() => document.querySelector('.approval footer .{0}')?.click(), {1} - Date.now())"


FINISHED = (
    "[...document.querySelectorAll('.items > .item')].map((one) => one.dataset.kind + one.innerText).join('|')"
    ".split('round {}').at(-1).includes('finished')"
)
"""Whether the run of a round has finished. Only the end of a long conversation is in the DOM, so the text is searched
after the last mention of the round."""


@pytest.mark.parametrize(
    "rounds",
    [
        pytest.param(1, marks=pytest.mark.thorough),
        pytest.param(100, marks=[pytest.mark.slow, pytest.mark.timeout(600)]),
    ],
)
def test_only_one_of_two_simultaneous_decisions_counts(
    browser: Browser, address: str, directory: Path, rounds: int
) -> None:
    """Both users see the same decision, and the file matches it."""
    with browser.person(address) as ada, browser.person(address) as bob:
        for name, person in (("Ada", ada), ("Bob", bob)):
            person.runs(f"localStorage.setItem('drawbridge.name', '{name}')")
            person("reload")
            person.sees("h2", "blog")
        for number in range(1, rounds + 1):
            before = (directory / "notes.md").read_text()
            ada.prompts(f"round {number}")
            bob.sees(f"{CARD} .line.added", f"round {number}")
            ada.sees(f"{CARD} .line.added", f"round {number}")
            ada.presses("Escape")
            bob.clicks(f"{CARD} .no")
            moment = time.time() * 1000 + 400
            ada.runs(ANSWERS_AT.format("yes", moment))
            bob.runs(ANSWERS_AT.format("no", moment))
            for person in (ada, bob):
                person.until(FINISHED.format(number))
            decisions = [person.reads(".settled-words")[-1] for person in (ada, bob)]
            written = (directory / "notes.md").read_text() != before
            first, second = (
                ("Accepted by you", "Accepted by Ada") if written else ("Rejected by Bob", "Rejected by you")
            )
            assert decisions == [first, second]


def test_the_users_edited_version_is_written(browser: Browser, address: str, directory: Path) -> None:
    with browser.person(address) as person:
        person.prompts("Something")
        person.sees(CARD)
        person.readies_keys()
        person.presses("e")
        person.edits("# Notes\n\nMine alone.\n")
        person.accepts_edited()
        person.sees(".said", "Done: notes.md has your version of it.")
    assert (directory / "notes.md").read_text() == "# Notes\n\nMine alone.\n"


def test_a_rejection_sends_its_reason_and_changes_nothing(browser: Browser, address: str, directory: Path) -> None:
    before = (directory / "notes.md").read_bytes()
    with browser.person(address) as person:
        person.prompts("Something")
        person.sees(CARD)
        person.readies_keys()
        person.presses("r")
        person("type", text="not in this file")
        person.presses("Enter")
        person.sees(".said", "I was told: “not in this file”")
        person.sees(".settled-line", "not in this file")
    assert (directory / "notes.md").read_bytes() == before


@pytest.mark.thorough
def test_accepting_all_edits_prevents_further_requests(browser: Browser, address: str, directory: Path) -> None:
    with browser.person(address) as person:
        person.prompts("one")
        person.clicks("text=Accept all edits for this session")
        person.sees(".finished")
        person.prompts("two")
        person.until("document.querySelectorAll('.finished').length === 2")
        assert person.reads(CARD) == []
    assert (directory / "notes.md").read_text().endswith("> You said: one\n> You said: two\n")


@pytest.mark.thorough
def test_a_question_with_choices_is_answered(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        person.prompts("/ask")
        person.sees("legend", "What should the drawbridge be painted with?")
        person.clicks("button:has-text('Submit')")
        person.sees(".questions .hint", "Pick an option")
        person.fills(".questions .own", "Not at all, ")
        person.clicks("label:has-text('Oak')")
        person("reload")
        person.sees("legend", "What should the drawbridge be painted with?")
        assert person("value", css=".questions .own") == "Not at all, ", "what was begun is there again"
        person.fills(".questions .own", "")
        person.clicks("button:has-text('Submit')")
        person.sees(".said", "Oak it is.")


def test_two_users_answer_and_both_see_who_was_first(browser: Browser, address: str, directory: Path) -> None:
    with browser.person(address) as ada, browser.person(address) as bob:
        ada.runs("localStorage.setItem('drawbridge.name', 'Ada')")
        ada("reload")
        bob.sees("h2", "blog")
        ada.sees("h2", "blog")
        ada.prompts("Something")
        bob.sees(CARD)
        bob.readies_keys()
        bob.presses("e")
        bob.edits("Bob's\n")
        ada.clicks(f"{CARD} button:has-text('Accept')")
        bob.sees(f"{CARD} .notice", "Ada accepted this first.")
        assert bob.edited() == "Bob's\n"
        bob.sees(".settled-line", "Accepted by Ada")
        bob.clicks(f"{CARD} button:has-text('Close')")
        bob.loses(CARD)
        ada.sees(".finished")
    assert (directory / "notes.md").read_text().endswith("> You said: Something\n")
