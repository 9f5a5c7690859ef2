"""An edited version can be accepted only once the user has seen the text that it is based on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests import programs

from .rig import Browser, Person
from .test_approving import CARD, CURRENT, READS, answers, asks, bash, edit, reads_all, stays, write

pytestmark = pytest.mark.thorough

EDIT = f"{CURRENT} footer button:not(.accepts):has-text('Edit')"
EDITED = f"{CURRENT} footer .edited"
MUST = f"{CARD} button.must"

IN_STEPS = (
    "(async () => {{ const box = {0};"
    " for (let top = 0; top < box.scrollHeight; top += box.clientHeight / 3) {{ box.scrollTop = top;"
    " await new Promise((later) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(later)))) }} }})()"
)
EDITOR = "document.querySelector('.approval .editor-host').shadowRoot.querySelector('.cm-scroller')"
PAGE = "document.querySelector('.scroller')"


def can_accept(person: Person) -> bool:
    found: bool = person.runs(f"!document.querySelector({json.dumps(EDITED)}).disabled")
    return found


def scrolls_through_the_editor(person: Person) -> None:
    """Scrolls the page, then the editor to its end, then the page again.

    A short window can't show the whole editor.
    """
    for _ in range(3):  # on a busy machine, the editor may not have drawn a part before it was out of view again
        person.runs(f"{EDITOR}.scrollTop = 0")
        person.runs(IN_STEPS.format(PAGE))
        person.runs(IN_STEPS.format(EDITOR))
        person.runs(IN_STEPS.format(PAGE))
        if can_accept(person):
            return


def reads_on(person: Person) -> None:
    """Presses "Read on" next to the editor of fields until the edited version can be accepted."""
    person.until(
        f"!document.querySelector({json.dumps(EDITED)}).disabled"
        f" || void document.querySelector({json.dumps(READS)})?.click()"
    )


def adds(person: Person, text: str) -> None:
    """Inserts text at the caret of the editor or the field that is open."""
    css = f"{CARD} .cm-content, {CARD} textarea"
    person.sees(css)
    person.until("document.activeElement.closest('.approval .editor-host, .approval .editing') !== null")
    person("insert", text=text)


@pytest.mark.slow_for("field", "lines of a file", "one line of a file", "plan")
@pytest.mark.parametrize("kind", ["command", "field", "plan", "lines of a file", "one line of a file"])
def test_a_request_with_folded_parts_cannot_be_accepted(
    browser: Browser, address: str, directory: Path, kind: str
) -> None:
    """No button, key or draft accepts a request with folded parts. The button that shows them stays in place."""
    path = directory / "new.py"
    call = {
        "command": bash("echo a\n" * 300 + "tail"),
        "field": {"name": "mcp__db__query", "input": {"sql": "select 1;\n" * 300 + "tail"}},
        "plan": {"name": "ExitPlanMode", "input": {"plan": "# One\\n\\n" + "word " * 5_000 + "tail"}},
        "lines of a file": write(path, "x = 1\n" * 900 + "tail\n"),
        "one line of a file": write(path, "x" * 5_000 + "tail\n"),
    }[kind]
    is_file = "file" in kind
    with browser.person(address) as person:
        asks(person, call)
        person.clicks(EDIT)
        adds(person, "mine ")
        for _ in range(2):
            person.sees(MUST)
            person.sees(f"{CARD} .unopened", "Show the whole request")
            assert not can_accept(person)
            person.clicks(f"{CARD} .cm-content" if is_file else f"{CARD} textarea")
            person.presses("Control+Enter")
            stays(person, 1)
            person("reload")
            person.sees(EDITED)
        person.clicks(MUST)
        person.loses(MUST)
        person.until("document.querySelector('.approval').innerText.includes('tail')")
        if is_file:
            person.sees(f"{CARD} .unopened", "Scroll through")
            assert not can_accept(person)
            scrolls_through_the_editor(person)
        else:
            assert not can_accept(person)
            reads_on(person)
        person.clicks(f"{EDITED}:not(.moved):enabled")
        [answer] = answers(person)
        assert answer["behavior"] == "allow"
        assert "mine " in json.dumps(answer["updatedInput"])


def editor_file() -> str:
    """Returns the name of the file with the code editor, recognized by the text of one of its buttons."""
    [found] = [file.name for file in programs.page().glob("part-*.js") if "Reject this change" in file.read_text()]
    return found


def test_nothing_is_accepted_before_the_editor_has_loaded(browser: Browser, address: str, directory: Path) -> None:
    """The connection is slow. The user has read the proposal, but can't edit it yet. No button or key accepts it."""
    with browser.person(address, held=editor_file()) as person:
        asks(person, write(directory / "notes.md", "mine\n"))
        person.sees(f"{CURRENT} footer .accepts:enabled:not(.moved)")
        person.clicks(EDIT)
        person.sees(f"{CARD} .editor-wait", "Loading the editor…")
        person.sees(f"{EDITED}:not(.moved)")
        assert not can_accept(person)
        person.presses("Control+Enter")
        person.lets()
        adds(person, "not ")
        person.clicks(f"{EDITED}:not(.moved):enabled")
        assert answers(person)[0]["updatedInput"]["content"] == "not mine\n"


