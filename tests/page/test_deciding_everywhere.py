"""A change is decided in a wide window of the web UI, on a phone and in Neovim at the same moment."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from pathlib import Path

import pytest

from tests import programs, seeds
from tests.nvim.plugin_rig import Neovim, neovim, wait_until
from tests.nvim.test_plugin_changes import BRIDGE, SIGNS
from tests.rigs.reviews import make_repository, poem
from tests.server.processes import Server
from tests.waiting import PATIENCE

from .conftest import project_in
from .rig import Browser, Person
from .test_reviewing import HUNK, address_of, runs

MANY = 100
"""The number of rounds in the slow test, in which each surface wins at least once."""

AHEAD = 0.3
"""Seconds before the earliest decision, so that both browsers receive the command to click in time."""

SPREAD = 0.1
"""Seconds within which all three decide."""

KEEP, UNDO = (f"document.querySelector({json.dumps(f'{HUNK} {button}')})?.click()" for button in (".yes", ".no"))
"""Clicks the button of the only hunk, if the page still shows it."""


def shows_signs(editor: Neovim, *signs: str) -> None:
    wait_until(lambda: editor.lua(SIGNS) == list(signs), f"{signs} in Neovim", PATIENCE)


def shows_lines(editor: Neovim, lines: list[str]) -> None:
    wait_until(lambda: editor.call("nvim_buf_get_lines", 0, 0, -1, False) == lines, "the file in Neovim", PATIENCE)


@pytest.mark.parametrize(
    "rounds",
    [
        pytest.param(3, marks=pytest.mark.thorough),
        pytest.param(MANY, marks=[pytest.mark.slow, pytest.mark.timeout(1_800)]),
    ],
)
async def test_a_browser_a_phone_and_neovim_race_to_decide_a_change(
    browser: Browser, own_server: Server, directory: Path, rounds: int
) -> None:
    """Only one decision counts: the file matches it, the history contains no other, and everybody sees it."""
    file = make_repository(directory) / "poem.txt"
    project = await project_in(own_server, directory)
    address = address_of(own_server, project)
    chance = random.Random(seeds.seed())
    with (
        browser.person(address, width=1280, height=800) as page,
        browser.person(address, width=390, height=844) as phone,
        neovim(programs.nvim(), file, cwd=directory) as editor,
    ):
        for name, person in (("page", page), ("phone", phone)):
            person.runs(f"localStorage.setItem('drawbridge.name', '{name}')")
            person("reload")
        assert editor.setup(BRIDGE)
        editor.wait("return (require('drawbridge.link').state() or {}).token ~= nil")
        editor.command("DrawbridgeChanges")
        editor.shows_message("Nothing to review in")
        async with own_server.client() as client:
            await client.ask("project_join", project_id=project)
            for number in range(rounds):
                before, after = file.read_text(), poem(line_5=f"round {number}")
                await runs(own_server, project, {"poem.txt": after})
                for person in (page, phone):
                    person.sees("h2", "blog")
                    person.goes_to(f"#/p/{project}/review")
                    person.sees(HUNK, f"round {number}")
                shows_signs(editor, f"~round {number}")
                editor.call("nvim_win_set_cursor", 0, [5, 0])
                # A button that has just appeared ignores clicks for a moment, and Neovim would always be the first.
                for person, button in ((page, ".yes"), (phone, ".no")):
                    person.sees(f"{HUNK} {button}:enabled:not(.moved)")
                await decide(page, phone, editor, number, chance)
                decided = await client.receive("update", "review_decided")
                assert (decided["data"]["data"]["hunks"], decided["data"]["data"]["left"]) == (1, 0)
                expected = {"keep": after, "undo": before}[decided["data"]["data"]["decision"]]
                for person in (page, phone):
                    person.loses(HUNK)
                    person.goes_to(f"#/p/{project}")
                    person.sees("#prompt")
                    person.loses(".to-review")
                shows_lines(editor, expected.splitlines())
                shows_signs(editor)
                assert not editor.is_stuck
                assert file.read_text() == expected
            answer = await client.ask("get_messages", {"after_seq": 0, "limit": 1_000}, project)
            records = [one["message"] for one in answer["data"]["messages"]]
            by = [one["message"].get("by") for one in records if one.get("subtype") == "review_decided"]
            assert len(list(filter(None, by))) == rounds
    if rounds >= MANY:
        assert {"page", "phone", "Neovim"} <= set(by), Counter(by)


async def decide(page: Person, phone: Person, editor: Neovim, number: int, chance: random.Random) -> None:
    """The browser keeps the change, the phone undoes it, and Neovim does one or the other. They take turns at being
    the first, and the others follow at once.
    """
    moments = [time.time() + AHEAD + (0 if at == number % 3 else chance.uniform(0, SPREAD)) for at in range(3)]
    for person, click, moment in ((page, KEEP, moments[0]), (phone, UNDO, moments[1])):
        person.runs(f"setTimeout(() => {click}, {1000 * moment} - Date.now())")
    await asyncio.sleep(moments[2] - time.time())
    editor.command("DrawbridgeKeep" if number % 2 else "DrawbridgeUndo")
