"""Every kind of approval request in the web UI: texts, editor, diffs, plans, questions, notebooks, several files."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests import programs
from tests.rigs.tmux import wait_until

from .rig import Browser, Person
from .test_approving import (
    ACCEPT,
    CARD,
    COMMAND,
    CURRENT,
    OPEN,
    PHONE,
    SUBMIT,
    answers,
    asks,
    asks_to_edit,
    bash,
    edit,
    reads_all,
    reads_question,
    stays,
    write,
)
from .test_hostile_texts import LONGEST, PACE

pytestmark = pytest.mark.thorough

CUT = (
    "[...document.querySelectorAll('.approval footer *')]"
    ".filter((one) => one.getBoundingClientRect().right > innerWidth + 1).map((one) => one.outerHTML)"
)
"""The elements of the footer that extend beyond the right edge of the window."""

CODE = "".join(f"line {number}\n" for number in range(1, 41))
CHANGED = CODE.replace("line 10\n", "line ten\n").replace("line 30\n", "line thirty\n")


def change(directory: Path, before: str, after: str, name: str = "notes.txt") -> dict[str, Any]:
    """Writes a file, and returns a tool call that replaces all of it."""
    (directory / name).write_text(before)
    return write(directory / name, after)


# Shortcuts.


@pytest.mark.slow
def test_single_key_shortcuts_can_be_turned_off(browser: Browser, address: str, directory: Path) -> None:
    """While they are off, letters go to the message box, but Ctrl+Enter still accepts."""
    with browser.person(address) as person:
        person.runs("localStorage.setItem('drawbridge.setting.keys', 'off')")
        asks_to_edit(person, directory)
        assert person.reads(f"{CARD} footer kbd") == [] or "a" not in person.reads(f"{CARD} footer kbd")
        person("type", text="are you sure")
        assert person("value", css="#prompt") == "are you sure"
        assert person.runs(OPEN.format(1))
        person.presses("Escape")
        person.readies_keys()
        person.presses("Control+Enter")
        assert answers(person)[0]["behavior"] == "allow"


@pytest.mark.slow
def test_the_message_box_has_the_focus_after_the_last_answer(browser: Browser, address: str, directory: Path) -> None:
    with browser.person(address) as person:
        asks(person, edit(directory / "notes.md", "up", "down"), bash("ls"))
        person.clicks(ACCEPT)
        person.until(OPEN.format(1))
        person.until("document.activeElement.matches('.approval.current')")
        person.clicks(ACCEPT)
        person.until("document.activeElement.id === 'prompt'")


# The content of requests.


def test_risky_parts_of_a_command_are_marked(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        asks(person, bash(COMMAND))
        person.sees(f"{CARD} .risks", "Deletes files")
        marked = person.reads(f"{CARD} pre mark.risk")
        assert any("sudo" in part for part in marked)
        assert any("rm -rf" in part for part in marked)
        assert person.reads(f"{CARD} pre") == [COMMAND]


def test_the_fields_of_a_tool_call_are_shown_as_a_list(browser: Browser, address: str) -> None:
    given = {"title": "Bridge is closed", "labels": ["bug"], "draft": False, "body": "It is.\nSince 3."}
    with browser.person(address) as person:
        asks(person, {"name": "mcp__github__create_issue", "input": given})
        person.sees(f"{CARD} h3", "create_issue (github)")
        assert person.reads(f"{CARD} .fields dt") == list(given)
        assert person.reads(f"{CARD} .fields dd") == ["Bridge is closed", '["bug"]', "false", "It is.\nSince 3."]


@pytest.mark.slow
def test_a_command_can_be_edited(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        asks(person, bash("npm tset", description="Run tests"))
        person.readies_keys()
        person.presses("e")
        assert person("value", css=f"{CARD} textarea") == "npm tset"
        person.fills(f"{CARD} textarea", "npm test")
        person.presses("Escape")
        person.sees(f"{CARD} .draft", "kept as a draft")
        person.clicks(f"{CARD} button:has-text('Continue')")
        person.accepts_edited()
        [answer] = answers(person)
        assert answer["updatedInput"] == {"command": "npm test", "description": "Run tests"}


# Diffs.


@pytest.mark.slow
def test_unchanged_lines_are_shown_on_demand(browser: Browser, address: str, directory: Path) -> None:
    with browser.person(address) as person:
        asks(person, change(directory, CODE, CHANGED))
        [first, middle, last] = person.reads(f"{CARD} button.skipped")
        assert (first, middle, last) == (
            "6 unchanged lines: Show",
            "13 unchanged lines: Show",
            "7 unchanged lines: Show",
        )
        person.clicks(f"{CARD} button.skipped >> nth=1")
        person.sees(f"{CARD} .line", "line 20")
        assert not person.runs(f"document.querySelector({json.dumps(ACCEPT)}).disabled")
        person.clicks(f"{CARD} .view")
        person.clicks(f"{CARD} button:has-text('Whole file')")
        person.loses(f"{CARD} button.skipped")
        numbers = f"[...document.querySelectorAll('{CARD} .number[data-number]')].map((cell) => cell.dataset.number)"
        assert {str(number) for number in range(1, 41)} <= set(person.runs(numbers))


@pytest.mark.slow
def test_the_diff_style_is_kept(browser: Browser, address: str, directory: Path) -> None:
    with browser.person(address, width=1440) as person:
        asks(person, change(directory, CODE, CHANGED))
        person.sees(f"{CARD} table.split")
        person.clicks(f"{CARD} .view")
        person.clicks(f"{CARD} button:has-text('Side by side')")
        person.sees(f"{CARD} table.unified")
        person("reload")
        person.sees(f"{CARD} table.unified")


def test_a_cut_off_line_must_be_wrapped_before_accepting(browser: Browser, address: str, directory: Path) -> None:
    with browser.person(address) as person:
        person.runs("localStorage.setItem('drawbridge.setting.wrap', 'off')")
        person("reload")
        asks(person, change(directory, CODE, CHANGED + "x" * 1_000 + "tail\n"))
        person.sees(f"{CARD} button.must", "Wrap lines")
        assert person.runs(f"document.querySelector({json.dumps(ACCEPT)}).disabled")
        person.clicks(f"{CARD} button.must")
        person.loses(f"{CARD} button.must")
        reads_all(person)
        person.clicks_until(ACCEPT, ".said:not(.live), .settled-line")
        assert answers(person)[0]["behavior"] == "allow"


def test_comments_on_lines_are_the_reason_for_a_rejection(browser: Browser, address: str, directory: Path) -> None:
    """The comments survive a reload and are sent with the rejection."""
    with browser.person(address) as person:
        asks(person, change(directory, CODE, CHANGED))
        person.clicks(f"{CARD} tr:has(.added) .comment >> nth=0")
        person.fills(f"{CARD} .comment-field textarea", "Why a word?")
        person.sees(f"{CARD} .draft", "1 comment is kept as a draft")
        person("reload")
        assert person("value", css=f"{CARD} .comment-field textarea") == "Why a word?"
        person.clicks(f"{CURRENT} footer button:has-text('Reject with 1 comment')")
        person.fills(f"{CARD} .rejecting textarea", "Use digits.")
        person.clicks(f"{CARD} button:has-text('Reject with comments')")
        [answer] = answers(person)
        assert answer == {
            "behavior": "deny",
            "message": "notes.txt:10\n> line ten\nWhy a word?\n\nUse digits.",
        }


@pytest.mark.slow_for("1280")
@pytest.mark.parametrize("width", [1280, 320])
def test_a_common_reason_is_added_with_one_click(browser: Browser, address: str, directory: Path, width: int) -> None:
    """The reason can be edited before it is sent, and a second click removes it."""
    with browser.person(address) as person:
        asks(person, change(directory, CODE, CHANGED))
        person("resize", width=width, height=800)
        person.clicks(f"{CURRENT} footer .no")
        person.clicks(f"{CARD} .reasons button:has-text('Wrong file')")
        person.clicks(f"{CARD} .reasons button:has-text('Add tests')")
        person.clicks(f"{CARD} .reasons button:has-text('Wrong file')")
        field = f"{CARD} .rejecting textarea"
        assert person("value", css=field) == "Add tests for this change."
        assert person.runs(CUT) == []
        person("type", text=" Two of them.")  # the caret is in the field, after the reason
        person.presses("Tab")
        assert person.runs("document.activeElement.innerText") == "Wrong file"
        person.clicks(f"{CARD} footer .no")
        assert answers(person) == [{"behavior": "deny", "message": "Add tests for this change. Two of them."}]


def test_a_change_to_a_notebook_is_shown_cell_by_cell(browser: Browser, address: str, directory: Path) -> None:
    cell: dict[str, Any] = {"cell_type": "code", "id": "a1", "metadata": {}, "outputs": [], "execution_count": None}
    book: dict[str, Any] = {"cells": [{**cell, "source": ["x = 1\n", "print(x)\n"]}], "metadata": {}, "nbformat": 4}
    path = directory / "book.ipynb"
    path.write_text(json.dumps(book, indent=1))
    after = json.dumps({**book, "cells": [{**cell, "source": ["x = 2\n", "print(x)\n"]}]}, indent=1)
    with browser.person(address) as person:
        asks(person, write(path, after), write(path, after.replace('"nbformat": 4', '"nbformat": 5')))
        first, second = person.reads(CARD)
        assert "Cell 1" in first
        assert "cell_type" not in first
        assert "nbformat" in second, "what is not a cell is shown as it is"
        assert person.reads(f"{CARD} .cell .line.added") == ["x = 2"]


def notebook(directory: Path, **given: Any) -> dict[str, Any]:
    """Writes a notebook with one cell that has been run, and returns a call that edits it."""
    cell = {"cell_type": "code", "id": "a1", "metadata": {}, "outputs": [{"text": "1"}], "execution_count": 1}
    book = {
        "cells": [{**cell, "source": ["x = 1\n", "print(x)\n"]}],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    path = directory / "book.ipynb"
    path.write_text(json.dumps(book, indent=1))
    return {"name": "NotebookEdit", "input": {"notebook_path": str(path), "cell_id": "a1", **given}}


def test_the_new_text_of_a_cell_can_be_edited(browser: Browser, address: str, directory: Path) -> None:
    """The rest of the call stays in view next to the editor, and the draft survives a reload."""
    call = notebook(directory, new_source="x = 2\nprint(x)\n")
    with browser.person(address) as person:
        asks(person, call)
        person.readies_keys()
        person.presses("e")
        person.sees(f"{CARD} .cm-deletedChunk", "x = 1")
        assert person.edited() == "x = 2\nprint(x)\n"
        [card] = person.reads(CARD)
        assert "Cell 1" in card
        assert "code, changed" in card
        assert "The outputs of the changed cells are removed." in card
        assert "cell_id" in card
        person.edits("x = 3\nprint(x)\n")
        person.presses("Escape")
        person.sees(f"{CARD} .draft", "kept as a draft")
        person("reload")
        person.sees(f"{CARD} .cm-line", "x = 3")
        person.accepts_edited()
        [answer] = answers(person)
        assert answer["updatedInput"] == {**call["input"], "new_source": "x = 3\nprint(x)\n"}
        person.sees(".settled-words", "Accepted with your edits")


@pytest.mark.slow
def test_a_deleted_cell_cannot_be_edited(browser: Browser, address: str, directory: Path) -> None:
    with browser.person(address) as person:
        asks(person, notebook(directory, new_source="", edit_mode="delete"))
        person.sees(f"{CARD} footer .no")
        assert person.reads(f"{CARD} footer button:has-text('Edit')") == []


@pytest.mark.slow
def test_an_approval_of_several_files_lists_them(browser: Browser, address: str, directory: Path) -> None:
    content = [
        {"type": "diff", "path": str(directory / f"{name}.py"), "oldText": "a\n" * 60, "newText": "b\n" * 60}
        for name in "abc"
    ]
    call = {"name": "acp:edit", "input": {"toolCallId": "t1", "title": "Rename", "kind": "edit", "content": content}}
    with browser.person(address) as person:
        asks(person, call)
        assert person.reads(f"{CARD} .file-list code") == ["a.py", "b.py", "c.py"]
        person.clicks(f"{CARD} .file-list button:has-text('c.py')")
        person.until("document.querySelectorAll('.approval .change')[2].getBoundingClientRect().top < innerHeight / 2")


# Editing.


@pytest.mark.slow
def test_the_editor_begins_at_the_first_change(browser: Browser, address: str, directory: Path) -> None:
    before = "".join(f"line {number}\n" for number in range(1, 801))
    with browser.person(address) as person:
        asks(person, change(directory, before, before.replace("line 700\n", "line seven hundred\n")))
        person.readies_keys()
        person.presses("e")
        person.sees(f"{CARD} .cm-line", "line seven hundred")
        person.sees(f"{CARD} .cm-deletedChunk", "line 700")
        assert "700" in person.reads(f"{CARD} .cm-lineNumbers .cm-gutterElement")
        person("type", text="exactly ")
        person.until("document.querySelector('.approval .counts').innerText === '+1 −1'")
        person.presses("Tab")
        assert "exactly" in " ".join(person.reads(f"{CARD} .cm-line"))
        person.presses("Escape")
        person.sees(f"{CARD} .draft", "kept as a draft")
        assert person.runs("document.activeElement.matches('.approval')")
        assert person.complaints() == []


@pytest.mark.slow_for("600")
@pytest.mark.parametrize("width", [1500, 600])
def test_the_editor_has_the_colors_of_the_files_language(
    browser: Browser, address: str, directory: Path, width: int
) -> None:
    """Both in one column and with the original next to the edit, which has the same colors."""
    colored = (
        "[...document.querySelector('.approval .editor-host').shadowRoot.querySelectorAll('.cm-line span[class]')]"
        ".filter((one) => one.innerText === 'return').length"
    )
    with browser.person(address, width=width) as person:
        asks(person, change(directory, "def a():\n    return 1\n", "def a():\n    return 2\n", "a.py"))
        person.clicks(f"{CURRENT} footer button:has-text('Edit')")
        person.sees(f"{CARD} .cm-line", "return 2")
        person.until(f"{colored} === {2 if width == 1500 else 1}")


@pytest.mark.slow
def test_the_original_is_next_to_the_edit(browser: Browser, address: str, directory: Path) -> None:
    """The original is next to the edit if there is room for both. Resizing keeps the text and the caret's position."""
    call = change(directory, CODE, CHANGED)
    left, right = f"{CARD} .cm-merge-a", f"{CARD} .cm-merge-b"
    with browser.person(address, width=1500) as person:
        asks(person, call)
        person.readies_keys()
        person.presses("e")
        person.sees(f"{right} .cm-changedLine", "line ten")
        person.sees(f"{left} .cm-changedLine", "line 10")
        assert person.runs("document.querySelector('.approval').getBoundingClientRect().width") > 1000
        person("type", text="my ")
        person.sees(f"{right} .cm-changedLine", "my line ten")
        person("resize", width=1000, height=800)
        person.sees(f"{CARD} .cm-deletedChunk", "line 10")
        person("type", text="own ")
        person.sees(f"{CARD} .cm-changedLine", "my own line ten")
        person("resize", width=1500, height=800)
        person.sees(f"{left} .cm-changedLine", "line 10")
        person.clicks(f"{CARD} .cm-merge-revert button >> nth=1")
        person.until("document.querySelector('.approval .counts').innerText === '+1 −1'")
        person.clicks(f"{CARD} button:has-text('Side by side')")
        person.sees(f"{CARD} .cm-deletedChunk", "line 10")
        person("reload")
        person.sees(f"{CARD} .cm-deletedChunk", "line 10")
        person.clicks(f"{CARD} button:has-text('Side by side')")
        person.sees(f"{right} .cm-changedLine", "my own line ten")
        assert person("axe", file=str(programs.axe())) == []
        person.presses("Escape")
        person.sees(f"{CARD} .draft", "kept as a draft")
        person.clicks(f"{CARD} .draft button:has-text('Continue')")
        person.sees(f"{right} .cm-changedLine", "my own line ten")
        person.sees(f"{CARD} footer .yes:not(.moved)")  # a button that has just moved ignores clicks
        person.accepts_edited()
        [answer] = answers(person)
        assert answer["updatedInput"]["content"] == CODE.replace("line 10\n", "my own line ten\n")
        assert person.complaints() == []


