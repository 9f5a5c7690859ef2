"""Approval requests of a plain ``codex`` in a terminal are answered by a client of the server or in the terminal."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from drawbridge.server.protocol.messages import IN_TERMINAL
from drawbridge.server.terminal_sessions import questions
from tests import programs
from tests.rigs import codex_rig
from tests.rigs.codex_rig import DIALOG, NO, Codex, Workstation
from tests.rigs.responses_stub import Item, apply_patch, failure, shell, spawn_agent, text
from tests.server.processes import Server, serving
from tests.server.reviews.rig import POEM
from tests.setup import headless
from tests.setup.headless import TRUSTED
from tests.waiting import PATIENCE

from .rig import Phone, following
from .test_plain_claude import kind
from .test_plain_claude_comments import answers, comment, prompts, send, undo
from .test_plain_claude_restarts import killed, started_again

PATCH = """\
*** Begin Patch
*** Update File: poem.txt
@@
-two
+TWO
*** Add File: new.txt
+new
*** End Patch
"""


@pytest.fixture
def rig(home: Path) -> Iterator[Workstation]:
    with codex_rig.workstation(home / "project") as rig:
        yield rig


@asynccontextmanager
async def asked(rig: Workstation, server: Server, *turns: Item) -> AsyncIterator[tuple[Codex, Phone]]:
    """Starts Codex and types its first prompt in the terminal. Yields the session and a client that follows it."""
    rig.model.will_say(*turns)
    async with following(server) as phone:
        codex = rig.codex()
        codex.prompt("Do it")
        session = await phone.session()
        assert (session["path"], session["agent"]) == (str(rig.project), "codex")
        yield codex, phone


async def test_a_client_allows_and_denies(rig: Workstation, server: Server) -> None:
    turns = [shell("touch made", reason="I need it"), shell("touch unwanted", reason="And this"), apply_patch(PATCH)]
    async with asked(rig, server, *turns, text("All done.")) as (codex, phone):
        question = await phone.question("Bash")
        assert question["input"] == {"command": "touch made", "description": "I need it"}
        assert not question["changeable"]
        await phone.answer(question, "allow")
        await phone.answer(await phone.question("Bash"), "deny", message="not «that» one")
        question = await phone.question("apply_patch")
        new = rig.project / "new.txt"
        assert question["input"] == {"update": str(rig.poem), "add": str(new), "patch": PATCH.rstrip("\n")}
        assert question["title"] == {"text": "Codex wants to edit 2 files"}
        await phone.answer(question, "allow")
        codex.pane.wait_for("All done.")
        assert (rig.project / "made").exists()
        assert not (rig.project / "unwanted").exists()
        assert (rig.poem.read_text(), new.read_text()) == ("one\nTWO\n", "new\n")
        await phone.state("finished")
        assert "not «that» one" in rig.model.tool_results[1]
        codex.leave()
        await phone.state("ended")


@pytest.mark.thorough
async def test_the_dialog_appears_when_no_client_is_connected(rig: Workstation, server: Server) -> None:
    rig.model.will_say(shell("touch made", reason="I need it"), text("All done."))
    codex = rig.codex()
    codex.prompt("Do it")
    codex.pane.wait_for(DIALOG)
    async with server.client() as client:
        (session,) = (await client.ask("project_list"))["data"]["projects"]
        assert (session["desk"]["state"], session["desk"]["in_terminal"]) == ("waiting", True)
        phone = Phone(client)
        phone.project = session["id"]
        await phone.follow()
        codex.pane.press("y")
        info = await phone.state("finished")
        assert "in_terminal" not in info["desk"]
    assert (rig.project / "made").exists()


@pytest.mark.slow
async def test_the_dialog_appears_when_no_client_answers(rig: Workstation, server: Server) -> None:
    """The dialog appears after ``HOLD_SECONDS`` if a client is connected but does not answer."""
    async with asked(rig, server, shell("touch made", reason="I need it")) as (codex, phone):
        question = await phone.question("Bash")
        codex.pane.wait_for(DIALOG, timeout=questions.HOLD_SECONDS + PATIENCE)
        late = await phone.answer(question, "allow")
        assert late["data"]["code"] == "APPROVAL_RESOLVED"
        assert late["data"]["details"]["reason"] == IN_TERMINAL
        codex.pane.press(NO)
        await finished(phone, "interrupted")
        await phone.state("finished")
    assert not (rig.project / "made").exists()


@pytest.mark.thorough
async def test_escape_withdraws_the_requests_of_the_run(rig: Workstation, server: Server) -> None:
    async with asked(rig, server, shell("touch made", reason="I need it")) as (codex, phone):
        question = await phone.question("Bash")
        codex.pane.wait_for("Running hook")
        codex.pane.press("Escape")
        assert await phone.withdrawn(question) == "the agent is no longer waiting for it"
        await finished(phone, "interrupted")
        late = await phone.answer(question, "allow")
        assert late["data"]["code"] == "APPROVAL_RESOLVED"
        await phone.state("finished")
    assert not (rig.project / "made").exists()


@pytest.mark.slow
async def test_a_failed_request_to_the_model_ends_the_run(rig: Workstation, server: Server) -> None:
    """No hook reports it, but the transcript contains it."""
    async with asked(rig, server, failure(400, "The model is asleep."), text("Awake.")) as (codex, phone):
        ended = await finished(phone, "failed")
        assert "The model is asleep." in ended["error"]
        codex.prompt("Again")
        await finished(phone, "completed")


@pytest.mark.slow
async def test_the_conversation_can_be_read_as_it_grows(rig: Workstation, server: Server) -> None:
    turns = [shell("touch made", reason="I need it"), text("It is *done*.")]
    async with asked(rig, server, *turns) as (_, phone):
        question = await phone.question("Bash")
        info = await phone.state("waiting")
        assert info["desk"] == {"state": "waiting", "permission_mode": "default"}
        await phone.answer(question, "allow")
        await phone.state("finished")
        answer = await phone.client.ask("get_messages", {"after_seq": 0}, phone.project)
    kinds = [kind(record) for record in answer["data"]["messages"]]
    wanted = ["prompt", "tool_use", "tool_result", "text", "run_finished"]
    assert [one for one in kinds if one in wanted] == wanted


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("flags", "mode", "asks"),
    [
        (("-s", "workspace-write"), "acceptEdits", True),
        (("--dangerously-bypass-approvals-and-sandbox",), "bypassPermissions", False),
    ],
)
async def test_the_mode_is_derived_from_the_sandbox(
    flags: tuple[str, ...], mode: str, asks: bool, rig: Workstation, server: Server
) -> None:
    rig.model.will_say(text("Hello."))
    async with following(server) as phone:
        rig.codex(*flags).prompt("Say hello")
        await phone.session()
        info = await phone.state("finished")
        while info["desk"].get("permission_mode") != mode:
            info = await phone.state("finished")
        assert info["desk"].get("asks", True) is asks


@pytest.mark.thorough
async def test_a_question_survives_a_killed_server(rig: Workstation, server: Server, home: Path) -> None:
    async with asked(rig, server, shell("touch made", reason="I need it"), text("All done.")) as (codex, phone):
        question = await phone.question("Bash")
        await killed(server)
    async with started_again(home, phone.project) as (phone, still_open):
        assert still_open == [question]
        await phone.answer(question, "allow")
        codex.pane.wait_for("All done.")
        await phone.state("finished")
        answer = await phone.client.ask("get_messages", {"after_seq": 0}, phone.project)
    kinds = [kind(record) for record in answer["data"]["messages"]]
    assert [kinds.count(one) for one in ("prompt", "tool_use", "tool_result", "text", "run_finished")] == [1] * 5


@pytest.mark.slow
async def test_a_client_answers_a_subagent(rig: Workstation, server: Server) -> None:
    """The main agent stops first. The run ends with the subagent, whose calls are not part of the conversation."""
    rig.model.subagent_will_say("Make the file", shell("touch made", reason="I need it"), text("It is made."))
    has_asked = threading.Event()

    def when_asked() -> Item:
        # Otherwise the run may end before the hook of the subagent's start has run.
        assert has_asked.wait(PATIENCE)
        return text("It has begun.")

    rig.model.will_say(spawn_agent("making", "Make the file"), when_asked)
    async with following(server) as phone:
        codex = rig.codex("--enable", "multi_agent_v2")
        codex.prompt("Do it")
        await phone.session()
        question = await phone.question("Bash")
        assert question["asked_by"]["agent_type"] == "default"
        has_asked.set()
        codex.pane.wait_for("It has begun.")
        await phone.answer(question, "allow")
        await finished(phone, "completed")
        await phone.state("finished")
        answer = await phone.client.ask("get_messages", {"after_seq": 0}, phone.project)
    assert (rig.project / "made").exists()
    kinds = [kind(record) for record in answer["data"]["messages"]]
    assert [kinds.count(one) for one in ("prompt", "tool_use", "tool_result", "text")] == [1] * 4


@pytest.mark.slow
async def test_a_resumed_conversation_is_the_same_session(rig: Workstation, server: Server) -> None:
    async with asked(rig, server, text("One."), text("Two.")) as (codex, phone):
        await phone.state("finished")
        codex.leave()
        await phone.state("ended")
        again = rig.codex("resume", "--last")
        again.prompt("Go on")
        await finished(phone, "completed")
        await phone.state("finished")
        assert [one["message"]["prompt"] for one in await prompts(phone)] == ["Do it", "Go on"]


@pytest.mark.slow
async def test_a_comment_reaches_codex_when_it_stops(rig: Workstation, server: Server) -> None:
    """It is sent while Codex waits for an answer. When Codex stops, it gets the comment and continues."""
    rig.poem.write_text(POEM)
    change = PATCH.replace("-two\n+TWO", "-line 3\n+LINE 3").replace("*** Add File: new.txt\n+new\n", "")
    again = change.replace("LINE 3", "Line three").replace("-line 3", "-LINE 3")
    turns = [apply_patch(change), shell("true", reason="I need it"), text("Done."), apply_patch(again), text("…")]
    async with asked(rig, server, *turns) as (_, phone):
        await phone.answer(await phone.question("apply_patch"), "allow")
        question = await phone.question("Bash")
        id = await comment(phone)
        assert (await send(phone)) == {"run_id": "", "position": 0, "waiting": True}
        await phone.answer(question, "allow")
        await finished(phone, "completed")
        await phone.answer(await phone.question("apply_patch"), "allow")
        await finished(phone, "completed")
        await phone.client.receive("update", "review_changed")
        assert await answers(phone) == {"Line three\n": [id]}
        first, second = await prompts(phone)
        assert second["review"]["comments"] == [id]
        assert second["run_id"] != first["run_id"]
    assert sum(str(item).count("I have reviewed") for item in rig.model.requests[-1]["input"]) == 1


@pytest.mark.thorough
async def test_a_comment_reaches_codex_with_the_next_prompt(rig: Workstation, server: Server) -> None:
    """One change is undone, and a comment on another one is sent. The next run changes the lines of the comment."""
    rig.poem.write_text(POEM)
    change = PATCH.replace("-two\n+TWO", "-line 3\n+LINE 3")
    again = "*** Begin Patch\n*** Update File: poem.txt\n@@\n-LINE 3\n+Line three\n*** End Patch\n"
    turns = [apply_patch(change), text("Done."), apply_patch(again), text("Changed.")]
    async with asked(rig, server, *turns) as (codex, phone):
        await phone.answer(await phone.question("apply_patch"), "allow")
        await finished(phone, "completed")
        await phone.client.receive("update", "review_changed")
        await undo(phone, "new.txt")
        id = await comment(phone)
        assert (await send(phone))["waiting"]
        codex.prompt("Go on")
        await phone.answer(await phone.question("apply_patch"), "allow")
        await finished(phone, "completed")
        await phone.state("finished")
        sent = [one for one in await prompts(phone) if one.get("review")]
        assert await answers(phone) == {"Line three\n": [id]}
    assert [one["review"]["comments"] for one in sent] == [[id]]
    assert sum(str(item).count("I have reviewed") for item in rig.model.requests[-1]["input"]) == 1
    assert (rig.poem.read_text(), (rig.project / "new.txt").exists()) == (
        POEM.replace("line 3\n", "Line three\n"),
        False,
    )


@pytest.mark.thorough
async def test_runs_without_a_terminal_are_not_listed(rig: Workstation, server: Server, home: Path) -> None:
    rig.model.will_say(text("Hello."))
    headless.codex(rig.model, home, TRUSTED)
    async with server.client() as client:
        assert (await client.ask("project_list"))["data"]["projects"] == []


async def finished(phone: Phone, outcome: str) -> dict[str, Any]:
    """Waits until the next run has ended, with this outcome. Returns the data of the message."""
    received = await phone.client.receive("update", "run_finished")
    data: dict[str, Any] = received["data"]["data"]
    assert data["outcome"] == outcome, data
    return data


@pytest.mark.slow
async def test_a_conversation_can_be_forked_into_a_project_of_codex(rig: Workstation, home: Path) -> None:
    options = ("--no-tls", "--allow", home, "--agent-path", f"codex={programs.codex()}")
    async with (
        serving(home / "data", *options, **codex_rig.environment()) as server,
        asked(rig, server, text("Hello."), text("Hello again.")) as (_, phone),
    ):
        await finished(phone, "completed")
        (session,) = (await phone.client.ask("project_list"))["data"]["projects"]
        conversation = {"session_id": session["session_id"]}
        created = await phone.client.ask("project_create", {"path": str(rig.project), "agent": "claude"})
        refused = await phone.client.ask("session_fork", conversation, created["project_id"])
        assert refused["data"]["message"].startswith("This is a Codex conversation, which Claude Code can't continue.")
        await phone.client.ask("project_delete", project_id=created["project_id"])
        created = await phone.client.ask("project_create", {"path": str(rig.project), "agent": "codex", "join": True})
        await phone.client.ask("session_fork", conversation, created["project_id"])
        await phone.client.ask("execute", {"prompt": "Go on"}, created["project_id"])
        await finished(phone, "completed")
        listed = (await phone.client.ask("project_list"))["data"]["projects"]
        assert sorted(bool(one.get("desk")) for one in listed) == [False, True]
    received = str(rig.model.requests[-1]["input"])
    assert all(words in received for words in ("Do it", "Hello.", "Go on"))
