"""With random requests, keys and clicks, a request, a user's version of it, or an answer to questions is accepted only
after all of it was on the screen.

Each word in a request, and each word that the user types, occurs only once. The test records the lines of each frame
that is drawn while nothing is animated, and the lines on the screen after each action.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from contextlib import suppress
from random import Random
from typing import Any, Literal, TypeAlias

import pytest
from textual.css.query import NoMatches
from textual.events import Paste
from textual.pilot import OutOfBounds, Pilot

from drawbridge.tui import approval_view
from drawbridge.tui.approval_view import Answer
from drawbridge.tui.fields import PlainTextArea
from tests import seeds
from tests.waiting import PATIENCE

from .rig import Alone, alone

SIZES = [(80, 24), (100, 12), (40, 16), (24, 30), (60, 8)]
READING = [
    *("a", "a", "w", "space", "space", "down", "up", "pagedown", "pageup", "end", "home", "tab", "enter"),
    *(".accept", ".always", ".more"),
]
"""The keys that are pressed, and the buttons that are clicked, while a request is read."""

OPENING = [*["space"] * 6, "pagedown", "pagedown", "up", "end", "home", "tab", "enter", "e", "e", "e", ".edit", ".more"]
"""The keys and buttons while a request is read that the user wants to edit."""

EDITED = [*OPENING, "a", "a", "a", ".accept", ".undo"]
"""The keys and buttons while a request is read after its editor was opened."""

EDITING = [
    *["TYPE"] * 5,
    *["f7 ctrl+x"] * 4,
    *["ctrl+z"] * 4,
    *["ctrl+v"] * 4,
    *("enter", "backspace", "delete", "ctrl+k", "ctrl+u", "ctrl+w", "ctrl+shift+k", "f6", "f7", "ctrl+y", "ctrl+x"),
    *("up", "down", "home", "end", "left", "pageup", "pagedown", "shift+up", "shift+down", "shift+home", "tab"),
    *["escape"] * 6,
    *["ctrl+s"] * 4,
    *(".accept", ".accept", ".back"),
]
"""The keys and buttons while the user's version is edited. "TYPE" is a new word; keys with a
space between them are pressed one after another."""

ANSWERING = [
    *("1", "1", "2", "3", "TYPE", "down", "up", "space", "enter", "tab", "shift+tab", "end", "home", "backspace"),
    *["pagedown"] * 10,
    *("pageup", "escape", *["ctrl+s"] * 6, ".accept", ".accept", ".more", ".more", ".more", ".own"),
    *("RadioButton", "Checkbox"),
]
"""The keys and buttons while the agent's questions are answered."""

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
                self._references(one, two, three),
                f"- [x] {one}\n- [ ] {two}\n",
            ]
        )

    def _references(self, one: str, two: str, three: str) -> str:
        """Text with references to characters that have no width until they are written out."""
        hidden = self._random.choice(["&#8203;", "&shy;", "&#x202e;", "&zwj;", "&#xfe0f;"]) * self._random.choice(
            [1, 9, 40]
        )
        return self._random.choice(
            [
                f"{one} {hidden} {two}\n",
                f"1. {one}{hidden}{two}\n   - {hidden} {three}\n",
                f"| {one} {hidden} | b |\n|---|---|\n| 1 | {hidden} {two} |\n",
                f"## {hidden}{one}\n\n> **{two}** {hidden} {three}\n",
            ]
        )


Manner: TypeAlias = Literal["reads", "edits", "answers"]
"""What the user does: reads a request and accepts it as it is, may also edit it before, or answers questions."""


def request(random: Random, words: Words, manner: Manner) -> dict[str, Any]:
    found: dict[str, Any] = {"tool_name": "AskUserQuestion", "input": questions(random, words)}
    if manner != "answers":
        found = call(random, words, random.choice([*EDITABLE, 2] if manner == "edits" else range(7)))
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
    block = {"type": "content", "content": {"type": "text", "text": words.lines(9)}}
    return {
        "toolCallId": words.word(),
        "title": words.some(),
        "kind": "execute",
        "rawInput": {"command": words.some(20), "path": words.word(), words.word(): words.some()},
        "content": [block, diff],
    }


def questions(random: Random, words: Words) -> dict[str, Any]:
    """The input of AskUserQuestion."""

    def option() -> dict[str, str]:
        found = {"label": words.some(random.choice([1, 2, 40]))}
        for name in ("description", "preview"):
            if random.random() < 0.4:
                found[name] = words.some(random.choice([2, 30]))
        return found

    def question() -> dict[str, Any]:
        options = [option() for _ in range(random.choice([0, 1, 2, 4]))]
        more = {words.word(): words.some(20)} if random.random() < 0.2 else {}
        found = {"question": words.some(random.choice([2, 60])), "multiSelect": random.random() < 0.4, **more}
        return found | {"header": words.word(), "options": options}

    more = {words.word(): words.some()} if random.random() < 0.2 else {}
    return {"questions": [question() for _ in range(random.choice([1, 1, 1, 2, 3]))], **more}


EDITABLE = [0, 1, 3, 6]
"""The kinds of calls whose text can be edited."""


def call(random: Random, words: Words, kind: int) -> dict[str, Any]:
    match kind:
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
            proposal = {"path": "/ws/a.txt", "old_text": around + old + around, "new_text": around + new + around}
            return {"tool_name": "Edit", "input": given, "proposal": proposal}


