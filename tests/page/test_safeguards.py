"""A user can't accept what they have not seen: not in the editor, with a key, or with a button that has just moved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.server.processes import Server

from .conftest import page_of, project_in
from .rig import Browser, Person
from .test_approving import (
    ACCEPT,
    CARD,
    CURRENT,
    OPEN,
    answers,
    asks,
    asks_to_edit,
    bash,
    edit,
    reads_all,
    stays,
    write,
)
from .test_seen import sends

pytestmark = pytest.mark.thorough

EDITED = f"{CARD} button:has-text('Accept edited version')"
LONG = "select 1;\n" * 300 + "tail"


def is_disabled(person: Person, css: str) -> bool:
    found: bool = person.runs(f"document.querySelector({json.dumps(css)}).disabled")
    return found


# The editor.


def test_editing_does_not_hide_any_part_of_the_call(browser: Browser, address: str) -> None:
    """Even an edited version can be accepted only after "Show all". The same applies after a reload."""
    flagged = bash("sudo npm tset", dangerouslyDisableSandbox=True, odd=LONG)
    edited = f"{CURRENT} footer .yes"
    with browser.person(address) as person:
        asks(person, flagged)
        person.clicks(f"{CURRENT} footer button:has-text('Edit')")
        person.fills(f"{CARD} textarea", "sudo npm test")
        for _ in range(2):
            person.sees(f"{CARD} .flags", "Runs outside the sandbox")
            person.sees(f"{CARD} .risks li")
            person.sees(f"{CARD} .fields dt", "odd")
            assert person("value", css=f"{CARD} textarea") == "sudo npm test"
            assert is_disabled(person, edited)
            person.sees(f"{CARD} .unopened")
            person.presses("Control+Enter")
            stays(person, 1)
            person("reload")
            person.sees(f"{CARD} textarea")
        person.clicks(f"{CARD} button.must")
        person.until("document.querySelector('.approval').innerText.includes('tail')")
        assert is_disabled(person, edited)
        reads_all(person)
        person.clicks(EDITED)
        assert answers(person)[0]["updatedInput"] == {**flagged["input"], "command": "sudo npm test"}


def test_the_target_of_a_link_is_shown_next_to_the_editor(browser: Browser, address: str, directory: Path) -> None:
    (directory / "README.md").symlink_to(directory.parent / ".bashrc")
    with browser.person(address) as person:
        asks(person, write(directory / "README.md", "alias ls=rm\n", force=LONG))
        person.clicks(f"{CURRENT} footer button:has-text('Edit')")
        person.sees(f"{CARD} .cm-line", "alias ls=rm")
        person.sees(f"{CARD} .links", ".bashrc")
        person.sees(f"{CARD} .fields dt", "force")
        assert is_disabled(person, f"{CARD} footer .yes")


def test_every_field_that_is_sent_is_in_the_editor(browser: Browser, address: str) -> None:
    given: dict[str, Any] = {f"field{number}": f"value {number}" for number in range(14)}
    with browser.person(address) as person:
        asks(person, {"name": "mcp__db__query", "input": {**given, "count": 3}})
        person.clicks(f"{CURRENT} footer button:has-text('Edit')")
        assert person.reads(f"{CARD} .editing-field > span") == list(given)
        assert person.reads(f"{CARD} .fields dt") == ["count"]


# Keys.


def test_an_open_menu_receives_the_keys(browser: Browser, address: str, directory: Path) -> None:
    with browser.person(address) as person:
        asks_to_edit(person, directory)
        person.clicks(".chip.mode > button")
        person.sees(".chip-menu")
        for key in ("a", "Control+Enter"):
            person.presses(key)
        person.sees(".chip-menu")
        person.presses("Escape")
        person.loses(".chip-menu")
        stays(person, 1)


def test_an_open_drawer_receives_the_keys(browser: Browser, address: str, directory: Path) -> None:
    with browser.person(address, width=900) as person:
        asks_to_edit(person, directory)
        person.clicks("main .unfold")
        person.sees(".frame.drawn .side")
        for key in ("a", "Control+Enter"):
            person.presses(key)
        person.presses("Escape")
        person.loses(".frame.drawn .side")
        stays(person, 1)


NOTES_OVER_THE_HEAD = (
    "(() => { const { style } = document.querySelector('.toasts');"
    " const { top } = document.querySelector('.approval.current > header').getBoundingClientRect();"
    " style.position = 'fixed'; style.inset = `${top}px 0 auto 0`; style.margin = style.padding = '0' })()"
)
"""Moves the notes over the header of the request: their usual position depends on the size of the screen."""


def test_content_behind_a_note_is_not_in_view(browser: Browser, address: str, directory: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty.txt"
    empty.write_bytes(b"")
    with browser.person(address, height=560) as person:
        asks_to_edit(person, directory, lines=60)
        person.runs(NOTES_OVER_THE_HEAD)
        person("choose", css=".composer input[type=file]", files=[str(empty)])
        person.sees(".toast.problem")
        person.loses(".approval.keyed")
        for key in ("a", "Control+Enter"):
            person.presses(key)
        stays(person, 1)
        person.clicks(".toast button")
        person.readies_keys()
        person.presses("a")
        assert answers(person)[0]["behavior"] == "allow"


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (375, 667)])
def test_a_note_is_fully_visible_next_to_the_answer_bar(
    browser: Browser, address: str, directory: Path, tmp_path: Path, width: int, height: int
) -> None:
    empty = tmp_path / "empty.txt"
    empty.write_bytes(b"")
    with browser.person(address, width=width, height=height) as person:
        sends(person, write(directory / "new.py", "x = 1\n" * 60))
        person("choose", css=".composer input[type=file]", files=[str(empty)])
        person.sees(".toast.problem")
        person.runs("document.querySelector('.approval').scrollIntoView({ block: 'start' })")
        assert person.runs(
            "(() => { const toast = document.querySelector('.toast'); const box = toast.getBoundingClientRect();"
            " toast.style.pointerEvents = 'auto';"  # otherwise, elementFromPoint skips the note
            " const bar = document.querySelector('.approval footer').getBoundingClientRect();"
            " const corners = [[box.left + 9, box.top + 9], [box.right - 9, box.top + 9],"
            " [box.left + 9, box.bottom - 9], [box.right - 9, box.bottom - 9]];"
            " const isWhole = corners.every(([x, y]) => toast.contains(document.elementFromPoint(x, y)));"
            " return [isWhole, box.bottom <= bar.top || box.top >= bar.bottom] })()"
        ) == [True, True]


async def test_shortcut_letters_are_typed_into_a_file_search(browser: Browser, server: Server, directory: Path) -> None:
    project = await project_in(server, directory)
    address = f"{page_of(server)}#token={server.token}&project={project}"
    with browser.person(address) as person:
        person.sees("#prompt")
        person.runs("location.hash = location.hash + '/files/notes.md'")
        person.clicks(".viewer .cm-content")
        person.presses("Control+f")
        person.sees(".viewer .cm-search")
        person("type", text="n?/jk")
        assert person("value", css=".viewer .cm-search input[name=search]") == "n?/jk"
        assert person.runs("location.hash").endswith("/files/notes.md")


# Buttons that move.


LANDED = """(() => {
  window.hit = new Promise((done) => {
    const landed = () => {
      const [button, ...others] = document.querySelectorAll('.approval .accepts');
      if (others.length) return requestAnimationFrame(landed);
      const { left, top, width, height } = button.getBoundingClientRect();
      const found = document.elementFromPoint(left + width / 2, top + height / 2);
      done(button.contains(found));
    };
    requestAnimationFrame(landed);
  });
})()"""
"""Resolves ``hit`` to whether the remaining button can be clicked in the frame in which it takes the other's place."""

