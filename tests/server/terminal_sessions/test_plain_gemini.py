"""The server lists the session of a plain ``gemini`` with hooks in a terminal, and its runs can be reviewed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import programs
from tests.agents.gemini.rig import HOLD, HoldingStub
from tests.rigs import gemini_rig
from tests.rigs.gemini_rig import EDIT_DIALOG, Gemini
from tests.rigs.gemini_stub import Part, function_call, replace, text
from tests.rigs.tmux import Tmux
from tests.server.processes import Server, serving
from tests.server.reviews.rig import POEM, hunks
from tests.setup import headless
from tests.waiting import PATIENCE, until

from .rig import Phone, following
from .test_plain_claude import kind
from .test_plain_claude_comments import comment, prompts, send
from .test_plain_claude_reviews import review

pytestmark = pytest.mark.thorough

EDITS = ("--approval-mode", "auto_edit")
"""With these flags, the CLI does not ask before it edits a file."""


class Workstation:
    """A terminal in which Gemini CLI runs with Drawbridge's hooks."""

    def __init__(self, tmux: Tmux, model: HoldingStub, project: Path) -> None:
        self.tmux = tmux
        self.model = model
        self.project = project
        self.poem = project / "poem.txt"
        self.poem.write_text(POEM)

    def gemini(self, *flags: str) -> Gemini:
        environment = gemini_rig.environment(self.model)
        return Gemini.start(self.tmux, programs.gemini(), *flags, project=self.project, environment=environment)


@pytest.fixture
def rig(home: Path) -> Iterator[Workstation]:
    """Runs ``drawbridge setup gemini``, with settings that the user already has."""
    programs.tmux()
    programs.gemini()
    headless.settings_of_gemini(home)
    command = [sys.executable, "-m", "drawbridge", "setup", "gemini", "--yes"]
    subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)
    project = home / "project"
    project.mkdir()
    with HoldingStub() as model, Tmux.server() as tmux:
        yield Workstation(tmux, model, project)


@asynccontextmanager
async def asked(
    rig: Workstation, server: Server, *turns: Part | list[Part], flags: tuple[str, ...] = EDITS
) -> AsyncIterator[tuple[Gemini, Phone]]:
    """Starts Gemini CLI and types its first prompt. Yields the session and a client that follows it."""
    rig.model.will_say(*turns)
    async with following(server) as phone:
        gemini = rig.gemini(*flags)
        session = await phone.session()
        assert (session["path"], session["agent"], session["desk"]) == (
            str(rig.project),
            "gemini",
            {"state": "finished"},
        )
        gemini.prompt("Shout the third line")
        yield gemini, phone


async def finished(phone: Phone, outcome: str = "completed") -> None:
    """Waits until the next run has ended, with this outcome."""
    received = await phone.client.receive("update", "run_finished")
    data: dict[str, Any] = received["data"]["data"]
    assert data["outcome"] == outcome, data


async def kinds(phone: Phone) -> list[str]:
    answer = await phone.client.ask("get_messages", {"after_seq": 0}, phone.project)
    wanted = ("prompt", "tool_use", "tool_result", "text", "run_started", "run_finished")
    return [one for one in map(kind, answer["data"]["messages"]) if one in wanted]


async def test_a_run_ends_in_a_review(rig: Workstation, server: Server) -> None:
    turns = [replace(rig.poem, "line 3\n", "LINE 3\n"), text("Done.")]
    async with asked(rig, server, *turns) as (gemini, phone):
        await finished(phone)
        await phone.client.receive("update", "review_changed")
        assert hunks(await review(phone)) == [("poem.txt", "line 3\n", "LINE 3\n")]
        assert await kinds(phone) == ["run_started", "prompt", "tool_use", "tool_result", "text", "run_finished"]
        (session,) = (await phone.client.ask("project_list"))["data"]["projects"]
        assert session["title"] == "Shout the third line"
        gemini.leave()
        await phone.state("ended")


@pytest.mark.slow
async def test_the_dialog_is_in_the_terminal(rig: Workstation, server: Server) -> None:
    turns = [replace(rig.poem, "line 3\n", "LINE 3\n"), text("Done.")]
    async with asked(rig, server, *turns, flags=()) as (gemini, phone):
        gemini.pane.wait_for(EDIT_DIALOG)
        assert (await phone.state("waiting"))["desk"] == {"state": "waiting", "in_terminal": True}
        gemini.pane.press("1")
        await finished(phone)
        await phone.state("finished")
    assert "LINE 3" in rig.poem.read_text()


