"""What follows from a command: after the reply, and without one where no reply can be sent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from drawbridge.server.auth.audit import Audit
from tests.server.auth.rig import Server, serving
from tests.server.wire_client import Message, WireClient
from tests.waiting import until


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with serving(tmp_path) as server:
        yield server


@pytest.fixture
async def client(server: Server) -> AsyncIterator[WireClient]:
    async with server.client() as client:
        yield client


@pytest.fixture
async def project(server: Server, client: WireClient) -> str:
    project = await server.project(client)
    await client.ask("project_join", {"project_id": project})
    return project


def kinds(messages: list[Message]) -> list[str]:
    """The type of each message, or what it updates."""
    return [one["data"]["update_type"] if one["type"] == "update" else one["type"] for one in messages]


def audit_that(does: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls ``does`` instead of writing the audit line of a prompt."""
    write = Audit.write

    def written(audit: Audit, event: str, **fields: Any) -> None:
        if event == "ran":
            does()
        else:
            write(audit, event, **fields)

    monkeypatch.setattr(Audit, "write", written)


async def test_a_run_starts_after_the_reply_to_its_prompt(client: WireClient, project: str) -> None:
    before = len(client.heard)
    await client.ask("execute", {"prompt": "/quick"}, project)
    await client.hear("update", "run_finished")
    found = kinds(client.heard[before:])
    assert found.index("accepted") < found.index("run_started")


async def test_a_new_session_is_shown_after_its_reply(client: WireClient, project: str) -> None:
    before = len(client.heard)
    await client.ask("agent_new_session", project_id=project)
    await client.hear("update", "project_state")
    assert kinds(client.heard[before:]) == ["session_reset", "project_state"]


async def test_a_prompt_runs_although_its_audit_fails(
    client: WireClient, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> None:
        raise RuntimeError("a defect of the audit")

    audit_that(fails, monkeypatch)
    before = len(client.heard)
    answer = await client.ask("execute", {"prompt": "/quick"}, project)
    assert answer["data"]["code"] == "INTERNAL_ERROR"
    await client.hear("update", "run_finished", outcome="completed")
    found = kinds(client.heard[before:])
    assert found.index("error") < found.index("run_started")
    assert found.count("run_started") == 1


async def test_a_prompt_runs_although_its_client_is_gone(
    server: Server, client: WireClient, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection ends between the record in the history and the reply."""

    def disconnects() -> None:
        for each in server.clients:
            each.close(1011, "gone")

    audit_that(disconnects, monkeypatch)
    await client.tell("execute", {"prompt": "/quick"}, project)
    [session] = server.core.projects
    await until(lambda: session.memory.last_outcome == "completed")
    assert "accepted" not in kinds(client.heard)