class Seen:
    """The lines that were on the screen."""

    def __init__(self) -> None:
        self._lines: set[str] = set()

    def record(self, app: Alone) -> None:
        self._lines |= {re.sub("[│┃▁-█]", "", line).strip(" +-") for line in app.text.splitlines()}

    def has(self, word: str) -> bool:
        """Whether the word was on the screen, on one line or wrapped onto two."""
        halves = [(word[:at], word[at:]) for at in range(1, len(word))]
        return any(word in line for line in self._lines) or any(
            any(line.endswith(first) for line in self._lines) and any(line.startswith(rest) for line in self._lines)
            for first, rest in halves
        )


def required(asked: dict[str, Any], answer: Answer) -> list[str]:
    """The words that must have been on the screen before ``answer`` was given."""
    if answer.input is None:
        return WORD.findall(repr(asked))
    around = {name: value for name, value in asked.items() if name not in ("input", "proposal")}
    if "questions" not in asked["input"]:  # the user's version, and what else the agent gets or would overwrite
        return WORD.findall(repr([around, answer.input, asked.get("proposal", {}).get("old_text", "")]))
    chosen = {word for text in answer.input["answers"].values() for word in WORD.findall(text)}
    found = [{**answer.input, "questions": ""}, around]
    for one in asked["input"]["questions"]:
        found.append({**one, "options": ""})
        for option in one["options"]:
            is_chosen = chosen.issuperset(WORD.findall(option["label"]))
            found.append(option if is_chosen else option.get("preview"))  # all previews are shown above the options
    return WORD.findall(repr(found))


def edited(asked: dict[str, Any], answer: Answer) -> str | None:
    """The user's version of the file or the field in ``answer``; None if the request was accepted as it is."""
    if answer.input is None or "questions" in asked["input"]:
        return None
    changed = [name for name, value in answer.input.items() if asked["input"].get(name) != value]
    name = "new_string" if "new_string" in answer.input else changed[0]
    return str(answer.input[name])


async def acts(random: Random, app: Alone, pilot: Pilot[None], words: Words, manner: Manner) -> str:
    """Performs a random action, and returns its description."""
    if random.random() < 0.06:
        width, height = random.choice(SIZES)
        await pilot.resize_terminal(width, height)
        app.view.fit(height)
        did = f"resizes to {width}x{height}"
    else:
        did = random.choice(ways(app, manner))
        if did == "TYPE":
            did = random.choice([words.word(), f" {words.word()} ", f"{words.word()}\n{words.word()}\n"])
            app.post_message(Paste(did))
            await drawn(app)  # the user looks at what they type
        elif did.startswith(".") or did[0].isupper():
            with suppress(OutOfBounds, NoMatches):
                await pilot.click(did)
        else:
            await pilot.press(*did.split())
    await pilot.pause()
    return did


async def drawn(app: Alone) -> None:
    """Waits until the messages so far have been processed and the screen has been drawn."""
    is_drawn = asyncio.Event()
    app.call_later(app.call_after_refresh, is_drawn.set)
    await asyncio.wait_for(is_drawn.wait(), PATIENCE)


def ways(app: Alone, manner: Manner) -> list[str]:
    """Returns the keys and buttons that have an effect now."""
    if manner == "answers":
        return ANSWERING
    editor = app.view.query_one(PlainTextArea)
    if editor.display:
        return EDITING
    return READING if manner == "reads" else EDITED if editor.text else OPENING


async def plays(random: Random, story: list[Any], manner: Manner) -> Literal["", "as it is", "edited", "answered"]:
    """Performs random actions on a random request. Returns how it was accepted; "" if it was not. Appends the request
    and the actions to ``story``, for the failure message."""
    words = Words(random)
    asked = request(random, words, manner)
    width, height = random.choice(SIZES)
    story += [asked, (width, height)]
    app = Alone(asked, may_remember=True)
    app.animation_level = random.choice(["none", "none", "full"])
    seen = Seen()
    # The first frames are drawn before the pilot returns. On a busy machine, it may also return before the screen has been
    # drawn after a key, and the next key may follow.
    app.drawn = lambda: seen.record(app)
    async with alone(app, width, height) as pilot:
        seen.record(app)
        for _ in range(40):
            story.append(await acts(random, app, pilot, words, manner))
            for answer in app.given:
                if not answer.allow:
                    return ""
                assert [word for word in required(asked, answer) if not seen.has(word)] == []
                if manner == "answers":
                    return "answered"
                text = edited(asked, answer)
                if text is None:
                    return "as it is"
                assert text == app.view.query_one(PlainTextArea).text
                return "edited"
            seen.record(app)
    return ""


@pytest.mark.parametrize(
    "rounds",
    [
        pytest.param(30, marks=pytest.mark.thorough),
        pytest.param(3_000, marks=[pytest.mark.slow, pytest.mark.timeout(14_400)]),
    ],
)
async def test_nothing_unseen_is_accepted(monkeypatch: pytest.MonkeyPatch, rounds: int) -> None:
    """A failure shows its ``DRAWBRIDGE_TEST_SEED``. With the same value, the requests and the keys are the same."""
    seed = seeds.seed()
    monkeypatch.setattr(approval_view, "READING_SECONDS", 0.0)  # clicks answer immediately, too
    random, accepted = Random(seed), Counter[str]()
    manners: list[Manner] = ["reads", "edits", "answers"]
    for number in range(rounds):
        story: list[Any] = []
        try:
            accepted[await plays(random, story, manners[number % len(manners)])] += 1
        except AssertionError as error:
            error.add_note(f"DRAWBRIDGE_TEST_SEED={seed}, round {number}: {story}")
            raise
    ways = [accepted[how] for how in ("as it is", "edited", "answered")]
    # Thirty rounds are too few to expect each way several times.
    assert sum(ways) > rounds / 10 if rounds < 1_000 else min(ways) > rounds / 50, accepted
