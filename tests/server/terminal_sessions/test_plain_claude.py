"""Approval requests of a plain ``claude`` in a terminal are answered by a client of the server or in the terminal."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests import programs
from tests.rigs import claude_rig
from tests.rigs.claude_rig import EDIT_DIALOG, TOOL_DIALOG, YES, Claude
from tests.rigs.messages_stub import Block, edit, read, text, tool_use, write
from tests.server.processes import Server, serving

from .rig import Phone, ServedWorkstation, following

QUESTION = {
    "question": "Which one?",
    "header": "Choice",
    "multiSelect": False,
    "options": [{"label": "Left", "description": "l"}, {"label": "Right", "description": "r"}],
}
POEM = "one\ntwo\nthree\n"
NO_COMMAND = "4"
FETCH = tool_use("WebFetch", url="http://127.0.0.1:9/", prompt="Read it")


def touch(name: str) -> Block:
    return tool_use("Bash", command=f"touch {name}", description="Make a file")


@asynccontextmanager
async def asked(rig: ServedWorkstation, server: Server, *turns: Block) -> AsyncIterator[tuple[Claude, Phone]]:
    """Starts a session and types its first prompt in the terminal. Yields the session and a client that follows it."""
    rig.model.will_say(*turns)
    async with following(server) as phone:
        claude = rig.plain_claude()
        session = await phone.session()
        assert (session["path"], session["agent"]) == (str(rig.project), "claude")
        claude.prompt("Do it")
        yield claude, phone


async def test_a_client_allows_denies_answers_and_edits(rig: ServedWorkstation, server: Server) -> None:
    poem, new = rig.file("poem.txt", POEM), rig.project / "new.txt"
    turns = [
        touch("made"),
        touch("unwanted"),
        tool_use("AskUserQuestion", questions=[QUESTION]),
        write(new, "theirs\n"),
        read(poem),
        edit(poem, "two", "TWO"),
        text("All done."),
    ]
    async with asked(rig, server, *turns) as (claude, phone):
        question = await phone.question("Bash")
        assert question["input"]["command"] == "touch made"
        claude.pane.wait_for(TOOL_DIALOG)
        await phone.answer(question, "allow")
        await phone.answer(await phone.question("Bash"), "deny", message="not «that» one")
        question = await phone.question("AskUserQuestion")
        answers = {"answers": {"Which one?": "Right"}}
        await phone.answer(question, "allow", updated_input=question["input"] | answers)
        question = await phone.question("Write")
        assert question["proposal"] == {"path": str(new), "old_text": "", "new_text": "theirs\n"}
        await phone.answer(question, "allow", updated_input=question["input"] | {"content": "mine\n"})
        question = await phone.question("Edit")
        assert question["proposal"] == {"path": str(poem), "old_text": POEM, "new_text": "one\nTWO\nthree\n"}
        whole = {"old_string": POEM, "new_string": "one\nzwei\ndrei\n", "replace_all": False}
        await phone.answer(question, "allow", updated_input=question["input"] | whole)
        claude.pane.wait_for("All done.")
        assert (rig.project / "made").exists()
        assert not (rig.project / "unwanted").exists()
        assert new.read_text() == "mine\n"
        assert poem.read_text() == "one\nzwei\ndrei\n"
        await phone.state("finished")
    results = ["\n".join(request.tool_results) for request in rig.model.requests]
    assert "not «that» one" in results[2]
    assert "Right" in results[3]


@pytest.mark.thorough
async def test_an_answer_in_the_terminal_is_withdrawn_for_clients(rig: ServedWorkstation, server: Server) -> None:
    new = rig.project / "new.txt"
    turns = [
        touch("made"),
        tool_use("AskUserQuestion", questions=[QUESTION]),
        write(new, "theirs\n"),
        touch("unwanted"),
    ]
    async with asked(rig, server, *turns) as (claude, phone):
        for tool, dialog, key in [
            ("Bash", TOOL_DIALOG, YES),
            ("AskUserQuestion", r"1\. Left", "2"),
            ("Write", EDIT_DIALOG, YES),
            ("Bash", TOOL_DIALOG, NO_COMMAND),
        ]:
            question = await phone.question(tool)
            claude.answer_dialog(dialog, key)
            assert await phone.withdrawn(question) == "answered elsewhere"
            late = await phone.answer(question, "allow")
            assert late["data"]["code"] == "APPROVAL_RESOLVED"
        assert new.read_text() == "theirs\n"
        assert (rig.project / "made").exists()
        assert not (rig.project / "unwanted").exists()
        finished = await phone.client.receive("update", "run_finished")
        assert finished["data"]["data"]["outcome"] == "interrupted"
        await phone.state("finished")


@pytest.mark.slow
async def test_the_dialog_in_the_terminal_is_not_delayed(rig: ServedWorkstation, server: Server) -> None:
    """A hook, which may wait up to a day for an answer, does not block the dialog, and ends with its session."""
    async with asked(rig, server, touch("made"), touch("unwanted")) as (claude, phone):
        await phone.question("Bash")
        claude.answer_dialog(TOOL_DIALOG, YES)
        question = await phone.question("Bash")
        assert (rig.project / "made").exists()
        claude.pane.wait_for(TOOL_DIALOG)
        claude.pane.press("Escape")
        assert await phone.withdrawn(question) == "answered elsewhere"
        claude.pane.wait_for(r"(?m)^❯")
        claude.prompt("/exit")
        await phone.state("ended")
        assert claude.pane.wait_for_exit() == 0


@pytest.mark.slow
async def test_the_conversation_can_be_read_as_it_grows(rig: ServedWorkstation, server: Server) -> None:
    async with asked(rig, server, touch("made"), text("It is *done*.")) as (_, phone):
        question = await phone.question("Bash")
        assert (await phone.state("waiting"))["desk"] == {"state": "waiting", "permission_mode": "default"}
        await phone.answer(question, "allow")
        await phone.state("finished")
        answer = await phone.client.ask("get_messages", {"after_seq": 0}, phone.project)
        records = answer["data"]["messages"]
    kinds = [kind(record) for record in records]
    wanted = ["run_started", "prompt", "tool_use", "tool_result", "text", "run_finished"]
    assert [one for one in kinds if one in wanted] == wanted
    prompt = next(record["message"] for record in records if record["direction"] == "client")
    assert (prompt["message"], prompt["by"]) == ({"prompt": "Do it"}, "desk")
    assert [record["seq"] for record in records] == list(range(1, len(records) + 1))
    assert str(rig.project) not in json.dumps([one["message"] for one in records if one["direction"] == "claude"][-1])


def kind(record: dict[str, Any]) -> str:
    message = record["message"]
    if record["direction"] == "server":
        return str(message["subtype"])
    if record["direction"] == "client":
        return "prompt"
    content = message["message"]["content"]
    return "text" if isinstance(content, str) else str(content[0]["type"])


@pytest.mark.thorough
async def test_a_killed_claude_counts_as_ended(rig: ServedWorkstation, server: Server) -> None:
    async with asked(rig, server, touch("made")) as (claude, phone):
        question = await phone.question("Bash")
        claude.pane.kill()
        assert await phone.withdrawn(question) == "the agent's program has ended or left the conversation"
        await phone.state("ended")
        gone = await phone.client.ask("project_delete", project_id=phone.project)
        assert gone["data"] == {"project_id": phone.project, "success": True}
        assert (await phone.client.ask("project_list"))["data"]["projects"] == []


async def test_a_run_without_a_terminal_is_not_delayed(rig: ServedWorkstation, server: Server) -> None:
    rig.set_up()
    async with server.client() as client:
        received = rig.ask_claude(FETCH, text("Done."))
        assert "permission" in received
        assert (await client.ask("project_list"))["data"]["projects"] == []


@pytest.mark.thorough
async def test_a_run_of_the_server_is_not_shown_twice(rig: ServedWorkstation, home: Any) -> None:
    rig.set_up()
    rig.model.will_say(touch("made"), text("Done."))
    options = ("--no-tls", "--allow", rig.project, "--agent-path", f"claude={programs.claude()}")
    async with (
        serving(home / "data", *options, **claude_rig.environment(rig.model)) as server,
        server.client() as client,
    ):
        created = await client.ask("project_create", {"path": str(rig.project), "agent": "claude", "join": True})
        project = created["project_id"]
        await client.ask("execute", {"prompt": "Do it"}, project)
        question = await client.receive("permission_request")
        given = {"approval_id": question["data"]["approval_id"], "decision": "allow"}
        await client.ask("permission_response", given, project)
        await client.receive("update", "run_finished", outcome="completed")
        projects = (await client.ask("project_list"))["data"]["projects"]
        assert [one["id"] for one in projects] == [project]
    assert (rig.project / "made").exists()
