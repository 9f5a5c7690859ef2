"""Neovim, two browsers and the terminal answer at the same time. One of them wins, the file shows the effect of its
answer, and both browsers show who won.

Each answer would leave a different text in the file.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests import seeds
from tests.page.conftest import page_of
from tests.page.rig import Browser, Person
from tests.rigs.claude_rig import EDIT_DIALOG, Claude
from tests.rigs.messages_stub import read, text, write
from tests.rigs.neovim_rig import Neovim
from tests.server.processes import Server
from tests.waiting import PATIENCE, until

from .rig import Message, Phone, ServedWorkstation

DEAF_SECONDS = 0.6
"""Seconds to wait before an answer, because a new dialog of the CLI ignores keys at first."""

MANY = 100
"""The number of rounds in the slow test, enough for different winners."""

AHEAD = 0.3
"""Seconds before the earliest possible answer, so that both browsers receive the command to answer in time."""

SPREAD = 0.12
"""Seconds within which Neovim, the terminal and both browsers answer."""

CLICKS_AT = "setTimeout(() => document.querySelector('{0} footer .{1}')?.click(), {2} - Date.now())"
"""Clicks one of the card's buttons at a given time, in milliseconds since 1970."""

SETTLED = {
    "desk": r"/^(Answered elsewhere|Overruled)/",
    "Neovim": "/^Accepted with edits by Neovim/",
    "first": "/^Accepted with edits by first/",
    "second": "/^Rejected by second/",
}
"""The winner → what a browser that has not won shows, as a JavaScript regular expression."""

OWN = {"first": "/^Accepted with your edits/", "second": "/^Rejected by you/"}
"""The browser that has won → what it shows, as a JavaScript regular expression."""

LAST_WORDS = "[...document.querySelectorAll('.settled-words')].at(-1)?.innerText"


class Race:
    """One session, round after round. ``witness`` receives everything and answers nothing."""

    def __init__(self, poem: Path, neovim: Neovim, claude: Claude, people: dict[str, Person], witness: Phone) -> None:
        self.poem = poem
        self.neovim = neovim
        self.claude = claude
        self.people = people
        self.witness = witness
        self.wins: dict[str, int] = {}
        self.random = random.Random(seeds.seed())

    async def round(self, number: int) -> None:
        texts = {
            "desk": f"agent {number}\n",
            "Neovim": f"neovim {number}\n",
            "first": f"first {number}\n",
            "second": self.poem.read_text(),
        }
        id = (await self.witness.question("Write"))["approval_id"]
        await asyncio.to_thread(self._prepare, number, card(id), texts["first"])
        await asyncio.sleep(DEAF_SECONDS)
        await self._all_at_once(card(id))
        winner = await self._verdict(id)
        self.wins[winner] = self.wins.get(winner, 0) + 1
        messages = [one["data"] for one in self.witness.client.received if id in str(one)]
        what = f"{texts[winner]!r} in the file, not {self.poem.read_text()!r}, after {messages}"
        await until(lambda: self.poem.read_text() == texts[winner], what)
        await asyncio.to_thread(self._see_who_won, winner, card(id))
        await asyncio.to_thread(self.neovim.wait_until_closed, number)

    def _prepare(self, number: int, card: str, mine: str) -> None:
        """Waits until Neovim, the terminal and both browsers show the question, and prepares their answers."""
        self.neovim.wait_for_proposal(number)
        self.claude.pane.wait_for(EDIT_DIALOG)
        self.neovim.command(f"%s/agent/neovim/ | echo 'changed {number}'")
        self.neovim.pane.wait_for(f"neovim {number}")
        self.people["first"].clicks(f"{card} button:has-text('Edit')")
        self.people["first"].edits(mine)
        self.people["second"].clicks(f"{card} footer .no")
        self.people["second"].sees(f"{card} .rejecting")

    async def _all_at_once(self, card: str) -> None:
        moment = time.time() + AHEAD
        for name, answer in (("first", "yes"), ("second", "no")):
            at = 1000 * (moment + self.random.uniform(0, SPREAD))
            await asyncio.to_thread(self.people[name].runs, CLICKS_AT.format(card, answer, at))
        answers: list[Callable[[], Awaitable[Any]]] = [
            lambda: asyncio.to_thread(self.neovim.pane.type, ":DrawbridgeAccept\r"),
            lambda: asyncio.to_thread(self.claude.pane.press, "1"),
        ]

        async def after_a_moment(answer: Callable[[], Awaitable[Any]]) -> None:
            await asyncio.sleep(moment - time.time() + self.random.uniform(0, SPREAD))
            await answer()

        await asyncio.gather(*map(after_a_moment, answers))

    def _see_who_won(self, winner: str, card: str) -> None:
        """Checks that both browsers show who won. If the first one lost and still shows the request, it must also
        report that its text was not used.
        """
        first = self.people["first"]
        if winner != "first" and first("visible", css=card):
            first.sees(f"{card} .notice", "What you entered wasn’t used")
            first.clicks(f"{card} button:has-text('Close')")
        for name, person in self.people.items():
            person.loses(card)
            words = OWN[name] if name == winner else SETTLED[winner]
            person.until(f"{words}.test({LAST_WORDS})")

    async def _verdict(self, id: str) -> str:
        """The winner, from the witness's point of view. The agent's own dialog overrules all other answers."""
        received = self.witness.client.received
        async with asyncio.timeout(PATIENCE):
            while True:
                messages = [one["data"] for one in received if one["type"] == "update"]
                about = [one for one in messages if one["data"].get("approval_id") == id]
                if any(one["update_type"] == "permission_withdrawn" for one in about):
                    return "desk"
                if about and _has_continued(received, id):
                    return str(about[0]["data"]["by"])
                await asyncio.sleep(0.02)


