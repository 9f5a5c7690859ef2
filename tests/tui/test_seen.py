"""Random requests, keys and clicks: a request is accepted only after all of it was on the screen.

Each word in a request occurs only once. The test records the lines of each frame that is drawn while nothing is
animated, and the lines on the screen after each action.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from random import Random, SystemRandom
from typing import Any

import pytest
from textual.pilot import OutOfBounds, Pilot

from drawbridge.tui import approval_view

from .rig import Alone, alone

SIZES = [(80, 24), (100, 12), (40, 16), (24, 30), (60, 8)]
KEYS = [
    "a",
    "a",
    "w",
    "space",
    "space",
    "down",
    "up",
    "pagedown",
    "pageup",
    "end",
    "home",
    "tab",
    "enter",
]
BUTTONS = [".accept", ".always", ".more"]
ALWAYS = {"type": "addRules", "behavior": "allow", "destination": "session", "rules": [{"toolName": "Bash"}]}
WORD = re.compile("q[0-9]{5}z")


class Words:
    """Makes texts of words that no other text contains, with markup, blanks and long lines that may hide them."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._count = random.randrange(50_000)

    def word(self) -> str:
        self._count += 1
        return f"q{self._count:05}z"

    def some(self, most: int = 12) -> str:
        between = self._random.choice([" ", " ", "\n", " && ", " " * 90, "\t", "; "])
        return between.join(self.word() for _ in range(self._random.randint(1, most)))

    def lines(self, most: int = 40) -> str:
        return "".join(f"{self.some(4)}\n" for _ in range(self._random.randint(1, most)))

    def plan(self) -> str:
        return "\n".join(self._part() for _ in range(self._random.randint(1, 14)))

    def _part(self) -> str:
        one, two, three = self.word(), self.word(), self.word()
        return self._random.choice(
            [
                f"# {one}\n\n{two} **{three}**\n",
                f"1. {one}\n1. {two}\n   - {three}\n",
                f"| {one} | b |\n|---|---|\n| 1 | 2 | {two} |\n",
                f'[{one}](https://{two}.example "{three}")\n',
                f"![{one}]({two}.png)\n",
                f"```sh\n{one} {two}\n```\n",
                f"<!-- {one} -->\n{two}<b {three}>\n",
                f"[{one}]: https://{two}.example\n",
                ">" * self._random.choice([1, 3, 60]) + f" {one}\n",
                f"{one}&nbsp;{two}\n",
                f"- [x] {one}\n- [ ] {two}\n",
            ]
        )


def request(random: Random) -> dict[str, Any]:
    words = Words(random)
    found = call(random, words)
    if random.random() < 0.5:
        found["suggestions"] = [ALWAYS]
    if random.random() < 0.3:
        found["reason"] = words.some(30)
    if random.random() < 0.2:
        found["blocked_path"] = f"/etc/{words.some(3)}"
    return found


def of_acp(words: Words) -> dict[str, Any]:
    """The input of an Agent Client Protocol call, or of a tool call whose input looks like one."""
    diff = {"type": "diff", "path": f"/ws/{words.word()}", "oldText": words.lines(4), "newText": words.lines(20)}
    said = {"type": "content", "content": {"type": "text", "text": words.lines(9)}}
    return {
        "toolCallId": words.word(),
        "title": words.some(),
        "kind": "execute",
        "rawInput": {"command": words.some(20), "path": words.word(), words.word(): words.some()},
        "content": [said, diff],
    }


