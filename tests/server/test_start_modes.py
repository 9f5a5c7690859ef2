"""The mode that the real ``claude`` works in, whatever its owner's settings are, and the mode that clients show."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests import programs
from tests.rigs import claude_rig
from tests.rigs.messages_stub import MessagesStub, text, write
from tests.server.processes import serving
from tests.server.wire_client import WireClient

from .test_background_work import asked, decide, state
from .test_real_claude import finished, model, poem

pytestmark = pytest.mark.thorough

__all__ = ["model", "poem"]


def owner_has(**settings: Any) -> None:
    """Writes these settings into the CLI's own settings file, as the owner could."""
    (Path(os.environ["CLAUDE_CONFIG_DIR"]) / "settings.json").write_text(json.dumps(settings))


@contextlib.asynccontextmanager
async def at_work(poem: Path, model: MessagesStub, *flags: str) -> AsyncIterator[tuple[WireClient, str]]:
    allowed = str(poem.parent.parent)
    options = ("--no-tls", "--allow", allowed, "--agent-path", f"claude={programs.claude()}", *flags)
    # Otherwise, the CLI does not let root skip permissions.
    environment = claude_rig.environment(model) | {"IS_SANDBOX": "1"}
    async with (
        serving(poem.parent.parent.parent / "data", *options, **environment) as server,
        server.client() as client,
    ):
        created = await client.ask("project_create", {"path": str(poem.parent), "agent": "claude", "join": True})
        yield client, created["project_id"]


@pytest.mark.slow_for("acceptEdits", "auto")
@pytest.mark.parametrize("mode", ["bypassPermissions", "auto", "acceptEdits"])
async def test_the_mode_in_the_owners_settings_is_not_used(poem: Path, model: MessagesStub, mode: str) -> None:
    owner_has(permissions={"defaultMode": mode})
    made = poem.parent / "made.txt"
    model.will_say(write(made, "x\n"), text("Done."))
    async with at_work(poem, model) as (client, project):
        assert (await state(client, project)).get("permission_mode", "default") == "default"
        await client.ask("execute", {"prompt": "Make it"}, project)
        question = await asked(client)
        assert not made.exists()
        assert (await state(client, project)).get("permission_mode", "default") == "default"
        await decide(client, project, question, decision="deny")
        assert (await finished(client))["outcome"] == "completed"
        assert not made.exists()


async def test_a_mode_that_the_owner_allows_works_and_is_shown(poem: Path, model: MessagesStub) -> None:
    made = poem.parent / "made.txt"
    model.will_say(write(made, "x\n"), text("Done."))
    async with at_work(poem, model, "--allow-skip-permissions") as (client, project):
        await client.ask("execute", {"prompt": "Go", "options": {"dangerously_skip_permissions": True}}, project)
        assert (await finished(client))["outcome"] == "completed"
        assert made.exists()
        assert (await state(client, project))["permission_mode"] == "bypassPermissions"


async def test_a_mode_above_the_ceiling_is_reset(poem: Path, model: MessagesStub) -> None:
    """A hook in the owner's settings allows a call and switches the session to another mode."""
    setting = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}
    allow = {"behavior": "allow", "updatedPermissions": [setting]}
    answer = {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": allow}}
    hook = poem.parent.parent / "answer.json"
    hook.write_text(json.dumps(answer))
    owner_has(hooks={"PermissionRequest": [{"hooks": [{"type": "command", "command": f"cat {hook}; rm -f {hook}"}]}]})
    first, second = poem.parent / "first.txt", poem.parent / "second.txt"
    model.will_say(write(first, "x\n"), text("Done."), write(second, "x\n"), text("Done."))
    async with at_work(poem, model, "--mode", "default") as (client, project):
        await client.ask("execute", {"prompt": "Make the first"}, project)
        assert (await finished(client))["outcome"] == "completed"
        assert first.exists()
        shown = [m["data"]["data"].get("permission_mode", "default") for m in client.received if reported_state(m)]
        assert "acceptEdits" in shown, "the mode that the CLI reported"
        await client.ask("execute", {"prompt": "Make the second"}, project)
        question = await asked(client)
        assert (await state(client, project)).get("permission_mode", "default") == "default"
        await decide(client, project, question, decision="deny")
        await client.receive("update", "run_finished")
        assert not second.exists()


def reported_state(message: dict[str, Any]) -> bool:
    return bool(message["type"] == "update" and message["data"]["update_type"] == "project_state")
