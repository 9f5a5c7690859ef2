"""The review of changes by real agents: Codex as the server runs it, and Claude Code and Codex behind their ACP
adapters, each with a stub for its model.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests import programs
from tests.agents.acp.test_real_adapters import at_work, codex_model
from tests.rigs import claude_rig, messages_stub, responses_stub
from tests.rigs.messages_stub import MessagesStub
from tests.server.processes import serving
from tests.server.reviews.rig import POEM, hunks, id_of, make_repository
from tests.server.wire_client import WireClient

pytestmark = pytest.mark.thorough

THIRD = ("poem.txt", "line 3\n", "LINE 3\n")
TENTH = ("poem.txt", "line 10\n", "LINE 10\n")
LAST = ("poem.txt", "line 17\n", "LINE 17\n")
ADDED = ("new.txt", "", "new\n")
DELETED = ("old.txt", "old\n", "")


@pytest.fixture
def directory(home: Path) -> Path:
    directory = home / "roots" / "poems"
    make_repository(directory)
    return directory


def patch(*changes: str) -> dict[str, Any]:
    return responses_stub.apply_patch("\n".join(("*** Begin Patch", *changes, "*** End Patch")) + "\n")


def line(number: int) -> str:
    return f"*** Update File: poem.txt\n@@\n line {number - 1}\n-line {number}\n+LINE {number}\n line {number + 1}"


@contextlib.asynccontextmanager
async def codex(directory: Path, *, acp: bool) -> AsyncIterator[tuple[WireClient, str]]:
    added = "*** Add File: new.txt\n+new"
    turns = [
        *(patch(line(3)), patch(line(17)), patch(added), patch("*** Delete File: old.txt")),
        *(responses_stub.text("Done."), patch(line(10)), responses_stub.text("Done again.")),
    ]
    with codex_model(*turns) as environment:
        if acp:
            async with at_work(directory / "poem.txt", "codex-acp", environment) as (client, project):
                await client.ask("set_mode", {"mode": "plan"}, project)
                yield client, project
            return
        options = ("--no-tls", "--allow", directory.parent, "--agent-path", f"codex={programs.codex()}")
        async with (
            serving(directory.parent.parent / "data", *options, "--allow-skip-permissions", **environment) as server,
            server.client() as client,
        ):
            created = await client.ask("project_create", {"path": str(directory), "agent": "codex", "join": True})
            yield client, created["project_id"]


@contextlib.asynccontextmanager
async def claude(directory: Path) -> AsyncIterator[tuple[WireClient, str]]:
    claude_rig.prepare_home(directory)
    poem = directory / "poem.txt"
    with MessagesStub() as model:
        model.will_say(
            messages_stub.read(poem),
            messages_stub.edit(poem, "line 3\n", "LINE 3\n"),
            messages_stub.edit(poem, "line 17\n", "LINE 17\n"),
            messages_stub.write(directory / "new.txt", "new\n"),
            messages_stub.tool_use("Bash", command="rm old.txt", description="Removes the old file"),
            messages_stub.text("Done."),
            messages_stub.read(poem),
            messages_stub.edit(poem, "line 10\n", "LINE 10\n"),
            messages_stub.text("Done again."),
        )
        environment = claude_rig.environment(model) | {"IS_SANDBOX": "1"}
        async with at_work(poem, "claude-agent-acp", environment) as (client, project):
            yield client, project


async def runs(client: WireClient, project: str, agent: str) -> None:
    """Executes a prompt and allows all approval requests. ``codex exec`` can't send any, and runs without a sandbox."""
    options = {"options": {"dangerously_skip_permissions": True}} if agent == "codex" else {}
    accepted = await client.ask("execute", {"prompt": "Go", **options}, project)
    assert accepted["type"] == "accepted", accepted
    while True:
        message = await client.next()
        if message["type"] == "permission_request":
            allow = {"approval_id": message["data"]["approval_id"], "decision": "allow"}
            await client.ask("permission_response", allow, project)
        elif message["type"] == "update" and message["data"]["update_type"] == "run_finished":
            assert message["data"]["data"]["outcome"] == "completed", message
            return


@pytest.mark.parametrize("agent", ["codex", "codex-acp", "claude-agent-acp"])
async def test_the_review_shows_all_changes_of_a_real_agent(agent: str, directory: Path) -> None:
    working = claude(directory) if agent == "claude-agent-acp" else codex(directory, acp=agent == "codex-acp")
    async with working as (client, project):

        async def review() -> dict[str, Any]:
            found: dict[str, Any] = (await client.ask("review_get", {}, project))["data"]
            return found

        async def decide(part: str, decision: str) -> None:
            wish = {"hunks": [id_of(await review(), part)], "decision": decision}
            assert (await client.ask("review_decide", wish, project))["type"] == "review"

        await runs(client, project, agent)
        first = await review()
        assert sorted(hunks(first)) == sorted([THIRD, LAST, ADDED, DELETED])
        await decide("LINE 3\n", "undo")
        await decide("LINE 17\n", "keep")
        assert (directory / "poem.txt").read_text() == POEM.replace("line 17\n", "LINE 17\n")
        assert sorted(hunks(await review())) == sorted([ADDED, DELETED])
        await runs(client, project, agent)
        second = await review()
        assert sorted(hunks(second)) == sorted([TENTH, ADDED, DELETED])
        assert [id_of(second, name) for name in ("new.txt", "old.txt")] == [
            id_of(first, name) for name in ("new.txt", "old.txt")
        ]
        await decide("old.txt", "undo")
        assert (directory / "old.txt").read_text() == "old\n"
        expected = POEM.replace("line 10\n", "LINE 10\n").replace("line 17\n", "LINE 17\n")
        assert (directory / "poem.txt").read_text() == expected