CAN_BE_CLICKED = (
    "(() => { const button = document.querySelector('.approval .accepts');"
    " const { left, top, width, height } = button.getBoundingClientRect();"
    " return button.contains(document.elementFromPoint(left + width / 2, top + height / 2)) })()"
)


def test_a_button_that_has_just_moved_is_not_clicked(browser: Browser, address: str, directory: Path) -> None:
    """Another device answers the first request, and the next one moves to its place."""
    with browser.person(address) as mine, browser.person(address) as other:
        asks(mine, *(edit(directory / "notes.md", "up", word) for word in ("down", "away")))
        other.until(OPEN.format(2))
        mine.until(CAN_BE_CLICKED)
        mine.runs(LANDED)
        other.clicks(f"{CARD} >> nth=0 >> .accepts")
        assert mine.runs("window.hit") is False
        mine.until(CAN_BE_CLICKED)
        mine.clicks(ACCEPT)
        assert [answer["behavior"] for answer in answers(mine)] == ["allow", "allow"]


CLOCK = """(() => {
  let at = performance.now();
  performance.now = () => at;
  window.later = (milliseconds) => {
    at += milliseconds;
    visualViewport.dispatchEvent(new Event('resize'));
  };
})()"""
"""Replaces the clock: time passes only when the test calls ``later``, which also makes the web UI measure again."""


def test_the_buttons_of_a_new_approval_are_not_clicked(browser: Browser, address: str, directory: Path) -> None:
    """They ignore clicks and keys for half a second, because these may be meant for what was there before."""
    with browser.person(address) as person:
        person.sees("#prompt")
        person.runs(CLOCK)
        asks(person, edit(directory / "notes.md", "up", "down"))
        person.sees(ACCEPT)
        for milliseconds in (0, 490):
            person.runs(f"later({milliseconds})")
            assert person.runs(CAN_BE_CLICKED) is False
            person.runs(f"document.querySelector({json.dumps(ACCEPT)}).focus()")
            person.presses("Enter")
        person.runs("later(20)")
        person.until(CAN_BE_CLICKED)
        person.runs(f"document.querySelector({json.dumps(ACCEPT)}).focus()")
        assert person.runs(OPEN.format(1)), "a key has answered"
        person.presses("Enter")
        assert answers(person)[0]["behavior"] == "allow"


