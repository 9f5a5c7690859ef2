"""Everybody answers at once: Neovim, two clients and the terminal. One of them wins, one text is written, and all see which.

Each of them wants another text in the file, so that the file tells who has won.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.claude_rig import EDIT_DIALOG, Claude
from tests.e2e.messages_stub import read, text, write
from tests.e2e.neovim_rig import Neovim
from tests.server.processes import Server
from tests.waiting import until

from .rig import PATIENCE, Message, Phone, ServedDesk

DEAF_SECONDS = 0.6
"""The CLI's dialog takes no key before."""

MANY = 100
"""Rounds in which not always the same one wins."""

SPREAD = 0.12
"""Seconds within which all of them answer."""


class Race:
    """One session, round after round."""

    def __init__(self, poem: Path, neovim: Neovim, claude: Claude, phones: dict[str, Phone]) -> None:
        self.poem = poem
        self.neovim = neovim
        self.claude = claude
        self.phones = phones
        self.wins: dict[str, int] = {}
        self.random = random.Random()

    async def round(self, number: int) -> None:
        before = self.poem.read_text()
        questions = {name: await phone.question("Write") for name, phone in self.phones.items()}
        (id,) = {question["approval_id"] for question in questions.values()}
        await asyncio.to_thread(self.neovim.wait_for_proposal, number)
        await asyncio.to_thread(self.claude.pane.wait_for, EDIT_DIALOG)
        await asyncio.to_thread(self.neovim.command, f"%s/agent/neovim/ | echo 'changed {number}'")
        await asyncio.to_thread(self.neovim.pane.wait_for, f"neovim {number}")
        await asyncio.sleep(DEAF_SECONDS)
        texts = {
            "desk": f"agent {number}\n",
            "Neovim": f"neovim {number}\n",
            "first": f"first {number}\n",
            "second": before,
        }
        await self._all_at_once(questions, texts)
        verdicts = {name: await self._verdict(phone, id) for name, phone in self.phones.items()}
        assert len(set(verdicts.values())) == 1, verdicts
        winner = verdicts["first"]
        self.wins[winner] = self.wins.get(winner, 0) + 1
        said = [one["data"] for one in self.phones["first"].client.heard if id in str(one)]
        what = f"{texts[winner]!r} in the file, not {self.poem.read_text()!r}, after {said}"
        await until(lambda: self.poem.read_text() == texts[winner], what)
        await asyncio.to_thread(self.neovim.wait_until_closed, number)

    async def _all_at_once(self, questions: dict[str, Message], texts: dict[str, str]) -> None:
        first, second = self.phones["first"], self.phones["second"]
        given = questions["first"]["input"] | {"content": texts["first"]}
        answers: list[Callable[[], Awaitable[Any]]] = [
            lambda: first.answer(questions["first"], "allow", updated_input=given),
            lambda: second.answer(questions["second"], "deny", message="no"),
            lambda: asyncio.to_thread(self.neovim.pane.type, ":DrawbridgeAccept\r"),
            lambda: asyncio.to_thread(self.claude.pane.press, "1"),
        ]

        async def after_a_moment(answer: Callable[[], Awaitable[Any]]) -> None:
            await asyncio.sleep(self.random.uniform(0, SPREAD))
            await answer()

        await asyncio.gather(*map(after_a_moment, answers))

    async def _verdict(self, phone: Phone, id: str) -> str:
        """Who has won, as a client sees it; the agent's own dialog has the last word."""
        async with asyncio.timeout(PATIENCE):
            while True:
                said = [one["data"] for one in phone.client.heard if one["type"] == "update"]
                about = [one for one in said if one["data"].get("approval_id") == id]
                if any(one["update_type"] == "permission_withdrawn" for one in about):
                    return "desk"
                if about and (winner := await self._seen_through(phone, id, about[0]["data"]["by"])):
                    return winner
                await asyncio.sleep(0.02)

    async def _seen_through(self, phone: Phone, id: str, by: str) -> str | None:
        """``by``, once the agent has gone on: only then it is sure that nothing overrules it."""
        heard = phone.client.heard
        at = next(index for index, one in enumerate(heard) if one["data"].get("data", {}).get("approval_id") == id)
        went_on = [one for one in heard[at:] if one["type"] == "permission_request" or _is_result(one)]
        return by if went_on else None


def _is_result(message: Message) -> bool:
    if message["type"] != "agent_message":
        return False
    content = message["data"]["messages"][0].get("message", {}).get("content", "")
    return isinstance(content, list) and content[0].get("type") == "tool_result"


@pytest.mark.parametrize("rounds", [2, pytest.param(100, marks=[pytest.mark.slow, pytest.mark.timeout(900)])])
async def test_one_wins_and_one_text_is_written(desk: ServedDesk, server: Server, rounds: int) -> None:
    poem = desk.file("poem.txt", "agent 0\n")
    desk.set_up()
    neovim = desk.neovim(poem)
    turns = [write(poem, f"agent {number}\n") for number in range(1, rounds + 1)]
    desk.model.will_say(read(poem), *turns, text("All done."))
    async with server.client() as one, server.client() as two:
        phones = {"first": Phone(one), "second": Phone(two)}
        for name, phone in phones.items():
            await phone.client.ask("hello", {"client": name})
            await phone.follow()
        claude = desk.claude()
        for phone in phones.values():
            await phone.session()
        claude.prompt("Write")
        race = Race(poem, neovim, claude, phones)
        for number in range(1, rounds + 1):
            await race.round(number)
        await asyncio.to_thread(claude.pane.wait_for, "All done")
        assert sum(race.wins.values()) == rounds
        if rounds >= MANY:
            assert len(race.wins) > 1, race.wins