def test_a_change_is_rejected_in_the_editor(browser: Browser, address: str, directory: Path) -> None:
    """The other changes to the file are accepted."""
    call = change(directory, CODE, CHANGED)
    with browser.person(address) as person:
        asks(person, call)
        person.readies_keys()
        person.presses("e")
        person.sees(f"{CARD} .cm-chunkButtons button", "Reject this change")
        person.clicks(f"{CARD} .cm-chunkButtons button:visible")
        person.until("document.querySelector('.approval .counts').innerText === '+1 −1'")
        person.accepts_edited()
        [answer] = answers(person)
        assert answer["updatedInput"]["content"] == CODE.replace("line 30\n", "line thirty\n")


@pytest.mark.slow
def test_a_plain_field_replaces_an_editor_that_does_not_load(browser: Browser, address: str, directory: Path) -> None:
    with browser.person(address) as person:
        asks(person, edit(directory / "notes.md", "up", "down"))
        person.runs("Element.prototype.attachShadow = () => { throw new Error('none') }")
        person.clicks(f"{CURRENT} footer button:has-text('Edit')")
        person.fills(f"{CARD} textarea", "mine\n")
        person.accepts_edited()
        assert answers(person)[0]["updatedInput"]["new_string"] == "mine\n"


def test_hidden_characters_are_visible_in_the_editor(browser: Browser, address: str, directory: Path) -> None:
    with browser.person(address) as person:
        asks(person, change(directory, "a\n", "a\nb\u202ec\u200bd\n"))
        person.readies_keys()
        person.presses("e")
        person.sees(f"{CARD} .cm-specialChar")
        assert person.reads(f"{CARD} .cm-specialChar") == ["\\u202e", "\\u200b"]


