"""Clients see the same run with every agent: questions, answers, interrupts, ends and conversations.

Each agent is a real program, run by a real ``drawbridge serve``.
"""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests import programs
from tests.agents.rig import eventually
from tests.rigs import claude_rig, gemini_rig, gemini_stub, messages_stub
from tests.rigs.messages_stub import MessagesStub
from tests.server.processes import serving
from tests.server.wire_client import WireClient

from .acp.peers import OFFICIAL
from .gemini import rig as gemini


@dataclass
class Case:
    """An agent and three prompts: one makes it request a change to the file, one makes it wait, and one makes it answer."""

    name: str
    change: str
    wait: str
    answer: str
    options: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    at_work: Any = lambda: True
    """Returns whether the agent is waiting after the prompt ``wait``."""


@contextlib.contextmanager
def demo(poem: Path) -> Iterator[Case]:
    yield Case("demo", "Change poem.txt", "/slow 60", "/quick")


@contextlib.contextmanager
def official(poem: Path) -> Iterator[Case]:
    command = f"official={sys.executable} {OFFICIAL}"
    yield Case("official", f"edit {poem}|new\n", "wait", "say Hello", ("--acp-agent", command))


@contextlib.contextmanager
def claude(poem: Path) -> Iterator[Case]:
    claude_rig.prepare_home(poem.parent)
    edit = messages_stub.edit(poem, "two", "zwei")
    with MessagesStub() as model:
        say = messages_stub.text
        model.will_say(
            messages_stub.read(poem), edit, say("Pity."), edit, say("Done."), messages_stub.HOLD, say("Yes.")
        )
        options = ("--agent-path", f"claude={programs.claude()}")
        environment = claude_rig.environment(model)
        yield Case("claude", "Change it", "Wait", "Say yes", options, environment, lambda: len(model.requests) >= 6)


@contextlib.contextmanager
def gemini_cli(poem: Path) -> Iterator[Case]:
    gemini.prepare_home()
    edit = gemini_stub.replace(poem, "two", "zwei")
    with gemini.HoldingStub() as model:
        say = gemini_stub.text
        model.will_say(edit, say("Pity."), edit, say("Done."), gemini.HOLD, say("Yes."))
        options = ("--agent-path", f"gemini={programs.gemini()}")
        environment = gemini_rig.environment(model)
        yield Case("gemini", "Change it", "Wait", "Say yes", options, environment, lambda: len(model.requests) >= 5)
        assert "Pity." in str(model.requests[-1].body["contents"]), "the conversation continued after the restart"


@pytest.mark.slow_for("demo", "official")
@pytest.mark.parametrize(
    "agent", [claude, *(pytest.param(agent, marks=pytest.mark.thorough) for agent in (official, demo, gemini_cli))]
)
async def test_a_run_looks_the_same_with_every_agent(agent: Any, project: Path, tmp_path: Path) -> None:
    poem = project / "poem.txt"
    before = poem.read_text()
    with agent(poem) as case:
        options = ("--no-tls", "--allow", project.parent, *case.options)
        async with serving(tmp_path / "data", *options, **case.environment) as server:
            async with server.client() as client:
                id = await _project(client, project, case.name)

                await _asked(client, id, case.change, "deny", poem, before)
                assert poem.read_text() == before
                await _asked(client, id, case.change, "allow", poem, before)
                assert poem.read_text() != before

                await client.send("execute", {"prompt": case.wait}, id)
                await client.receive("update", "project_state", state="EXECUTING")
                await eventually(case.at_work, "its wait")
                assert (await client.ask("agent_interrupt", {}, id))["type"] == "ok"
                await client.receive("update", "run_finished", outcome="interrupted")
                state = await client.receive("update", "project_state", state="IDLE")
            await server.end(signal.SIGKILL)
        async with serving(tmp_path / "data", *options, **case.environment) as server, server.client() as client:
            assert (await client.ask("project_join", {"project_id": id}))["type"] == "update"
            await client.send("execute", {"prompt": case.answer}, id)
            await client.receive("update", "run_finished", outcome="completed")
            state_after = await client.receive("update", "project_state", state="IDLE")
            session_id = state["data"]["data"]["session_id"]
            assert state_after["data"]["data"]["session_id"] == session_id
            lines = [one["data"] for one in client.received if one["type"] == "agent_message"]
            assert {line["session_id"] for line in lines if line["direction"] == "claude"} <= {session_id, ""}


async def _project(client: WireClient, directory: Path, agent: str) -> str:
    made = await client.ask("project_create", {"path": str(directory), "agent": agent, "join": True})
    return str(made["project_id"])


async def _asked(client: WireClient, id: str, prompt: str, decision: str, poem: Path, text: str) -> None:
    """Runs ``prompt``, in which the agent asks once for a change to the poem, and answers it with ``decision``."""
    await client.send("execute", {"prompt": prompt}, id)
    await client.receive("update", "run_started")
    asked = (await client.receive("permission_request"))["data"]
    assert (asked["proposal"]["path"], asked["proposal"]["old_text"]) == (str(poem), text)
    assert poem.read_text() == text
    waiting = await client.ask("project_list")
    assert [one["tool_name"] for one in _approvals(waiting)] == [asked["tool_name"]]
    answer = {"approval_id": asked["approval_id"], "decision": decision}
    resolved = await client.ask("permission_response", answer, id)
    assert resolved["data"]["data"]["decision"] == decision
    await client.receive("update", "run_finished", outcome="completed")


def _approvals(listed: dict[str, Any]) -> list[dict[str, Any]]:
    [project] = listed["data"]["projects"]
    return list(project["approvals"])
