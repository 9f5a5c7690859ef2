"""On a server that may open only a few files, a run that can't start names the limit that is too low, and later runs
can start.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.server.processes import COMMAND, Server, serving
from tests.server.wire_client import WireClient
from tests.waiting import PATIENCE, until

LIMITED = ["sh", "-c", 'ulimit -n 64 && exec "$0" "$@"', *COMMAND]
RUNS = 9
FEW = 64 - 12
"""A run can start while the server has fewer open files than this."""


@pytest.mark.thorough
async def test_a_limit_on_open_files_is_reported(tmp_path: Path) -> None:
    for number in range(RUNS):
        (tmp_path / "work" / str(number)).mkdir(parents=True)
    flags: list[str | Path] = ["--no-tls", "--allow", tmp_path / "work", "--max-runs", str(RUNS), "--warm", "0"]
    async with serving(tmp_path / "data", *flags, command=LIMITED) as server, server.client() as client:
        projects = [await new_project(client, tmp_path / "work" / str(number)) for number in range(RUNS)]
        failures = [end for end in await ran(client, projects, "/slow 30") if end["outcome"] == "failed"]
        assert failures, "no run failed to start"
        assert {end["code"] for end in failures} == {"RESOURCE_LIMIT"}
        assert all("limit of 64 open files" in end["error"] and "`ulimit -n`" in end["error"] for end in failures)
        # The checkpoints after these runs use git, which opens files, too.
        async with asyncio.timeout(PATIENCE):
            again: list[dict[str, Any]] = []
            while [end["outcome"] for end in again] != ["completed"]:
                await until(
                    lambda: not programs_of(server) and open_files(server) < FEW,
                    "the end of the programs that open files",
                )
                again = await ran(client, projects[:1], "/quick")
        assert server.errors.partition("Traceback")[2] == ""


def open_files(server: Server) -> int:
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


def programs_of(server: Server) -> list[psutil.Process]:
    return psutil.Process(server.process.pid).children(recursive=True)


async def new_project(client: WireClient, directory: Path) -> str:
    made = await client.ask("project_create", {"path": str(directory), "agent": "demo"})
    await client.ask("project_join", project_id=made["project_id"])
    return str(made["project_id"])


async def ran(client: WireClient, projects: list[str], prompt: str) -> list[dict[str, Any]]:
    """Runs the prompt in all projects at the same time. Returns how the accepted runs ended."""
    accepted = [await client.ask("execute", {"prompt": prompt}, project) for project in projects]
    refused = [answer["data"]["message"] for answer in accepted if answer["type"] == "error"]
    assert [reason for reason in refused if "too many open files" not in reason] == []
    wanted = {answer["data"]["run_id"] for answer in accepted if answer["type"] == "accepted"}

    def ends() -> list[dict[str, Any]]:
        updates = [message["data"] for message in client.received if message["type"] == "update"]
        ended = [update["data"] for update in updates if update["update_type"] == "run_finished"]
        return [end for end in ended if end["run_id"] in wanted]

    await until(lambda: len(ends()) == len(wanted), "the end of all runs")
    return ends()
