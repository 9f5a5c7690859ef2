"""A client that follows the "Message Flow Example" in the agent server's specification works. The test goes through the
example line by line, with the demo agent. The numbers in comments are the example's line numbers.
"""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.server.processes import serving
from tests.server.wire_client import WireClient
from tests.waiting import until


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    directory = tmp_path / "wip" / "project1"
    directory.mkdir(parents=True)
    return directory


async def run_of(client: WireClient, project: str, prompt: str) -> list[dict[str, Any]]:
    """Executes a prompt. Returns all messages up to the one with the state after the run."""
    start = len(client.received)
    await client.send("execute", {"prompt": prompt}, project)
    await client.receive("update", "project_state", state="EXECUTING")
    await client.receive("update", "run_finished", outcome="completed")
    await client.receive("update", "project_state", state="IDLE")
    return client.received[start:]


def lines(received: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The agent's messages."""
    messages = [message["data"] for message in received if message["type"] == "agent_message"]
    return [data["messages"][0] for data in messages if data["direction"] == "claude"]


async def test_the_example_of_the_specification_works_line_by_line(directory: Path, tmp_path: Path) -> None:
    data, options = tmp_path / "data", ("--allow", tmp_path / "wip")
    async with serving(data, *options) as server:
        async with server.client() as client:  # 1
            project, session = await creates_a_project_and_executes(client, directory)
        # The client disconnects, and the agent continues: 11, 12, 13
        async with server.client() as client:  # 14
            await reconnects(client, project, session, directory)
            async with server.client() as other:  # 21
                await both_receive_the_same(client, other, project, session)
            new_session = await starts_a_new_session(client, project, session, directory)
        await server.end(signal.SIGKILL)  # 28
    async with serving(data, *options) as server, server.client() as client:  # 29, 30, 31
        await continues_where_it_left_off(client, project, new_session)


async def creates_a_project_and_executes(client: WireClient, directory: Path) -> tuple[str, str]:
    await client.send("project_list")  # 2
    assert await client.next() == {"type": "project_list", "data": {"projects": []}}  # 3
    await client.send("project_create", {"path": str(directory), "agent": "demo"})  # 4
    created = await client.next()  # 5
    assert (created["type"], created["data"]["update_type"]) == ("update", "project_state")
    project = created["project_id"]
    assert created["data"]["data"]["state"] == "IDLE"
    await client.send("project_join", {"project_id": project})  # 6
    joined = await client.next()  # 7
    assert joined["project_id"] == project
    assert joined["data"]["update_type"] == "project_joined"
    assert joined["data"]["data"]["path"] == str(directory)
    await client.send("execute", {"prompt": "/quick Create hello world"}, project)  # 8
    state = await client.receive("update", "project_state", state="EXECUTING")  # 9
    assert state["project_id"] == project
    message = await client.receive("agent_message", direction="claude")  # 10
    assert message["project_id"] == project
    assert message["data"]["messages"][0]["type"] == "system"
    assert message["data"]["session_id"]
    return project, message["data"]["session_id"]


async def reconnects(client: WireClient, project: str, session: str, directory: Path) -> None:
    async def list_() -> dict[str, Any]:
        await client.send("project_list")  # 15
        [one] = (await client.receive("project_list"))["data"]["projects"]  # 16
        return dict(one)

    listed = await list_()
    while listed["state"] != "IDLE":
        listed = await list_()
    assert (listed["id"], listed["path"], listed["session_id"]) == (project, str(directory), session)
    for name in ("created_at", "last_active", "first_message_time", "last_message_time"):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", listed[name]), name
    assert listed["message_count"] >= 4
    await client.send("project_join", {"project_id": project})  # 17
    await client.receive("update", "project_joined")  # 18
    await client.send("get_messages", {"since": "2024-01-27T10:02:00Z"}, project)  # 19
    history = (await client.receive("message_history"))["data"]  # 20
    assert [record["seq"] for record in history] == list(range(1, listed["message_count"] + 1))
    assert history[0]["direction"] == "client"
    assert history[0]["message"]["message"] == {"prompt": "/quick Create hello world"}


async def both_receive_the_same(client: WireClient, other: WireClient, project: str, session: str) -> None:
    await other.ask("project_join", {"project_id": project})
    received = await run_of(client, project, "/quick one")
    await other.receive("update", "run_finished")
    await until(lambda: lines(other.received) == lines(received))  # 22
    assert {line["session_id"] for line in lines(received)} == {session}, "the conversation continues"


async def starts_a_new_session(client: WireClient, project: str, session: str, directory: Path) -> set[str]:
    await client.send("agent_new_session", project_id=project)  # 23
    reset = await client.receive("update", "session_reset")  # 24
    fields = {"old_session_id": session, "new_session_id": "", "project_id": project}
    assert reset["data"]["data"] == fields
    state = (await client.receive("update", "project_state"))["data"]["data"]  # 25
    assert (state["state"], state["session_id"], state["path"]) == ("IDLE", "", str(directory))
    received = await run_of(client, project, "/quick Start fresh context")  # 26
    new_session = {line["session_id"] for line in lines(received)}
    assert len(new_session) == 1
    assert session not in new_session  # 27
    return new_session


async def continues_where_it_left_off(client: WireClient, project: str, session: set[str]) -> None:
    await client.send("project_list")  # 32
    [listed] = (await client.next())["data"]["projects"]  # 33
    assert {listed["session_id"]} == session
    assert listed["state"] == "IDLE"
    await client.send("project_join", {"project_id": project})  # 34
    await client.receive("update", "project_joined")
    received = await run_of(client, project, "/quick Continue where we left off")  # 35
    assert {line["session_id"] for line in lines(received)} == session  # 36