GROWS = """new Promise((done) => {
  const item = document.querySelector('.items > .item');
  let isFirst = true;
  // Runs after the web UI's own observers, and before the frame is painted.
  new ResizeObserver(() => {
    if (!isFirst) return done(CAN_BE_CLICKED);
    isFirst = false;
    item.style.paddingBottom = 'GROWTH';
  }).observe(document.querySelector('.items'));
})"""
"""Makes a message above the request grow. Resolves to whether the button can be clicked in the frame in which it has
moved."""


@pytest.mark.parametrize("growth", ["60px", "12px"])
def test_a_button_below_a_message_that_grows_is_not_clicked(
    browser: Browser, address: str, directory: Path, growth: str
) -> None:
    """A message can grow when an image has loaded, for example. The request and the conversation have not changed."""
    with browser.person(address) as person:
        asks_to_edit(person, directory)
        person.until(CAN_BE_CLICKED)
        assert person.runs(GROWS.replace("CAN_BE_CLICKED", CAN_BE_CLICKED).replace("GROWTH", growth)) is False
        person.until(CAN_BE_CLICKED)
        person.clicks(ACCEPT)
        assert answers(person)[0]["behavior"] == "allow"


def test_scrolling_does_not_disable_a_button(browser: Browser, address: str, directory: Path) -> None:
    with browser.person(address, height=500) as person:
        asks_to_edit(person, directory, lines=60)
        person.until(CAN_BE_CLICKED)
        before = person.runs("document.querySelector('.scroller').scrollTop")
        person.runs(
            "document.querySelector('.scroller').scrollBy(0, -40);"
            " new Promise((later) => requestAnimationFrame(() => requestAnimationFrame(later)))"
        )
        assert person.runs("document.querySelector('.scroller').scrollTop") == before - 40
        assert person.reads(f"{CARD} .moved") == []


# Messages that the server resends.


WIRE = """(() => {
  const { send } = WebSocket.prototype;
  WebSocket.prototype.send = function (text) {
    if (window.wire?.socket !== this) {
      const { onmessage } = this;
      const wire = (window.wire = { socket: this, held: undefined, last: 0, hear: (message) => onmessage(message) });
      this.onmessage = (message) => {
        const { seq, project_id: project } = JSON.parse(message.data);
        if (project) wire.project = project;
        if (seq) wire.last = Math.max(wire.last, seq);
        if (wire.held) wire.held.push(message);
        else onmessage(message);
      };
    }
    return send.call(this, text);
  };
  dispatchEvent(new Event('offline'));
  dispatchEvent(new Event('online'));
})()"""
"""Lets a test hold back messages from the server, and inject others."""

RELOAD = """(() => {
  const { wire } = window;
  wire.held = [];
  const data = { update_type: 'session_reset', data: { new_session_id: 'another' } };
  wire.hear({ data: JSON.stringify({ type: 'update', project_id: wire.project, data }) });
  return new Promise((later) => requestAnimationFrame(() => requestAnimationFrame(() => later(null))));
})()"""

WITHDRAWN = """(() => {
  const { wire } = window;
  const approval_id = document.querySelector('.approval').dataset.approval;
  const data = { update_type: 'permission_withdrawn', data: { approval_id, reason: 'a test' } };
  wire.hear({ data: JSON.stringify({ type: 'update', project_id: wire.project, seq: wire.last + 1, data }) });
})()"""

RELEASE = "(() => { const { wire } = window; for (const one of wire.held.splice(0)) wire.hear(one); wire.held = undefined; })()"


def begins_a_reason(person: Person, directory: Path) -> None:
    person.sees("#prompt")
    person.runs(WIRE)
    person.until("document.documentElement.dataset.connection === 'open'")
    asks(person, edit(directory / "notes.md", "up", "down"))
    person.clicks(f"{CURRENT} footer .no")
    person.fills(f"{CARD} .rejecting textarea", "Not yet")


def test_reloading_a_conversation_does_not_withdraw_requests(browser: Browser, address: str, directory: Path) -> None:
    with browser.person(address) as person:
        begins_a_reason(person, directory)
        person.runs(RELOAD)
        assert person.runs(OPEN.format(1))
        assert not person("visible", css=f"{CARD} [role=alert]")
        person.runs(RELEASE)
        assert person("value", css=f"{CARD} .rejecting textarea") == "Not yet"
        assert not person("visible", css=f"{CARD} [role=alert]")
        person.clicks(f"{CARD} .rejecting .no")
        assert answers(person) == [{"behavior": "deny", "message": "Not yet"}]


def test_an_approval_that_is_reopened_can_be_answered(browser: Browser, address: str, directory: Path) -> None:
    with browser.person(address) as person:
        begins_a_reason(person, directory)
        person.runs(WITHDRAWN)
        person.sees(f"{CARD} [role=alert]", "withdrawn")
        person.runs(RELOAD)
        person.runs(RELEASE)
        person.loses(f"{CARD} [role=alert]")
        person.clicks(f"{CARD} .rejecting .no")
        assert answers(person) == [{"behavior": "deny", "message": "Not yet"}]