def call(random: Random, words: Words) -> dict[str, Any]:
    match random.randrange(7):
        case 0:
            return {"tool_name": "Bash", "input": {"command": words.some(60), "description": words.some()}}
        case 1:
            return {"tool_name": "ExitPlanMode", "input": {"plan": words.plan()}}
        case 2:
            given = {
                words.word(): random.choice([words.some(), [words.some(3)], {words.word(): words.lines(9)}])
                for _ in "abc"
            }
            return {"tool_name": "mcp__x__y", "input": given}
        case 3:
            text = words.lines()
            given = {"file_path": "/ws/a.txt", "content": text}
            proposal = {"path": "/ws/a.txt", "old_text": "", "new_text": text}
            return {"tool_name": "Write", "input": given, "proposal": proposal}
        case 4:
            return {
                "tool_name": "execute",
                "form": "acp",
                "input": of_acp(words) | {"toolCallId": "t"},
            }  # the id is not shown
        case 5:
            return {"tool_name": "mcp__x__y", "input": of_acp(words)}
        case _:
            old, new, around = words.some(3), words.some(20), "".join(f"line {number}\n" for number in range(30))
            given = {"file_path": "/ws/a.txt", "old_string": old, "new_string": new}
            proposal = {"path": "/ws/a.txt", "old_text": f"{around}{old}\n", "new_text": f"{around}{new}\n{around}"}
            return {"tool_name": "Edit", "input": given, "proposal": proposal}


class Seen:
    """The lines that were on the screen."""

    def __init__(self) -> None:
        self._lines: set[str] = set()

    def look(self, app: Alone) -> None:
        self._lines |= {re.sub("[│┃▁-█]", "", line).strip(" +-") for line in app.text.splitlines()}

    def has(self, word: str) -> bool:
        """Whether the word was on the screen, on one line or wrapped onto two."""
        halves = [(word[:at], word[at:]) for at in range(1, len(word))]
        return any(word in line for line in self._lines) or any(
            any(line.endswith(first) for line in self._lines) and any(line.startswith(rest) for line in self._lines)
            for first, rest in halves
        )


async def acts(random: Random, app: Alone, pilot: Pilot[None]) -> str:
    if random.random() < 0.08:
        width, height = random.choice(SIZES)
        await pilot.resize_terminal(width, height)
        app.view.fit(height)
        did = f"resizes to {width}x{height}"
    elif random.random() < 0.2:
        did = random.choice(BUTTONS)
        with suppress(OutOfBounds):
            await pilot.click(did)
    else:
        did = random.choice(KEYS)
        await pilot.press(did)
    await pilot.pause()
    return did


async def plays(random: Random, story: list[Any]) -> bool:
    """Performs random actions on a random request. Returns whether it was accepted. ``story``: receives the request and
    the actions, for the failure message."""
    asked = request(random)
    width, height = random.choice(SIZES)
    story += [asked, (width, height)]
    app = Alone(asked, may_remember=True)
    app.animation_level = random.choice(["none", "none", "full"])
    async with alone(app, width, height) as pilot:
        seen = Seen()
        seen.look(app)
        # On a busy machine, the pilot may return before the screen has been drawn, and the next key may follow.
        app.drawn = lambda: seen.look(app)
        for _ in range(40):
            story.append(await acts(random, app, pilot))
            if any(answer.allow for answer in app.given):
                assert [word for word in WORD.findall(repr(asked)) if not seen.has(word)] == []
                return True
            if app.given:
                return False
            seen.look(app)
    return False


@pytest.mark.parametrize(
    "rounds",
    [
        *(pytest.param(50, marks=pytest.mark.thorough, id=f"50, part {part}") for part in range(4)),
        pytest.param(3_000, marks=[pytest.mark.slow, pytest.mark.timeout(14_400)]),
    ],
)
async def test_nothing_unseen_is_accepted(monkeypatch: pytest.MonkeyPatch, rounds: int) -> None:
    """A failure shows its ``DRAWBRIDGE_TEST_SEED``. With the same value, the requests and the keys are the same."""
    seed = int(os.environ.get("DRAWBRIDGE_TEST_SEED", SystemRandom().randrange(2**32)))
    monkeypatch.setattr(approval_view, "READING_SECONDS", 0.0)  # clicks answer at once, too
    random, accepted = Random(seed), 0
    for number in range(rounds):
        story: list[Any] = []
        try:
            accepted += await plays(random, story)
        except AssertionError as error:
            error.add_note(f"DRAWBRIDGE_TEST_SEED={seed}, round {number}: {story}")
            raise
    assert accepted > rounds / 25
