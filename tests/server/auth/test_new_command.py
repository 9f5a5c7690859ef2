"""A new command needs only its types, its handler, and its row. No other part of the server has to change."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from websockets.asyncio.client import connect

import client_schema
from drawbridge.server.app.clients import Client
from drawbridge.server.app.command_table import COMMANDS, OK
from drawbridge.server.app.core import Core
from drawbridge.server.app.dispatch import Row
from drawbridge.server.app.run_commands import RunCommands
from drawbridge.server.app.server_commands import ServerCommands
from drawbridge.server.auth.audited import AuditEntry
from drawbridge.server.protocol import commands
from drawbridge.server.protocol.answers import Answer
from drawbridge.server.protocol.replies import Reply
from tests.server.auth.rig import OWNER, Server, serving
from tests.server.auth.test_audit import events


class Rename(commands.ProjectCommand, kw_only=True):
    """Renames a project."""

    title: commands.Text


class Renamed(Struct, frozen=True):
    title: str
    by: str


async def renamed(core: Core, command: Rename, client: Client) -> Answer[Renamed]:
    session = core.projects.get(command.project_id)
    return Answer(type="renamed", project_id=session.id, data=Renamed(command.title, client.name))


def title(command: Rename, reply: Renamed) -> dict[str, Any]:
    return {"title": reply.title}


ROW = Row("rename", Rename, "run", Core, renamed, Reply("renamed", Renamed), AuditEntry("renamed", title), aside=True)

NOT_ROWS = (
    Row("rename", commands.RunRevert, "run", Core, renamed, Reply("renamed", Renamed)),  # type: ignore[arg-type]
    Row("rename", Rename, "run", Core, renamed, OK),  # type: ignore[arg-type]
    Row("rename", Rename, "run", ServerCommands, renamed, Reply("renamed", Renamed)),  # type: ignore[arg-type]
    Row("rename", Rename, "run", RunCommands, RunCommands.agent_kill, Reply("renamed", Renamed)),  # type: ignore[arg-type]
    Row("set_mode", commands.SetMode, "run", RunCommands, RunCommands.set_mode, OK, AuditEntry("named", title)),  # type: ignore[misc]
)
"""Rows that mypy must reject: it compares request, owner, reply and audit with the handler, and reports a
`type: ignore` that is not needed.
"""


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with serving(tmp_path, rows=[*COMMANDS, ROW]) as server:
        yield server


async def asks(server: Server, token: str, type: str, data: dict[str, Any], project: str | None) -> dict[str, Any]:
    """Sends one request on its own connection. Returns the answer."""
    async with connect(server.url, additional_headers={"Authorization": f"Bearer {token}"}, proxy=None) as connection:
        await connection.send(json.dumps({"type": type, "data": data, "project_id": project, "request_id": "r"}))
        async for message in connection:
            answer: dict[str, Any] = json.loads(message)
            if answer.get("request_id") == "r":
                return answer
    raise AssertionError("it was not answered")


async def test_a_new_command_is_executed_and_audited(server: Server) -> None:
    async with server.client() as owner:
        project = await server.project(owner)
    answer = await asks(server, server.token("pad", "run"), "rename", {"title": "Blog"}, project)
    assert answer == {
        "type": "renamed",
        "project_id": project,
        "data": {"title": "Blog", "by": "pad"},
        "request_id": "r",
    }
    [line] = events(server.data, "renamed")
    assert (line["by"], line["project_id"], line["title"]) == ("pad", project, "Blog")


async def test_a_new_command_needs_its_scope(server: Server) -> None:
    async with server.client() as owner:
        project = await server.project(owner)
    viewer = server.token("tv", "view")
    answer = await asks(server, viewer, "rename", {"title": "Blog"}, project)
    assert answer["data"]["code"] == "OUT_OF_SCOPE"
    assert answer["data"]["details"] == {"scope": "view", "needed": "run"}
    assert events(server.data, "renamed") == []
    [line] = events(server.data, "denied")
    assert (line["command"], line["device_id"]) == ("rename", server.devices.identify(viewer).device_id)
    assert "rename" not in (await asks(server, viewer, "hello", {}, None))["data"]["features"]
    assert "rename" in (await asks(server, OWNER, "hello", {}, None))["data"]["features"]


async def test_errors_in_a_new_command_name_its_field(server: Server) -> None:
    answer = await asks(server, OWNER, "rename", {"title": ""}, "p")
    assert (answer["data"]["code"], answer["data"]["field"]) == ("VALIDATION_FAILED", "data.title")


def test_each_row_has_unique_names() -> None:
    """Each handler has the name of its command, and no two commands share a name or a request type."""
    assert len({row.name for row in COMMANDS}) == len({row.request for row in COMMANDS}) == len(COMMANDS)
    assert [row.name for row in COMMANDS if row.handler.__name__ != row.name] == []


def test_only_auth_pair_and_ssh_commands_sign_in() -> None:
    assert {row.name for row in COMMANDS if row.signs_in} == {"auth", "pair", "ssh_challenge", "ssh_auth"}


def test_the_schema_has_a_new_command_and_its_reply() -> None:
    before, after = client_schema.schema()["$defs"], client_schema.schema([*COMMANDS, ROW])["$defs"]
    assert set(after) - set(before) == {"client.rename", "server.renamed", "Renamed"}
    request = after["client.rename"]
    assert request["properties"]["data"]["required"] == ["title"]
    assert request["description"] == "Renames a project."
    assert list(after["Renamed"]["properties"]) == ["title", "by"]


def test_two_replies_of_one_type_are_refused() -> None:
    other = Row("other", commands.HealthCheck, "view", Core, _other, Reply("renamed", Other))
    with pytest.raises(AssertionError, match="renamed is another message"):
        client_schema.schema([*COMMANDS, ROW, other])


class Other(Struct, frozen=True):
    pass


async def _other(core: Core, command: commands.HealthCheck, client: Client) -> Answer[Other]:
    return Answer(type="renamed", data=Other())
