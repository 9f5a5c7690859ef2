"""A long answer that is being streamed does not block the web UI."""

from __future__ import annotations

import contextlib

import pytest

from tests import programs

from .rig import Browser

pytestmark = pytest.mark.thorough

COUNT = """(() => { window.drawn = 0; new MutationObserver((all) => { for (const { addedNodes } of all)
  for (const node of addedNodes) window.drawn += 1 + (node.querySelectorAll?.('*').length ?? 0); })
  .observe(document.querySelector('.column'), { subtree: true, childList: true }) })()"""


@pytest.mark.slow
def test_a_long_answer_is_drawn_once_while_it_arrives(browser: Browser, address: str) -> None:
    """The whole answer used to be drawn in each frame, so long tasks took 19 of 20 seconds."""
    with browser.person(address) as person:
        person.sees("h2", "blog")
        person.runs(COUNT)
        person.prompts("/stream [8, 50000]")
        person.sees(".live", "A paragraph")
        for _ in range(6):
            with contextlib.suppress(AssertionError):
                person.until("document.querySelector('.finished')")
                break
        person.sees(".said:not(.live) .code-block .code-word", "def")
        drawn = person.runs("window.drawn")
        there = person.runs("document.querySelectorAll('.said:not(.live) *').length")
        assert drawn < there * 5, (drawn, there)  # code is drawn again when it gets its colors


@pytest.mark.slow
def test_a_streamed_answer_is_not_drawn_again_when_it_ends(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        person.sees("h2", "blog")
        person.runs(
            "(() => { new MutationObserver(() => { const live = document.querySelector('.live .markdown > p');"
            " if (live && !window.first) window.first = live; })"
            ".observe(document.body, { subtree: true, childList: true }) })()"
        )
        person.prompts("/stream [8, 3000]")
        person.sees(".finished")
        person.sees(".said:not(.live)", "A paragraph")
        assert person.runs("window.first === document.querySelector('.said:not(.live) .markdown > p')")


def lexer() -> str:
    """Returns the name of the file with the Markdown lexer, recognized by one of marked's error messages."""
    [found] = [file.name for file in programs.page().glob("part-*.js") if "Infinite loop on byte" in file.read_text()]
    return found


@pytest.mark.slow
def test_the_message_box_works_before_messages_can_be_drawn(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        person.sees("h2", "blog")
        person.prompts("/stream [1, 500]")
        person.sees(".finished")
    with browser.person(address, held=lexer()) as person:
        person.until("document.querySelector('#prompt')?.disabled === false")
        person.prompts("Welcome me")
        person.until("document.title.startsWith('(1)')")
        assert person.reads(".conversation .item:not(.live)") == []
        assert person.reads(".approval") == []
        assert person("visible", css=".empty") is False, "there are messages"
        person.lets()
        person.sees(".said .markdown", "A paragraph")
        person.sees(".approval h3")


def test_messages_are_plain_text_if_markdown_cannot_be_loaded(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        person.sees("h2", "blog")
        person.prompts('/say "**strong** words"')
        person.sees(".said strong", "strong")
    with browser.person(address, held=lexer()) as person:
        person.sees("h2", "blog")
        person.lets(fails=True)
        person.sees(".said .markdown p", "**strong** words")
