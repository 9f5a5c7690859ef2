"""The S4 findings in docs/internals/page.md about the appearance of the web UI that can be measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .rig import Browser, Person

pytestmark = pytest.mark.thorough

LONG = "    return angle < LIMIT and not self.is_locked(bridge) and self.toll.is_paid(cart)  # or somebody waits"


def box(person: Person, css: str) -> dict[str, float]:
    """Returns the box of the first element that matches: left, top, right, bottom, width and height, in pixels."""
    person.sees(css)
    found: dict[str, float] = person.runs(f"document.querySelector({json.dumps(css)}).getBoundingClientRect().toJSON()")
    return found


def center(one: dict[str, float]) -> float:
    return (one["left"] + one["right"]) / 2


def approval(id: str, tool: str, **given: object) -> dict[str, Any]:
    """Returns an approval request that does not belong to a call, so its answer has its own line in the history."""
    request = {"subtype": "can_use_tool", "tool_name": tool, "input": given, "tool_use_id": id}
    return {"type": "control_request", "request_id": id, "request": request}


def asks(person: Person, *approvals: dict[str, Any]) -> None:
    person.fills("#prompt", f"/emit {json.dumps([*approvals, {'hold': True}])}")
    person.clicks(".composer .yes")
    person.until(f"document.querySelectorAll('.approval').length === {len(approvals)}")


@pytest.mark.slow
def test_a_rejection_is_next_to_its_icon_on_a_phone(browser: Browser, address: str) -> None:
    """The icon used to be alone on its line."""
    with browser.person(address, width=390, height=844) as person:
        asks(person, approval("1", "Bash", command="npm test"))
        person.clicks(".approval .no")
        person.fills(".approval textarea", "not now, the bridge is open and somebody is on it")
        person.clicks(".approval .no")
        person.sees(".settled-line.no", "Rejected by you: “not now")
        icon, words = box(person, ".settled-line.no .icon"), box(person, ".settled-line.no .settled-words")
        assert icon["right"] < words["left"]
        assert words["top"] <= icon["top"] < icon["bottom"] <= words["bottom"]
        assert box(person, ".settled-line.no .tool-words")["top"] >= words["bottom"] - 1


@pytest.mark.slow
def test_all_lines_of_answers_have_the_same_height(browser: Browser, address: str, directory: Path) -> None:
    """The height used to depend on whether a line can be unfolded."""
    waiting = [
        approval("1", "Bash", command="npm test"),
        approval("2", "ExitPlanMode", plan="# One"),
        approval("3", "Edit", file_path=str(directory / "notes.md"), old_string="up", new_string="open"),
    ]
    with browser.person(address) as person:
        asks(person, *waiting)
        for left in (2, 1, 0):
            person.clicks(".approval.current .yes")
            person.until(f"document.querySelectorAll('.approval').length === {left}")
        person.until("document.querySelectorAll('.settled-line').length === 3")
        heights = "[...document.querySelectorAll('.settled-line')].map((one) => one.getBoundingClientRect().height)"
        assert len(set(person.runs(heights))) == 1
        assert person.runs("document.querySelectorAll('details.settled-line').length") == 2


GAPS = """[...document.querySelectorAll('.settled-line')].map((one) => {
  const [icon, words] = (one.querySelector('summary') ?? one).children;
  return words.getBoundingClientRect().left - icon.getBoundingClientRect().right;
})"""
CUT = "[...document.querySelectorAll('.settled-words')].filter((one) => one.scrollWidth > one.clientWidth).length"


@pytest.mark.slow
def test_an_answered_call_is_one_line_next_to_its_icon(browser: Browser, address: str, directory: Path) -> None:
    """The words used to have free space on both sides, and the answer was cut off."""
    with browser.person(address, width=1440, height=900) as person:
        asks(person, approval("1", "Bash", command="npm test"), approval("2", "ExitPlanMode", plan="# One"))
        person.clicks(".stop")
        person.until("document.querySelectorAll('.settled-line').length === 2")
        call = {"name": "Write", "input": {"file_path": str(directory / "a.txt"), "content": "a\n"}}
        person.prompts(f"/calls {json.dumps([call])}")
        person.sees(".approval")
        person.clicks(".stop")
        person.sees(".tool.settled-line", "Withdrawn: the run was interrupted")
        gaps = person.runs(GAPS)
        assert len(gaps) == 3
        assert all(0 < gap < 20 for gap in gaps), gaps
        assert person.runs(CUT) == 0


@pytest.mark.slow
def test_a_wide_window_is_used_fully(browser: Browser, address: str, directory: Path) -> None:
    """The columns of a diff used to wrap although 1,000 pixels were free, and code was cut off although 200 were."""
    (directory / "a.py").write_text(f"def is_open():\n{LONG[:70]}\n")
    edit = {"file_path": str(directory / "a.py"), "old_string": "def is_open", "new_string": "def opened"}
    with browser.person(address, width=2560, height=1200) as person:
        person.prompts("/say " + json.dumps(f"Look:\n\n```python\n{LONG}\n```\n\n" + "words " * 80))
        person.sees(".finished")
        prompt, code, words = (box(person, css) for css in (".prompt", ".said .code-block", ".said p"))
        assert code["right"] == prompt["right"], "no ragged right"
        assert words["width"] <= prompt["width"], "paragraphs are no wider than prompts"
        asks(person, approval("1", "Edit", **edit))
        person.sees(".approval table.split")
        assert box(person, ".approval")["width"] > 1200
        rows = "[...document.querySelectorAll('.approval tr')].map((one) => one.getBoundingClientRect().height)"
        assert len(set(person.runs(rows))) == 1, "no line is wrapped"


def test_the_header_uses_the_width_of_a_tablet(browser: Browser, address: str, directory: Path) -> None:
    """The path used to be cut off although 470 pixels were free, "Ready" was 56 pixels tall, and notes were not
    centered over the conversation."""
    with browser.person(address, width=768, height=1024) as person:
        person.sees(".path .about", str(directory))
        assert person.runs(
            "(({ scrollWidth, clientWidth }) => scrollWidth <= clientWidth)(document.querySelector('.about'))"
        )
        assert person.reads(".run") == ["Ready"]
        assert box(person, ".run")["height"] <= 36
        person("resize", width=1280, height=800)
        person.picks("mode", "plan")
        assert abs(center(box(person, ".toast")) - center(box(person, ".conversation"))) <= 1


@pytest.mark.slow
def test_keys_after_a_click_do_not_frame_the_conversation(browser: Browser, address: str) -> None:
    """There used to be a frame around the whole conversation. Now a bar shows that keys scroll it."""
    with browser.person(address) as person:
        person.prompts('/say "Hello."')
        person.sees(".finished")
        person.clicks(".said p")
        person.presses("ArrowDown")
        style = "(({ outlineColor, boxShadow }) => [outlineColor, boxShadow])(getComputedStyle(document.activeElement))"
        assert person.runs("document.activeElement.className") == "scroller"
        outline, bar = person.runs(style)
        assert outline == "rgba(0, 0, 0, 0)"
        assert bar.endswith("3px 0px 0px 0px inset")


TOUCHED = "button:not(.skip, .comment), .back, select, input:not([type=checkbox], [type=radio])"
"""All but the buttons for comments, which are as tall as a line, and what a label makes larger."""

SMALL = f"""[...document.querySelectorAll({json.dumps(TOUCHED)})]
  .filter((one) => one.checkVisibility({{ visibilityProperty: true }}))
  .map((one) => [one.getBoundingClientRect(), one.ariaLabel || one.textContent || one.placeholder])
  .filter(([{{ width, height }}]) => width && (width < 43.5 || height < 43.5))
  .map(([{{ width, height }}, name]) => `${{name}}: ${{width}} x ${{height}}`)"""


def test_touch_targets_are_large_enough_for_a_finger(browser: Browser, address: str) -> None:
    """Some buttons were 40 pixels wide, and some fields and buttons only 33 to 41 pixels tall."""
    with browser.person(address, width=375, height=812) as person:
        person.fills("#prompt", "Something")
        person.clicks(".composer .yes")
        person.sees(".approval .diff")
        assert person.runs(SMALL) == []
        person.clicks(".approval footer .yes")
        person.sees(".finished button:has-text('View changes')")
        assert person.runs(SMALL) == []
        for place, shown in (("new", ".start .examples"), ("search?q=Something", ".results mark"), ("", ".filter")):
            person.goes_to(f"#/{place}")
            person.sees(shown)
            assert person.runs(SMALL) == [], place


def is_cut(person: Person, css: str) -> bool:
    """Whether some of an element's text is beyond its edges."""
    person.sees(css)
    code = f"(({{ scrollWidth, clientWidth }}) => scrollWidth > clientWidth)(document.querySelector({json.dumps(css)}))"
    found: bool = person.runs(code)
    return found


