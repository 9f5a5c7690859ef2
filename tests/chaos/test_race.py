"""Clients answer the same approval request, or decide on the same hunk, at the same moment. One of them wins, and the
others are notified of its decision.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from tests.agents.rig import BAD_AGENT
from tests.page.agent import COMMAND
from tests.server.checkpoints.rig import git
from tests.server.processes import serving

from .rig import Client, Message, connected, on_disk, seeded


async def test_clients_race_to_answer_a_request(tmp_path: Path) -> None:
    await races(tmp_path, 30)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
async def test_clients_race_a_thousand_times_to_answer_a_request(tmp_path: Path) -> None:
    await races(tmp_path, 1_000)


async def races(directory: Path, count: int) -> None:
    root, data = directory / "root", directory / "data"
    root.mkdir()
    (root / "text").write_text("old")
    with seeded() as random:
        async with (
            serving(
                data,
                "--no-tls",
                "--max-prompts",
                "10000",
                "--fsync",
                "off",
                "--allow",
                root,
                "--log-level",
                "warning",
                "--agent-path",
                f"claude={quick(directory)}",
            ) as server,
            connected(server) as phone,
            connected(server) as page,
        ):
            project = (await phone.ask("project_create", path=str(root), agent="claude"))["project_id"]
            people = {"phone": phone, "page": page}
            for name, client in people.items():
                await client.ask("hello", client=name)
                await client.ask("project_join", project)
            for _ in range(count):
                decisions = {name: random.choice(["allow", "deny"]) for name in people}
                order = random.sample(sorted(people), 2)
                await one_race(people, order, decisions, project, root)
    records = on_disk(data, project)
    asked = [one["message"]["message"]["approval_id"] for one in records if subtype(one) == "permission_request"]
    settled = [one["message"]["message"]["approval_id"] for one in records if subtype(one) == "permission_resolved"]
    assert settled == asked
    assert len(asked) == count


def quick(directory: Path) -> Path:
    """Creates a ``claude`` that runs the misbehaving agent, which starts quickly. Returns its path."""
    program = directory / "claude"
    answer = '[ "$1" = --version ] && echo "2.1.329 (Claude Code)" && exit'
    program.write_text(f'#!/bin/sh\n{answer}\nexec {sys.executable} {BAD_AGENT} as-told "$@"\n')
    program.chmod(0o755)
    return program


def subtype(record: Message) -> str:
    return str(record["message"]["subtype"]) if record["direction"] == "server" else ""


async def one_race(
    people: dict[str, Client], order: list[str], decisions: dict[str, str], project: str, root: Path
) -> None:
    (root / "text").write_text("old")
    run = (await people["phone"].ask("execute", project, prompt="edit text old new"))["data"]["run_id"]
    questions = [await client.until("permission_request", run_id=run) for client in people.values()]
    [approval] = {question["approval_id"] for question in questions}

    async def answer(name: str) -> Message:
        return await people[name].ask("permission_response", project, approval_id=approval, decision=decisions[name])

    replies = dict(zip(order, await asyncio.gather(*map(answer, order)), strict=True))
    [winner] = [name for name, reply in replies.items() if reply["type"] == "update"]
    [loser] = [name for name, reply in replies.items() if reply["type"] == "error"]
    assert replies[winner]["data"]["data"]["by"] == winner
    assert replies[loser]["data"]["code"] == "APPROVAL_RESOLVED"
    details = replies[loser]["data"]["details"]
    assert (details["by"], details["decision"]) == (winner, decisions[winner])
    received = await people[loser].until("permission_resolved", approval_id=approval)
    assert (received["by"], received["decision"]) == (winner, decisions[winner])
    for client in people.values():
        assert (await client.until("run_finished", run_id=run))["outcome"] == "completed"
    written = {"allow": "new", "deny": "old"}[decisions[winner]]
    assert (root / "text").read_text() == written, "the agent has received the winner's decision and no other"


@pytest.mark.slow
async def test_clients_race_to_decide_on_a_hunk(tmp_path: Path) -> None:
    await hunk_races(tmp_path, 10)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
async def test_clients_race_a_hundred_times_to_decide_on_a_hunk(tmp_path: Path) -> None:
    await hunk_races(tmp_path, 100)


async def hunk_races(directory: Path, count: int) -> None:
    root, data = directory / "root", directory / "data"
    root.mkdir()
    (root / "poem.txt").write_text(poem("as it was"))
    git(root, "init", "-q")
    options = ("--no-tls", "--max-prompts", "10000", "--fsync", "off", "--allow", root, "--log-level", "warning")
    with seeded() as random:
        async with (
            serving(data, *options, command=COMMAND) as server,
            connected(server) as page,
            connected(server) as phone,
            connected(server) as terminal,
        ):
            project = (await page.ask("project_create", path=str(root), agent="demo"))["project_id"]
            people = {"page": page, "phone": phone, "terminal": terminal}
            for name, client in people.items():
                await client.ask("hello", client=name)
                await client.ask("project_join", project)
            for number in range(count):
                wishes = dict(zip(people, random.choices(["keep", "undo", "edit"], k=3), strict=True))
                await one_hunk_race(people, random.sample(sorted(people), 3), wishes, project, root, number)
    decided = [one["message"] for one in on_disk(data, project) if one["message"].get("subtype") == "review_decided"]
    assert len([one for one in decided if one["message"].get("by")]) == count


def poem(line: str) -> str:
    return "".join(f"{text}\n" for text in ("one", "two", line, "four", "five"))


async def one_hunk_race(
    people: dict[str, Client], order: list[str], wishes: dict[str, str], project: str, root: Path, number: int
) -> None:
    """The agent changes a line, and all clients decide on that hunk at the same moment. ``wishes``: ``keep``, ``undo``
    or ``edit``, by client.
    """
    before, after = (root / "poem.txt").read_text(), poem(f"by the agent {number}")
    prompt = f"/write {json.dumps({'poem.txt': after})}"
    run = (await people["phone"].ask("execute", project, prompt=prompt))["data"]["run_id"]
    for client in people.values():
        assert (await client.until("run_finished", run_id=run))["outcome"] == "completed"
        await client.until("review_changed", state="open", hunks=1)
    review = (await people["page"].ask("review_get", project))["data"]
    [hunk] = [hunk["id"] for file in review["files"] for hunk in file["hunks"]]

    async def decide(name: str) -> Message:
        wish = {"text": f"by {name} {number}\n"} if wishes[name] == "edit" else {"decision": wishes[name]}
        return await people[name].ask("review_decide", project, hunks=[hunk], **wish)

    replies = dict(zip(order, await asyncio.gather(*map(decide, order)), strict=True))
    [winner] = [name for name, reply in replies.items() if reply["type"] == "review"]
    expected = {"keep": after, "undo": before, "edit": poem(f"by {winner} {number}")}[wishes[winner]]
    assert (root / "poem.txt").read_text() == expected
    for name, client in people.items():
        recorded = await client.until("review_decided", by=winner)
        assert (recorded["decision"], recorded["hunks"], recorded["left"]) == (wishes[winner], 1, 0)
        if name != winner:
            assert replies[name]["data"]["code"] == "HUNK_GONE", replies[name]
            assert replies[name]["data"]["details"] == {"gone": hunk, "by": winner, "decision": wishes[winner]}
    page, phone, terminal = [(await client.ask("review_get", project))["data"] for client in people.values()]
    assert (page["state"], page) == ("none", phone)
    assert page == terminal