@pytest.mark.slow
async def test_a_rejected_change_ends_the_run(rig: Workstation, server: Server) -> None:
    turns = [replace(rig.poem, "line 3\n", "LINE 3\n"), text("Done.")]
    async with asked(rig, server, *turns, flags=()) as (gemini, phone):
        gemini.pane.wait_for(EDIT_DIALOG)
        gemini.pane.press("Escape")
        await finished(phone, "interrupted")
        await phone.state("finished")
    assert "LINE 3" not in rig.poem.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("during", ["a request to the model", "a command"])
async def test_escape_interrupts_the_run(during: str, rig: Workstation, server: Server) -> None:
    command = function_call("run_shell_command", command="touch begun; sleep 60", description="Wait")
    turns = [[HOLD] if during == "a request to the model" else command, text("I see.")]
    async with asked(rig, server, *turns) as (gemini, phone):
        if during == "a command":
            gemini.pane.wait_for("Allow execution")
            gemini.pane.press("1")
            await until(lambda: (rig.project / "begun").exists(), "the command")
        else:
            rig.model.wait_for_request(1)
        gemini.pane.wait_for("esc to cancel")
        gemini.pane.press("Escape")
        await finished(phone, "interrupted")
        await phone.state("finished")


@pytest.mark.slow
async def test_a_resumed_conversation_is_the_same_session(rig: Workstation, server: Server) -> None:
    async with asked(rig, server, text("One."), text("Two.")) as (gemini, phone):
        await finished(phone)
        gemini.leave()
        await phone.state("ended")
        rig.gemini("--resume", "latest", "--prompt-interactive", "Go on")
        await finished(phone)
        assert [one["message"]["prompt"] for one in await prompts(phone)] == ["Shout the third line", "Go on"]


@pytest.mark.slow
async def test_a_cleared_conversation_is_another_session(rig: Workstation, server: Server) -> None:
    async with asked(rig, server, text("One."), text("Two.")) as (gemini, phone):
        await finished(phone)
        gemini.prompt("/clear")
        await phone.state("ended")
        await phone.session()
        gemini.prompt("Go on")
        await finished(phone)
        sessions = (await phone.client.ask("project_list"))["data"]["projects"]
        assert sorted(one["desk"]["state"] for one in sessions) == ["ended", "finished"]


async def test_a_comment_reaches_gemini_when_it_stops(rig: Workstation, home: Path) -> None:
    """The server's owner allows any mode, since Gemini CLI's mode is not known."""
    rig.poem.write_text(POEM)
    turns = [replace(rig.poem, "line 3\n", "LINE 3\n"), text("Done."), text("Let me see."), text("I see.")]
    async with (
        serving(home / "data", "--no-tls", "--allow-skip-permissions") as server,
        asked(rig, server, *turns) as (gemini, phone),
    ):
        await finished(phone)
        await phone.client.receive("update", "review_changed")
        id = await comment(phone)
        assert (await send(phone))["waiting"]
        gemini.prompt("Go on")
        await finished(phone)
        await phone.state("finished")
        sent = [one for one in await prompts(phone) if one.get("review")]
        assert [one["review"]["comments"] for one in sent] == [[id]]
    assert (
        sum(json.dumps(request.body["contents"]).count("I have reviewed") for request in rig.model.requests[-1:]) == 1
    )


@pytest.mark.slow
async def test_managed_and_headless_runs_are_not_listed(rig: Workstation, home: Path) -> None:
    """The managed agent has the same hooks."""
    rig.model.will_say(text("Hello."), text("Hello again."))
    headless.gemini(rig.model, rig.project)
    options = ("--no-tls", "--allow", home, "--agent-path", f"gemini={programs.gemini()}")
    async with (
        serving(home / "data", *options, **gemini_rig.environment(rig.model)) as server,
        following(server) as phone,
    ):
        headless.gemini(rig.model, rig.project)
        created = await phone.client.ask("project_create", {"path": str(rig.project), "agent": "gemini"})
        await phone.client.ask("execute", {"prompt": "Say hello"}, created["project_id"])
        await finished(phone)
        (project,) = (await phone.client.ask("project_list"))["data"]["projects"]
        assert project["id"] == created["project_id"]