@pytest.mark.parametrize("kind", ["file", "command"])
def test_an_unedited_version_is_accepted_as_proposed(
    browser: Browser, address: str, directory: Path, kind: str
) -> None:
    """The button mentions an edited version only while there is one."""
    call = write(directory / "notes.md", "mine\n") if kind == "file" else bash("echo mine")
    with browser.person(address) as person:
        asks(person, call)
        person.clicks(EDIT)
        person.sees(f"{CARD} .cm-content, {CARD} textarea")
        assert person.reads(EDITED)[0].startswith("Accept\n")
        adds(person, "not ")
        person.sees(EDITED, "Accept edited version")
        person.presses("Control+z")
        person.loses(f"{EDITED}:has-text('Accept edited version')")
        person.clicks(f"{EDITED}:not(.moved):enabled")
        [answer] = answers(person)
        assert (answer["behavior"], answer["updatedInput"]) == ("allow", call["input"])


LONG = "".join(f"line = {number}\n" for number in range(240))


def test_a_long_unseen_change_cannot_be_accepted_in_its_editor(browser: Browser, address: str, directory: Path) -> None:
    """It is not enough to have seen the beginning and the end of the text. All of it must have been in view."""
    with browser.person(address, height=600) as person:
        asks(person, write(directory / "long.py", LONG))
        person.clicks(EDIT)
        adds(person, "# mine\n")
        person.sees(f"{CARD} .unopened", "Scroll through")
        person.presses("Control+Enter")
        person.presses("Control+End")
        person.until(f"{EDITOR}.scrollTop > 1000")
        person.sees(f"{CARD} .cm-line", "line = 239")
        person.presses("Control+Enter")
        assert not can_accept(person)
        scrolls_through_the_editor(person)
        person.loses(f"{CARD} .unopened")
        person.presses("Control+Enter")
        [answer] = answers(person)
        assert answer["updatedInput"]["content"] == "# mine\n" + LONG


KEYBOARD = """(() => {
  Object.defineProperty(visualViewport, 'height', { value: 60, configurable: true });
  visualViewport.dispatchEvent(new Event('resize'));
})()"""
"""Simulates a keyboard like an iPhone's, which covers the page without changing its layout."""

NO_KEYBOARD = "(() => { delete visualViewport.height; visualViewport.dispatchEvent(new Event('resize')) })()"


@pytest.mark.slow_for("zoom")
@pytest.mark.parametrize("cover", ["zoom", "keyboard"])
def test_text_hidden_by_zoom_or_a_keyboard_counts_as_unread(
    browser: Browser, address: str, directory: Path, cover: str
) -> None:
    """An edited change can be accepted only after all of the editor's text was visible on the screen."""
    with browser.person(address, height=600) as person:
        asks(person, write(directory / "long.py", LONG))
        person.clicks(EDIT)
        adds(person, "# mine\n")
        person.runs(
            IN_STEPS.format(PAGE)
        )  # scrolls through the card, so only the editor's text has not been in view yet
        if cover == "zoom":
            person("zoom", factor=2)
            person.until("visualViewport.scale > 1.5")
        else:
            person.runs(KEYBOARD)
        scrolls_through_the_editor(person)
        assert not can_accept(person)
        if cover == "zoom":
            person("zoom", factor=1)
            person.until("visualViewport.scale === 1")
        else:
            person.runs(NO_KEYBOARD)
        scrolls_through_the_editor(person)
        person.clicks(f"{EDITED}:not(.moved):enabled")
        assert answers(person)[0]["updatedInput"]["content"] == "# mine\n" + LONG


@pytest.mark.slow
def test_many_removed_lines_are_read_in_the_proposal(browser: Browser, address: str, directory: Path) -> None:
    """In the editor, the lines next to the removed ones are in view long before all of the removed lines are."""
    (directory / "notes.md").write_text(f"first\n{LONG}last\n")
    with browser.person(address, height=600) as person:
        asks(person, edit(directory / "notes.md", LONG, ""))
        person.clicks(EDIT)
        adds(person, "my ")
        person.sees(f"{CARD} .unopened", "Go back and read the removed lines")
        scrolls_through_the_editor(person)
        assert not can_accept(person)
        person.presses("Control+Enter")
        stays(person, 1)
        reads_all(person)
        person.clicks(EDIT)
        person.clicks(f"{EDITED}:not(.moved):enabled")
        [answer] = answers(person)
        assert answer["updatedInput"]["new_string"] == "first\nmy last\n"