def test_an_error_of_a_call_has_its_own_line_on_a_phone(browser: Browser, address: str) -> None:
    """The command used to be broken into lines of a few letters, and the error was cut after two words."""
    failed = {"type": "tool_result", "tool_use_id": "1", "content": "make: *** No rule", "is_error": True}
    tool = {"type": "tool_use", "id": "1", "name": "Bash", "input": {"command": "make frobnicate"}}
    lines = [
        {"type": "assistant", "message": {"content": [tool]}, "parent_tool_use_id": None},
        {"type": "user", "message": {"content": [failed]}, "parent_tool_use_id": None},
    ]
    with browser.person(address, width=320, height=640) as person:
        person.fills("#prompt", f"/emit {json.dumps(lines)}")
        person.clicks(".composer .yes")
        person.sees(".tool-state.failed", "Failed")
        assert box(person, ".tool-error")["top"] >= box(person, ".tool-words")["bottom"] - 1
        assert not is_cut(person, ".tool-error")
        assert not is_cut(person, ".tool-state.failed")
        assert box(person, ".tool-words")["height"] < 30, "on one line"


def test_several_requests_fit_on_a_narrow_phone(browser: Browser, address: str) -> None:
    """The line above the requests used to be wider than the screen, and the placeholder was cut in its second line."""
    with browser.person(address, width=320, height=640) as person:
        person.sees("#prompt")
        assert person.runs(
            "document.querySelector('#prompt').scrollHeight <= document.querySelector('#prompt').clientHeight"
        )
        calls = [{"name": "Bash", "input": {"command": f"npm run step{number}"}} for number in range(4)]
        person.fills("#prompt", f"/calls {json.dumps(calls)}")
        person.clicks(".composer .yes")
        person.sees(".tool-state.waiting", "4 waiting for approval")
        line = box(person, ".tool.group > summary")
        parts = "[...document.querySelectorAll('.tool.group > summary > *')].map((one) => one.getBoundingClientRect().right)"
        assert max(person.runs(parts)) <= line["right"]


