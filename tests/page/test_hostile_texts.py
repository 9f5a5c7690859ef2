"""No text from an agent, of any length, freezes the web UI or prevents an approval request from appearing."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import page_of, project_in, serving
from .history import write_history
from .rig import Browser

LENGTH = 999_000
"""The approximate length of the longest texts, in bytes: just below the limit for a message, 1,000,000 bytes."""

TEXTS = {
    "a heading and blanks": "# a" + " " * LENGTH + "b",
    "a heading and signs": "# " + "#" * LENGTH + "x",
    "a link and blanks": "[a](" + " " * LENGTH,
    "a fence": "```" + " " * (LENGTH - 100_000) + "a" * 90_000 + "\u2028",
    "a table": "|\n" + " " * LENGTH + "x",
    "backticks": " ".join("`" * number for number in range(1, 1_300)),
    "stars": "**a " * (LENGTH // 4),
    "tildes": "~~a " * (LENGTH // 4),
    "escapes": "\\*" * 240_000,
    "code": "`a`" * (LENGTH // 3),
    "bars": "|" * (LENGTH // 2) + "\n" + "-|" * (LENGTH // 4),
    "lines": "\n" * (LENGTH // 2),
    "one word": "a" * LENGTH,
    "controls": "a\u202e" * (LENGTH // 4),
    "underscores": "_a _b_" * (LENGTH // 6),
    "nested stars": "**a" * (LENGTH // 6) + "b**" * (LENGTH // 6),
}

LONGEST = (
    "(() => { window.tasks = []; new PerformanceObserver((list) => window.tasks.push(...list.getEntries()"
    ".map((one) => one.duration))).observe({ type: 'longtask' }) })()"
)
PACE = (
    "(() => { const at = performance.now(); let sum = 0; for (let n = 0; n < 3e7; n++) sum += n % 7;"
    " return Math.max(performance.now() - at, sum ? 0 : 1) })()"
)
"""Measures the current speed of the browser: milliseconds for a fixed amount of work, about 50 on an idle machine."""


async def with_texts(data: Path, work: Path) -> dict[str, str]:
    """Creates a project for each of ``TEXTS``, whose agent has sent the text and then "after it". Returns the ids of
    the projects by the names of the texts."""
    projects: dict[str, str] = {}
    async with serving(data, "--no-tls", "--allow", work) as server:
        for number, name in enumerate(TEXTS):
            place = work / str(number)
            place.mkdir()
            projects[name] = await project_in(server, place)
    for name, project in projects.items():
        shown_text = (TEXTS[name], "after it")
        words = ({"type": "assistant", "message": {"content": [{"type": "text", "text": text}]}} for text in shown_text)
        write_history(data, project, words)
    return projects


@pytest.mark.thorough
async def test_no_text_freezes_the_web_ui(browser: Browser, tmp_path: Path, directory: Path) -> None:
    data = tmp_path / "data"
    projects = await with_texts(data, directory.parent)
    async with serving(data, "--no-tls", "--allow", directory.parent) as server:
        with browser.person(f"{page_of(server)}#token={server.token}") as person:
            person.sees(".project")
            person.runs(LONGEST)
            for name, project in projects.items():
                for left in (2, 1, 0):  # a text that freezes the browser does so each time, unlike a busy machine
                    pace = person.runs(PACE)
                    person.runs(f"window.tasks = []; location.hash = '#/p/{project}'")
                    person.sees(".said", "after it")
                    person.until("document.querySelectorAll('.said').length === 3")
                    tasks = person.runs("window.tasks")
                    pace = max(pace, person.runs(PACE))
                    if max(tasks, default=0) < 6 * pace:
                        break
                    assert left, (name, tasks, pace)
                    person.runs("location.hash = '#/'")
                    person.loses(".said")
                    person("reload")
                    person.sees(".project")
                    person.runs(LONGEST)
            assert [text for text in person.complaints() if "4401" not in text] == []


async def test_a_text_that_cannot_be_drawn_affects_nothing_else(browser: Browser, address: str) -> None:
    """The test makes drawing fail, because no text is known to cause that."""
    with browser.person(address) as person:
        person.sees("h2", "blog")
        person.runs(
            "(() => { const made = document.createElementNS.bind(document); document.createElementNS = (space, tag, more) =>"
            " { if (tag === 'em') throw new RangeError('too deep'); return made(space, tag, more); } })()"
        )
        person.prompts('/say "a *b* c"')
        person.sees(".said:not(.live)", "a *b* c")
        person.prompts("Something")
        person.sees(".approval .line.added")
        person.clicks(".approval .yes")
        person.sees(".finished")


async def test_a_long_message_is_shown_whole_on_demand(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        person.prompts('/say "' + "word-" * 20_000 + 'its end"')
        person.sees(".finished")  # before that, the message may still be drawn as one that is being streamed
        person.sees(".said button", "Show all (101 kB), the rest as plain text")
        person.clicks(".said button")
        person.until("document.querySelector('.said').textContent.includes('its end')")