@pytest.mark.slow
def test_a_change_that_was_read_can_be_accepted_in_its_editor(browser: Browser, address: str, directory: Path) -> None:
    with browser.person(address, height=600) as person:
        asks(person, write(directory / "long.py", LONG))
        person.runs(IN_STEPS.format(PAGE))
        person.clicks(EDIT)
        adds(person, "# mine\n")
        assert can_accept(person)
        person.presses("Control+Enter")
        assert answers(person)[0]["updatedInput"]["content"] == "# mine\n" + LONG


@pytest.mark.slow_for("Control+v-a command", "Control+v-a file", "Control+z-a command")
@pytest.mark.parametrize("kind", ["a file", "a command"])
@pytest.mark.parametrize("key", ["Control+z", "Control+v"])
def test_restored_text_that_was_not_read_is_not_accepted(
    browser: Browser, address: str, directory: Path, kind: str, key: str
) -> None:
    """Only the user's short version, which is one line, was in view. An undo restores the agent's long version, and so
    does pasting the text that was cut."""
    text = "".join(f"echo {number}\n" for number in range(45))
    call = write(directory / "long.sh", text) if kind == "a file" else bash(text)
    with browser.person(address, height=600) as person:
        asks(person, call)
        person.clicks(EDIT)
        person.sees(f"{CARD} .cm-content, {CARD} textarea")
        person.until("document.activeElement.closest('.approval .editor-host, .approval .editing') !== null")
        for pressed in ("Control+Home", "ArrowDown", "Control+Shift+End", "Control+x"):
            person.presses(pressed)
        person.sees(f"{EDITED}:enabled")
        person.presses(key)
        person.sees(f"{EDITED}:disabled")
        person.presses("Control+Enter")
        assert not can_accept(person)
        if kind == "a file":
            scrolls_through_the_editor(person)
        else:
            reads_on(person)
        person.clicks(f"{EDITED}:not(.moved):enabled")
        assert text in answers(person)[0]["updatedInput"].values()


def test_a_change_far_down_a_long_file_is_in_view_immediately(browser: Browser, address: str, directory: Path) -> None:
    """The user does not need to scroll through unchanged text. A draft of the change can be accepted after a reload."""
    before = "".join(f"line {number}\n" for number in range(1, 801))
    (directory / "notes.md").write_text(before)
    with browser.person(address) as person:
        asks(person, edit(directory / "notes.md", "line 700\n", "line seven hundred\n"))
        person.clicks(EDIT)
        adds(person, "my ")
        person("reload")
        person.sees(f"{CARD} .cm-line", "my line seven hundred")
        person.sees(f"{EDITED}:enabled")
        person.clicks(f"{CARD} .cm-content")
        person.presses("Control+Enter")
        [answer] = answers(person)
        assert answer["updatedInput"]["new_string"] == before.replace("line 700\n", "my line seven hundred\n")


def test_a_key_does_not_accept_a_command_that_was_not_read(browser: Browser, address: str) -> None:
    """The field is as tall as the command. The key scrolls to the buttons below the field instead of accepting."""
    command = "\n".join(f"echo {number}" for number in range(45))
    height = "(() => { const area = document.querySelector('.approval textarea');"
    with browser.person(address, height=500) as person:
        asks(person, bash(command))
        person.runs(f"{PAGE}.scrollTop = 0")
        person.clicks(EDIT)
        adds(person, " # mine")
        assert person.runs(f"{height} return area.scrollHeight <= area.clientHeight + 1 }})()")
        person.runs(f"{PAGE}.scrollTop = 0")
        person.presses("Control+Enter")
        person.until(
            "document.querySelector('.approval footer').getBoundingClientRect().bottom"
            " <= document.querySelector('.scroller').getBoundingClientRect().bottom + 1"
        )
        person.sees(f"{CARD} textarea")
        person.runs(IN_STEPS.format(PAGE))
        person.clicks(f"{CARD} textarea")
        person.presses("Control+Enter")
        [answer] = answers(person)
        assert "# mine" in answer["updatedInput"]["command"]


@pytest.mark.slow
def test_expanded_text_stays_expanded_after_editing(browser: Browser, address: str) -> None:
    asked: dict[str, Any] = bash("echo a\n" * 300 + "tail")
    with browser.person(address) as person:
        asks(person, asked)
        person.clicks(MUST)
        person.clicks(EDIT)
        person.sees(f"{CARD} textarea")
        person.loses(f"{CARD} pre")
        assert person.reads(MUST) == []
        reads_on(person)
        person.clicks(f"{CARD} footer button:has-text('Back')")
        person.sees(f"{CARD} pre", "tail")
        assert person.reads(MUST) == []
