"""Two clients answer the same question at the same moment: one of them decides, the other one is told so."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from tests.agents.rig import BAD_AGENT
from tests.server.processes import serving

from .rig import Client, Message, connected, on_disk, seeded


async def test_some_races(tmp_path: Path) -> None:
    await races(tmp_path, 30)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
async def test_a_thousand_races(tmp_path: Path) -> None:
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
    """A ``claude`` that asks at once."""
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

    said = dict(zip(order, await asyncio.gather(*map(answer, order)), strict=True))
    [winner] = [name for name, reply in said.items() if reply["type"] == "update"]
    [loser] = [name for name, reply in said.items() if reply["type"] == "error"]
    assert said[winner]["data"]["data"]["by"] == winner
    assert said[loser]["data"]["code"] == "APPROVAL_RESOLVED"
    details = said[loser]["data"]["details"]
    assert (details["by"], details["decision"]) == (winner, decisions[winner])
    heard = await people[loser].until("permission_resolved", approval_id=approval)
    assert (heard["by"], heard["decision"]) == (winner, decisions[winner])
    for client in people.values():
        assert (await client.until("run_finished", run_id=run))["outcome"] == "completed"
    written = {"allow": "new", "deny": "old"}[decisions[winner]]
    assert (root / "text").read_text() == written, "the agent has heard the winner, and nobody else"