# Plans and questions.


def test_comments_on_a_plan_are_sent(browser: Browser, address: str) -> None:
    plan = "# Close on time\n\nFirst the code.\n\n1. Change it\n2. Test it\n"
    with browser.person(address) as person:
        asks(person, {"name": "ExitPlanMode", "input": {"plan": plan}})
        person.clicks(f"{CARD} .plan-block:has-text('First the code')")
        person.clicks(f"{CARD} .plan-block:has-text('First the code') .comment")
        person.fills(f"{CARD} .comment-field textarea", "First a test.")
        person.clicks(f"{CARD} button:has-text('Keep planning…')")
        person.clicks(f"{CARD} button:has-text('Keep planning with comments')")
        assert answers(person) == [{"behavior": "deny", "message": "Plan\n> First the code.\nFirst a test."}]


@pytest.mark.slow
def test_a_plan_can_be_edited(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        asks(person, {"name": "ExitPlanMode", "input": {"plan": "# One"}})
        person.clicks(f"{CURRENT} footer button[aria-keyshortcuts=e]")
        person.fills(f"{CARD} textarea", "# Two")
        person.accepts_edited()
        assert answers(person)[0]["updatedInput"] == {"plan": "# Two"}


SIDEWAYS: dict[str, Any] = {"width": 844, "height": 390}

QUESTIONS = {
    "name": "AskUserQuestion",
    "input": {
        "questions": [
            {
                "question": "Which colour?",
                "header": "Colour",
                "multiSelect": False,
                "options": [{"label": "Oak", "description": "warm", "preview": "| oak |"}, {"label": "Black"}],
            },
            {
                "question": "What else?",
                "header": "Also",
                "multiSelect": True,
                "options": [{"label": "Sign"}, {"label": "Rail"}],
            },
        ]
    },
}


def test_a_phone_shows_one_question_at_a_time(browser: Browser, address: str) -> None:
    with browser.person(address, **PHONE) as person:
        person.fills("#prompt", "/calls " + json.dumps([QUESTIONS]))
        person.clicks(".composer .yes")
        person.sees(f"{CARD} legend", "Which colour?")
        assert "What else?" not in person.reads(CARD)[0]
        person.clicks("button:has-text('Next')")
        person.sees(f"{CARD} .hint", "Pick an option")
        person.clicks("label:has-text('Black')")
        person.clicks("button:has-text('Next')")
        person.sees(f"{CARD} legend", "What else?")
        person.clicks("button:has-text('Back')")
        person.sees(f"{CARD} legend", "Which colour?")
        person.clicks("button:has-text('Next')")
        person.clicks("label:has-text('Sign')")
        person.clicks("button:has-text('Submit'):not(.moved)")
        assert answers(person)[0]["updatedInput"]["answers"] == {"Which colour?": "Black", "What else?": "Sign"}


@pytest.mark.slow
def test_a_phone_in_landscape_shows_one_question_at_a_time(browser: Browser, address: str) -> None:
    with browser.person(address, **SIDEWAYS) as person:
        person.fills("#prompt", "/calls " + json.dumps([QUESTIONS]))
        person.clicks(".composer .yes")
        person.sees(f"{CARD} legend", "Which colour?")
        assert person.reads(f"{CARD} legend .step") == ["1 of 2"]
        assert "What else?" not in person.reads(CARD)[0]
        person("resize", width=844, height=900)
        person.until(f"document.querySelectorAll('{CARD} legend').length === 2")


def chooses(person: Person, key: str, option: str) -> None:
    """Presses the key until the option is chosen, because a card that has just grown ignores keys for a moment."""
    all_chosen = f"[...document.querySelectorAll('{CARD} label:has(input:checked)')]"
    is_drawn = "new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))"

    def is_chosen() -> bool:
        person.presses(key)
        words: str = person.runs(f"{is_drawn}.then(() => {all_chosen}.map((one) => one.innerText).join())")
        return option in words

    wait_until(lambda: is_chosen() or None)


@pytest.mark.slow
def test_number_keys_choose_options(browser: Browser, address: str) -> None:
    with browser.person(address, height=1100) as person:
        asks(person, QUESTIONS)
        person.readies_keys()
        chooses(person, "1", "Oak")
        person.sees(f"{CARD} .preview pre", "| oak |")
        chooses(person, "2", "Black")
        person.clicks("label:has-text('Rail')")
        chooses(person, "1", "Sign")
        person.presses("Control+Enter")
        found = answers(person)[0]["updatedInput"]["answers"]
        assert found == {"Which colour?": "Black", "What else?": "Sign, Rail"}


@pytest.mark.slow
def test_answers_to_a_large_question_survive_a_reload(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        asks(person, {**QUESTIONS, "padding": 1_500_000})
        person.clicks(f"{CARD} button:has-text('Show all (1.5 MB)')")
        person.clicks("label:has-text('Black')")
        person("reload")
        person.clicks(f"{CARD} button:has-text('Show all (1.5 MB)')")
        person.sees(f"{CARD} label:has-text('Black'):has(input:checked)")


@pytest.mark.slow
def test_a_choice_needs_its_whole_preview_to_be_shown(browser: Browser, address: str) -> None:
    cut = "\n".join(f"row {number}" for number in range(200))
    options = [{"label": "Oak", "preview": cut}, {"label": "Black", "preview": cut}]
    question = {"question": "Which colour?", "header": "Colour", "multiSelect": False, "options": options}
    with browser.person(address, height=1100) as person:
        asks(person, {"name": "AskUserQuestion", "input": {"questions": [question]}})
        person.clicks("label:has-text('Black')")
        for _ in range(2):  # first with the preview open, then with it closed
            person.clicks(f"{SUBMIT}:has-text('Read on'):not(.moved)")
            person.sees(f"{CARD} .hint", "Show all of it first")
            person.until("document.activeElement.matches('.preview.chosen button.must')")
            person.presses("Control+Enter")
            person.clicks(".preview.chosen summary")
        stays(person, 1)
        person.clicks(".preview.chosen summary")
        person.clicks(".preview.chosen button.must")
        person.sees(".preview.chosen pre", "row 199")
        reads_question(person)
        person.clicks("button:has-text('Submit'):not(.moved)")
        assert answers(person)[0]["updatedInput"]["answers"] == {"Which colour?": "Black"}


@pytest.mark.slow
def test_number_keys_choose_options_only_on_a_visible_card(browser: Browser, address: str) -> None:
    with browser.person(address, height=500) as person:
        person.prompts("/lines 60")
        person.sees(".finished")
        asks(person, QUESTIONS)
        person.presses("Escape")
        person.runs("document.querySelector('.scroller').scrollTop = 0")
        person.presses("1")
        stays(person, 1)
        assert person.runs("document.querySelector('.approval input:checked')") is None


# Small screens, forced colors.


@pytest.mark.slow
def test_comment_buttons_do_not_cover_a_plan(browser: Browser, address: str) -> None:
    """On a phone the comment buttons are always shown. They used to cover the first letters of each paragraph."""
    plan = {"name": "ExitPlanMode", "input": {"plan": "# Close on time\n\nFirst the code.\n\n1. Change it\n"}}
    covered = (
        "[...document.querySelectorAll('.approval .plan-block')].map((block) =>"
        " block.querySelector('.comment').getBoundingClientRect().right >"
        " block.querySelector('.markdown').getBoundingClientRect().left)"
    )
    with browser.person(address, **PHONE) as person:
        person.fills("#prompt", "/calls " + json.dumps([plan]))
        person.clicks(".composer .yes")
        person.sees(f"{CARD} .plan-block .comment")
        assert person.runs(covered) == [False] * 3


def test_a_command_is_in_view_on_a_phone_in_landscape(browser: Browser, address: str) -> None:
    """The buttons used to cover the command, so that only Accept was visible."""
    shown = (
        "(() => { const box = document.querySelector('.scroller').getBoundingClientRect();"
        " const { top, bottom } = document.querySelector('.approval pre').getBoundingClientRect();"
        " const { top: below } = document.querySelector('.approval footer').getBoundingClientRect();"
        " return top >= box.top && bottom <= box.bottom + 1 && bottom <= below })()"
    )
    with browser.person(address, **SIDEWAYS) as person:
        person.fills("#prompt", "/calls " + json.dumps([bash("npm run build", description="Build it")]))
        person.clicks(".composer .yes")
        person.sees(f"{CARD} pre")
        person.until(shown)


def test_the_current_approval_has_a_ring_in_forced_colors(browser: Browser, address: str) -> None:
    """Keys act on the current request. Forced colors remove shadows, so the ring has to be an outline."""
    rings = "[...document.querySelectorAll('.approval')].map((card) => getComputedStyle(card).outlineStyle)"
    with browser.person(address, forced=True) as person:
        asks(person, bash("ls"), bash("pwd"))
        person.until(f"{rings}.join() === 'solid,none'")


# Hostile requests.


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["a long command", "many changes", "a rewritten file"])
def test_no_request_freezes_the_web_ui(browser: Browser, address: str, directory: Path, kind: str) -> None:
    before = "".join(f"line {number}\n" for number in range(16_000))
    after = "".join(f"line {number}\n" if number % 8 else f"row {number}\n" for number in range(16_000))
    if kind == "a rewritten file":
        after = after.replace("line", "row")
    command = "echo " + "a b; " * 90_000 + "tail"
    call = bash(command) if kind == "a long command" else change(directory, before, after)
    shown = "document.querySelector('.approval').textContent.includes('tail')"
    if kind != "a long command":
        shown = "document.querySelectorAll('.approval .line.added').length >= 2000"
    with browser.person(address) as person:
        person.sees("h2")
        paces = [person.runs(PACE) for _ in range(5)]
        person.runs(LONGEST)
        person.runs("setTimeout(() => { const at = performance.now(); while (performance.now() - at < 80); })")
        person.until("window.tasks.length > 0")  # the observer reports long tasks
        person.prompts("/calls " + json.dumps([call]))
        person.sees(f"{CARD} button.must")
        person.clicks(f"{CARD} button.must")
        for _ in range(3):  # drawing 16,000 rows takes a long time, so each frame draws only some of them
            with contextlib.suppress(AssertionError):
                person.until(shown)
                break
        person.until(shown)
        # A task is reported only after it has ended.
        person.runs("new Promise((later) => requestAnimationFrame(() => setTimeout(later, 50)))")
        tasks = person.runs("window.tasks")
        paces += [person.runs(PACE) for _ in range(5)]
        assert max(tasks, default=0) < max(3000, 10 * max(paces)), (tasks, paces)


# Accessibility.


@pytest.mark.slow
def test_all_cards_are_accessible(browser: Browser, address: str, directory: Path) -> None:
    plan = {"name": "ExitPlanMode", "input": {"plan": "# One\n\nTwo.\n"}}
    calls = [change(directory, CODE, CHANGED), bash(COMMAND), plan, QUESTIONS]
    with browser.person(address, width=1440, height=2400) as person:
        asks(person, *calls)
        person.clicks(f"{CARD} .view")
        person.clicks(f"{CARD} tr:has(.added) .comment >> nth=0")
        assert person("axe", file=str(programs.axe())) == []
        person.clicks(f"{CURRENT} footer button:has-text('Edit')")
        person.sees(f"{CARD} .cm-content")
        assert person("axe", file=str(programs.axe())) == []
