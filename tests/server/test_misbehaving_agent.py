"""With a misbehaving ``claude`` behind the real server, each run ends in a clear state, and the next prompt is
accepted."""

from __future__ import annotations

import base64
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.agents.rig import BAD_AGENT
from tests.server import bad_claude as rig
from tests.server.processes import serving
from tests.server.wire_client import WireClient

BAD_TURNS = [
    ("junk", None, ""),
    ("bad-utf8", None, ""),
    ("unknown", None, ""),
    ("twice", None, ""),
    ("die 3", "AGENT_EXITED", "exited with code 3 before it had finished: Something broke."),
    ("junk-and-die", "AGENT_EXITED", "exited with code 4 before it had finished: Killed by a hook"),
    ("torn", "AGENT_EXITED", "exited with code 0 before it had finished"),
    ("endless-line", "EXECUTION_FAILED", "sent a line longer than 32 MB, and was stopped."),
    ("close-stdout", "EXECUTION_FAILED", "closed its input or output but continued to run, and was stopped."),
    ("error overloaded", "EXECUTION_FAILED", "overloaded"),
    ("not-logged-in", "AGENT_NOT_LOGGED_IN", "has no valid login on the server's machine"),
]
"""The prompt, the code of the run's error, and a part of its message. If the code is None, the run still completes."""


def program(path: Path, version: str = "2.1.329", start: str = "as-told") -> None:
    run = shlex.join([sys.executable, str(BAD_AGENT), start])
    path.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "{version} (Claude Code)" && exit\nexec {run} "$@"\n')
    path.chmod(0o755)


async def ran(client: WireClient, project: str, prompt: str) -> dict[str, Any]:
    """Runs a prompt. Returns how the run ended, once the project is in the state that follows from it."""
    client.passed()
    await client.ask("execute", {"prompt": prompt}, project)
    ended: dict[str, Any] = (await client.receive("update", "run_finished"))["data"]["data"]
    assert ended["outcome"] in ("completed", "failed", "timeout")
    await client.receive("update", "project_state", state="IDLE" if ended["outcome"] == "completed" else "ERROR")
    return ended


@pytest.mark.thorough
async def test_a_misbehaving_agent_does_not_block_the_next_prompt(tmp_path: Path) -> None:
    flags = rig.bad_claude(tmp_path)
    async with serving(tmp_path / "data", *flags) as server, server.client() as client:
        project = await rig.project(server, client)
        for prompt, code, words in BAD_TURNS:
            received = await ran(client, project, prompt)
            assert (received["outcome"], received.get("code")) == ("failed" if code else "completed", code), prompt
            assert words in received.get("error", ""), prompt
            assert str(tmp_path) not in str(received), "the error does not name a path of the server"
            assert (await ran(client, project, "say hello"))["outcome"] == "completed", f"after {prompt}"

        assert (await ran(client, project, "line 20000000"))["outcome"] == "completed"
        [large] = [one for one in client.received if "truncated" in one["data"]]
        blob = large["data"]["truncated"]
        assert blob["bytes"] == 20_000_000 - 1
        first = (await client.ask("blob_get", {"blob_id": blob["blob_id"]}))["data"]
        last = (await client.ask("blob_get", {"blob_id": blob["blob_id"], "offset": first["size"] - 5}))["data"]
        assert first["size"] > blob["bytes"]
        assert base64.b64decode(last["data"]) == b'xx"}}'

        claude = tmp_path / "bad-claude"
        bad_programs: list[tuple[Callable[[], None], str, str]] = [
            (lambda: program(claude, start="die-at-once"), "AGENT_EXITED", "I can't even begin."),
            (
                lambda: program(claude, version="1.0.128"),
                "AGENT_TOO_OLD",
                "1.0.128 is too old; 2.0.0 or newer is required",
            ),
            (claude.unlink, "AGENT_NOT_FOUND", "or correct --agent-path"),
        ]
        for change, code, words in bad_programs:
            await client.ask("agent_new_session", project_id=project)
            change()
            received = await ran(client, project, "say hello")
            assert (received["outcome"], received["code"]) == ("failed", code)
            assert words in received["error"]
        program(claude)
        assert (await ran(client, project, "say hello"))["outcome"] == "completed"
        history = (await client.ask("get_messages", {"limit": 1_000}, project))["data"]
        assert [one["seq"] for one in history["messages"]] == list(range(1, len(history["messages"]) + 1))


@pytest.mark.slow
async def test_a_silent_agent_is_ended_after_the_owners_limit(tmp_path: Path) -> None:
    flags = rig.bad_claude(tmp_path)
    async with serving(tmp_path / "data", *flags, "--idle-timeout", "10") as server, server.client() as client:
        project = await rig.project(server, client)
        received = await ran(client, project, "silent")
        assert (received["outcome"], received["code"]) == ("timeout", "EXECUTION_TIMEOUT")
        assert "produced no output for 10 seconds and" in received["error"]
        assert received["duration_ms"] >= 10_000
        assert (await ran(client, project, "say hello"))["outcome"] == "completed"
