"""The consequences of a command follow its reply, and happen even if no reply can be sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from drawbridge.server.auth.audit import AuditLog
from tests.server.auth.rig import Server
from tests.server.wire_client import Message, WireClient
from tests.waiting import until


@pytest.fixture
def server(whole_server: Server) -> Server:
    return whole_server


@pytest.fixture
async def project(server: Server, owner: WireClient) -> str:
    project = await server.project(owner)
    await owner.ask("project_join", {"project_id": project})
    return project


def kinds(messages: list[Message]) -> list[str]:
    """The type of each message, or its ``update_type`` if the message is an update."""
    return [one["data"]["update_type"] if one["type"] == "update" else one["type"] for one in messages]


def audit_that(does: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the audit log call ``does`` instead of writing the line for a prompt."""
    write = AuditLog.write

    def written(audit: AuditLog, event: str, **fields: Any) -> None:
        if event == "ran":
            does()
        else:
            write(audit, event, **fields)

    monkeypatch.setattr(AuditLog, "write", written)


async def test_a_run_starts_after_the_reply_to_its_prompt(owner: WireClient, project: str) -> None:
    before = len(owner.received)
    await owner.ask("execute", {"prompt": "/quick"}, project)
    await owner.receive("update", "run_finished")
    found = kinds(owner.received[before:])
    assert found.index("accepted") < found.index("run_started")


async def test_a_new_session_is_shown_after_its_reply(owner: WireClient, project: str) -> None:
    before = len(owner.received)
    await owner.ask("agent_new_session", project_id=project)
    await owner.receive("update", "project_state")
    assert kinds(owner.received[before:]) == ["session_reset", "project_state"]


async def test_a_prompt_runs_even_if_its_audit_fails(
    owner: WireClient, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> None:
        raise RuntimeError("a defect of the audit")

    audit_that(fails, monkeypatch)
    before = len(owner.received)
    answer = await owner.ask("execute", {"prompt": "/quick"}, project)
    assert answer["data"]["code"] == "INTERNAL_ERROR"
    await owner.receive("update", "run_finished", outcome="completed")
    found = kinds(owner.received[before:])
    assert found.index("error") < found.index("run_started")
    assert found.count("run_started") == 1


async def test_a_prompt_runs_even_if_its_client_disconnects(
    server: Server, owner: WireClient, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection ends after the prompt is recorded in the history and before the reply is sent."""

    def disconnects() -> None:
        for each in server.clients:
            each.close(1011, "gone")

    audit_that(disconnects, monkeypatch)
    await owner.send("execute", {"prompt": "/quick"}, project)
    [session] = server.core.projects
    await until(lambda: session.recorded.last_outcome == "completed")
    assert "accepted" not in kinds(owner.received)