def test_the_retries_can_be_read_on_a_phone(browser: Browser, address: str) -> None:
    """The reason, and the time of the next attempt, used to be cut."""
    retry = {"type": "system", "subtype": "api_retry", "attempt": 3, "max_retries": 10, "retry_delay_ms": 38_000}
    reason = {"error_status": 401, "error": "authentication_failed"}
    with browser.person(address, width=390, height=844) as person:
        person.fills("#prompt", f"/emit {json.dumps([retry | reason, {'hold': True}])}")
        person.clicks(".composer .yes")
        person.sees(".run .state", "next attempt in 3")
        state = box(person, ".run .state > span")
        assert state["height"] > 30, "on two lines"
        assert person.runs("(({ scrollHeight, clientHeight }) => scrollHeight <= clientHeight + 1)"
                           "(document.querySelector('.run .state > span'))")  # fmt: skip


def test_the_conversation_has_most_of_a_low_screen(browser: Browser, address: str) -> None:
    """In landscape, the message box and the state above it used to take half of the screen, and the head of the list a
    third."""
    with browser.person(address, width=844, height=390) as person:
        person.sees("#prompt")
        assert box(person, ".foot")["height"] < 390 * 0.25
        person.fills("#prompt", "/calls " + json.dumps([{"name": "Bash", "input": {"command": "npm test"}}]))
        person.clicks(".composer .yes")
        person.sees(".approval")
        person.sees(".run .stop")
        assert box(person, ".foot")["height"] < 390 * 0.25
        person.goes_to("#/")
        person.sees(".projects .row")
        assert box(person, ".projects")["top"] < 390 * 0.2


def test_examples_of_a_first_message_can_be_changed(browser: Browser, address: str) -> None:
    """A new session used to show only that it has no messages."""
    with browser.person(address) as person:
        person.clicks(".empty .examples button:has-text('Find and fix a bug')")
        assert person("value", css="#prompt") == "Find and fix a bug"
        person("type", text=" in notes.md")
        assert person("value", css="#prompt") == "Find and fix a bug in notes.md"
        person.presses("Enter")
        person.sees(".prompt .words", "Find and fix a bug in notes.md")
        person.loses(".empty .examples")