def card(id: str) -> str:
    return f'[data-approval="{id}"]'


def _has_continued(received: list[Message], id: str) -> bool:
    """Whether the agent has continued after the answer. Only then is it certain that nothing overrules the answer."""
    at = next(index for index, one in enumerate(received) if one["data"].get("data", {}).get("approval_id") == id)
    return any(one["type"] == "permission_request" or _is_result(one) for one in received[at:])


def _is_result(message: Message) -> bool:
    if message["type"] != "agent_message":
        return False
    content = message["data"]["messages"][0].get("message", {}).get("content", "")
    return isinstance(content, list) and content[0].get("type") == "tool_result"


@pytest.mark.parametrize(
    "rounds",
    [
        pytest.param(2, marks=pytest.mark.thorough),
        pytest.param(MANY, marks=[pytest.mark.slow, pytest.mark.timeout(900)]),
    ],
)
async def test_only_one_answer_wins_and_its_text_is_written(
    browser: Browser, rig: ServedWorkstation, server: Server, rounds: int
) -> None:
    poem = rig.file("poem.txt", "agent 0\n")
    rig.set_up()
    neovim = rig.neovim(poem)
    turns = [write(poem, f"agent {number}\n") for number in range(1, rounds + 1)]
    rig.model.will_say(read(poem), *turns, text("All done."))
    page = f"{page_of(server)}#token={server.token}"
    async with server.client() as client:
        with browser.person(page) as one, browser.person(page) as two:
            people = {"first": one, "second": two}
            for name, person in people.items():
                person.sees(".side .empty", "No projects yet")
                person.runs(f"localStorage.setItem('drawbridge.name', '{name}')")
                person("reload")
            witness = Phone(client)
            await witness.follow()
            claude = rig.claude()
            await witness.session()
            claude.prompt("Write")
            for person in people.values():
                person.clicks(".project")
            race = Race(poem, neovim, claude, people, witness)
            for number in range(1, rounds + 1):
                await race.round(number)
            await asyncio.to_thread(claude.pane.wait_for, "All done")
    assert sum(race.wins.values()) == rounds
    if rounds >= MANY:
        assert len(race.wins) > 1, race.wins
