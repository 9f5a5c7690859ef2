"""People in Neovim, in the web UI and on a phone decide on the same hunk at the same moment: one decision counts, and the
others are told who made it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tests import programs
from tests.chaos.rig import Client, Message, connected, on_disk, seeded
from tests.page.agent import COMMAND
from tests.server.checkpoints.rig import git
from tests.server.processes import serving
from tests.waiting import PATIENCE

from .plugin_rig import Neovim, neovim, wait_until
from .test_plugin_changes import BRIDGE, SIGNS

OPTIONS = ("--no-tls", "--max-prompts", "10000", "--fsync", "off", "--log-level", "warning")
CLIENTS = ("page", "phone")

LATEST = 0.5
"""The maximum mean delay between Neovim's decision and the other clients' decisions, in seconds."""


@pytest.mark.slow
async def test_neovim_web_ui_and_phone_race_to_decide(tmp_path: Path) -> None:
    await races(tmp_path, 4)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
async def test_neovim_web_ui_and_phone_race_a_hundred_times(tmp_path: Path) -> None:
    winners = await races(tmp_path, 100)
    assert set(winners) == {"Neovim", *CLIENTS}, "otherwise it was not a race"


async def races(directory: Path, count: int) -> Counter[str]:
    """Runs races, and returns how often each side won. The delay of the web UI and the phone is adjusted after each
    race, so that all three decide at about the same moment."""
    root, data = directory / "root", directory / "data"
    root.mkdir()
    (root / "poem.txt").write_text(poem("as it was"))
    git(root, "init", "-q")
    winners, delay = Counter[str](), 0.02
    with seeded() as random:
        async with (
            serving(data, *OPTIONS, "--allow", root, command=COMMAND) as server,
            connected(server) as page,
            connected(server) as phone,
        ):
            clients = dict(zip(CLIENTS, (page, phone), strict=True))
            project = (await page.ask("project_create", path=str(root), agent="demo"))["project_id"]
            for name, client in clients.items():
                await client.ask("hello", client=name)
                await client.ask("project_join", project)
            with neovim(programs.nvim(), root / "poem.txt", cwd=root) as editor:
                assert editor.setup(BRIDGE)
                editor.wait("return (require('drawbridge.link').state() or {}).token ~= nil")
                editor.command("DrawbridgeChanges")
                editor.shows_message("Nothing to review in")
                for number in range(count):
                    race = Race(editor, clients, project, root, number)
                    winner = await race.run(random, random.uniform(0, 2 * delay))
                    winners[winner] += 1
                    delay = min(LATEST, delay * 1.5) if winner in clients else delay / 1.5
    recorded = [one["message"] for one in on_disk(data, project)]
    decided = [one["message"].get("by") for one in recorded if one.get("subtype") == "review_decided"]
    assert Counter(filter(None, decided)) == winners
    return winners


def poem(line: str) -> str:
    return "".join(f"{text}\n" for text in ("one", "two", line, "four", "five"))


class Race:
    """The agent changes a line, and all three decide on that hunk. ``clients``: the web UI and the phone."""

    def __init__(self, editor: Neovim, clients: dict[str, Client], project: str, root: Path, number: int) -> None:
        self.editor = editor
        self.clients = clients
        self.project = project
        self.file = root / "poem.txt"
        self.line = f"by the agent {number}"

    async def run(self, random: Random, delay: float) -> str:
        """Runs the race and returns the winner: "Neovim", "page" (the web UI) or "phone". ``delay``: how much later
        than Neovim the others decide, in seconds.
        """
        before, after = self.file.read_text(), poem(self.line)
        hunk = await self._change(after)
        wishes = {name: random.choice(["keep", "undo"]) for name in ("Neovim", *self.clients)}
        order = random.sample(CLIENTS, 2)

        async def decide(name: str) -> Message:
            return await self.clients[name].ask("review_decide", self.project, hunks=[hunk], decision=wishes[name])

        self.editor.command(f"Drawbridge{wishes['Neovim'].title()}")
        await asyncio.sleep(delay)
        replies = dict(zip(order, await asyncio.gather(*map(decide, order)), strict=True))
        accepted = [name for name, reply in replies.items() if reply["type"] == "review"]
        [winner] = accepted or ["Neovim"]
        assert self.file.read_text() == {"keep": after, "undo": before}[wishes[winner]]
        for name, client in self.clients.items():
            recorded = await client.until("review_decided", by=winner)
            assert (recorded["decision"], recorded["hunks"], recorded["left"]) == (wishes[winner], 1, 0)
            if name != winner:
                assert replies[name]["data"]["code"] == "HUNK_GONE", replies[name]
                assert replies[name]["data"]["details"] == {"gone": hunk, "by": winner, "decision": wishes[winner]}
        page, phone = [(await client.ask("review_get", self.project))["data"] for client in self.clients.values()]
        assert (page["state"], page) == ("none", phone)
        self._shows(winner, wishes[winner])
        return winner

    async def _change(self, text: str) -> str:
        """Makes the agent write ``text``. Returns the hunk's ID once all three show the hunk."""
        prompt = f"/write {json.dumps({'poem.txt': text})}"
        run = (await self.clients["phone"].ask("execute", self.project, prompt=prompt))["data"]["run_id"]
        for client in self.clients.values():
            assert (await client.until("run_finished", run_id=run))["outcome"] == "completed"
            await client.until("review_changed", state="open", hunks=1)
        review: Message = (await self.clients["page"].ask("review_get", self.project))["data"]
        [hunk] = [hunk["id"] for file in review["files"] for hunk in file["hunks"]]
        wait_until(lambda: self.editor.lua(SIGNS) == [f"~{self.line}"], f"the sign at {self.line!r}", PATIENCE)
        self.editor.lua("vim.cmd('messages clear')")
        self.editor.call("nvim_win_set_cursor", 0, [3, 0])
        return str(hunk)

    def _shows(self, winner: str, decision: str) -> None:
        """Waits until Neovim reports the decision and shows the resulting file."""
        done = {"keep": "kept", "undo": "undid"}[decision]
        if winner == "Neovim":
            expected = ["Kept: 1 change" if decision == "keep" else "Undone: 1 change"]
        else:
            # The second message appears if Neovim received the decision before it processed the command.
            expected = [f"{winner} already {done} this change.", f"{winner} made decisions in this review."]

        def is_notified() -> bool:
            return any(text in line for text in expected for line in self.editor.messages)

        wait_until(is_notified, " or ".join(expected), PATIENCE)
        assert not self.editor.is_stuck
        lines = self.file.read_text().splitlines()
        wait_until(lambda: self.editor.call("nvim_buf_get_lines", 0, 0, -1, False) == lines, "the file", PATIENCE)
        wait_until(lambda: self.editor.lua(SIGNS) == [], "no sign", PATIENCE)
