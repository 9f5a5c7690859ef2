"""A ``claude`` that misbehaves: what ``tests/server/agents/bad_agent.py`` does on command, for a real server to start."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

from tests.server.agents.rig import BAD_AGENT
from tests.server.processes import Server
from tests.server.wire_client import WireClient


def bad_claude(directory: Path) -> list[str | Path]:
    """The flags of a server that runs it."""
    program = directory / "bad-claude"
    run = shlex.join([sys.executable, str(BAD_AGENT), "as-told"])
    program.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "2.1.329 (Claude Code)" && exit\nexec {run} "$@"\n')
    program.chmod(0o755)
    code = directory / "code"
    code.mkdir(exist_ok=True)
    return ["--allow", directory, "--agent-path", f"claude={program}", "--no-checkpoints", "--no-tls"]


async def project(server: Server, client: WireClient) -> str:
    """One in which the misbehaving agent works; the client hears of it."""
    path = str(server.data.parent / "code")
    created = await client.ask("project_create", {"path": path, "agent": "claude", "join": True})
    return str(created["project_id"])


async def words(client: WireClient) -> str:
    """What the agent says next for people."""
    while True:
        message: dict[str, Any] = await client.hear("agent_message")
        for said in message["data"]["messages"]:
            if said["type"] == "assistant":
                return str(said["message"]["content"][0]["text"])
