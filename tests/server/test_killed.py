"""After ``kill -9`` of the server during a run, what a client received is in the history's files, and the client
can resume.
"""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

from tests.server.processes import serving
from tests.waiting import until


def read_without_us(logs: Path) -> list[dict[str, Any]]:
    """Every complete line of the history's files, in the order of their names, parsed without Drawbridge's code."""
    found = []
    for file in sorted(logs.glob("messages_*.jsonl")):
        *whole, torn = file.read_bytes().split(b"\n")
        found += [json.loads(line) for line in whole]
        assert not torn or file == max(logs.glob("messages_*.jsonl")), "only the newest file may end in the middle"
    return found


async def test_received_records_are_on_disk_and_the_rest_arrives_once(tmp_path: Path) -> None:
    data, code = tmp_path / "data", tmp_path / "roots" / "code"
    code.mkdir(parents=True)
    options = ("--allow", tmp_path / "roots", "--no-tls")
    async with serving(data, *options) as server:
        async with server.client() as client:
            project = (await client.ask("project_create", {"path": str(code), "agent": "demo"}))["project_id"]
            await client.ask("project_join", project_id=project)
            await client.ask("execute", {"prompt": "/lines 20000"}, project)
            await until(lambda: client.received[-1].get("seq", 0) > 500, "many lines")
            server.process.send_signal(signal.SIGKILL)
            await client.connection.wait_closed()
            received = list(client.received)
        await server.ended()

    found = read_without_us(data / "projects" / project / "logs")
    assert [record["seq"] for record in found] == list(range(1, len(found) + 1))
    seen = {message["seq"]: message for message in received if "seq" in message}
    assert sorted(seen) == list(range(1, len(seen) + 1))
    assert 500 < len(seen) <= len(found) < 20_000
    for seq, message in seen.items():
        if message["type"] == "agent_message":
            assert found[seq - 1]["message"] == message["data"]["messages"][0]
            assert found[seq - 1]["timestamp"] == message["data"]["timestamp"]

    async with serving(data, *options) as server, server.client() as client:
        joined = await client.ask("project_join", {"after_seq": len(seen)}, project)
        assert joined["data"]["data"]["state"] == "IDLE"
        finished = await client.receive("update", "run_finished", outcome="interrupted")
        await asyncio.sleep(0)
        rest = [message["seq"] for message in client.received if "seq" in message]
        assert rest == list(range(len(seen) + 1, finished["seq"] + 1))
