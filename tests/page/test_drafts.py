"""Drafts of answers, messages and attached files are kept, and the focus stays where it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.server.processes import Server

from .conftest import page_of, project_in
from .rig import Browser, Person
from .test_approvals import CHANGED, CODE, change
from .test_approving import (
    ACCEPT,
    CARD,
    CURRENT,
    OPEN,
    PHONE,
    answers,
    asks,
    asks_to_edit,
    bash,
    edit,
    reads_all,
    write,
)
from .test_message_box import emits
from .test_safeguards import WIRE
from .test_steering import STATIC

pytestmark = pytest.mark.thorough

COMPOSED = (
    "document.querySelector('{0}').dispatchEvent(new KeyboardEvent('keydown',"
    " {{ key: 'Enter', keyCode: 229, bubbles: true, cancelable: true }}))"
)
"""Sends the key with which Safari ends a composition; true if the web UI did not handle it."""


def goes_to_the_settings_and_back(person: Person) -> None:
    person.goes_to(person.leaves())
    person.sees("#prompt")


# With the keyboard.


def test_an_edit_can_be_accepted_with_the_keyboard(browser: Browser, address: str, directory: Path) -> None:
    """Tested in the editor of a file and in a field. Tab indents in the editor, and Esc leaves it."""
    with browser.person(address) as person:
        asks(person, edit(directory / "notes.md", "up", "down"), bash("npm tset"))
        person.readies_keys()
        person.presses("e")
        person.edits("mine\n")
        person.presses("Tab")
        person.sees(f"{CARD} .cm-line", "mine")
        person.presses("Escape")
        person.until("document.activeElement.matches('.approval')")
        person.presses("Tab")
        assert person.runs("document.activeElement.closest('.approval') !== null")
        assert person.runs("document.activeElement.closest('.editor-host') === null")
        person.clicks(f"{CURRENT} .draft button:has-text('Continue')")
        person.edits("mine again\n")
        person.presses("Control+Enter")
        person.until(OPEN.format(1))
        person.clicks(f"{CURRENT} footer button:has-text('Edit')")
        person.fills(f"{CURRENT} textarea", "npm test")
        person.presses("Control+Enter")
        first, second = answers(person)
        assert first["updatedInput"]["new_string"] == "mine again\n"
        assert second["updatedInput"] == {"command": "npm test"}


def test_every_line_can_be_commented_on_with_the_keyboard(browser: Browser, address: str, directory: Path) -> None:
    """Tab reaches one comment button of a diff, and the arrow keys reach the others."""
    with browser.person(address) as person:
        asks(person, change(directory, CODE, CHANGED))
        assert person.runs(f"document.querySelectorAll('{CARD} .comment[tabindex=\"0\"]').length") == 1
        person.runs(f"document.querySelector('{CARD} .comment[tabindex=\"0\"]').focus()")
        names = []
        for _ in range(4):
            names.append(person.runs("document.activeElement.getAttribute('aria-label')"))
            person.presses("ArrowDown")
        assert names == [f"Comment on line {number}" for number in (7, 8, 9, 10)]


@pytest.mark.slow
def test_enter_starts_a_new_line_in_a_reason_on_a_phone(browser: Browser, address: str, directory: Path) -> None:
    field = f"{CARD} .rejecting textarea"
    with browser.person(address, **PHONE) as person:
        person.fills("#prompt", "/calls " + json.dumps([edit(directory / "notes.md", "up", "down")]))
        person.clicks(".composer .yes")
        person.clicks(f"{CURRENT} footer .no")
        person.fills(field, "Not yet")
        person.presses("Enter")
        person("type", text="Tomorrow")
        assert person("value", css=field) == "Not yet\nTomorrow"
        person.clicks(f"{CARD} .rejecting .no")
        assert answers(person) == [{"behavior": "deny", "message": "Not yet\nTomorrow"}]


def test_the_key_that_ends_a_composition_sends_nothing(browser: Browser, address: str, directory: Path) -> None:
    with browser.person(address) as person:
        asks(person, edit(directory / "notes.md", "up", "down"))
        person.clicks(f"{CURRENT} footer .no")
        person.fills(f"{CARD} .rejecting textarea", "まだ")
        assert person.runs(COMPOSED.format(".rejecting textarea")) is True
        person.fills("#prompt", "まだ")
        assert person.runs(COMPOSED.format("#prompt")) is True
        assert person("value", css="#prompt") == "まだ"
        assert person.runs(OPEN.format(1))


# The focus.


@pytest.mark.slow
def test_a_restored_draft_does_not_take_the_focus(browser: Browser, address: str, directory: Path) -> None:
    with browser.person(address) as person:
        asks(person, edit(directory / "notes.md", "up", "down"), bash("ls"))
        person.readies_keys()
        person.presses("e")
        person.edits("half an edit\n")
        person.clicks(f"{CARD} >> nth=1 >> button:has-text('Edit')")
        person.fills(f"{CARD} >> nth=1 >> textarea", "ls -l")
        goes_to_the_settings_and_back(person)
        person.fills("#prompt", "")
        assert person.edited() == "half an edit\n"
        person.sees(f"{CARD} textarea")
        assert person.runs("document.activeElement.id") == "prompt"
        person("reload")
        assert person.edited() == "half an edit\n"
        assert person.runs("document.activeElement.closest('.approval')") is None


@pytest.mark.slow
def test_a_queued_message_has_the_focus_each_time_it_is_edited(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        person.prompts("/slow 600")
        person.sees(".stop")
        person.prompts("second")
        for _ in range(2):
            person.clicks(".queue button[aria-label='Edit “second”']")
            person.until("document.activeElement.matches('.queued textarea')")
            person.clicks(".queue button:has-text('Cancel')")
        person.clicks(".queue button[aria-label='Remove “second” from the queue']")
        person.loses(".queue")
        person.clicks(".stop")
        person.sees(".finished")


# Drafts.


@pytest.mark.slow
def test_a_draft_survives_an_answer_from_elsewhere(browser: Browser, address: str, directory: Path) -> None:
    """The draft survives even if another view was open when somebody else answered."""
    with browser.person(address) as mine, browser.person(address) as other:
        asks(mine, *(edit(directory / "notes.md", "up", word) for word in ("down", "away")))
        other.until(OPEN.format(2))
        for number, words in enumerate(("First words", "Second words")):
            mine.clicks(f"{CARD} >> nth={number} >> footer .no")
            mine.fills(f"{CARD} >> nth={number} >> .rejecting textarea", words)
        other.clicks(ACCEPT)
        mine.sees(f"{CARD} [role=alert]", "accepted this first")
        here = mine.leaves()
        other.until(OPEN.format(1))
        other.clicks(ACCEPT)
        other.until(OPEN.format(0))
        mine.goes_to(here)
        for words in ("First words", "Second words"):
            mine.sees(f"{CARD} .mine", words)
        assert "Invalid Date" not in mine.reads(f"{CARD} time")
        mine.clicks(f"{CARD} button:has-text('Close')")
        mine.until(OPEN.format(1))
        goes_to_the_settings_and_back(mine)
        mine.sees(CARD)
        assert mine.runs(OPEN.format(1)), "what was closed stays closed"


@pytest.mark.slow
def test_an_answer_whose_reply_was_lost_is_not_a_draft(browser: Browser, address: str, directory: Path) -> None:
    """The web UI is reloaded after the server has recorded the answer, but before its reply has arrived."""
    with browser.person(address) as person:
        person.sees("#prompt")
        person.runs(WIRE)
        person.until("document.documentElement.dataset.connection === 'open'")
        asks_to_edit(person, directory)
        person.presses("e")
        person.edits("mine\n")
        person.runs("window.wire.held = []")
        person.presses("Control+Enter")
        person.until("window.wire.held.some(({ data }) => data.includes('permission_resolved'))")
        person("reload")
        assert answers(person)[0]["updatedInput"]["new_string"] == "mine\n"
        assert person.reads(CARD) == []
        assert person.runs("Object.keys(localStorage).filter((name) => name.includes('answer'))") == []


def test_attached_files_stay_with_their_project(browser: Browser, address: str, tmp_path: Path) -> None:
    note = tmp_path / "note.txt"
    note.write_text("Close the bridge at ten.\n")
    with browser.person(address) as person:
        person.sees(".chip.mode")
        person("choose", css=".composer input[type=file]", files=[str(note)])
        person.sees(".pictures .file", "note.txt")
        goes_to_the_settings_and_back(person)
        person.sees(".pictures .file", "note.txt")
        person.prompts("/quick")
        person.sees(".prompt .attached", "note.txt")
        goes_to_the_settings_and_back(person)
        assert person.reads(".pictures li") == []


HOLD_UPLOADS = """(() => {
  const { send } = WebSocket.prototype;
  WebSocket.prototype.send = function (text) {
    const { type, request_id } = JSON.parse(text);
    if (type !== 'blob_put') return send.call(this, text);
    const data = { code: 'INTERNAL', message: 'The disk is full.' };
    window.fails = () => void this.onmessage({ data: JSON.stringify({ type: 'error', request_id, data }) });
  };
})()"""
"""Holds back uploads: an upload gets no reply until ``window.fails`` makes it fail."""

SLOW_IMAGES = """(() => {
  const { createImageBitmap } = window;
  window.createImageBitmap = (file) =>
    new Promise((done) => { window.reads = () => void done(createImageBitmap.call(window, file)); });
})()"""
"""Holds back the decoding of images until ``window.reads`` is called."""

BOX = "document.querySelector('#prompt').value"
IMAGES = "document.querySelectorAll('.pictures img').length"


@pytest.mark.parametrize("is_back", [False, True], ids=["elsewhere", "back again"])
async def test_a_message_whose_upload_failed_returns_to_its_session(
    browser: Browser, server: Server, directory: Path, is_back: bool
) -> None:
    """When the upload fails, another session is shown, or the same session again with a new message box."""
    (directory.parent / "toll-house").mkdir()
    project, other = [await project_in(server, place) for place in (directory, directory.parent / "toll-house")]
    with browser.person(f"{page_of(server)}#token={server.token}&project={project}") as person:
        person.sees(".chip.mode")
        person.runs(HOLD_UPLOADS)
        person("choose", css=".composer input[type=file]", files=[str(STATIC / "icon-192.png")])
        person.sees(".pictures img")
        person.prompts("Look at this")
        person.until(f"window.fails !== undefined && {BOX} === '' && {IMAGES} === 0")
        person.goes_to(f"#/p/{other}")
        person.sees(".project-head h2", "toll-house")
        if not is_back:
            person.runs("window.fails()")
            person.sees(".toast.problem", "The disk is full.")
            assert person.runs(f"[{BOX}, {IMAGES}]") == ["", 0]
        person.goes_to(f"#/p/{project}")
        person.sees(".project-head h2", "blog")
        if is_back:
            person.runs("window.fails()")
        person.until(f"{BOX} === 'Look at this' && {IMAGES} === 1")


def test_opening_the_settings_keeps_an_image_being_attached(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        person.sees(".chip.mode")
        person.runs(SLOW_IMAGES)
        person("choose", css=".composer input[type=file]", files=[str(STATIC / "icon-192.png")])
        person.until("window.reads !== undefined")
        goes_to_the_settings_and_back(person)
        person.runs("window.reads()")
        person.sees(".pictures img")


@pytest.mark.slow
def test_leaving_a_session_removes_its_elements(browser: Browser, address: str, directory: Path) -> None:
    """Its editor, its rows and their observers are removed."""
    with browser.person(address) as person:
        person.sees("#prompt")
        person.runs(
            "(() => { window.watching = new Set();"
            " const { observe, disconnect } = ResizeObserver.prototype;"
            " ResizeObserver.prototype.observe = function (one) { watching.add(this); return observe.call(this, one) };"
            " ResizeObserver.prototype.disconnect = function () { watching.delete(this);"
            " return disconnect.call(this) } })()"
        )
        goes_to_the_settings_and_back(person)
        asks_to_edit(person, directory)
        person.presses("e")
        person.edits("half an edit\n")
        person.runs(
            "window.left = ['.approval', '.items', '.composer-place'].map((css) => document.querySelector(css))"
        )
        assert person.runs("left.map((one) => one.childNodes.length > 0)") == [True] * 3
        assert person.runs("watching.size") > 0
        person.leaves()
        person.until("left.every((one) => one.childNodes.length === 0)")
        person.until("watching.size === 0")


# Comments and settings.


@pytest.mark.slow
def test_a_comment_stays_at_its_line_when_the_diff_style_changes(
    browser: Browser, address: str, directory: Path
) -> None:
    at = (
        f"[...document.querySelectorAll('{CARD} tr.commented')]"
        ".map((row) => row.previousElementSibling.querySelector('td:last-child').innerText.trim())"
    )
    with browser.person(address, width=1440) as person:
        asks(person, change(directory, CODE, CHANGED))
        person.sees(f"{CARD} table.split")
        person.clicks(f"{CARD} tr:has-text('line ten') .comment")
        person.fills(f"{CARD} .comment-field textarea", "Why a word?")
        person.clicks(f"{CARD} .view")
        for look in ("unified", "split"):
            person.clicks(f"{CARD} button:has-text('Side by side')")
            person.sees(f"{CARD} table.{look}")
            [line] = person.runs(at)
            assert line.endswith("line ten")
            assert person("value", css=f"{CARD} .comment-field textarea") == "Why a word?"


@pytest.mark.slow
def test_line_wrapping_that_was_turned_on_to_accept_stays_on(browser: Browser, address: str, directory: Path) -> None:
    long = "x" * 1_000 + "tail\n"
    with browser.person(address) as person:
        person.runs("localStorage.setItem('drawbridge.setting.wrap', 'off')")
        person("reload")
        asks(person, write(directory / "a.txt", long))
        person.clicks(f"{CARD} button.must")
        person.loses(f"{CARD} button.must")
        reads_all(person)
        person.clicks_until(ACCEPT, ".finished")
        asks(person, write(directory / "b.txt", long))
        person.sees(f"{CARD} .line", "tail")
        assert person.reads(f"{CARD} button.must") == []


def test_the_state_of_a_todo_is_not_used_as_a_css_class(browser: Browser, address: str) -> None:
    """`shade` is a CSS class of an element that covers everything."""
    todos = [{"content": "Close the bridge", "status": "shade"}]
    block = {"type": "tool_use", "id": "t", "name": "TodoWrite", "input": {"todos": todos}}
    message = {"type": "message", "role": "assistant", "content": [block]}
    with browser.person(address) as person:
        emits(person, {"type": "assistant", "message": message, "parent_tool_use_id": None})
        person.sees(".todos li.pending", "Close the bridge")
        assert person.reads(".shade") == []
