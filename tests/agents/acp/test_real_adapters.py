"""The ACP adapters of Claude Code and Codex behind the real server, each with the real program and a stub for its model."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests import programs
from tests.rigs import claude_rig, responses_stub
from tests.rigs.messages_stub import MessagesStub, edit, read, text
from tests.rigs.responses_stub import ResponsesStub
from tests.server.processes import serving
from tests.server.wire_client import WireClient

pytestmark = pytest.mark.thorough

POEM = "one\ntwo\nthree\n"
CHANGED = "one\n2\nthree\n"
PATCH = "*** Begin Patch\n*** Update File: poem.txt\n@@\n one\n-two\n+2\n three\n*** End Patch\n"


@pytest.fixture
def poem(home: Path) -> Path:
    directory = home / "roots" / "poems"
    directory.mkdir(parents=True)
    (directory / "poem.txt").write_text(POEM)
    return directory / "poem.txt"


@contextlib.asynccontextmanager
async def at_work(
    poem: Path, adapter: str, environment: Mapping[str, str], *flags: str
) -> AsyncIterator[tuple[WireClient, str]]:
    roots = str(poem.parent.parent)
    options = ("--no-tls", "--allow", roots, "--acp-agent", f"it={programs.acp_adapter(adapter)}", *flags)
    own = {"CLAUDE_CODE_EXECUTABLE": str(programs.claude()), "CODEX_PATH": str(programs.codex())}
    async with (
        serving(Path(roots).parent / "data", *options, **environment, **own) as server,
        server.client() as client,
    ):
        created = await client.ask("project_create", {"path": str(poem.parent), "agent": "it", "join": True})
        yield client, created["project_id"]


async def asked(client: WireClient) -> dict[str, Any]:
    question: dict[str, Any] = (await client.receive("permission_request"))["data"]
    return question


async def allowed(client: WireClient, project: str, question: dict[str, Any]) -> None:
    await client.ask("permission_response", {"approval_id": question["approval_id"], "decision": "allow"}, project)
    assert (await client.receive("update", "run_finished"))["data"]["data"]["outcome"] == "completed"


async def state(client: WireClient) -> dict[str, Any]:
    [project] = (await client.ask("project_list"))["data"]["projects"]
    return dict(project)


async def listed(client: WireClient, project: str) -> list[tuple[str, bool]]:
    found = await client.ask("session_list", project_id=project)
    return [(one["title"], one.get("current", False)) for one in found["data"]["sessions"]]


async def test_claude_begins_in_default_mode_and_shows_all_changes(poem: Path) -> None:
    claude_rig.prepare_home(poem.parent)
    settings = Path(os.environ["CLAUDE_CONFIG_DIR"]) / "settings.json"
    settings.write_text(json.dumps({"permissions": {"defaultMode": "acceptEdits"}}))
    with MessagesStub() as model:
        model.will_say(read(poem), edit(poem, "two", "2"), text("Done."))
        environment = claude_rig.environment(model) | {"IS_SANDBOX": "1"}
        async with at_work(poem, "claude-agent-acp", environment) as (client, project):
            await client.ask("execute", {"prompt": "Change it"}, project)
            question = await asked(client)
            assert question["proposal"] == {"path": str(poem), "old_text": POEM, "new_text": CHANGED}
            shown = await state(client)
            assert shown.get("permission_mode", "default") == "default"
            assert {"default", "acceptEdits", "plan"} <= set(shown["modes"])
            assert "bypassPermissions" not in shown["modes"]
            await allowed(client, project, question)
            assert poem.read_text() == CHANGED
            assert await listed(client, project) == [("Change it", True)]


def codex_environment(model: ResponsesStub) -> dict[str, str]:
    """Writes the settings of a Codex whose model is the stub. Returns its environment."""
    folder = Path(os.environ["HOME"]) / ".codex"
    folder.mkdir()
    provider = f'name = "stub"\nbase_url = "{model.url}"\nwire_api = "responses"\nenv_key = "KEY"\n'
    settings = 'model_provider = "stub"\nmodel = "gpt-5.5"\n\n[analytics]\nenabled = false\n\n'
    (folder / "config.toml").write_text(f"{settings}[model_providers.stub]\n{provider}")
    return {"KEY": "for-nobody", "HOME": os.environ["HOME"], "PATH": os.environ["PATH"]}


@contextlib.contextmanager
def codex_model(*turns: dict[str, Any]) -> Iterator[dict[str, str]]:
    with ResponsesStub(*turns) as model:
        yield codex_environment(model)


@pytest.mark.slow
async def test_codex_reports_the_change_before_the_question(poem: Path) -> None:
    with codex_model(responses_stub.apply_patch(PATCH), responses_stub.text("Done.")) as environment:
        async with at_work(poem, "codex-acp", environment) as (client, project):
            await client.ask("set_mode", {"mode": "plan"}, project)
            await client.ask("execute", {"prompt": "Change it"}, project)
            question = await asked(client)
            assert question["proposal"] == {"path": str(poem), "old_text": POEM, "new_text": CHANGED}
            assert question["input"]["title"] == "Edit files"
            await allowed(client, project, question)
            assert poem.read_text() == CHANGED
            assert await listed(client, project) == [("Change it", True)]


@pytest.mark.slow
async def test_the_modes_of_codex_are_shown_and_chosen(poem: Path) -> None:
    with codex_model(responses_stub.text("Hello.")) as environment:
        async with at_work(poem, "codex-acp", environment) as (client, project):
            await client.ask("execute", {"prompt": "Say hello"}, project)
            await client.receive("update", "run_finished")
            shown = await state(client)
            assert (shown["permission_mode"], shown["modes"]) == ("agent", ["plan", "workspace-write", "agent"])
            assert (await client.ask("set_mode", {"mode": "workspace-write"}, project))["type"] == "ok"
            assert (await state(client))["permission_mode"] == "workspace-write"
            for mode in ("agent-full-access", "bypassPermissions"):
                refused = await client.ask("set_mode", {"mode": mode}, project)
                assert refused["data"]["code"] == "PERMISSION_DENIED"
            assert (await state(client))["permission_mode"] == "workspace-write"


async def test_a_ceiling_applies_to_modes_of_codex(poem: Path) -> None:
    with codex_model(responses_stub.text("Hello.")) as environment:
        async with at_work(poem, "codex-acp", environment, "--mode", "plan") as (client, project):
            await client.ask("execute", {"prompt": "Say hello"}, project)
            await client.receive("update", "run_finished")
            shown = await state(client)
            assert (shown["permission_mode"], shown["modes"]) == ("plan", ["plan"])
            refused = await client.ask("set_mode", {"mode": "workspace-write"}, project)
            assert refused["data"]["code"] == "PERMISSION_DENIED"
