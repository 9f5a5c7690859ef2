"""A ``claude`` that misbehaves in the way its prompt names, for tests with a real server. It runs
``tests/agents/bad_agent.py``.
"""

from __future__ import annotations

import contextlib
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from drawbridge.agents.base import Confinement
from drawbridge.agents.supervisor_pipe import SupervisorPipe
from tests.agents.rig import BAD_AGENT
from tests.server.processes import Server
from tests.server.wire_client import WireClient
from tests.waiting import PATIENCE


def bad_claude(directory: Path) -> list[str | Path]:
    """Creates the misbehaving ``claude`` in ``directory``. Returns the flags of a server that runs it."""
    program = directory / "bad-claude"
    run = shlex.join([sys.executable, str(BAD_AGENT), "as-told"])
    program.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "2.1.329 (Claude Code)" && exit\nexec {run} "$@"\n')
    program.chmod(0o755)
    return ["--allow", directory, "--agent-path", f"claude={program}", "--no-checkpoints", "--no-tls"]


async def project(server: Server, client: WireClient, name: str = "code") -> str:
    """Creates and joins a project in which the misbehaving agent works. Returns its id."""
    path = server.data.parent / name
    path.mkdir(exist_ok=True)
    created = await client.ask("project_create", {"path": str(path), "agent": "claude", "join": True})
    return str(created["project_id"])


async def words(client: WireClient) -> str:
    """Waits for the agent's next message. Returns its text."""
    while True:
        message: dict[str, Any] = await client.receive("agent_message")
        for item in message["data"]["messages"]:
            if item["type"] == "assistant":
                return str(item["message"]["content"][0]["text"])


def kept(script: str, confinement: Confinement = Confinement()) -> tuple[int, str]:  # noqa: B008 - frozen
    """Runs a shell script under a supervisor, as an agent is run. Returns the supervisor's exit code and the script's
    stdout.
    """
    pipe = SupervisorPipe()
    with contextlib.closing(pipe):
        command = pipe.command(confinement, ["/bin/sh", "-c", script])
        done = subprocess.run(
            command, stdout=subprocess.PIPE, pass_fds=(pipe.descriptor,), timeout=PATIENCE, start_new_session=True
        )
    return done.returncode, done.stdout.decode()
